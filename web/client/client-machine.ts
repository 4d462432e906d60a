/** Everything that a client decides about its tasks and its board, without a socket: what happened goes in, what to send
 * or to ask comes out. The shell carries it out.
 *
 * Laws:
 * 1. Each question goes out with the deadline that a task's machine gave it, and its answer comes back with its
 *    generation.
 * 2. A refusal of 401, 403 or 404 is final; every other failure is asked again by the machine that asked.
 * 3. A line of the board is a word on the status of a task that is open, and then news for whoever follows the board.
 */

import { Board, type BoardInput, type BoardOutput } from "./board.ts";
import type { CheckReason, Join, TaskFrame, TaskInput } from "./inputs.ts";
import { type ManagerOutput, type OnStep, TaskStateManager } from "./manager.ts";
import type { BoardBehind, BoardJoin, BoardJoined, BoardTask, RuntimeCheck, TaskBehind, TaskJoin, TaskJoined, TaskLeave, TaskResume, TaskSummary } from "./wire.ts";

const FINAL_STATUSES: ReadonlySet<number | null> = new Set([401, 403, 404]);

export type PushedFrame = TaskFrame | TaskBehind | BoardTask | BoardBehind;
export type Question = Omit<TaskJoin, "id"> | Omit<TaskResume, "id"> | Omit<TaskLeave, "id"> | Omit<BoardJoin, "id">;

interface Asked {
  readonly task_id: string | null;
  readonly generation: number | null;
}

export type ClientInput =
  | { readonly type: "task_followed"; readonly task_id: string }
  | { readonly type: "task_left"; readonly task_id: string }
  | { readonly type: "task_told"; readonly task_id: string; readonly input: TaskInput }
  | { readonly type: "looked_again"; readonly reason: CheckReason }
  | { readonly type: "connected" }
  | { readonly type: "disconnected"; readonly reason: string }
  | { readonly type: "frame_pushed"; readonly frame: PushedFrame }
  | ({ readonly type: "request_answered"; readonly answer: TaskJoined | BoardJoined } & Asked)
  | ({ readonly type: "request_failed"; readonly problem: string; readonly status: number | null } & Asked)
  | { readonly type: "check_succeeded"; readonly task_id: string; readonly generation: number; readonly check: RuntimeCheck }
  | {
      readonly type: "check_refused";
      readonly task_id: string;
      readonly generation: number;
      readonly problem: string;
      readonly status: number | null;
    }
  | { readonly type: "board_wanted" }
  | { readonly type: "board_retry_due" }
  | { readonly type: "time_passed" };

/** GET the runtime check of a task, and give it up at the deadline. */
export interface CheckTask {
  readonly type: "check_task";
  readonly task_id: string;
  readonly generation: number;
  readonly deadline_at: number;
}

/** Send a request by the socket, with an id of your own, and give it up at the deadline (null: your usual one). */
export interface SendRequest extends Asked {
  readonly type: "send_request";
  readonly request: Question;
  readonly deadline_at: number | null;
}

export type ClientOutput =
  | CheckTask
  | SendRequest
  | Exclude<BoardOutput, { type: "join_board" }>
  | { readonly type: "revive_connection" };

export class ClientMachine {
  readonly manager: TaskStateManager;
  readonly board = new Board();

  constructor(onStep?: OnStep) {
    this.manager = new TaskStateManager(onStep);
  }

  /** When `time_passed` is due; null: never. */
  get deadline(): number | null {
    return this.manager.deadline;
  }

  /** Take one input; what to do about it is returned, in order. */
  step(input: ClientInput, now: number): ClientOutput[] {
    const { manager } = this;
    switch (input.type) {
      case "task_followed":
        return manager.open(input.task_id, now).map(request);
      case "task_left":
        return manager.close(input.task_id, now).map(request);
      case "task_told":
        return manager.step(input.task_id, input.input, now).map(request);
      case "looked_again":
        return [{ type: "revive_connection" }, ...manager.lookAgain(input.reason, now).map(request)];
      case "connected":
        return [...manager.connected(now).map(request), ...this.#follow(input, now)];
      case "disconnected":
        this.board.step(input);
        return manager.disconnected(now, input.reason).map(request);
      case "frame_pushed":
        return this.#hear(input.frame, now);
      case "check_succeeded":
      case "check_refused":
        return this.#takeCheck(input, now);
      case "request_answered":
      case "request_failed":
        return this.#takeAnswer(input, now);
      case "board_wanted":
      case "board_retry_due":
        return this.#follow(input, now);
      case "time_passed":
        return manager.fire(now).map(request);
    }
  }

  #hear(frame: PushedFrame, now: number): ClientOutput[] {
    if (frame.type === "board:task" || frame.type === "board:behind") return this.#follow(frame, now);
    return this.manager.route(frame, now).map(request);
  }

  #takeCheck(input: Extract<ClientInput, { type: "check_succeeded" | "check_refused" }>, now: number): ClientOutput[] {
    const { task_id, generation } = input;
    const told: TaskInput =
      input.type === "check_succeeded"
        ? { type: "check_answered", generation, check: input.check }
        : { type: "check_failed", generation, problem: input.problem, is_gone: FINAL_STATUSES.has(input.status) };
    return this.manager.step(task_id, told, now).map(request);
  }

  #takeAnswer(input: Extract<ClientInput, { type: "request_answered" | "request_failed" }>, now: number): ClientOutput[] {
    const { task_id, generation } = input;
    if (input.type === "request_failed") {
      if (task_id === null) return this.#follow({ type: "board_refused" }, now);
      if (generation === null) return [];
      const failed = { type: "join_failed", generation, problem: input.problem, is_final: FINAL_STATUSES.has(input.status) } as const;
      return this.manager.step(task_id, failed, now).map(request);
    }
    const { answer } = input;
    if (answer.type === "board:joined") return task_id === null ? this.#follow(answer, now) : [];
    if (task_id === null || generation === null) return [];
    return this.manager.step(task_id, { type: "join_acked", generation, snapshot: answer.snapshot }, now).map(request);
  }

  /** Carry out what the board asks for; its lines are news for the tasks that are open, too. */
  #follow(input: BoardInput, now: number): ClientOutput[] {
    return this.board.step(input).flatMap((output): ClientOutput[] => {
      if (output.type === "join_board") {
        return [{ type: "send_request", request: { type: "board:join" }, task_id: null, generation: null, deadline_at: null }];
      }
      if (output.type !== "lines_changed") return [output];
      return [...output.lines.flatMap((line) => this.#hearLine(line, now)), output];
    });
  }

  #hearLine(line: TaskSummary, now: number): ClientOutput[] {
    if (!this.manager.states.has(line.task_id)) return [];
    const { task_id, task_status, version, turn_id, status_updated_at } = line;
    const heard = { type: "status_heard", task_status, version, turn_id, status_updated_at } as const;
    return this.manager.step(task_id, heard, now).map(request);
  }
}

function request(output: ManagerOutput): ClientOutput {
  const { task_id } = output;
  switch (output.type) {
    case "pull_runtime":
      return { type: "check_task", task_id, generation: output.generation, deadline_at: output.deadline_at };
    case "join":
      return { type: "send_request", request: entry(task_id, output), task_id, generation: output.generation, deadline_at: output.deadline_at };
    case "leave":
      return { type: "send_request", request: { type: "task:leave", task_id }, task_id, generation: null, deadline_at: null };
    case "ensure_connected":
      return { type: "ensure_connected" };
  }
}

function entry(task_id: string, asked: Join): Question {
  if (!asked.is_resume) return { type: "task:join", task_id, after_version: asked.after_version };
  const { after_version, stream_id, cursor } = asked;
  return { type: "task:resume", task_id, version: after_version ?? 0, stream_id, cursor };
}
