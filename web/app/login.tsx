/** The way in: a one-time link. Its ticket is wiped from the address before it is used. */

import { useEffect, useState } from "preact/hooks";
import { Api } from "../client/api.ts";
import { clientError } from "../client/errors.ts";
import { Http } from "../client/http.ts";

const PLACE = "interlock.next";

/** The ticket in the address, if there is one; it does not stay there. */
function takeTicket(): string {
  const ticket = new URLSearchParams(location.hash.slice(1)).get("t") ?? "";
  if (ticket !== "") history.replaceState(null, "", "/login");
  return ticket;
}

export function Login({ reason }: { readonly reason: string }) {
  const [problem, setProblem] = useState(reason);
  const [isBusy, setBusy] = useState(false);
  const [given, setGiven] = useState("");
  const logIn = async (ticket: string) => {
    setBusy(true);
    setProblem("");
    try {
      await new Api(new Http(location.origin)).logIn(ticket, deviceName());
      const next = sessionStorage.getItem(PLACE) ?? "/";
      sessionStorage.removeItem(PLACE);
      location.replace(next.startsWith("/") && !next.startsWith("//") ? next : "/");
    } catch (thrown) {
      setProblem(clientError(thrown).message);
      setBusy(false);
    }
  };
  useEffect(() => {
    if (location.pathname !== "/login") sessionStorage.setItem(PLACE, location.pathname + location.search);
    const ticket = takeTicket();
    if (ticket !== "") void logIn(ticket);
  }, []);
  return (
    <main class="login" id="main">
      <h1><Mark /> Interlock</h1>
      {isBusy ? <p role="status">Logging in</p> : (
        <>
          <p>Open this page by a one-time link. In a terminal:</p>
          <pre class="shell-line">interlock open</pre>
          <form class="form" onSubmit={(event) => { event.preventDefault(); void logIn(given.split("#t=").at(-1)?.trim() ?? ""); }}>
            <label class="field"><span class="field-label">Or paste the link here</span>
              <input value={given} autocomplete="off" spellcheck={false} onInput={(event) => setGiven(event.currentTarget.value)} /></label>
            <button type="submit" class="button primary" disabled={given.trim() === ""}>Log in</button>
          </form>
        </>
      )}
      {problem ? <p class="warn" role="alert">{problem}</p> : null}
      <p class="hint">Your drafts in this browser are kept.</p>
    </main>
  );
}

export function Mark() {
  return (
    <svg class="logo" viewBox="0 0 24 24" aria-hidden="true">
      <rect x="2" y="7" width="12" height="10" rx="5" />
      <rect x="10" y="7" width="12" height="10" rx="5" />
    </svg>
  );
}

function deviceName(): string {
  const { userAgent } = navigator;
  const system = /iPhone|iPad|Android|Windows|Mac OS X|Linux/.exec(userAgent)?.[0] ?? "browser";
  const browser = /Edg|Firefox|Chrome|Safari/.exec(userAgent)?.[0] ?? "";
  return [system === "Mac OS X" ? "Mac" : system, browser === "Edg" ? "Edge" : browser].filter(Boolean).join(" ");
}
