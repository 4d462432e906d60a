/** What a word from the server means for what is known: statuses, checks, snapshots.
 *
 * Laws:
 * 1. No word with a lower version than what is known changes the status. Words of the same version are the same truth,
 *    told by frame, snapshot or check; what comes by another way must be newer.
 * 2. A terminal status is left only by a higher version that names another turn. An accepted prompt has no turn yet,
 *    which counts as another. `DELETE` may follow anything and is never left.
 * 3. A check says nothing of a stream that began or grew while it was under way, nor of a status that changed then.
 * 4. A snapshot holds everything up to its tick, however old its status may be.
 * 5. What a person pressed is settled by what the server says of a moment after that.
 */

import type { CheckInFlight, JoinInFlight, TaskState } from "./state.ts";
import { classify } from "./task-status.ts";
import * as transcript from "./transcript.ts";
import type { ActiveStream, RuntimeCheck, TaskSnapshot } from "./wire.ts";

const MAX_ANOMALIES = 1_000_000;

/** What became of a word on the status. */
export type Verdict = "taken" | "old" | "refused";

/** A status, and where in the log it was true. `isDirect`: by frame, snapshot or check. */
export interface StatusWord {
  readonly status: string | null;
  readonly version: number;
  readonly turnId: string | null;
  readonly updatedAt: string | null;
  readonly isDirect: boolean;
}

/** What a check or a snapshot led to. `isDoubted`: it was not believed, in part or as a whole. `isConflict`: what it
 * says cannot follow from what is known. `isMissing`: the server knows of frames or text that are not here. */
export interface ServerReading {
  readonly state: TaskState;
  readonly isDoubted?: boolean;
  readonly isConflict?: boolean;
  readonly isMissing?: boolean;
}

/** Whether a word may change the status (laws 1 and 2). */
function judge(state: TaskState, word: StatusWord): Verdict {
  if (word.version < state.version || (word.version === state.version && !word.isDirect)) return "old";
  if (isSame(state, word) || word.status === "DELETE") return "taken";
  if (state.status === "DELETE") return "refused";
  return classify(state.status) === "terminal" && !reopens(state, word) ? "refused" : "taken";
}

function reopens(state: TaskState, word: StatusWord): boolean {
  if (word.version <= state.statusVersion) return false;
  return word.turnId === null ? word.status === "PENDING" : word.turnId !== state.turnId;
}

function isSame(state: TaskState, word: StatusWord): boolean {
  return word.status === state.status && word.turnId === state.turnId;
}

/** Put a word in the place of the last one, with all that follows, if it may. */
export function takeStatus(state: TaskState, word: StatusWord): [TaskState, Verdict] {
  const verdict = judge(state, word);
  if (verdict === "old") return [state, verdict];
  if (verdict === "refused") {
    return [{ ...countAnomaly(state), isVerified: state.isVerified && !word.isDirect }, verdict];
  }
  const taken: TaskState = {
    ...(isSame(state, word) ? state : change(state, word)),
    statusVersion: word.version,
    version: word.version,
    statusUpdatedAt: word.updatedAt,
    isVerified: state.isVerified || word.isDirect,
  };
  return [taken, verdict];
}

/** Another status, or another turn. */
function change(before: TaskState, word: StatusWord): TaskState {
  let state = before;
  if (word.turnId !== state.turnId) {
    const isStopping = state.isStopping && state.turnId === null;
    state = { ...transcript.leaveTurn(state, word.turnId), isStopping };
  }
  state = {
    ...state,
    status: word.status,
    turnId: word.turnId,
    serverConfirmedNoStream: false,
    check: state.check === null ? null : { ...state.check, sawStatus: true },
  };
  if (classify(word.status) !== "terminal") return state;
  const approvals = state.approvals.filter((one) => one.turn_id !== word.turnId);
  return { ...transcript.setAside(state), isStopping: false, approvals };
}

export function takeCheck(before: TaskState, flight: CheckInFlight, check: RuntimeCheck): ServerReading {
  let state: TaskState = { ...before, isReachable: true };
  if (check.version < state.version) return { state, isDoubted: !state.isVerified };
  const word = wordOf(check);
  if (flight.sawStatus && !isSame(state, word) && check.version === state.version) return { state, isDoubted: true };
  let verdict: Verdict;
  [state, verdict] = takeStatus(state, word);
  if (verdict === "refused") return { state, isConflict: true };
  state = settleSend(state, !flight.sawSend);
  state = settleStop(state, !flight.sawStop);
  const hasUnheard = state.tick !== null && check.tick > state.tick;
  if (check.active_stream !== null) {
    state = { ...state, serverConfirmedNoStream: false };
    return { state, isMissing: hasUnheard || (!flight.sawStream && lacks(state, check.active_stream)) };
  }
  if (flight.sawStream && state.stream !== null) return { state, isDoubted: true, isMissing: hasUnheard };
  return { state: confirmNoStream(transcript.setAside(state), !flight.sawStop), isMissing: hasUnheard };
}

/** Stand where the server stands. It must not leave out text that is not here. */
export function takeSnapshot(before: TaskState, flight: JoinInFlight, snapshot: TaskSnapshot, now: number): ServerReading {
  const [worded, verdict] = takeStatus(before, wordOf(snapshot));
  let state: TaskState = {
    ...transcript.takeMessages(worded, snapshot.messages, snapshot.is_whole),
    sync: "joined",
    isReachable: true,
    tick: snapshot.tick,
    roomVersion: snapshot.version,
    syncedVersion: snapshot.version,
    historyBefore: snapshot.is_whole ? snapshot.history_before : worded.historyBefore,
    approvals: snapshot.approvals,
    queue: snapshot.queue,
    agent: snapshot.agent,
    badge: snapshot.badge,
    document: snapshot.document,
    early: worded.early.filter((frame) => frame.tick > snapshot.tick),
  };
  state = transcript.takePiece(state, snapshot.stream, now);
  state = settleSend(state, !flight.sawSend);
  state = settleStop(state, !flight.sawStop);
  if (snapshot.stream === null) state = confirmNoStream(state, !flight.sawStop);
  return { state, isDoubted: verdict === "old", isConflict: verdict === "refused" };
}

/** Something came that cannot be. */
export function countAnomaly(state: TaskState): TaskState {
  return { ...state, anomalies: Math.min(state.anomalies + 1, MAX_ANOMALIES) };
}

function wordOf(told: RuntimeCheck | TaskSnapshot): StatusWord {
  const { task_status, version, turn_id, status_updated_at } = told;
  return { status: task_status, version, turnId: turn_id, updatedAt: status_updated_at, isDirect: true };
}

/** A word of a moment after our prompt was accepted settles where that led, even if no version told it. */
function settleSend(state: TaskState, isLater: boolean): TaskState {
  return isLater && state.awaitingAfter !== null ? { ...state, awaitingAfter: null } : state;
}

/** A server that took the stop says `CANCELLING` until it is done: if it says anything else later, that is not what was
 * to be stopped. */
function settleStop(state: TaskState, isLater: boolean): TaskState {
  const isOver = isLater && state.isStopTaken && state.status !== "CANCELLING";
  return isOver ? { ...state, isStopping: false, isStopTaken: false } : state;
}

/** The server says that no text flows: then nothing is left to stop, unless the stop is younger than its word. */
function confirmNoStream(state: TaskState, isLater: boolean): TaskState {
  return { ...state, serverConfirmedNoStream: true, isStopping: state.isStopping && !isLater };
}

/** Whether the text there is not the text here. One that is shorter there is asked for, too: it was cut. */
function lacks(state: TaskState, active: ActiveStream): boolean {
  const stream = state.stream;
  return stream === null || stream.streamId !== active.stream_id || active.cursor !== stream.words.length;
}
