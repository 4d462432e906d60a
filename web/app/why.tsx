/** Why a session has its status: the verdict and its evidence; what it used. */

import { useEffect, useState } from "preact/hooks";
import { clientError } from "../client/errors.ts";
import type { ExplainedTurn, TaskUsage, Usage } from "../client/resources.ts";
import type { Evidence, TaskSummary } from "../client/wire.ts";
import { Visible } from "./ui.tsx";
import { usePage, useStore } from "./use-store.ts";
import { clockTime, folderName, saysOf, sourceWords } from "./words.ts";

/** What was asked for, again whenever the task has got further. */
function useAnswer<T>(ask: () => Promise<T>, parts: readonly unknown[]): { readonly found: T | null; readonly problem: string } {
  const [found, setFound] = useState<T | null>(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    let isOver = false;
    const timer = setTimeout(() => {
      ask().then(
        (answer) => !isOver && (setFound(answer), setProblem("")),
        (thrown: unknown) => !isOver && setProblem(clientError(thrown).message),
      );
    }, 150);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, parts);
  return { found, problem };
}

export function WhyPage({ taskId }: { readonly taskId: string }) {
  const store = usePage();
  const version = useStore((page) => page.task(taskId)?.version ?? 0);
  const line = useStore((page) => page.line(taskId));
  const isLive = useStore((page) => page.isTaskLive(taskId));
  const { found, problem } = useAnswer<ExplainedTurn>(() => store.shell.api.why(taskId), [taskId, version]);
  return (
    <div class="page-part why">
      {line === undefined ? null : <EvidenceList line={line} isLive={isLive} label="Evidence of the status" />}
      <h2>The last turn</h2>
      {problem ? <p class="warn">{problem}</p> : null}
      {found?.is_damaged ? <p class="warn">The log of this session has a damaged part.</p> : null}
      {found === null ? (problem ? null : <div class="skeleton"><i /><i /></div>) : <pre class="why-lines" tabIndex={0} aria-label="The verdict and its evidence">{found.lines.map((one, at) => <span key={at}><Visible text={one} />{"\n"}</span>)}</pre>}
    </div>
  );
}

export function EvidenceList({ line, isLive, label = "Evidence" }: { readonly line: TaskSummary; readonly isLive: boolean; readonly label?: string }) {
  const evidence = line.badge?.evidence ?? [];
  return (
    <section aria-label={label}>
      <h2>Why: {isLive ? "" : "was "}{saysOf(line)}</h2>
      {evidence.length === 0 ? <p class="hint">No evidence was told.</p> : null}
      <ul class="evidence">{evidence.map((proof, at) => <Proof key={at} proof={proof} />)}</ul>
    </section>
  );
}

function Proof({ proof }: { readonly proof: Evidence }) {
  return (
    <li>
      <b>{sourceWords(proof.source)}</b>
      <span class="mono"><Visible text={[proof.rule, proof.where].filter(Boolean).join(" · ")} /></span>
      <span class="hint">{proof.at === null ? "" : clockTime(proof.at)}{proof.seq === null ? "" : ` #${proof.seq}`}</span>
    </li>
  );
}

export function UsagePage({ taskId }: { readonly taskId: string }) {
  const store = usePage();
  const turn = useStore((page) => page.task(taskId)?.turnId ?? null);
  const status = useStore((page) => page.task(taskId)?.status ?? null);
  const { found, problem } = useAnswer<TaskUsage>(() => store.shell.api.usage(taskId), [taskId, turn, status]);
  if (found === null) return <div class="page-part">{problem ? <p class="warn">{problem}</p> : <div class="skeleton"><i /><i /></div>}</div>;
  return (
    <div class="page-part">
      <div class="table-box" tabIndex={0} role="region" aria-label="Usage by turn">
        <table>
          <thead><tr><th scope="col">Turn</th><th scope="col">In</th><th scope="col">Out</th><th scope="col">Cost</th></tr></thead>
          <tbody>
            {found.turns.map((one, at) => <UsageRow key={one.turn_id} name={`turn ${at + 1}`} usage={one.usage} />)}
            <UsageRow name="all" usage={found.total} />
          </tbody>
        </table>
      </div>
      {found.total.turns_without_report > 0 ? <p class="hint">{found.total.turns_without_report} turns were not reported; they are not in these figures.</p> : null}
    </div>
  );
}

function UsageRow({ name, usage }: { readonly name: string; readonly usage: Usage }) {
  const figure = (count: number | null) => (count === null ? "not reported" : count.toLocaleString());
  return <tr><th scope="row">{name}</th><td>{figure(usage.input_tokens)}</td><td>{figure(usage.output_tokens)}</td><td>{usage.cost_usd === null ? "not reported" : `$${usage.cost_usd.toFixed(2)}`}</td></tr>;
}

/** The facts beside a session on a wide screen. */
export function Facts({ line }: { readonly line: TaskSummary }) {
  const isLive = useStore((page) => page.isTaskLive(line.task_id));
  const facts: readonly (readonly [string, string])[] = [
    ["Agent", line.agent],
    ["Model", line.model],
    ["Driver", line.driver],
    ["Folder", folderName(line.folder)],
    ["Branch", line.branch],
    ["Cost", line.cost_usd === null ? "not reported" : `$${line.cost_usd.toFixed(2)}${line.max_cost_usd === null ? "" : ` of $${line.max_cost_usd}`}`],
    ["Changes", line.changes === null ? "" : `${line.changes.files} files, +${line.changes.added} −${line.changes.removed}`],
    ["Answered by rules", line.decided_by_rule === 0 ? "" : String(line.decided_by_rule)],
    ["Crashes", line.crashed_at.length === 0 ? "" : String(line.crashed_at.length)],
    ["Session", line.task_id],
  ];
  return (
    <aside class="facts" aria-label="About this session">
      <EvidenceList line={line} isLive={isLive} />
      <dl>{facts.filter(([, value]) => value).map(([name, value]) => <div key={name}><dt>{name}</dt><dd><Visible text={value} /></dd></div>)}</dl>
    </aside>
  );
}
