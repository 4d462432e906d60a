/** Every open task of a client, each with its own machine, and one way in for what concerns them.
 *
 * Laws:
 * 1. A task has one machine while it is open. What comes for a task that is not open is dropped, and counted.
 * 2. Generations go on across tasks and their reopening, so that no answer to a closed task fits an open one.
 * 3. What happens to the socket or to the page happens to every task, in the order in which they were opened.
 */

import type { CheckReason, TaskFrame, TaskInput, TaskOutput } from "./inputs.ts";
import { deadlineOf, newState, type TaskState } from "./state.ts";
import { step } from "./task-machine.ts";
import type { TaskBehind } from "./wire.ts";

export type ManagerOutput = TaskOutput & { readonly task_id: string };
export type OnStep = (taskId: string, before: TaskState, after: TaskState) => void;

export class TaskStateManager {
  readonly states = new Map<string, TaskState>();
  isConnected = false;
  dropped = 0;
  #generation = 0;
  readonly #onStep: OnStep;

  constructor(onStep: OnStep = () => {}) {
    this.#onStep = onStep;
  }

  /** Look at a task. To open it again is to look again. */
  open(taskId: string, now: number): ManagerOutput[] {
    if (!this.states.has(taskId)) this.states.set(taskId, newState(taskId, this.isConnected, this.#generation));
    return this.step(taskId, { type: "opened" }, now);
  }

  /** Look away. What is under way for it is void. */
  close(taskId: string, now: number): ManagerOutput[] {
    if (!this.states.has(taskId)) return [];
    const outputs = this.step(taskId, { type: "closed" }, now);
    this.#generation = Math.max(this.#generation, this.states.get(taskId)?.generation ?? 0);
    this.states.delete(taskId);
    return outputs;
  }

  /** Give an input to the machine of a task. */
  step(taskId: string, input: TaskInput, now: number): ManagerOutput[] {
    const before = this.states.get(taskId);
    if (before === undefined) {
      this.dropped += 1;
      return [];
    }
    const [after, outputs] = step(before, input, now);
    if (after !== before) {
      this.states.set(taskId, after);
      this.#onStep(taskId, before, after);
    }
    return outputs.map((output) => ({ task_id: taskId, ...output }));
  }

  /** Hand a frame to the task that it is of. */
  route(frame: TaskFrame | TaskBehind, now: number): ManagerOutput[] {
    const { task_id } = frame;
    if (frame.type === "task:behind") {
      return this.step(task_id, { type: "fell_behind", version: frame.version, tick: frame.tick }, now);
    }
    return this.step(task_id, { type: "frame_arrived", frame }, now);
  }

  connected(now: number): ManagerOutput[] {
    this.isConnected = true;
    return this.#tellAll({ type: "connected" }, now);
  }

  disconnected(now: number, reason: string): ManagerOutput[] {
    this.isConnected = false;
    return this.#tellAll({ type: "disconnected", reason }, now);
  }

  /** Ask where every task stands. */
  lookAgain(reason: CheckReason, now: number): ManagerOutput[] {
    return this.#tellAll({ type: "check_requested", reason }, now);
  }

  /** When to call `fire`; null: never. */
  get deadline(): number | null {
    let earliest: number | null = null;
    for (const state of this.states.values()) {
      const due = deadlineOf(state);
      if (due !== null && (earliest === null || due < earliest)) earliest = due;
    }
    return earliest;
  }

  /** Apply what is due by now. */
  fire(now: number): ManagerOutput[] {
    const due = [...this.states.values()].filter((state) => (deadlineOf(state) ?? Infinity) <= now);
    return due.flatMap((state) => this.step(state.taskId, { type: "timer_fired" }, now));
  }

  #tellAll(input: TaskInput, now: number): ManagerOutput[] {
    return [...this.states.keys()].flatMap((taskId) => this.step(taskId, input, now));
  }
}
