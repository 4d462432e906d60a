/** The shell of the client's machine: does what it asks for, and feeds back what came of it.
 *
 * Laws:
 * 1. One input at a time: what an output leads to at once waits until the input before it is through.
 * 2. The shell decides nothing: see `ClientMachine`. It keeps the time, the ids of requests and the chance in a delay.
 * 3. One timer, for the earliest deadline. It may ring too early, never too late.
 */

import { Api } from "./api.ts";
import { type CheckTask, type ClientInput, ClientMachine, type ClientOutput, type PushedFrame, type SendRequest } from "./client-machine.ts";
import { Connection, type Outgoing } from "./connection.ts";
import { clientError, Refusal } from "./errors.ts";
import { Http } from "./http.ts";
import type { CheckReason, TaskInput } from "./inputs.ts";
import type { OnStep } from "./manager.ts";
import { ANSWER_SECONDS, delayBefore, SteadyClock } from "./timeouts.ts";
import type { TaskSummary } from "./wire.ts";

export interface ShellOptions {
  /** The origin of the server. */
  readonly base: string;
  readonly token?: string;
  readonly onStep?: OnStep;
  readonly onLines?: (lines: readonly TaskSummary[]) => void;
  readonly onEdge?: () => void;
  /** Something was decided: also where no task and no line changed, such as that an empty board is joined. */
  readonly onDecided?: () => void;
  /** Each frame that is pushed, before the machine has it. */
  readonly onFrame?: (frame: PushedFrame) => void;
}

export class ClientShell {
  readonly api: Api;
  readonly connection: Connection;
  readonly machine: ClientMachine;
  readonly #options: ShellOptions;
  readonly #clock = new SteadyClock();
  readonly #inbox: ClientInput[] = [];
  #isDeciding = false;
  #isClosed = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #timerAt = Infinity;
  #boardTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(options: ShellOptions) {
    this.#options = options;
    const { base, token } = options;
    this.api = new Api(new Http(base, token));
    this.machine = new ClientMachine(options.onStep);
    this.connection = new Connection({
      url: `${base.replace(/^http/, "ws").replace(/\/$/, "")}/api/socket`,
      ...(token === undefined ? {} : { token }),
      onPush: (frame) => {
        options.onFrame?.(frame);
        this.#take({ type: "frame_pushed", frame });
      },
      onEdge: (isConnected, reason) => {
        this.#take(isConnected ? { type: "connected" } : { type: "disconnected", reason });
        options.onEdge?.();
      },
      askWhy: () => this.api.server(),
    });
  }

  /** Follow a task. To follow it again is to look again. */
  open(taskId: string): void {
    this.#take({ type: "task_followed", task_id: taskId });
  }

  /** Follow it no longer. */
  closeTask(taskId: string): void {
    this.#take({ type: "task_left", task_id: taskId });
  }

  /** Tell the machine of a task something, such as what a person did. */
  feed(taskId: string, input: TaskInput): void {
    this.#take({ type: "task_told", task_id: taskId, input });
  }

  /** Whatever was in the way may be gone: connect, and check every task. */
  lookAgain(reason: CheckReason): void {
    this.#take({ type: "looked_again", reason });
  }

  /** From now on, follow the lines of the board. */
  wantBoard(): void {
    this.#take({ type: "board_wanted" });
  }

  close(): void {
    for (const taskId of [...this.machine.manager.states.keys()]) this.closeTask(taskId);
    this.#isClosed = true;
    clearTimeout(this.#timer);
    clearTimeout(this.#boardTimer);
    this.connection.close();
  }

  #take(input: ClientInput): void {
    if (this.#isClosed) return;
    this.#inbox.push(input);
    if (this.#isDeciding) return;
    this.#isDeciding = true;
    try {
      for (let next = this.#inbox.shift(); next !== undefined; next = this.#inbox.shift()) {
        for (const output of this.machine.step(next, this.#clock.now())) this.#carryOut(output);
      }
    } finally {
      this.#isDeciding = false;
    }
    this.#arm();
    this.#options.onDecided?.();
  }

  #carryOut(output: ClientOutput): void {
    switch (output.type) {
      case "check_task":
        void this.#check(output);
        break;
      case "send_request":
        this.#send(output);
        break;
      case "ensure_connected":
        this.connection.ensure();
        break;
      case "revive_connection":
        this.connection.revive();
        break;
      case "retry_board":
        clearTimeout(this.#boardTimer);
        this.#boardTimer = setTimeout(() => this.#take({ type: "board_retry_due" }), delayBefore(output.failures, Math.random) * 1000);
        break;
      case "lines_changed":
        this.#options.onLines?.(output.lines);
        break;
    }
  }

  /** Have the timer ring by the earliest deadline. A deadline that went away is noticed when it does. */
  #arm(): void {
    const dueAt = this.machine.deadline;
    if (dueAt === null || this.#timerAt <= dueAt) return;
    clearTimeout(this.#timer);
    this.#timerAt = dueAt;
    this.#timer = setTimeout(() => {
      this.#timerAt = Infinity;
      this.#take({ type: "time_passed" });
    }, Math.max(0, dueAt - this.#clock.now()) * 1000 + 1);
  }

  async #check({ task_id, generation, deadline_at }: CheckTask): Promise<void> {
    try {
      const check = await this.api.runtimeCheck(task_id, Math.max(0.001, deadline_at - this.#clock.now()));
      this.#take({ type: "check_succeeded", task_id, generation, check });
    } catch (thrown) {
      const error = clientError(thrown);
      this.#take({ type: "check_refused", task_id, generation, problem: error.message, status: statusOf(error) });
    }
  }

  #send({ request, task_id, generation, deadline_at }: SendRequest): void {
    const seconds = deadline_at === null ? ANSWER_SECONDS : Math.max(0.001, deadline_at - this.#clock.now());
    this.connection.post(request as Outgoing, (outcome) => {
      if (request.type === "task:leave") return;
      if (outcome instanceof Error) {
        this.#take({ type: "request_failed", task_id, generation, problem: outcome.message, status: statusOf(outcome) });
      } else if (outcome.type !== "ack") {
        this.#take({ type: "request_answered", task_id, generation, answer: outcome });
      }
    }, seconds);
  }
}

function statusOf(error: Error): number | null {
  return error instanceof Refusal ? error.status : null;
}
