/** What is read: messages, and the stream of the text that still grows.
 *
 * Laws:
 * 1. A message is known by its id. Of two copies the higher version holds; of two equal ones the later.
 * 2. Text is put at its place, counted in code points, and what stood from there on is gone. What would leave a hole is
 *    not taken: its ends are never pushed together.
 * 3. A stream that ended, or whose message is there, or whose turn is over, is not brought back by more of its text.
 * 4. One stream is open at a time: another one takes its place, and the old text is gone.
 * 5. Live text that ends without a message is kept as `interrupted` until the message comes. It is never complete.
 * 6. The message of a stream is the one that names it, or that its end names, and no other.
 */

import { GrowingText, NO_TEXT } from "./growing-text.ts";
import { type LocalStream, localMessage, newStream, type ShownMessage, type TaskState } from "./state.ts";
import { classify } from "./task-status.ts";
import type { ChatChunk, ChatStart, StreamPiece } from "./wire.ts";

const MAX_ENDED = 32;
const MAX_INTERRUPTED = 8;

/** Both, by id. */
export function mergeMessages(known: readonly ShownMessage[], more: readonly ShownMessage[]): readonly ShownMessage[] {
  if (more.length === 0) return known;
  const merged = [...known];
  for (const message of more) {
    const place = placeOf(merged, message.message_id);
    const copy = merged[place];
    if (copy === undefined || copy.message_id !== message.message_id) merged.splice(place, 0, message);
    else if (message.version >= copy.version) merged[place] = message;
  }
  return merged;
}

function placeOf(messages: readonly ShownMessage[], messageId: number): number {
  let [low, high] = [0, messages.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((messages[middle] as ShownMessage).message_id < messageId) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Add messages, or put them in place of all. Live text whose message is here gives way to it. */
export function takeMessages(state: TaskState, messages: readonly ShownMessage[], isWhole = false): TaskState {
  const merged = mergeMessages(isWhole ? [] : state.messages, messages);
  const told = new Set(merged.map((message) => message.stream_id));
  const interrupted = state.interrupted.filter((copy) => !told.has(copy.stream_id));
  const taken = { ...state, messages: merged, interrupted };
  if (state.stream !== null && told.has(state.stream.streamId)) {
    return markEnded({ ...taken, stream: null }, state.stream.streamId);
  }
  return taken;
}

/** A stream begins, empty. What was open makes room for it. */
export function beginStream(state: TaskState, frame: ChatStart, now: number): TaskState {
  if (isOver(state, frame.turn_id) || hasMessage(state, frame.stream_id)) return state;
  return show(state, newStream(frame.stream_id, frame.turn_id, frame.started_at, now));
}

/** More text; and whether there is a hole before it, which only a resume can fill. */
export function growStream(state: TaskState, frame: ChatChunk, now: number): [TaskState, boolean] {
  if (isOver(state, frame.turn_id) || state.endedStreams.includes(frame.stream_id)) return [state, false];
  let stream = state.stream;
  if (stream === null || stream.streamId !== frame.stream_id) {
    if (hasMessage(state, frame.stream_id)) return [state, false];
    stream = newStream(frame.stream_id, frame.turn_id, frame.at, null);
  }
  const words = stream.words.put(frame.offset, frame.text);
  if (words === null) return [show(state, stream), true];
  return [show(state, { ...stream, words, lastChunkAt: now }), false];
}

/** A stream is over. If it is the open one, its text stays until its message is there; `messageId` may name it. */
export function endStream(state: TaskState, streamId: string, turnId: string | null, messageId: number | null): TaskState {
  if (state.stream?.streamId === streamId) {
    const isHere = messageId !== null && state.messages.some((one) => one.message_id === messageId);
    return isHere ? markEnded({ ...state, stream: null }, streamId) : setAside(state);
  }
  return isPast(state, turnId) ? state : markEnded(state, streamId);
}

/** End the open stream, if any. Its text is kept, as interrupted: its message, were it here, would have ended it. */
export function setAside(state: TaskState): TaskState {
  const stream = state.stream;
  if (stream === null) return state;
  const ended = markEnded({ ...state, stream: null }, stream.streamId);
  if (stream.words.length === 0) return ended;
  const others = withoutCopy(ended.interrupted, stream.streamId);
  return { ...ended, interrupted: [...others, localMessage(stream, "interrupted")].slice(-MAX_INTERRUPTED) };
}

/** The stream as a snapshot has it: where both know text, the server's holds. */
export function takePiece(state: TaskState, piece: StreamPiece | null, now: number): TaskState {
  if (piece === null || hasMessage(state, piece.stream_id) || isOver(state, piece.turn_id)) return setAside(state);
  const isSame = state.stream?.streamId === piece.stream_id;
  const known = isSame && state.stream !== null ? state.stream.words : NO_TEXT;
  const words = known.put(piece.offset, piece.text) ?? new GrowingText(piece.text);
  const taken = { ...newStream(piece.stream_id, piece.turn_id, piece.started_at, now), words };
  return show(isSame ? state : setAside(state), taken);
}

/** Another turn is the task's now: what belongs to the one before is late from here on. */
export function leaveTurn(state: TaskState, turnId: string | null): TaskState {
  const left = state.turnId === null ? [] : [state.turnId];
  const past = [...state.pastTurns, ...left].filter((one) => one !== turnId);
  const stream = state.stream;
  const isOther = stream !== null && stream.turnId !== null && stream.turnId !== turnId;
  return { ...(isOther ? setAside(state) : state), pastTurns: past.slice(-MAX_ENDED), endedStreams: [] };
}

/** Make this the open stream, and let a check that is under way know that it may have missed it. */
function show(state: TaskState, stream: LocalStream): TaskState {
  let ended: readonly string[] = state.endedStreams;
  if (ended.includes(stream.streamId)) ended = ended.filter((one) => one !== stream.streamId);
  const previous = state.stream;
  if (previous !== null && previous.streamId !== stream.streamId) ended = [...ended, previous.streamId].slice(-MAX_ENDED);
  return {
    ...state,
    stream,
    endedStreams: ended,
    interrupted: withoutCopy(state.interrupted, stream.streamId),
    serverConfirmedNoStream: false,
    check: state.check === null ? null : { ...state.check, sawStream: true },
  };
}

function markEnded(state: TaskState, streamId: string): TaskState {
  const others = state.endedStreams.filter((one) => one !== streamId);
  return { ...state, endedStreams: [...others, streamId].slice(-MAX_ENDED) };
}

function withoutCopy(copies: readonly ShownMessage[], streamId: string): readonly ShownMessage[] {
  return copies.some((copy) => copy.stream_id === streamId) ? copies.filter((copy) => copy.stream_id !== streamId) : copies;
}

function hasMessage(state: TaskState, streamId: string): boolean {
  return state.messages.some((message) => message.stream_id === streamId);
}

function isPast(state: TaskState, turnId: string | null): boolean {
  return turnId !== null && state.pastTurns.includes(turnId);
}

/** Whether the turn has ended, or another one came after it. */
function isOver(state: TaskState, turnId: string | null): boolean {
  const isOwn = turnId === null || turnId === state.turnId;
  return isPast(state, turnId) || (isOwn && classify(state.status) === "terminal");
}
