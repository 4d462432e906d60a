/** Where the page is, as its address says: every place is a link that works cold. */

export type Tab = "talk" | "terminal" | "why" | "usage";

export type Route =
  | { readonly page: "board" }
  | { readonly page: "session"; readonly taskId: string; readonly tab: Tab; readonly approvalId: string | null }
  | { readonly page: "new" }
  | { readonly page: "settings" }
  | { readonly page: "login" };

const TABS: ReadonlySet<string> = new Set(["talk", "terminal", "why", "usage"]);

export function parseRoute(url: URL): Route {
  const [first, second, third, fourth] = url.pathname.split("/").slice(1).map(decoded);
  if (first === "s" && second) {
    const asked = url.searchParams.get("tab") ?? "talk";
    const approvalId = third === "q" && fourth ? fourth : null;
    return { page: "session", taskId: second, tab: TABS.has(asked) ? (asked as Tab) : "talk", approvalId };
  }
  if (first === "new" || first === "settings" || first === "login") return { page: first };
  return { page: "board" };
}

export function sessionPath(taskId: string, tab: Tab = "talk"): string {
  return `/s/${encodeURIComponent(taskId)}${tab === "talk" ? "" : `?tab=${tab}`}`;
}

/** Go there, without asking the server for a page. */
export function navigate(path: string, isReplacing = false): void {
  if (path === location.pathname + location.search) return;
  history[isReplacing ? "replaceState" : "pushState"](null, "", path);
  dispatchEvent(new PopStateEvent("popstate"));
}

/** Follow a link in place, unless it is to be opened elsewhere. */
export function onLink(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  navigate((event.currentTarget as HTMLAnchorElement).getAttribute("href") ?? "/");
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
