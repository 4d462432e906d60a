/** States as the vectors spell them. */

import type { Board } from "../client/board.ts";
import { awaitsSend, deadlineOf, flagsOf, isUnstable, phaseOf, type TaskState } from "../client/state.ts";
import type { TaskSummary } from "../client/wire.ts";

export function taskView(state: TaskState): Record<string, unknown> {
  return {
    sync: state.sync,
    phase: phaseOf(state),
    connection: state.isReachable ? "connected" : "disconnected",
    is_connected: state.isConnected,
    status: state.status,
    version: state.version,
    turn_id: state.turnId,
    is_verified: state.isVerified,
    server_confirmed_no_stream: state.serverConfirmedNoStream,
    synced_version: state.syncedVersion,
    tick: state.tick,
    stream: state.stream === null ? null : [state.stream.streamId, state.stream.words.text],
    messages: state.messages.map((one) => [one.message_id, one.status, one.text]),
    interrupted: state.interrupted.map((one) => [one.stream_id, one.text]),
    approvals: state.approvals.filter((one) => one.state === "open").map((one) => one.approval_id),
    queue: state.queue.waiting.map((one) => one.prompt_id),
    receipts: state.receipts.map((one) => [one.promptId, one.stage]),
    is_stopping: state.isStopping,
    awaiting_send: awaitsSend(state),
    queued_here: state.queuedHere,
    is_checking: state.check !== null,
    is_joining: state.joining !== null,
    follow_up: state.followUp,
    early: state.early.map((frame) => frame.tick),
    is_unstable: isUnstable(state),
    deadline: deadlineOf(state),
    last_reason: state.lastReason,
    problem: state.problem,
    anomalies: state.anomalies,
    ...flagsOf(state),
  };
}

export function boardView(board: Board): Record<string, unknown> {
  return {
    is_wanted: board.isWanted,
    is_connected: board.isConnected,
    is_asked: board.isAsked,
    is_delayed: board.isDelayed,
    failures: board.failures,
    tick: board.tick,
    lines: [...board.lines.keys()].sort().map((taskId) => brief(board.lines.get(taskId) as TaskSummary)),
  };
}

export function brief(line: TaskSummary): unknown[] {
  return [line.task_id, line.version, line.task_status, line.title];
}
