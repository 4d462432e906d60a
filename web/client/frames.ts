/** What one frame of the room changes, once it is its turn.
 *
 * Laws:
 * 1. A frame that is taken moves the tick, and tells up to which version the room has spoken. Others of its version may
 *    follow, but no messages after its status: a status that is taken completes the transcript up to its version.
 * 2. Only `task:status` changes the status. The end of a stream ends the stream.
 * 3. What an agent thinks is shown as it comes, and kept nowhere.
 */

import type { TaskFrame } from "./inputs.ts";
import { applyPatch, PatchError } from "./patch.ts";
import * as reconcile from "./reconcile.ts";
import type { TaskState } from "./state.ts";
import * as transcript from "./transcript.ts";
import type { Approval, DeliveryStage, StatePatched } from "./wire.ts";

const MAX_RECEIPTS = 64;
const PROGRESS: readonly DeliveryStage[] = ["queued", "typed", "accepted", "started"];

/** What a frame leads to, besides the state. `isShort`: text before it is missing. `isRefused`: its status cannot
 * follow from ours. `hasEndedStream`: a stream is over. */
export interface Effect {
  readonly isShort?: boolean;
  readonly isRefused?: boolean;
  readonly hasEndedStream?: boolean;
}

const NOTHING: Effect = {};

/** Take the frame whose tick is next. */
export function takeFrame(before: TaskState, frame: TaskFrame, now: number): [TaskState, Effect] {
  let state: TaskState = {
    ...before,
    tick: frame.tick,
    isReachable: true,
    roomVersion: Math.max(before.roomVersion, frame.version),
    syncedVersion: Math.max(before.syncedVersion, frame.version - 1),
  };
  if ("badge" in frame && frame.badge !== null) state = { ...state, badge: frame.badge };
  if (frame.type === "task:status") {
    const [worded, verdict] = reconcile.takeStatus(state, {
      status: frame.task_status,
      version: frame.version,
      turnId: frame.turn_id,
      updatedAt: frame.status_updated_at,
      isDirect: true,
    });
    if (verdict === "refused") return [worded, { isRefused: true }];
    return [{ ...worded, syncedVersion: Math.max(worded.syncedVersion, frame.version) }, NOTHING];
  }
  state = { ...state, version: Math.max(state.version, frame.version) };
  switch (frame.type) {
    case "chat:start":
      return [transcript.beginStream(state, frame, now), NOTHING];
    case "chat:chunk": {
      const [grown, isShort] = transcript.growStream(state, frame, now);
      return [grown, { isShort }];
    }
    case "chat:done":
    case "chat:error":
    case "chat:cancelled":
      return [endStream(state, frame), { hasEndedStream: true }];
    case "state:patched":
      return patchDocument(state, frame);
    default:
      return [takeContent(state, frame), NOTHING];
  }
}

type StreamEnd = Extract<TaskFrame, { type: "chat:done" | "chat:error" | "chat:cancelled" }>;
type Content = Exclude<TaskFrame, StreamEnd | { type: "chat:start" | "chat:chunk" | "state:patched" | "task:status" }>;

function endStream(before: TaskState, frame: StreamEnd): TaskState {
  const isPast = frame.turn_id !== null && before.pastTurns.includes(frame.turn_id);
  const state = transcript.endStream(before, frame.stream_id, frame.turn_id, frame.message_id);
  return frame.type === "chat:cancelled" && !isPast ? { ...state, isStopping: false } : state;
}

/** Apply a patch. One that cannot be applied is of another document than ours: what is there is asked for. */
function patchDocument(state: TaskState, frame: StatePatched): [TaskState, Effect] {
  try {
    return [{ ...state, document: applyPatch(state.document, frame.ops) }, NOTHING];
  } catch (error) {
    if (!(error instanceof PatchError)) throw error;
    return [reconcile.countAnomaly(state), { isShort: true }];
  }
}

function takeContent(state: TaskState, frame: Content): TaskState {
  switch (frame.type) {
    case "chat:thought":
    case "task:badge": // the badge was taken above
      return state;
    case "chat:message":
      return transcript.takeMessages(state, [frame.message]);
    case "chat:receipt":
      return takeReceipt(state, frame.prompt_id, frame.stage);
    case "queue:changed":
      return { ...state, queue: frame.queue };
    case "agent:status":
      return { ...state, agent: frame.status };
    case "approval:opened":
    case "approval:decided":
      return { ...state, approvals: [...others(state, frame.approval), frame.approval] };
    case "approval:closed":
      return { ...state, approvals: others(state, frame.approval) };
  }
}

/** A prompt got so far. A receipt never goes back; the oldest prompts are forgotten first. */
export function takeReceipt(state: TaskState, promptId: string, stage: DeliveryStage): TaskState {
  const known = state.receipts.find((one) => one.promptId === promptId);
  if (known === undefined) return { ...state, receipts: [...state.receipts, { promptId, stage }].slice(-MAX_RECEIPTS) };
  if (!isProgress(known.stage, stage)) return state;
  return { ...state, receipts: state.receipts.map((one) => (one === known ? { promptId, stage } : one)) };
}

/** Whether a receipt tells more than the one before it. */
function isProgress(before: DeliveryStage, now: DeliveryStage): boolean {
  if (before === "not_delivered" || before === now) return false;
  if (before === "unknown") return now !== "queued";
  if (now === "unknown" || now === "not_delivered") return before === "queued" || before === "typed";
  return PROGRESS.indexOf(now) > PROGRESS.indexOf(before);
}

function others(state: TaskState, approval: Approval): readonly Approval[] {
  return state.approvals.filter((one) => one.approval_id !== approval.approval_id);
}
