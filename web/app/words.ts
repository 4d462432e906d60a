/** The badge of a session in words, as `interlock ps` has them. The server decides; what is here draws it.
 *
 * Law: without a badge nothing is known, and nothing is guessed.
 */

import type { Attention, Badge, BoardGroup, DeliveryStage, EvidenceSource, TaskSummary } from "../client/wire.ts";

export const GROUPS: readonly BoardGroup[] = ["needs_you", "stuck", "done", "working", "idle", "ended"];
export const GROUP_NAMES: Readonly<Record<BoardGroup, string>> = {
  needs_you: "Needs you",
  stuck: "Stuck or unknown",
  done: "Done",
  working: "Working",
  idle: "Idle",
  ended: "Ended",
};
const OUTCOMES: Readonly<Record<string, string>> = {
  new: "new",
  done: "done",
  partial: "failed · partial answer kept",
  failed: "failed",
  timed_out: "timed out",
  interrupted: "interrupted",
};
const FAILURES: ReadonlySet<string> = new Set(["partial", "failed", "timed_out"]);
const ASKS: Readonly<Record<Attention, string>> = {
  none: "",
  approval: "waiting for your approval",
  question: "waiting for your answer",
  plan: "waiting for you to read its plan",
  decision: "waiting for your decision",
  auth: "needs a login",
  quota: "out of quota",
  error: "error",
  held: "queue held",
};
const SOURCES: Readonly<Record<EvidenceSource, string>> = {
  exit: "its process exited",
  native_status: "reported by the agent",
  native_file: "read from the agent's own files",
  hook: "reported by a hook of the agent",
  pane_title: "read from its terminal's title",
  screen: "read from its screen",
  silence: "no output",
  log: "recorded in the log",
  operator: "done by a person",
};

export function groupOf(line: TaskSummary): BoardGroup {
  return line.badge?.group ?? "stuck";
}

/** The order of a board: the badge's rank, and among equals the one that waits longest comes first. */
export function byAttention(one: TaskSummary, other: TaskSummary): number {
  const [rank, otherRank] = [one.badge?.rank ?? 99, other.badge?.rank ?? 99];
  if (rank !== otherRank) return rank - otherRank;
  const [since, otherSince] = [one.badge?.since ?? "", other.badge?.since ?? ""];
  return since < otherSince ? -1 : since > otherSince ? 1 : one.task_id < other.task_id ? -1 : 1;
}

/** What it does, in a few words. */
export function saysOf(line: TaskSummary): string {
  const { badge } = line;
  if (badge === null) return "unknown";
  const said = parts(line, badge).filter(Boolean).join(" · ");
  return badge.crashes > 0 ? `${said} · crashed ${badge.crashes}× in 1 h` : said;
}

function parts(line: TaskSummary, badge: Badge): string[] {
  const { activity, attention, outcome } = badge;
  const isAtRest = activity === "quiet" || activity === "gone";
  if (line.task_status === "DELETE") return ["archived"];
  if (outcome === "unknown" && (attention === "error" || attention === "none")) return ["unknown", "log damaged"];
  if (attention !== "none") {
    const said = badge.needs_person ? ASKS[attention] : `${attention} answered`;
    return activity === "working" || activity === "quiet" ? [said] : [said, activity];
  }
  if (line.is_paused && isAtRest) return ["idle", "queue paused"];
  if (line.task_status === "CANCELLING") return [activity, "stopping"];
  if (activity === "working") return ["working", doing(badge)];
  if (activity === "stalled") return ["no output, mid-turn"];
  return atRest(line, badge);
}

function atRest(line: TaskSummary, badge: Badge): string[] {
  const { activity, outcome, is_over } = badge;
  if ((activity !== "quiet" && activity !== "gone") || outcome === null) {
    if (line.is_adopted && (activity === "quiet" || activity === "gone") && !is_over) {
      return [activity === "quiet" ? "idle" : "not running", "adopted"];
    }
    return [is_over ? "ended" : activity === "quiet" ? "idle" : activity];
  }
  const ended = OUTCOMES[outcome] ?? outcome;
  if (is_over) return outcome === "new" || outcome === "done" ? ["ended"] : ["ended", ended];
  if (outcome === "done" && !badge.is_seen) return [ended, "unseen"];
  if (activity === "gone") return [ended, "not running"];
  return outcome === "new" ? ["new", "no prompt yet"] : outcome === "done" ? ["done", "ready for a prompt"] : [ended];
}

function doing(badge: Badge): string {
  if (badge.substate === "running_tool") return `running ${badge.tool || "a tool"}`;
  return badge.substate === "thinking" || badge.substate === "responding" ? badge.substate : "";
}

/** What is asked, why it ended, or what the status rests on: one line. */
export function detailOf(line: TaskSummary): string {
  const { badge } = line;
  const asked = [line.question, line.called_with].filter(Boolean).join(" · ");
  if (asked) return oneLine(asked);
  if (badge?.attention === "held") return line.held;
  if (line.waits_for && badge?.activity === "quiet") return `prompt waits: ${line.waits_for}`;
  if (line.ending && badge?.attention === "none" && (badge.activity === "quiet" || badge.activity === "gone")) return line.ending;
  const proof = badge?.evidence[0];
  if (proof === undefined) return line.is_supervised ? "" : "no server runs it";
  return badge?.attention === "error" && proof.where ? proof.where : sourceWords(proof.source);
}

export function sourceWords(source: EvidenceSource): string {
  return SOURCES[source] ?? source;
}

export function hasFailed(badge: Badge | null): boolean {
  return badge?.outcome != null && FAILURES.has(badge.outcome);
}

/** A sign, a word for it and its tone: state is never told by colour alone. */
export function glyphOf(line: TaskSummary): { readonly sign: string; readonly tone: string } {
  const group = groupOf(line);
  const { badge } = line;
  if (badge === null || badge.activity === "unknown" || badge.outcome === "unknown") return { sign: "?", tone: "stuck" };
  if (group === "needs_you") return hasFailed(badge) && badge.attention === "none" ? { sign: "✕", tone: "failed" } : { sign: "!", tone: "needs" };
  if (group === "stuck") return { sign: "?", tone: "stuck" };
  if (group === "done") return { sign: "✓", tone: "done" };
  if (group === "working") return { sign: "●", tone: "working" };
  const sign = hasFailed(badge) ? "✕" : group === "idle" ? "○" : "–";
  return { sign, tone: group === "idle" ? "idle" : "ended" };
}

export const RECEIPTS: Readonly<Record<DeliveryStage, string>> = {
  queued: "queued",
  typed: "typed",
  accepted: "accepted",
  started: "started",
  unknown: "unknown whether it arrived",
  not_delivered: "not delivered",
};

export function titleOf(line: TaskSummary | undefined, taskId: string): string {
  return line?.title || taskId;
}

/** How long, in the largest units that say enough. */
export function duration(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole}s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}m`;
  if (whole < 86_400) return `${Math.floor(whole / 3600)}h${String(Math.floor((whole % 3600) / 60)).padStart(2, "0")}`;
  return `${Math.floor(whole / 86_400)}d`;
}

export function clockTime(at: number | string): string {
  return new Date(at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
}

export function shortTime(at: number | string): string {
  return new Date(at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hour12: false });
}

export function folderName(folder: string): string {
  return folder.replace(/^\/(?:home|Users)\/[^/]+/, "~").replace(/^\/root(?=\/|$)/, "~");
}

function oneLine(text: string): string {
  return text.split(/\s+/).join(" ").trim();
}
