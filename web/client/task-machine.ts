/** The client's machine for one task: the single source of truth for how it stands and what it says.
 *
 * Laws:
 * 1. Every trigger asks for a check, and a check comes before a socket. Where nothing is missing no socket is asked for.
 * 2. One check is in flight and one may follow. Every question has a deadline and a generation; what comes after either
 *    changes nothing. What is closed has no questions.
 * 3. Frames are taken in the order of their ticks, each once. An earlier one is a double, a later one waits, for a
 *    bound, and what is missing is asked for, once. A new connection has other ticks.
 * 4. The end of a stream is not the end of a task: while a message is held back here, it is a reason to ask.
 * 5. Nothing here invents a status: a prompt that was accepted, a stop that was pressed and a stream that runs are other
 *    facts.
 * 6. What is doubtful is looked at again, by the probe, until it is settled. A refusal that is final is not.
 */

import { takeOwnAct } from "./acts.ts";
import { type Effect, takeFrame } from "./frames.ts";
import type { CheckReason, Join, Kind, OpenInput, PullRuntime, TaskFrame, TaskInput, TaskOutput } from "./inputs.ts";
import * as probe from "./probe.ts";
import * as reconcile from "./reconcile.ts";
import {
  type CheckInFlight,
  deadlineOf,
  hasHole,
  isBlockedHere,
  isUnstable,
  type JoinInFlight,
  needsRoom,
  newState,
  type TaskState,
} from "./state.ts";
import { classify } from "./task-status.ts";
import type { TaskSnapshot } from "./wire.ts";

const CHECK_SECONDS = 10;
const JOIN_SECONDS = 10;
const MAX_EARLY = 64;

export type Step = readonly [TaskState, readonly TaskOutput[]];

/** Take one input. What was due before it is applied first, in the order of the deadlines. */
export function step(before: TaskState, input: TaskInput, now: number): Step {
  const [ready, due] = input.type === "closed" ? [before, []] : fireDue(before, now);
  const [state, outputs] = take(ready, input, now);
  return [resync(state, now), [...due, ...outputs]];
}

/** Hand an input to what it is about. A closed task knows only of its socket, and can be opened. */
function take(state: TaskState, input: TaskInput, now: number): Step {
  switch (input.type) {
    case "opened":
      return open(state, now);
    case "connected":
      return connect(state, now);
    case "disconnected":
      return [disconnect(state, input.reason), []];
    case "timer_fired":
      return [state, []];
    default:
      return state.sync === "closed" ? [state, []] : takeWhileOpen(state, input, now);
  }
}

function takeWhileOpen(state: TaskState, input: OpenInput, now: number): Step {
  switch (input.type) {
    case "closed":
      return close(state);
    case "check_requested":
      return requestCheck(state, input.reason, now);
    case "check_answered":
    case "check_failed":
      return takeCheckAnswer(state, input, now);
    case "join_acked":
    case "join_failed":
      return takeJoinAnswer(state, input, now);
    case "frame_arrived":
    case "fell_behind":
      return takeRoomInput(state, input, now);
    case "detail_synced":
    case "status_heard":
      return hear(state, input, now);
    default:
      return [takeOwnAct(state, input), []];
  }
}

function fireDue(before: TaskState, now: number): Step {
  let state = before;
  const outputs: TaskOutput[] = [];
  // Whatever a deadline leads to is due after now, so each of the three fires once at most.
  for (let dueAt = deadlineOf(state); dueAt !== null && dueAt <= now; dueAt = deadlineOf(state)) {
    const [fired, more] = fire(state, dueAt, now);
    state = fired;
    outputs.push(...more);
  }
  return [state, outputs];
}

function fire(state: TaskState, dueAt: number, now: number): Step {
  if (state.check?.deadlineAt === dueAt) {
    return failCheck(state, "the server did not say in time where the task stands", now);
  }
  if (state.joining?.deadlineAt === dueAt) {
    return [failJoin(state, "the server did not let us into the room in time"), []];
  }
  const disarmed = { ...state, probe: { ...state.probe, dueAt: null } };
  const reason = isBlockedHere(disarmed) ? "queued-message-blocked" : "runtime-instability-probe";
  return requestCheck(disarmed, reason, now);
}

/** After every input: no socket is waited for without need, and what is doubtful has its deadline. */
function resync(before: TaskState, now: number): TaskState {
  let state = before;
  if (state.sync === "waiting_socket" && !needsRoom(state)) state = { ...state, sync: "idle" };
  const isAwaiting = state.check !== null || state.joining !== null;
  const next = probe.resync(state.probe, isUnstable(state), isAwaiting, now);
  return next === state.probe ? state : { ...state, probe: next };
}

// The page, and its socket

function open(state: TaskState, now: number): Step {
  return requestCheck(state.sync === "closed" ? { ...state, sync: "idle" } : state, "task-selected", now);
}

/** Forget everything but what fences late answers off. */
function close(state: TaskState): Step {
  return [newState(state.taskId, state.isConnected, state.generation), leaveRoom(state)];
}

function leaveRoom(state: TaskState): readonly TaskOutput[] {
  return state.tick !== null || state.joining !== null ? [{ type: "leave" }] : [];
}

/** A socket is there, and it is another one: nothing of a room is left of the one before. */
function connect(before: TaskState, now: number): Step {
  const isVerified = before.isVerified && before.tick === null;
  const state = { ...outOfRoom(before), isConnected: true, isReachable: true, isVerified };
  if (state.sync === "closed" || state.sync === "error") return [state, []];
  return requestCheck(state, "websocket-reconnect", now);
}

function disconnect(state: TaskState, reason: string): TaskState {
  if (!state.isConnected) return state;
  const problem = reason || state.problem;
  return { ...outOfRoom(state), isConnected: false, isReachable: false, isVerified: false, problem };
}

function outOfRoom(state: TaskState): TaskState {
  const wasIn = state.sync === "joined" || state.sync === "joining";
  return { ...state, sync: wasIn ? "idle" : state.sync, tick: null, lostTick: 0, joining: null, early: [] };
}

// Checks

function takeCheckAnswer(state: TaskState, input: Kind<"check_answered" | "check_failed">, now: number): Step {
  const flight = state.check;
  if (flight === null || flight.generation !== input.generation) return [state, []];
  if (input.type === "check_failed") return failCheck(state, input.problem, now, input.is_gone);
  if (input.check.task_id !== state.taskId) {
    return failCheck(reconcile.countAnomaly(state), "the server spoke of another task", now);
  }
  return answerCheck(state, flight, input, now);
}

/** Ask, or let the question that is open be followed by one more. */
function requestCheck(before: TaskState, reason: CheckReason, now: number, isRepeat = false): Step {
  const state = { ...before, lastReason: reason };
  if (state.check !== null) return [{ ...state, followUp: reason }, []];
  const generation = state.generation + 1;
  const deadlineAt = now + CHECK_SECONDS;
  const saw = { sawStream: false, sawStatus: false, sawSend: false, sawStop: false };
  const check: CheckInFlight = { generation, reason, deadlineAt, isRepeat, ...saw };
  const output: PullRuntime = { type: "pull_runtime", generation, reason, deadline_at: deadlineAt };
  return [{ ...state, generation, check }, [output]];
}

function answerCheck(before: TaskState, flight: CheckInFlight, input: Kind<"check_answered">, now: number): Step {
  const reading = reconcile.takeCheck(before, flight, input.check);
  const sync = before.sync === "error" ? "idle" : before.sync;
  const settled = { ...reading.state, check: null, sync, problem: "" };
  let [state, outputs] = seekRoom(settled, now, reading.isMissing ?? false);
  const isAgain = (reading.isDoubted ?? false) && !flight.isRepeat;
  if (reading.isConflict || (reading.isDoubted && !isAgain && !state.isVerified)) {
    state = { ...state, probe: probe.fail(state.probe) };
  } else if (state.joining === null && !isAgain) {
    state = { ...state, probe: probe.succeed(state.probe) }; // else it has worked once that has
  }
  let more: readonly TaskOutput[] = [];
  if (isAgain) {
    [state, more] = requestCheck({ ...state, followUp: null }, state.followUp ?? flight.reason, now, true);
  } else if (reading.isConflict) {
    [state, more] = doubt(state, input.check.version, now);
  }
  outputs = [...outputs, ...more];
  if (state.check !== null) return [state, outputs];
  [state, more] = followUp(state, now);
  return [state, [...outputs, ...more]];
}

function failCheck(before: TaskState, problem: string, now: number, isGone = false): Step {
  const failed = { check: null, isReachable: false, isVerified: false, problem, probe: probe.fail(before.probe) };
  const state: TaskState = { ...before, ...failed };
  if (!isGone) return followUp(state, now);
  return [{ ...outOfRoom(state), sync: "error", followUp: null }, leaveRoom(state)];
}

function followUp(state: TaskState, now: number): Step {
  return state.followUp === null ? [state, []] : requestCheck({ ...state, followUp: null }, state.followUp, now);
}

// The room

/** Join or resume, if something is missing that only the room can give. */
function seekRoom(state: TaskState, now: number, isMissing: boolean): Step {
  if (state.joining !== null) {
    return [{ ...state, joining: { ...state.joining, isOutrun: state.joining.isOutrun || isMissing } }, []];
  }
  if (!isMissing && !needsRoom(state)) return [state, []];
  if (!state.isConnected) return [{ ...state, sync: "waiting_socket" }, [{ type: "ensure_connected" }]];
  return join(state, now);
}

/** Ask for what is not here. `isStreamWhole`: what is here of the stream is of no use. */
function join(state: TaskState, now: number, isStreamWhole = false): Step {
  const generation = state.generation + 1;
  const deadlineAt = now + JOIN_SECONDS;
  const afterVersion = state.syncedVersion || null;
  const stream = isStreamWhole || afterVersion === null ? null : state.stream;
  const joining: JoinInFlight = {
    generation,
    deadlineAt,
    afterVersion,
    hasCursor: stream !== null,
    isOutrun: false,
    fromTick: state.tick,
    sawSend: false,
    sawStop: false,
  };
  const output: Join = {
    type: "join",
    generation,
    is_resume: afterVersion !== null,
    after_version: afterVersion,
    stream_id: stream?.streamId ?? null,
    cursor: stream?.words.length ?? 0,
    deadline_at: deadlineAt,
  };
  return [{ ...state, generation, joining, sync: "joining" }, [output]];
}

function takeJoinAnswer(state: TaskState, input: Kind<"join_acked" | "join_failed">, now: number): Step {
  const flight = state.joining;
  if (flight === null || flight.generation !== input.generation) {
    return [state, isGhost(state, input) ? [{ type: "leave" }] : []];
  }
  if (input.type === "join_failed") return [failJoin(state, input.problem, input.is_final), []];
  const { snapshot } = input;
  if (snapshot.task_id !== state.taskId) return misread(state, "the server spoke of another task");
  if (!snapshot.is_whole && flight.afterVersion === null) return misread(state, "the server left out messages");
  if (leavesOutText(state, snapshot)) {
    return flight.hasCursor ? join(state, now, true) : misread(state, "the server left out text of the stream");
  }
  return enter(state, flight, snapshot, now);
}

function misread(state: TaskState, problem: string): Step {
  return [failJoin(reconcile.countAnomaly(state), problem), []];
}

/** Whether the server has us in its room by a join that we gave up, and no other will follow: the task is over. */
function isGhost(state: TaskState, input: Kind<"join_acked" | "join_failed">): boolean {
  const isGivenUp = state.joining === null && state.tick === null && state.isConnected;
  if (input.type === "join_failed" || !isGivenUp || input.generation !== state.generation) return false;
  return classify(input.snapshot.task_status) === "terminal";
}

/** We are in the room. A hole that a snapshot of a later tick did not fill is worth asking again. */
function enter(before: TaskState, flight: JoinInFlight, snapshot: TaskSnapshot, now: number): Step {
  const reading = reconcile.takeSnapshot({ ...before, joining: null }, flight, snapshot, now);
  const isLater = flight.fromTick === null || snapshot.tick > flight.fromTick;
  let [state, outputs] = drain({ ...reading.state, problem: "" }, now, isLater);
  let more: readonly TaskOutput[];
  if (reading.isDoubted || reading.isConflict) {
    [state, more] = doubt(state, snapshot.version, now);
    outputs = [...outputs, ...more];
  }
  if (flight.isOutrun && state.joining === null) {
    [state, more] = join(state, now);
    outputs = [...outputs, ...more];
  }
  if (state.joining === null) {
    const hasWorked = !needsRoom(state) && !reading.isConflict; // else it has worked once that join has
    state = { ...state, probe: hasWorked ? probe.succeed(state.probe) : probe.fail(state.probe) };
  }
  return [state, outputs];
}

function leavesOutText(state: TaskState, snapshot: TaskSnapshot): boolean {
  const piece = snapshot.stream;
  if (piece === null || piece.offset === 0) return false;
  return state.stream?.streamId !== piece.stream_id || piece.offset > state.stream.words.length;
}

function failJoin(before: TaskState, problem: string, isFinal = false): TaskState {
  const state = { ...outOfRoom(before), problem, probe: probe.fail(before.probe) };
  return isFinal ? { ...state, sync: "error", isVerified: false, followUp: null, check: null } : state;
}

/** Ask about a word that cannot be right, once for each version that says it. */
function doubt(state: TaskState, version: number, now: number): Step {
  if (version <= state.doubtedVersion) return [state, []];
  return requestCheck({ ...state, doubtedVersion: version }, "runtime-instability-probe", now);
}

/** The room speaks to those who are in it, or on their way in. */
function takeRoomInput(before: TaskState, input: Kind<"frame_arrived" | "fell_behind">, now: number): Step {
  let state = before;
  if (state.sync !== "joined" && state.sync !== "joining") return [state, []];
  if (input.type === "fell_behind") state = { ...state, lostTick: Math.max(state.lostTick, input.tick) };
  else if (input.frame.task_id === state.taskId) state = keepEarly(state, input.frame);
  return state.sync === "joined" ? drain(state, now, true) : [state, []];
}

/** Hold a frame until it is its turn. Where there are too many, the last ones are lost, and that is remembered. */
function keepEarly(state: TaskState, frame: TaskFrame): TaskState {
  if (state.tick !== null && frame.tick <= state.tick) return state;
  const byTick = new Map([frame, ...state.early].map((one) => [one.tick, one]));
  const waiting = [...byTick.values()].sort((one, other) => one.tick - other.tick);
  const lost = Math.max(0, ...waiting.slice(MAX_EARLY).map((one) => one.tick));
  return { ...state, early: waiting.slice(0, MAX_EARLY), lostTick: Math.max(state.lostTick, lost) };
}

/** Take the frames whose turn it is. If something is missing then, ask for it. */
function drain(before: TaskState, now: number, mayResume: boolean): Step {
  let state = before;
  let isShort = false;
  const outputs: TaskOutput[] = [];
  let frame = state.early[0];
  while (frame !== undefined && state.tick !== null && frame.tick === state.tick + 1) {
    const [taken, effect] = takeFrame({ ...state, early: state.early.slice(1) }, frame, now);
    isShort ||= effect.isShort ?? false;
    const [next, more] = answerEffect(taken, frame, effect, now);
    state = next;
    outputs.push(...more);
    frame = state.early[0];
  }
  if (!isShort && !(hasHole(state) && mayResume)) return [state, outputs];
  const [joining, more] = join(state, now);
  return [joining, [...outputs, ...more]];
}

function answerEffect(state: TaskState, frame: TaskFrame, effect: Effect, now: number): Step {
  if (effect.isRefused) return doubt(state, frame.version, now);
  if (effect.hasEndedStream && isBlockedHere(state)) return requestCheck(state, "queued-message-blocked", now);
  return [state, []];
}

/** A word from outside the room. If it is news that the room would have told, look at once. */
function hear(before: TaskState, input: Kind<"detail_synced" | "status_heard">, now: number): Step {
  const [state, verdict] = reconcile.takeStatus(before, {
    status: input.task_status,
    version: input.version,
    turnId: input.turn_id,
    updatedAt: input.status_updated_at,
    isDirect: false,
  });
  if (verdict === "refused") return doubt(state, input.version, now);
  if (verdict === "taken" && state.sync === "idle" && needsRoom(state)) {
    return requestCheck(state, "runtime-instability-probe", now);
  }
  return [state, []];
}
