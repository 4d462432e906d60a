/** One session: what was said, its terminal, why it has its status, what it used, and what it asks. */

import { useEffect, useState } from "preact/hooks";
import type { Approval } from "../client/wire.ts";
import { flagsOf } from "../client/state.ts";
import { Composer } from "./composer.tsx";
import { QuestionCard } from "./question.tsx";
import { navigate, sessionPath, type Tab } from "./router.ts";
import { Terminal } from "./terminal.tsx";
import { Transcript } from "./transcript.tsx";
import { Confirm, Freshness, Glyph, Link, Visible } from "./ui.tsx";
import { usePage, useStore } from "./use-store.ts";
import { Facts, UsagePage, WhyPage } from "./why.tsx";
import { clockTime, folderName, saysOf, titleOf } from "./words.ts";

const TABS: readonly (readonly [Tab, string])[] = [["talk", "Talk"], ["terminal", "Terminal"], ["why", "Why"], ["usage", "Usage"]];

export function Session({ taskId, tab, approvalId }: { readonly taskId: string; readonly tab: Tab; readonly approvalId: string | null }) {
  const store = usePage();
  const line = useStore((page) => page.line(taskId));
  const sync = useStore((page) => page.task(taskId)?.sync ?? "closed");
  const problem = useStore((page) => page.task(taskId)?.problem ?? "");
  const isStopping = useStore((page) => page.task(taskId)?.isStopping ?? false);
  const canCancel = useStore((page) => { const state = page.task(taskId); return state !== null && flagsOf(state).can_cancel_task; });
  const isLive = useStore((page) => page.isTaskLive(taskId));
  const asOf = useStore((page) => page.taskAsOf(taskId));
  const canAct = useStore((page) => page.canAct());
  const [asks, setAsks] = useState<"interrupt" | "stop" | null>(null);
  useEffect(() => {
    store.shell.open(taskId);
    return () => store.shell.closeTask(taskId);
  }, [store, taskId]);
  useEffect(() => {
    if (isLive && document.visibilityState === "visible") store.markSeen(taskId);
  }, [store, taskId, isLive, line?.turn_id, line?.badge?.is_seen]);
  useEffect(() => {
    const onAct = (event: Event) => canAct && setAsks((event as CustomEvent<"interrupt" | "stop">).detail);
    addEventListener("interlock:act", onAct);
    return () => removeEventListener("interlock:act", onAct);
  }, [canAct]);
  if (sync === "error") {
    return (
      <main class="session" id="main">
        <div class="empty"><p>{problem || "The server does not know this session."}</p><Link href="/" class="button">To the board</Link></div>
      </main>
    );
  }
  const isRunning = line?.badge?.activity !== "gone";
  return (
    <main class="session" id="main">
      <header class="session-head">
        <Link href="/" class="back button ghost" label="Back to the board">‹</Link>
        <div class="session-name">
          <h1>{line ? <Glyph line={line} isLive={isLive} /> : null} <Visible text={titleOf(line, taskId)} /></h1>
          <p class="session-says">
            {line ? (isLive ? saysOf(line) : asOf === null ? "unknown" : `was ${saysOf(line)}, as of ${clockTime(asOf)}`) : ""}
            {isStopping ? " · interrupt asked for" : ""}
            <span class="session-facts">{[line?.agent, folderName(line?.folder ?? ""), line?.branch].filter(Boolean).map((fact) => <span key={fact}><Visible text={fact ?? ""} /></span>)}</span>
          </p>
        </div>
        <Freshness isLive={isLive} asOf={asOf} />
      </header>
      <div class="session-bar">
        <nav class="tabs" aria-label="Views of this session">
          {TABS.map(([name, label]) => <Link key={name} href={sessionPath(taskId, name)} current={tab === name}>{label}</Link>)}
        </nav>
        {canAct ? (
          <div class="row">
            {canCancel || isStopping ? <button type="button" class="button compact" disabled={!isLive || isStopping} onClick={() => setAsks("interrupt")}>{isStopping ? "Interrupting" : "Interrupt"}</button> : null}
            {isRunning ? <button type="button" class="button compact ghost" disabled={!isLive} onClick={() => setAsks("stop")}>Stop</button>
              : <button type="button" class="button compact" disabled={!isLive} onClick={() => void store.act(() => store.shell.api.start(taskId))}>Start agent</button>}
          </div>
        ) : null}
      </div>
      <div class={`session-content tab-${tab}`}>
        {tab === "talk" ? <Transcript key={taskId} taskId={taskId} isLive={isLive} /> : null}
        {tab === "terminal" ? <Terminal taskId={taskId} isLive={isLive} /> : null}
        {tab === "why" ? <WhyPage taskId={taskId} /> : null}
        {tab === "usage" ? <UsagePage taskId={taskId} /> : null}
      </div>
      <Questions key={`asks-${taskId}`} taskId={taskId} wanted={approvalId} isLive={isLive} />
      {canAct && tab === "talk" ? <Composer taskId={taskId} isLive={isLive} /> : null}
      {asks === "interrupt" ? <Confirm title="Interrupt this turn?" text="The agent is asked to end what it does. The session stays." does="Interrupt" onYes={() => void store.interrupt(taskId)} onClose={() => setAsks(null)} /> : null}
      {asks === "stop" ? <Confirm title="Stop this agent?" text="Its process ends, with everything that it started. An open turn is interrupted." does="Stop" onYes={() => void store.act(() => store.shell.api.stop(taskId))} onClose={() => setAsks(null)} /> : null}
    </main>
  );
}

/** The questions of a session: one card, which stays until its person leaves it, and a word about the others. */
function Questions({ taskId, wanted, isLive }: { readonly taskId: string; readonly wanted: string | null; readonly isLive: boolean }) {
  const store = usePage();
  const approvals = useStore((page) => page.task(taskId)?.approvals ?? NONE);
  const isIn = useStore((page) => page.task(taskId)?.tick != null);
  const past = useStore((page) => (wanted === null ? undefined : page.past(wanted)));
  const [kept, setKept] = useState<Approval | null>(null);
  const open = approvals.filter((one) => one.state !== "closed").sort((one, other) => (one.asked_at < other.asked_at ? -1 : 1));
  const current = kept === null ? null : (approvals.find((one) => one.approval_id === kept.approval_id) ?? kept);
  useEffect(() => {
    const found = wanted === null ? undefined : open.find((one) => one.approval_id === wanted);
    if (wanted !== null && found === undefined && isIn) void store.findQuestion(taskId, wanted);
    if (wanted !== null && kept?.approval_id !== wanted && (found ?? past) !== undefined) setKept(found ?? past ?? null);
    else if (wanted === null && kept === null && open[0] !== undefined) setKept(open[0]);
  }, [approvals, wanted, past, isIn]);
  if (current === null) return wanted !== null && isIn && past === undefined ? <p class="hint asks-none">This question is not open.</p> : null;
  const isOver = isIn && !approvals.some((one) => one.approval_id === current.approval_id);
  const others = open.filter((one) => one.approval_id !== current.approval_id && one.state === "open");
  const go = (next: Approval | null) => {
    setKept(next);
    if (next !== null) navigate(`/s/${encodeURIComponent(taskId)}/q/${encodeURIComponent(next.approval_id)}`, true);
    else if (wanted !== null) navigate(sessionPath(taskId), true);
  };
  return (
    <section class={`asks${wanted === null ? "" : " wanted"}`} aria-label="Questions">
      {wanted === null ? (
        <Link href={`/s/${encodeURIComponent(taskId)}/q/${encodeURIComponent(current.approval_id)}`} class="asks-bar">
          <span class="tone-needs" aria-hidden="true">!</span> <span class="asks-bar-text">{isOver ? "Asked: " : "Asks you: "}<Visible text={[current.tool, current.question].filter(Boolean).join(" · ")} /></span> <b>{isOver ? "See" : "Read and answer"} ›</b>
        </Link>
      ) : null}
      <QuestionCard key={current.approval_id} approval={current} isOver={isOver} isLive={isLive} />
      {others.length > 0 || isOver ? (
        <div class="row end asks-more">
          {others[0] ? <button type="button" class="link-button" onClick={() => go(others[0] ?? null)}>{others.length === 1 ? "1 more question" : `${others.length} more questions`} ›</button> : null}
          {isOver ? <button type="button" class="link-button" onClick={() => go(null)}>close</button> : null}
        </div>
      ) : null}
    </section>
  );
}

const NONE: readonly Approval[] = [];

export function SessionFacts({ taskId }: { readonly taskId: string }) {
  const line = useStore((page) => page.line(taskId));
  return line === undefined ? null : <Facts line={line} />;
}
