/** The bridge: the only file that knows the browser's events. Each leads to a check, and to a connection. */

import type { PageStore } from "./store.ts";

const HIDDEN_MILLISECONDS = 3_000;
const TICK_MILLISECONDS = 5_000;
const SLEPT_MILLISECONDS = 10_000;

export function bridgePage(store: PageStore): void {
  let hiddenAt: number | null = document.visibilityState === "hidden" ? Date.now() : null;
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "hidden") {
      hiddenAt = Date.now();
      return;
    }
    const seconds = hiddenAt === null ? 0 : Date.now() - hiddenAt;
    hiddenAt = null;
    if (seconds >= HIDDEN_MILLISECONDS) store.lookAgain("page-visible");
    else store.changed();
  });
  // The page is put aside, perhaps to come back as it was. A socket would forbid that.
  addEventListener("pagehide", () => store.shell.connection.pause("this page was put aside"));
  addEventListener("pageshow", (event) => {
    if (event.persisted) store.shell.connection.resume();
    store.lookAgain("page-visible");
  });
  document.addEventListener("resume", () => store.lookAgain("page-visible"));
  addEventListener("online", () => store.lookAgain("network-online"));
  let tickedAt = Date.now();
  setInterval(() => {
    const since = Date.now() - tickedAt;
    tickedAt = Date.now();
    if (since >= SLEPT_MILLISECONDS && document.visibilityState === "visible") store.lookAgain("page-visible");
  }, TICK_MILLISECONDS);
}
