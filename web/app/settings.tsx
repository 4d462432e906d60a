/** Settings: browsers that are logged in, a link for another one, and how the page looks. */

import { useEffect, useState } from "preact/hooks";
import { clientError } from "../client/errors.ts";
import type { LoginLine, LoginTicket } from "../client/resources.ts";
import type { AccessRole } from "../client/wire.ts";
import { hasShortcuts, readTheme, setShortcuts, setTheme, type Theme } from "./kept.ts";
import { Confirm, Link } from "./ui.tsx";
import { useNow, usePage, useStore } from "./use-store.ts";
import { duration } from "./words.ts";

export function Settings() {
  const store = usePage();
  const info = useStore((page) => page.info);
  const isLive = useStore((page) => page.connection.kind === "live");
  const now = useNow(isLive);
  const [logins, setLogins] = useState<readonly LoginLine[] | null>(null);
  const [problem, setProblem] = useState("");
  const [ending, setEnding] = useState<LoginLine | null>(null);
  const [theme, chooseTheme] = useState<Theme>(readTheme);
  const [shortcuts, chooseShortcuts] = useState(hasShortcuts);
  const look = () =>
    store.shell.api.logins().then((page) => (setLogins(page.items), setProblem("")), (thrown: unknown) => setProblem(clientError(thrown).message));
  useEffect(() => void look(), [store, isLive]);
  return (
    <main class="page" id="main">
      <header class="page-head"><Link href="/" class="back button ghost" label="Back to the board">‹</Link><h1>Settings</h1></header>
      {info?.role === "operator" ? <Pairing onPaired={look} /> : null}
      <section class="card" aria-labelledby="devices">
        <h2 id="devices">Logged in</h2>
        {problem ? <p class="warn">{problem}</p> : null}
        {logins === null && !problem ? <div class="skeleton"><i /></div> : null}
        {logins?.length === 0 ? <p class="hint">No browser is logged in by a link.</p> : null}
        <ul class="devices">
          {logins?.map((login) => (
            <li key={login.login_id}>
              <span><b>{login.device}</b>{login.is_this ? <span class="chip">this browser</span> : null}<br />
                <span class="hint">{login.role === "operator" ? "looks and acts" : "looks"}, seen {duration((now - Date.parse(login.seen_at)) / 1000)} ago</span></span>
              {info?.role === "operator" || login.is_this ? <button type="button" class="button compact" onClick={() => setEnding(login)}>{login.is_this ? "Log out" : "Revoke"}</button> : null}
            </li>
          ))}
        </ul>
      </section>
      <section class="card" aria-labelledby="looks">
        <h2 id="looks">This page</h2>
        <div class="row spread"><span id="theme-name">Theme</span>
          <div class="segments" role="radiogroup" aria-labelledby="theme-name">
            {(["auto", "light", "dark"] as const).map((one) => <button key={one} type="button" role="radio" aria-checked={theme === one} onClick={() => { setTheme(one); chooseTheme(one); }}>{one}</button>)}
          </div>
        </div>
        <label class="row spread"><span>Single-key shortcuts</span><input type="checkbox" checked={shortcuts} onChange={(event) => { setShortcuts(event.currentTarget.checked); chooseShortcuts(event.currentTarget.checked); }} /></label>
      </section>
      <p class="hint">Interlock {info?.version ?? "?"}, {info === null ? "role unknown" : info.role === "operator" ? "this login looks and acts" : "this login looks"}.{info?.log_problem ? ` The log takes nothing: ${info.log_problem}` : ""}</p>
      {ending === null ? null : (
        <Confirm title={ending.is_this ? "Log out?" : `Revoke ${ending.device}?`} text="Its connections end at once. Drafts stay in that browser." does={ending.is_this ? "Log out" : "Revoke"}
          onYes={() => void store.act(() => store.shell.api.revokeLogin(ending.login_id)).then(() => (ending.is_this ? location.reload() : void look()))} onClose={() => setEnding(null)} />
      )}
    </main>
  );
}

/** A link that logs one other browser in, once. */
function Pairing({ onPaired }: { readonly onPaired: () => void }) {
  const store = usePage();
  const [role, setRole] = useState<AccessRole>("observer");
  const [ticket, setTicket] = useState<LoginTicket | null>(null);
  const [rows, setRows] = useState<readonly (readonly boolean[])[]>([]);
  const now = useNow(ticket !== null);
  const left = ticket === null ? 0 : (Date.parse(ticket.expires_at) - now) / 1000;
  useEffect(() => {
    if (ticket !== null && left <= 0) {
      setTicket(null);
      onPaired();
    }
  }, [ticket, left]);
  const make = () =>
    store.act(async () => {
      const made = await store.shell.api.createTicket(role, "");
      setTicket(made);
      try {
        const { encode } = await import("uqr");
        setRows(encode(made.url, { border: 2 }).data);
      } catch {
        setRows([]); // an older page than the server: the link works without a picture
      }
    });
  return (
    <section class="card" aria-labelledby="pair">
      <h2 id="pair">Pair a phone</h2>
      {ticket === null ? (
        <>
          <div class="segments" role="radiogroup" aria-label="What it may do">
            {([["observer", "look"], ["operator", "look and act"]] as const).map(([one, words]) => <button key={one} type="button" role="radio" aria-checked={role === one} onClick={() => setRole(one)}>{words}</button>)}
          </div>
          <button type="button" class="button" onClick={() => void make()}>Show a one-time link</button>
        </>
      ) : (
        <div class="pairing">
          {rows.length > 0 ? <QrPicture rows={rows} /> : null}
          <div>
            <p>One use, {duration(left)} left.</p>
            <input readOnly value={ticket.url} aria-label="One-time link" onFocus={(event) => event.currentTarget.select()} />
            <p class="hint">The phone has to reach this address: see “open the dashboard” in the documentation.</p>
            <button type="button" class="button compact" onClick={() => setTicket(null)}>Done</button>
          </div>
        </div>
      )}
    </section>
  );
}

function QrPicture({ rows }: { readonly rows: readonly (readonly boolean[])[] }) {
  const path = rows.flatMap((row, y) => row.map((isDark, x) => (isDark ? `M${x} ${y}h1v1h-1z` : ""))).join("");
  return <svg class="qr" viewBox={`0 0 ${rows.length} ${rows.length}`} role="img" aria-label="QR code of the link"><path d={path} /></svg>;
}
