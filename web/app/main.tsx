/** The page begins here. */

import "./styles.css";
import { render } from "preact";
import { App } from "./app.tsx";
import { readTheme, setTheme } from "./kept.ts";
import { Login } from "./login.tsx";
import { bridgePage } from "./page-signals.ts";
import { PageStore } from "./store.ts";
import { showConnection, showCounts } from "./title.ts";
import { StoreContext } from "./use-store.ts";

declare global {
  /** For a person with the console open, and for tests: what the page knows, and nothing that acts. */
  var interlock: { readonly digest: (taskId: string) => string | null; readonly connection: () => string };
}

async function begin(): Promise<void> {
  const root = document.getElementById("app");
  if (root === null) return;
  setTheme(readTheme());
  if (location.pathname === "/login") {
    render(<Login reason="" />, root);
    return;
  }
  const store = new PageStore(location.origin, showCounts, showConnection);
  globalThis.interlock = { digest: store.digest, connection: () => store.connection.kind };
  const refusal = await store.start();
  if (refusal !== null) {
    render(<Login reason={refusal.code === "unauthenticated" ? "" : refusal.message} />, root);
    return;
  }
  bridgePage(store);
  render(<StoreContext.Provider value={store}><App /></StoreContext.Provider>, root);
}

void begin();
