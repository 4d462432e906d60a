/** What was said: prompts with their receipts, answers, tools, and the text that still grows. */

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { type Receipt, type ShownMessage, transcriptOf } from "../client/state.ts";
import type { DeliveryStage } from "../client/wire.ts";
import { Markdown } from "./markdown-view.tsx";
import { memo } from "./memo.ts";
import { sessionPath } from "./router.ts";
import { Link, Visible } from "./ui.tsx";
import { usePage, useStore } from "./use-store.ts";
import { RECEIPTS, shortTime } from "./words.ts";

const STEPS: readonly DeliveryStage[] = ["queued", "typed", "accepted", "started"];
const NEAR_END = 80;

export function Transcript({ taskId, isLive }: { readonly taskId: string; readonly isLive: boolean }) {
  const store = usePage();
  const state = useStore((page) => page.task(taskId));
  const older = useStore((page) => page.history.get(taskId));
  const outbox = useStore((page) => page.outbox);
  const thought = useStore((page) => page.thought(taskId));
  const element = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  const height = useRef(0);
  const [isBehind, setBehind] = useState(false);
  useLayoutEffect(() => {
    const box = element.current;
    if (box !== null && isAtEnd.current) box.scrollTop = box.scrollHeight;
  });
  useEffect(() => {
    const box = element.current;
    if (box === null) return undefined;
    // A question that opens below takes room: the end stays in sight.
    const observer = new ResizeObserver(() => isAtEnd.current && box.scrollTo({ top: box.scrollHeight }));
    observer.observe(box);
    return () => observer.disconnect();
  }, [state === null]);
  const toEnd = () => {
    isAtEnd.current = true;
    element.current?.scrollTo({ top: element.current.scrollHeight });
  };
  if (state === null) return null;
  const messages = [...(older?.items ?? []), ...transcriptOf(state)];
  const waiting = outbox.filter((one) => one.taskId === taskId);
  const hasOlder = older === undefined ? state.historyBefore !== null : older.before !== null;
  const isEmpty = messages.length === 0 && waiting.length === 0;
  return (
    <div class="transcript-box">
      <div
        class="transcript"
        ref={element}
        tabIndex={0}
        role="log"
        aria-live="off"
        aria-busy={state.stream !== null}
        aria-label="Transcript"
        onScroll={(event) => {
          const box = event.currentTarget;
          if (box.clientHeight !== height.current) {
            height.current = box.clientHeight; // the room changed, and no one scrolled
            return;
          }
          isAtEnd.current = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_END;
          setBehind(!isAtEnd.current);
        }}
      >
        {hasOlder ? <button type="button" class="button ghost older" onClick={() => void store.older(taskId)}>Older messages</button> : null}
        {isEmpty && isLive ? <p class="empty">Nothing was said yet.</p> : null}
        {isEmpty && !isLive ? <div class="skeleton" aria-label="Loading the transcript"><i /><i /></div> : null}
        {messages.map((message) => (
          <MessageView key={message.stream_id ?? message.message_id} message={message} receipt={receiptOf(state.receipts, message)} isLive={isLive} />
        ))}
        {thought !== "" && state.stream !== null ? <details class="thought"><summary>Thinking</summary><p>{thought}</p></details> : null}
        {waiting.map((entry) => (
          <article key={entry.promptId} class="message user sending">
            <header><b>You</b> <span class="steps"><span class="done">{entry.problem ? "not taken" : isLive ? "sending" : "waits for the connection"}</span></span></header>
            <div class="said">{entry.text}</div>
            {entry.problem ? <p class="warn" role="alert">{entry.problem}</p> : null}
            <div class="row">
              {entry.problem ? <button type="button" class="link-button" onClick={() => store.retrySend(entry.promptId)}>send again</button> : null}
              {entry.problem || !isLive ? <button type="button" class="link-button" onClick={() => takeBack(entry.promptId, entry.text)}>take back</button> : null}
            </div>
          </article>
        ))}
      </div>
      {isBehind ? <button type="button" class="button to-end" onClick={toEnd}>To the end ↓</button> : null}
    </div>
  );

  function takeBack(promptId: string, text: string): void {
    store.unsend(promptId);
    dispatchEvent(new CustomEvent("interlock:draft", { detail: { taskId, text } }));
  }
}

function receiptOf(receipts: readonly Receipt[], message: ShownMessage): DeliveryStage | null {
  if (message.delivery !== null) return message.delivery;
  return receipts.find((one) => one.promptId === message.prompt_id)?.stage ?? null;
}

interface MessageProps {
  readonly message: ShownMessage;
  readonly receipt: DeliveryStage | null;
  readonly isLive: boolean;
}

const MessageView = memo(function MessageView({ message, receipt, isLive }: MessageProps) {
  switch (message.role) {
    case "user":
      return (
        <article class="message user">
          <header><b>You</b> <time dateTime={message.at}>{shortTime(message.at)}</time> {receipt === null ? null : <ReceiptSteps stage={receipt} />}</header>
          <div class="said"><Visible text={message.text} /></div>
        </article>
      );
    case "tool":
      return <ToolView message={message} isLive={isLive} />;
    case "end":
      return (
        <article class={`message end ${message.status}`}>
          <header><b>{endWords(message)}</b> <time dateTime={message.at}>{shortTime(message.at)}</time></header>
          <div class="said"><Visible text={message.text} /></div>
          {message.next_actions.filter((one) => one.command).map((one) => <code key={one.kind} class="shell-line">{one.command}</code>)}
        </article>
      );
    default:
      return (
        <article class={`message ${message.role} ${message.status}${message.is_verified ? "" : " unverified"}`} aria-busy={message.status === "streaming"}>
          <header>
            <b>Agent</b> <time dateTime={message.at}>{shortTime(message.at)}</time>
            {message.status === "streaming" ? <span class="chip">{isLive ? "writing" : "was writing"}</span> : message.label ? <span class="chip">{message.label}</span> : null}
            {message.is_verified ? null : <span class="chip">read from the screen</span>}
          </header>
          <Markdown text={message.text} />
        </article>
      );
  }
});

function ToolView({ message, isLive }: { readonly message: ShownMessage; readonly isLive: boolean }) {
  const cut = message.detail_length > [...message.detail].length;
  const words = message.status === "completed" ? "done" : message.status === "running" && !isLive ? "was running" : message.status.replace("_", " ");
  return (
    <details class={`tool ${message.status}`}>
      <summary>
        <span class="tool-name"><Visible text={message.name || message.kind || "tool"} /></span>
        <span class="tool-text"><Visible text={message.text} /></span>
        <span class={`chip tool-${message.status}`}>{words}</span>
        <time dateTime={message.at}>{shortTime(message.at)}</time>
      </summary>
      {message.detail ? <pre tabIndex={0} aria-label="what came of it"><Visible text={message.detail} /></pre> : <p class="hint">No output was reported.</p>}
      {cut ? <p class="hint">The beginning and the end of {message.detail_length.toLocaleString()} characters.</p> : null}
      {message.child_session_id ? <Link href={sessionPath(message.child_session_id)}>Open its session</Link> : null}
    </details>
  );
}

/** How far a prompt got. A step is drawn as done when the server said so, and not before. */
function ReceiptSteps({ stage }: { readonly stage: DeliveryStage }) {
  const at = STEPS.indexOf(stage);
  if (at === -1) return <span class="chip warn-chip">{RECEIPTS[stage]}</span>;
  return <span class="steps" aria-label={`receipt: ${RECEIPTS[stage]}`}>{STEPS.map((step, number) => <span key={step} class={number <= at ? "done" : "todo"}>{RECEIPTS[step]}</span>)}</span>;
}

function endWords(message: ShownMessage): string {
  const words: Readonly<Record<string, string>> = { failed: "Failed", partial: "Failed, partial answer kept", cancelled: "Interrupted", timed_out: "Timed out", completed: "Done" };
  return words[message.status] ?? "Ended";
}
