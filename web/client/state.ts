/** Where one task stands, as a client knows it, and what follows from that.
 *
 * Laws:
 * 1. `status` is the last word that a server said, never a guess. `isVerified` tells whether it is known to hold now.
 * 2. `version` is the highest that was heard of; `roomVersion` the highest that the room said; the transcript is
 *    complete up to `syncedVersion`.
 * 3. `tick` is null outside the room. Inside, what is shown is what the room said up to that tick.
 * 4. What is doubtful has a deadline: unstable without a deadline does not exist.
 * 5. The whole is a value: nothing in it is ever changed in place.
 */

import { type GrowingText, NO_TEXT } from "./growing-text.ts";
import type { CheckReason, TaskFrame } from "./inputs.ts";
import { IDLE_PROBE, type Probe } from "./probe.ts";
import { classify, type RuntimePhase, runtimePhase, type TaskFlags, taskFlags } from "./task-status.ts";
import type { Approval, Badge, DeliveryStage, Json, Message, MessageStatus, QueueView, Status, TaskSnapshot } from "./wire.ts";

/** Our side of the room. `error`: the server refused, and asking again is for a person. */
export type SyncState = "idle" | "waiting_socket" | "joining" | "joined" | "error" | "closed";

/** The live text. `lastChunkAt` is of our own clock, `startedAt` of the server's; neither decides anything. */
export interface LocalStream {
  readonly streamId: string;
  readonly turnId: string | null;
  readonly startedAt: string;
  readonly words: GrowingText;
  readonly lastChunkAt: number | null;
}

/** A check that was asked for. `isRepeat`: asked because the answer before was not believed; that is done once. */
export interface CheckInFlight {
  readonly generation: number;
  readonly reason: CheckReason;
  readonly deadlineAt: number;
  readonly isRepeat: boolean;
  readonly sawStream: boolean;
  readonly sawStatus: boolean;
  readonly sawSend: boolean;
  readonly sawStop: boolean;
}

/** A join that was asked for, from which version and tick on (null: from nothing). `hasCursor`: of a stream only the
 * rest was asked for. `isOutrun`: a check knew of text meanwhile that its answer may be too old to have. */
export interface JoinInFlight {
  readonly generation: number;
  readonly deadlineAt: number;
  readonly afterVersion: number | null;
  readonly hasCursor: boolean;
  readonly isOutrun: boolean;
  readonly fromTick: number | null;
  readonly sawSend: boolean;
  readonly sawStop: boolean;
}

export interface Receipt {
  readonly promptId: string;
  readonly stage: DeliveryStage;
}

/** A message as it is shown: live text has no place in the log, so its id is 0. */
export type ShownMessage = Omit<Message, "message_id" | "version"> & { readonly message_id: number; readonly version: number };

/** `statusVersion`: where the last word on the status came from. `pastTurns` and `endedStreams` are the fence against
 * what is late. `interrupted`: live text that broke off, until its message comes. `lostTick`: frames up to it were not
 * sent to us. `doubtedVersion`: the last one whose status could not follow from ours, for which a check was asked.
 * `awaitingAfter`: a prompt of ours was accepted when this was the version. `queuedHere`: messages held back here. */
export interface TaskState {
  readonly taskId: string;
  readonly sync: SyncState;
  readonly isConnected: boolean;
  readonly isReachable: boolean;
  readonly status: string | null;
  readonly version: number;
  readonly statusVersion: number;
  readonly turnId: string | null;
  readonly statusUpdatedAt: string | null;
  readonly isVerified: boolean;
  readonly serverConfirmedNoStream: boolean;
  readonly tick: number | null;
  readonly lostTick: number;
  readonly roomVersion: number;
  readonly syncedVersion: number;
  readonly stream: LocalStream | null;
  readonly endedStreams: readonly string[];
  readonly pastTurns: readonly string[];
  readonly messages: readonly ShownMessage[];
  readonly interrupted: readonly ShownMessage[];
  readonly historyBefore: number | null;
  readonly approvals: readonly Approval[];
  readonly queue: QueueView;
  readonly agent: Status | null;
  readonly badge: Badge | null;
  readonly document: Json;
  readonly receipts: readonly Receipt[];
  readonly isStopping: boolean;
  readonly isStopTaken: boolean;
  readonly awaitingAfter: number | null;
  readonly queuedHere: number;
  readonly check: CheckInFlight | null;
  readonly followUp: CheckReason | null;
  readonly joining: JoinInFlight | null;
  readonly early: readonly TaskFrame[];
  readonly probe: Probe;
  readonly generation: number;
  readonly lastReason: CheckReason | null;
  readonly doubtedVersion: number;
  readonly problem: string;
  readonly anomalies: number;
}

const EMPTY_QUEUE: QueueView = { waiting: [], is_open: true, gate_reason: "", waits_for: "", is_paused: false };

export function newState(taskId: string, isConnected: boolean, generation = 0): TaskState {
  return {
    taskId,
    sync: "closed",
    isConnected,
    isReachable: isConnected,
    status: null,
    version: 0,
    statusVersion: 0,
    turnId: null,
    statusUpdatedAt: null,
    isVerified: false,
    serverConfirmedNoStream: false,
    tick: null,
    lostTick: 0,
    roomVersion: 0,
    syncedVersion: 0,
    stream: null,
    endedStreams: [],
    pastTurns: [],
    messages: [],
    interrupted: [],
    historyBefore: null,
    approvals: [],
    queue: EMPTY_QUEUE,
    agent: null,
    badge: null,
    document: {},
    receipts: [],
    isStopping: false,
    isStopTaken: false,
    awaitingAfter: null,
    queuedHere: 0,
    check: null,
    followUp: null,
    joining: null,
    early: [],
    probe: IDLE_PROBE,
    generation,
    lastReason: null,
    doubtedVersion: 0,
    problem: "",
    anomalies: 0,
  };
}

export function newStream(streamId: string, turnId: string | null, startedAt: string, now: number | null): LocalStream {
  return { streamId, turnId, startedAt, words: NO_TEXT, lastChunkAt: now };
}

/** A prompt of ours was accepted, and nothing newer than that was heard. */
export function awaitsSend(state: TaskState): boolean {
  return state.awaitingAfter !== null && state.version <= state.awaitingAfter;
}

/** What a person may do. A task with a prompt on its way is not known to be free. */
export function flagsOf(state: TaskState): TaskFlags {
  return taskFlags({
    status: state.status,
    has_stream: state.stream !== null,
    joined_room: state.tick !== null,
    is_reachable: state.isReachable,
    is_verified: state.isVerified && !awaitsSend(state),
    server_confirmed_no_stream: state.serverConfirmedNoStream,
  });
}

/** What to show. A resume inside the room is not worth a word. */
export function phaseOf(state: TaskState): RuntimePhase {
  if (state.sync === "error") return "error";
  if (state.tick === null && (state.sync === "waiting_socket" || state.sync === "joining")) return "syncing";
  return runtimePhase(state.status, state.stream !== null);
}

/** Something that the room said did not reach us. */
export function hasHole(state: TaskState): boolean {
  return state.tick !== null && (state.early.length > 0 || state.lostTick > state.tick);
}

/** What is known to be there is not all here, or what goes on would not be heard. A task at rest is no reason to ask
 * for a socket. With one there, its room is kept. */
export function needsRoom(state: TaskState): boolean {
  if (state.status === "DELETE") return false;
  if (state.tick !== null) return hasHole(state) || state.version > state.roomVersion;
  const kind = classify(state.status);
  const wasInRoom = state.isConnected && state.syncedVersion > 0;
  return kind === "active" || kind === "waiting" || wasInRoom || state.version > state.syncedVersion;
}

/** A message waits here, and no stream shows why. */
export function isBlockedHere(state: TaskState): boolean {
  return state.queuedHere > 0 && state.stream === null && flagsOf(state).blocks_queued_dispatch;
}

/** Whether what is shown may be wrong, so that somebody has to look again. */
export function isUnstable(state: TaskState): boolean {
  if (state.sync === "closed" || state.sync === "error") return false;
  const kind = classify(state.status);
  return (
    !state.isVerified ||
    (kind === "active" && state.stream === null && !state.serverConfirmedNoStream) ||
    state.isStopping ||
    awaitsSend(state) ||
    isBlockedHere(state) ||
    needsRoom(state) ||
    (state.stream !== null && kind === "terminal")
  );
}

/** When `timer_fired` is due; null: never. */
export function deadlineOf(state: TaskState): number | null {
  const waits = [state.check?.deadlineAt, state.joining?.deadlineAt, state.probe.dueAt].filter((at) => at != null);
  return waits.length === 0 ? null : Math.min(...waits);
}

/** Everything to show, in order: messages, text that broke off, text that grows. */
export function transcriptOf(state: TaskState): readonly ShownMessage[] {
  if (state.stream === null && state.interrupted.length === 0) return state.messages;
  const live = state.stream === null ? [] : [localMessage(state.stream, "streaming")];
  return [...state.messages, ...state.interrupted, ...live];
}

/** Live text as a message. */
export function localMessage(stream: LocalStream, status: MessageStatus): ShownMessage {
  return {
    message_id: 0,
    version: 0,
    role: "answer",
    status,
    text: stream.words.text,
    at: stream.startedAt,
    turn_id: stream.turnId,
    prompt_id: null,
    stream_id: stream.streamId,
    is_verified: true,
    label: status === "streaming" ? "partial: still being written" : "partial: broke off",
    delivery: null,
    kind: null,
    item_id: "",
    name: "",
    detail: "",
    detail_length: 0,
    child_session_id: null,
    error_kind: "",
    next_actions: [],
  };
}

/** What must be equal on both sides once everything has arrived. What only this client knows is left out. */
export function digestOf(state: TaskState): string {
  const live = state.stream;
  const stream = live === null ? null : [live.streamId, live.words.length, live.words.text];
  return essence(state.version, state.status, state.turnId, stream, state.messages, state.approvals, state.queue);
}

/** The digest of a server that gave this whole snapshot. */
export function digestOfSnapshot(snapshot: TaskSnapshot): string {
  const live = snapshot.stream;
  const stream = live === null ? null : [live.stream_id, live.cursor, live.text];
  const { version, task_status, turn_id, messages, approvals, queue } = snapshot;
  return essence(version, task_status, turn_id, stream, messages, approvals, queue);
}

function essence(
  version: number,
  status: string | null,
  turnId: string | null,
  stream: readonly (string | number)[] | null,
  messages: readonly ShownMessage[],
  approvals: readonly Approval[],
  queue: QueueView,
): string {
  const ordered = [...messages].sort((one, other) => one.message_id - other.message_id);
  const said = ordered.map((one) => [one.message_id, one.version, one.status, one.text]);
  const open = approvals.filter((one) => one.state === "open").map((one) => one.approval_id);
  const waiting = queue.waiting.map((one) => [one.prompt_id, one.text]);
  return JSON.stringify([version, status, turnId, stream, said, open.sort(), waiting, queue.is_open]);
}
