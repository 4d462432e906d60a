/** What a task's machine is told, and what it asks for, spelled as in the vectors. Time is no part of an input.
 *
 * A question that goes out bears a generation, and its answer brings it back: an answer to anything but the question
 * that is open now changes nothing.
 */

import type { ChatStart, RuntimeCheck, ServerFrame, TaskBehind, TaskSnapshot } from "./wire.ts";

/** Why a check is made. It is recorded, and changes nothing else. */
export type CheckReason =
  | "page-visible"
  | "websocket-reconnect"
  | "queued-message-blocked"
  | "task-selected"
  | "manual-refresh"
  | "network-online"
  | "runtime-instability-probe";

/** A frame of a task's room: all that bear a task and a tick, except the word that some were not sent. */
export type TaskFrame = Exclude<Extract<ServerFrame, Pick<ChatStart, "task_id" | "tick" | "version">>, TaskBehind>;

interface StatusTold {
  readonly task_status: string | null;
  readonly version: number;
  readonly turn_id: string | null;
  readonly status_updated_at: string | null;
}

export type OpenInput =
  | { readonly type: "closed" }
  | { readonly type: "check_requested"; readonly reason: CheckReason }
  | { readonly type: "check_answered"; readonly generation: number; readonly check: RuntimeCheck }
  | { readonly type: "check_failed"; readonly generation: number; readonly problem: string; readonly is_gone: boolean }
  | { readonly type: "join_acked"; readonly generation: number; readonly snapshot: TaskSnapshot }
  | { readonly type: "join_failed"; readonly generation: number; readonly problem: string; readonly is_final: boolean }
  | { readonly type: "frame_arrived"; readonly frame: TaskFrame }
  | { readonly type: "fell_behind"; readonly version: number; readonly tick: number }
  | ({ readonly type: "detail_synced" } & StatusTold)
  | ({ readonly type: "status_heard" } & StatusTold)
  | { readonly type: "send_accepted"; readonly prompt_id: string }
  | { readonly type: "stop_pressed" }
  | { readonly type: "cancel_acked"; readonly is_delivered: boolean; readonly problem: string }
  | { readonly type: "cancel_failed"; readonly problem: string }
  | { readonly type: "queue_held"; readonly count: number };

export type TaskInput =
  | { readonly type: "opened" }
  | { readonly type: "connected" }
  | { readonly type: "disconnected"; readonly reason: string }
  | { readonly type: "timer_fired" }
  | OpenInput;

export type Kind<T extends TaskInput["type"]> = Extract<TaskInput, { type: T }>;

/** Ask the runtime check, by HTTP. No answer by `deadline_at` is a failure. */
export interface PullRuntime {
  readonly type: "pull_runtime";
  readonly generation: number;
  readonly reason: CheckReason;
  readonly deadline_at: number;
}

/** Enter the room by the socket. A resume leaves out what is known: messages up to `after_version`, and of the stream
 * `stream_id` the text before `cursor`. */
export interface Join {
  readonly type: "join";
  readonly generation: number;
  readonly is_resume: boolean;
  readonly after_version: number | null;
  readonly stream_id: string | null;
  readonly cursor: number;
  readonly deadline_at: number;
}

export type TaskOutput = PullRuntime | Join | { readonly type: "leave" } | { readonly type: "ensure_connected" };
