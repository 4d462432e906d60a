/** The frame of the page: what is where at which width, the connection, and the keys. */

import { useEffect, useState } from "preact/hooks";
import { Board, goToNextNeed, neighbour } from "./board.tsx";
import { HELP, listenToKeys } from "./keys.ts";
import { readTheme, setTheme } from "./kept.ts";
import { Login, Mark } from "./login.tsx";
import { NewSession } from "./new-session.tsx";
import { navigate, parseRoute, type Route, sessionPath, type Tab } from "./router.ts";
import { Session, SessionFacts } from "./session.tsx";
import { Settings } from "./settings.tsx";
import { Dialog, Freshness, Link } from "./ui.tsx";
import { useNow, usePage, useStore } from "./use-store.ts";
import { clockTime, GROUP_NAMES, groupOf } from "./words.ts";

export function App() {
  const store = usePage();
  const [route, setRoute] = useState<Route>(() => parseRoute(new URL(location.href)));
  const [filter, setFilter] = useState("");
  const [isHelp, setHelp] = useState(false);
  const connection = useStore((page) => page.connection);
  const notice = useStore((page) => page.notice);
  const logProblem = useStore((page) => page.info?.log_problem ?? "");
  const isOld = useStore((page) => page.isOld);
  const selected = route.page === "session" ? route.taskId : null;
  useEffect(() => {
    const onMove = () => setRoute(parseRoute(new URL(location.href)));
    addEventListener("popstate", onMove);
    return () => removeEventListener("popstate", onMove);
  }, []);
  useEffect(() => listenToKeys(() => {
    const { lines } = store;
    const tab = (name: Tab) => () => selected !== null && navigate(sessionPath(selected, name));
    const move = (by: number) => () => {
      const next = neighbour(lines, selected, by);
      if (next !== null) navigate(sessionPath(next));
    };
    return {
      j: move(1), k: move(-1), ArrowDown: move(1), ArrowUp: move(-1),
      n: () => { if (!goToNextNeed(lines, selected)) store.say("No other session needs you."); },
      "/": () => document.getElementById("filter")?.focus(),
      s: () => { tab("talk")(); requestAnimationFrame(() => document.getElementById("prompt")?.focus()); },
      c: () => dispatchEvent(new CustomEvent("interlock:act", { detail: "interrupt" })),
      x: () => dispatchEvent(new CustomEvent("interlock:act", { detail: "stop" })),
      t: tab("talk"), l: tab("terminal"), w: tab("why"), u: tab("usage"),
      e: () => dispatchEvent(new Event("interlock:ended")),
      N: () => navigate("/new"),
      r: () => store.lookAgain("manual-refresh"),
      T: () => setTheme(nextTheme()),
      "?": () => setHelp(true),
      Escape: () => (filter !== "" ? setFilter("") : store.notice !== "" ? store.say("") : navigate("/")),
    };
  }), [store, selected, filter]);
  if (connection.kind === "out") return <Login reason={connection.reason} />;
  return (
    <div class={`frame page-${route.page}${route.page === "session" && route.approvalId !== null ? " asking" : ""}`}>
      <a class="skip" href="#main">To the content</a>
      <Header />
      <Banner />
      {logProblem ? <p class="banner broken" role="alert">The log takes nothing now: {logProblem}. What agents do meanwhile is neither recorded nor shown.</p> : null}
      {isOld ? <div class="notice new-page" role="status">A new version of this page is here.<button type="button" class="button compact" onClick={() => location.reload()}>Reload</button></div> : null}
      <Board selected={selected} filter={filter} onFilter={setFilter} />
      {route.page === "session" ? <Session key={route.taskId} taskId={route.taskId} tab={route.tab} approvalId={route.approvalId} /> : null}
      {route.page === "session" ? <SessionFacts taskId={route.taskId} /> : null}
      {route.page === "new" ? <NewSession /> : null}
      {route.page === "settings" ? <Settings /> : null}
      {route.page === "board" || route.page === "login" ? <Overview /> : null}
      <PhoneBar route={route} />
      {notice ? <div class="notice" role="alert">{notice}<button type="button" class="link-button" onClick={() => store.say("")}>close</button></div> : null}
      {isHelp ? <Help onClose={() => setHelp(false)} /> : null}
    </div>
  );
}

function Header() {
  const lines = useStore((page) => page.lines);
  const isLive = useStore((page) => page.isBoardLive());
  const connection = useStore((page) => page.connection);
  const role = useStore((page) => page.info?.role ?? null);
  const counts = (["needs_you", "stuck", "done", "working"] as const).map((group) => [group, lines.filter((line) => groupOf(line) === group).length] as const);
  return (
    <header class="top">
      <Link href="/" class="brand" label="Interlock, the board"><Mark /><span>Interlock</span></Link>
      <p class={`counts${isLive ? "" : " stale"}`}>
        {counts.filter(([, count]) => count > 0).map(([group, count]) => <span key={group} class={`count-${group}`}><b>{count}</b> {group === "needs_you" && count > 1 ? "need you" : GROUP_NAMES[group].toLowerCase()}</span>)}
      </p>
      <span class="top-end">
        <Freshness isLive={isLive} asOf={connection.asOf} />
        {role === "observer" ? <span class="chip">looks only</span> : null}
        <Link href="/settings" class="button ghost compact" label="Settings"><span aria-hidden="true">☰</span></Link>
      </span>
    </header>
  );
}

/** Told while the server cannot be reached: what is seen is from before. */
function Banner() {
  const store = usePage();
  const connection = useStore((page) => page.connection);
  const now = useNow(connection.kind === "lost" && connection.retryAt !== null);
  if (connection.kind !== "lost") return null;
  const { asOf, retryAt, reason } = connection;
  const left = retryAt === null ? null : Math.max(0, Math.ceil((retryAt - (now - (store.now() - Date.now()))) / 1000));
  return (
    <div class="banner" role="status">
      <span>
        <b>{asOf === null ? `Not connected: ${location.host} gave no answer.` : `Not connected since ${clockTime(asOf)}. What you see is from then.`}</b>{" "}
        <span class="hint">{reason}{left === null ? "" : `. Next try in ${left} s`}</span>
      </span>
      <button type="button" class="button compact" onClick={() => store.lookAgain("manual-refresh")}>Now</button>
    </div>
  );
}

/** What the middle shows on a wide screen while no session is open. */
function Overview() {
  const lines = useStore((page) => page.lines);
  const isLive = useStore((page) => page.isBoardLive());
  const needs = lines.filter((line) => groupOf(line) === "needs_you");
  return (
    <main class="overview" id="main">
      <h1 class="visually-hidden">Board</h1>
      {lines.length === 0 ? <p class="hint">{isLive ? "Sessions appear here when agents run." : "Asking the server."}</p>
        : needs.length > 0 ? <p><b>{isLive ? (needs.length === 1 ? "1 session needs you." : `${needs.length} sessions need you.`) : `${needs.length} needed you then.`}</b> Press <kbd>n</kbd> for the next one.</p>
        : <p><b>{isLive ? "Nothing needs you." : "Nothing needed you then."}</b> Choose a session, or press <kbd>?</kbd> for the keys.</p>}
    </main>
  );
}

function PhoneBar({ route }: { readonly route: Route }) {
  const store = usePage();
  const lines = useStore((page) => page.lines);
  const canAct = useStore((page) => page.canAct());
  const needs = lines.filter((line) => groupOf(line) === "needs_you").length;
  const selected = route.page === "session" ? route.taskId : null;
  return (
    <nav class="phone-bar" aria-label="Screens">
      <Link href="/" current={route.page === "board"}>Board</Link>
      <button type="button" onClick={() => { if (!goToNextNeed(lines, selected)) store.say("No other session needs you."); }}>Next{needs > 0 ? <span class="count-badge">{needs}</span> : null}</button>
      {canAct ? <Link href="/new" current={route.page === "new"}>New</Link> : null}
    </nav>
  );
}

function Help({ onClose }: { readonly onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={onClose}>
      <dl class="keys">{HELP.map(([keys, does]) => <div key={keys}><dt><kbd>{keys}</kbd></dt><dd>{does}</dd></div>)}</dl>
      <p class="hint">A key answers the question that is on the screen, once it was shown whole for a moment. They can be switched off in the settings.</p>
      <div class="row end"><button type="button" class="button" autofocus onClick={onClose}>Close</button></div>
    </Dialog>
  );
}

function nextTheme(): "light" | "dark" {
  const kept = readTheme();
  const isDark = kept === "dark" || (kept === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
  return isDark ? "light" : "dark";
}
