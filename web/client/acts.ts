/** What a person does with a task, as far as it changes what is known of it: not at all, until the server has spoken.
 *
 * Laws:
 * 1. A prompt that was accepted makes the task doubtful until something newer is heard. It is no status.
 * 2. A stop that was pressed is a wish. What takes it back is a refusal, or the server's word that it is settled.
 * 3. An answer that was under way when somebody acted may know nothing of it.
 */

import { takeReceipt } from "./frames.ts";
import type { Kind } from "./inputs.ts";
import type { TaskState } from "./state.ts";
import { classify } from "./task-status.ts";

export type OwnAct = Kind<"send_accepted" | "stop_pressed" | "cancel_acked" | "cancel_failed" | "queue_held">;

export function takeOwnAct(state: TaskState, input: OwnAct): TaskState {
  switch (input.type) {
    case "send_accepted":
      return awaitSend(state, input.prompt_id);
    case "stop_pressed":
      if (classify(state.status) === "terminal") return state;
      return markFlights({ ...state, isStopping: true, isStopTaken: false }, { sawStop: true });
    case "cancel_acked":
      if (input.is_delivered) return markFlights({ ...state, isStopTaken: state.isStopping }, { sawStop: true });
      return refuseStop(state, input.problem);
    case "cancel_failed":
      return refuseStop(state, input.problem);
    case "queue_held":
      return { ...state, queuedHere: Math.max(0, input.count) };
  }
}

function refuseStop(state: TaskState, problem: string): TaskState {
  return { ...state, isStopping: false, problem: problem || "the stop did not reach the agent" };
}

/** The server took a prompt. Where the room has told of it already, there is nothing to wait for. */
function awaitSend(state: TaskState, promptId: string): TaskState {
  if (state.receipts.some((one) => one.promptId === promptId)) return state;
  const queued = takeReceipt(state, promptId, "queued");
  return markFlights({ ...queued, awaitingAfter: queued.version }, { sawSend: true });
}

/** What is under way was asked before this, and its answer may know nothing of it. */
function markFlights(state: TaskState, saw: { readonly sawSend?: true; readonly sawStop?: true }): TaskState {
  const { check, joining } = state;
  return {
    ...state,
    check: check === null ? null : { ...check, ...saw },
    joining: joining === null ? null : { ...joining, ...saw },
  };
}
