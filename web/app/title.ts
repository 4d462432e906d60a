/** What is seen of the page from afar: the tab's title and picture, and a word for a screen reader. */

import type { TaskSummary } from "../client/wire.ts";
import { groupOf } from "./words.ts";

const SAY_EVERY_MILLISECONDS = 5_000;
let saidAt = 0;
let saidCount = -1;
let timer: ReturnType<typeof setTimeout> | undefined;

let needs = 0;
let isLost = false;

/** Without a connection a number would be a claim. */
export function showConnection(kind: string): void {
  isLost = kind === "lost" || kind === "out";
  showTitle();
}

function showTitle(): void {
  const icon = document.querySelector<HTMLLinkElement>("link[rel=icon]");
  const picture = iconOf(isLost ? 0 : needs);
  if (icon !== null && icon.href !== picture) icon.href = picture;
  document.title = isLost ? "Interlock, not connected" : needs > 0 ? `(${needs}) Interlock` : "Interlock";
}

export function showCounts(lines: readonly TaskSummary[]): void {
  needs = lines.filter((line) => groupOf(line) === "needs_you").length;
  showTitle();
  if (needs === saidCount) return;
  clearTimeout(timer);
  timer = setTimeout(() => say(needs), Math.max(0, saidAt + SAY_EVERY_MILLISECONDS - Date.now()));
}

function say(count: number): void {
  const region = document.getElementById("said");
  if (region !== null && (count > 0 || saidCount > 0)) {
    region.textContent = count === 0 ? "No agent needs you." : count === 1 ? "1 agent needs you." : `${count} agents need you.`;
  }
  saidCount = count;
  saidAt = Date.now();
}

function iconOf(count: number): string {
  const badge = count === 0 ? "" : `<circle cx='24' cy='8' r='8' fill='#d9480f'/><text x='24' y='12' font-family='sans-serif' font-size='12' font-weight='bold' text-anchor='middle' fill='#fff'>${count > 9 ? "+" : count}</text>`;
  const links = "<g fill='none' stroke='#4c8dff' stroke-width='3'><rect x='2' y='11' width='16' height='12' rx='6'/><rect x='13' y='11' width='16' height='12' rx='6'/></g>";
  return `data:image/svg+xml,${encodeURIComponent(`<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'>${links}${badge}</svg>`)}`;
}
