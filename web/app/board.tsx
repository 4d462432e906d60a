/** The board: one line for each session, in the groups that the server puts them into. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { TaskSummary } from "../client/wire.ts";
import { memo } from "./memo.ts";
import { navigate, sessionPath } from "./router.ts";
import { Age, Freshness, Glyph, Link, Visible } from "./ui.tsx";
import { useNow, usePage, useStore } from "./use-store.ts";
import { byAttention, detailOf, folderName, GROUP_NAMES, GROUPS, groupOf, saysOf, shortTime, titleOf } from "./words.ts";

const WITH_DETAIL: ReadonlySet<string> = new Set(["needs_you", "stuck"]);
const FOLDED: ReadonlySet<string> = new Set(["ended"]);

export function Board({ selected, filter, onFilter }: { readonly selected: string | null; readonly filter: string; readonly onFilter: (text: string) => void }) {
  const lines = useStore((store) => store.lines);
  const isLive = useStore((store) => store.isBoardLive());
  const connection = useStore((store) => store.connection);
  const canAct = useStore((store) => store.canAct());
  const now = useNow(isLive);
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set());
  useEffect(() => {
    const toggle = () => setOpened((kept) => (kept.has("ended") ? new Set() : new Set(["ended"])));
    addEventListener("interlock:ended", toggle);
    return () => removeEventListener("interlock:ended", toggle);
  }, []);
  const shown = lines.filter((line) => fits(line, filter)).sort(byAttention);
  const isKnown = lines.length > 0 || isLive;
  return (
    <nav class="board" aria-label="Sessions">
      <div class="board-tools">
        <input
          id="filter"
          type="search"
          class="filter"
          placeholder="Filter sessions"
          aria-label="Filter sessions"
          value={filter}
          onInput={(event) => onFilter(event.currentTarget.value)}
          onKeyDown={(event) => event.key === "Escape" && (onFilter(""), event.currentTarget.blur())}
        />
        {canAct ? <Link href="/new" class="button primary compact">New</Link> : null}
      </div>
      {!isKnown ? <Waiting isLost={connection.kind === "lost"} reason={connection.reason} /> : null}
      {isKnown && lines.length === 0 ? <Empty canAct={canAct} /> : null}
      {lines.length > 0 && shown.length === 0 ? <p class="empty">No session fits “{filter}”.</p> : null}
      {GROUPS.map((group) => {
        const inGroup = shown.filter((line) => groupOf(line) === group);
        if (inGroup.length === 0) return null;
        const isOpen = !FOLDED.has(group) || opened.has(group) || filter !== "";
        return (
          <section key={group} class={`group group-${group}`} aria-labelledby={`group-${group}`}>
            <h2 id={`group-${group}`} class="group-name">
              {FOLDED.has(group) ? (
                <button type="button" class="fold" aria-expanded={isOpen} onClick={() => dispatchEvent(new Event("interlock:ended"))}>
                  {GROUP_NAMES[group]} <span class="count">{inGroup.length}</span> <span aria-hidden="true">{isOpen ? "▾" : "▸"}</span>
                </button>
              ) : (
                <>{GROUP_NAMES[group]} <span class="count">{inGroup.length}</span></>
              )}
            </h2>
            {isOpen ? (
              <ul>
                {inGroup.map((line) => (
                  <Row key={line.task_id} line={line} isLive={isLive} now={now} asOf={connection.asOf} isSelected={line.task_id === selected} />
                ))}
              </ul>
            ) : null}
          </section>
        );
      })}
      {isKnown && !isLive ? <p class="board-as-of"><Freshness isLive={false} asOf={connection.asOf} /></p> : null}
    </nav>
  );
}

interface RowProps {
  readonly line: TaskSummary;
  readonly isLive: boolean;
  readonly now: number;
  readonly asOf: number | null;
  readonly isSelected: boolean;
}

const Row = memo(function Row({ line, isLive, now, asOf, isSelected }: RowProps) {
  const element = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (isSelected) element.current?.scrollIntoView({ block: "nearest" });
  }, [isSelected]);
  const detail = WITH_DETAIL.has(groupOf(line)) ? detailOf(line) : "";
  const marks = [
    line.queued > 0 ? `queue ${line.queued}` : "",
    line.is_paused ? "paused" : "",
    line.cost_usd === null || line.cost_usd < 0.005 ? "" : `$${line.cost_usd.toFixed(2)}`,
  ].filter(Boolean);
  return (
    <li ref={element}>
      <Link href={sessionPath(line.task_id)} class={`row-link group-${groupOf(line)}${isLive ? "" : " stale"}`} current={isSelected}>
        <Glyph line={line} isLive={isLive} />
        <span class="row-main">
          <span class="row-head">
            <span class="row-title"><Visible text={titleOf(line, line.task_id)} /></span>
            <Age since={line.badge?.since} now={now} />
          </span>
          <span class="row-says">{isLive ? saysOf(line) : asOf === null ? "unknown" : `was ${saysOf(line)}, as of ${shortTime(asOf)}`}</span>
          {detail ? <span class="row-detail"><Visible text={detail} /></span> : null}
          <span class="row-facts">
            {[line.agent, folderName(line.folder), line.branch].filter(Boolean).map((fact, at) => <span key={at}><Visible text={fact} /></span>)}
            {marks.map((mark) => <span key={mark} class="chip">{mark}</span>)}
          </span>
        </span>
      </Link>
    </li>
  );
});

function Waiting({ isLost, reason }: { readonly isLost: boolean; readonly reason: string }) {
  const store = usePage();
  if (!isLost) return <div class="skeleton" aria-label="Loading sessions"><i /><i /><i /></div>;
  return (
    <div class="empty">
      <p>Nothing is known about your sessions: {location.origin} was asked and gave no answer.</p>
      <p class="hint">{reason}</p>
      <button type="button" class="button" onClick={() => store.lookAgain("manual-refresh")}>Try again</button>
    </div>
  );
}

function Empty({ canAct }: { readonly canAct: boolean }) {
  return (
    <div class="empty">
      <p>No session yet.</p>
      {canAct ? <p><Link href="/new" class="button primary">Start an agent</Link></p> : null}
      <p class="hint">Or in a terminal: <code>interlock run claude "fix the failing test"</code></p>
    </div>
  );
}

function fits(line: TaskSummary, filter: string): boolean {
  if (filter === "") return true;
  const wanted = filter.toLowerCase();
  return [line.title, line.task_id, line.agent, line.folder, line.branch, line.question, line.called_with].some((text) => text.toLowerCase().includes(wanted));
}

/** The session that stands so many lines below another one on the board. */
export function neighbour(lines: readonly TaskSummary[], selected: string | null, by: number): string | null {
  const order = GROUPS.flatMap((group) => (group === "ended" ? [] : lines.filter((line) => groupOf(line) === group).sort(byAttention)));
  if (order.length === 0) return null;
  const at = order.findIndex((line) => line.task_id === selected);
  const next = at === -1 ? 0 : Math.min(order.length - 1, Math.max(0, at + by));
  return order[next]?.task_id ?? null;
}

/** Go to the next session that needs a person. */
export function goToNextNeed(lines: readonly TaskSummary[], selected: string | null): boolean {
  const needs = lines.filter((line) => groupOf(line) === "needs_you").sort(byAttention);
  const at = needs.findIndex((line) => line.task_id === selected);
  const next = needs[(at + 1) % needs.length];
  if (next === undefined || next.task_id === selected) return false;
  navigate(next.approval_id ? `/s/${encodeURIComponent(next.task_id)}/q/${encodeURIComponent(next.approval_id)}` : sessionPath(next.task_id));
  return true;
}
