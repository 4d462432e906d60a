/** Task status: what its words mean and which flags follow. The tables in /vectors/tables are the contract.
 *
 * Laws:
 * 1. Every status has one class. A missing or foreign word is `unknown`, which is an answer and never idle or done.
 * 2. Flags are computed here and nowhere else.
 * 3. `server_confirmed_no_stream` may turn `is_streaming` off, and no other flag.
 */

export type StatusClass = "active" | "terminal" | "waiting" | "unknown";
export type RuntimePhase = "unknown" | "syncing" | "running" | "streaming" | "waiting_for_user" | "terminal" | "error";

const CLASSES: ReadonlyMap<string, StatusClass> = new Map<string, StatusClass>([
  ["PENDING", "active"],
  ["RUNNING", "active"],
  ["CANCELLING", "active"],
  ["PENDING_CONFIRMATION", "waiting"],
  ["COMPLETED", "terminal"],
  ["FAILED", "terminal"],
  ["CANCELLED", "terminal"],
  ["DELETE", "terminal"],
]);
const CANCELLABLE: ReadonlySet<string> = new Set(["PENDING", "RUNNING", "PENDING_CONFIRMATION"]);

/** The class of a status as it came: case matters, and nothing is trimmed. */
export function classify(status: string | null): StatusClass {
  return (status === null ? undefined : CLASSES.get(status)) ?? "unknown";
}

/** The phase that a status stands for. A stream shows only while the status is active. */
export function runtimePhase(status: string | null, hasStream: boolean): RuntimePhase {
  switch (classify(status)) {
    case "active":
      return hasStream ? "streaming" : "running";
    case "terminal":
      return "terminal";
    case "waiting":
      return "waiting_for_user";
    case "unknown":
      return "unknown";
  }
}

/** What flags are computed from. `has_stream`: a stream is known; without it there may still be one. `is_verified`: the
 * status was read from the server since the last doubt about it. */
export interface TaskFacts {
  readonly status: string | null;
  readonly has_stream: boolean;
  readonly joined_room: boolean;
  readonly is_reachable: boolean;
  readonly is_verified: boolean;
  readonly server_confirmed_no_stream: boolean;
}

/** What a person may do, and what a client should. */
export interface TaskFlags {
  readonly is_terminal: boolean;
  readonly is_streaming: boolean;
  readonly blocks_queued_dispatch: boolean;
  readonly can_queue_message: boolean;
  readonly can_cancel_task: boolean;
  readonly should_join_room: boolean;
}

export function taskFlags(facts: TaskFacts): TaskFlags {
  const kind = classify(facts.status);
  const isFree = kind === "terminal" || facts.status === null;
  const isActive = kind === "active";
  const mayStream = facts.status === "RUNNING" && !facts.server_confirmed_no_stream;
  return {
    is_terminal: kind === "terminal",
    is_streaming: (isActive && facts.has_stream) || mayStream,
    blocks_queued_dispatch: !isFree || !facts.is_verified,
    can_queue_message: facts.is_reachable && facts.status !== "DELETE",
    can_cancel_task: facts.status !== null && CANCELLABLE.has(facts.status),
    should_join_room: isActive && !facts.joined_room,
  };
}
