/** The terminal of an agent: its rows and their paint, looked at and never typed into. Looking changes nothing. */

import { useEffect, useState } from "preact/hooks";
import { clientError, Refusal } from "../client/errors.ts";
import type { Paint, TaskScreen } from "../client/resources.ts";
import { before, slice } from "../client/codepoints.ts";
import { Freshness, Visible } from "./ui.tsx";
import { usePage } from "./use-store.ts";
import { styleOf } from "./sgr.ts";

const EVERY_MILLISECONDS = 1_000;

export function Terminal({ taskId, isLive }: { readonly taskId: string; readonly isLive: boolean }) {
  const store = usePage();
  const [screen, setScreen] = useState<TaskScreen | null>(null);
  const [problem, setProblem] = useState("");
  const [isWrapped, setWrapped] = useState(false);
  useEffect(() => {
    let [isOver, isAsking, known] = [false, false, ""];
    const look = async () => {
      if (isAsking || document.visibilityState === "hidden" || !store.shell.connection.isConnected) return;
      isAsking = true;
      try {
        const next = await store.shell.api.screen(taskId, known);
        if (isOver) return;
        known = next.digest;
        setProblem("");
        setScreen((last) => (next.is_unchanged && last !== null ? { ...next, rows: last.rows, paint: last.paint } : next));
      } catch (thrown) {
        const error = clientError(thrown);
        if (!isOver) setProblem(error.message);
        isOver ||= error instanceof Refusal && error.retryAfterSeconds === null; // there is no terminal, and none will come
      } finally {
        isAsking = false;
      }
    };
    setScreen(null);
    void look();
    const timer = setInterval(() => void look(), EVERY_MILLISECONDS);
    return () => {
      isOver = true;
      clearInterval(timer);
    };
  }, [store, taskId]);
  if (screen === null) return problem ? <p class="empty">{problem}</p> : <div class="skeleton" aria-label="Loading the terminal"><i /><i /><i /></div>;
  const isNow = isLive && screen.is_live && problem === "";
  return (
    <div class="terminal">
      <div class="terminal-head">
        <Freshness isLive={isNow} asOf={Date.parse(screen.captured_at)} />
        <span class="hint">{screen.columns}×{screen.height}{screen.title ? <> · <Visible text={screen.title} /></> : null}{screen.has_ended ? " · the agent has ended" : ""}</span>
        <button type="button" class="link-button" aria-pressed={isWrapped} onClick={() => setWrapped(!isWrapped)}>{isWrapped ? "unwrap" : "wrap"}</button>
      </div>
      {problem || screen.problem ? <p class="hint">{problem || screen.problem}</p> : null}
      <pre class={`screen${isNow ? "" : " stale"}${isWrapped ? " wrapped" : ""}`} tabIndex={0} aria-label="Terminal of the agent">
        {screen.rows.map((row, at) => <Row key={at} row={row} paint={screen.paint.filter((one) => one[0] === at)} />)}
      </pre>
    </div>
  );
}

function Row({ row, paint }: { readonly row: string; readonly paint: readonly Paint[] }) {
  if (paint.length === 0) return <span>{row}{"\n"}</span>;
  const made = [];
  let at = 0;
  for (const [, start, end, sgr] of paint) {
    if (start > at) made.push(slice(row, at, start));
    const look = styleOf(sgr);
    made.push(<span key={start} class={look.classes} style={look.style}>{slice(row, Math.max(at, start), end)}</span>);
    at = Math.max(at, end);
  }
  made.push(row.slice(before(row, at).length));
  return <span>{made}{"\n"}</span>;
}
