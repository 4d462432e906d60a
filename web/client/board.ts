/** The board as a client follows it: one line for each task, joined when it is wanted, and again after each loss.
 *
 * Laws:
 * 1. While we are on the board its next tick is taken, an earlier one is a double, and a later one shows that a line was
 *    lost: then the board is asked for again, as a whole.
 * 2. What is told is what changed: a line that is the same after a loss is no news.
 * 3. Of two lines of one task the one with the higher version holds, whichever came first.
 * 4. One question is open at a time. One that failed is asked again after a delay. A new connection has no failures, no
 *    question and no place on the board.
 */

import { isEqualJson } from "./equal.ts";
import type { BoardBehind, BoardJoined, BoardTask, TaskSummary } from "./wire.ts";

export type BoardInput =
  | { readonly type: "board_wanted" }
  | { readonly type: "connected" }
  | { readonly type: "disconnected"; readonly reason: string }
  | { readonly type: "board_refused" }
  | { readonly type: "board_retry_due" }
  | BoardJoined
  | BoardTask
  | BoardBehind;

export type BoardOutput =
  | { readonly type: "ensure_connected" }
  | { readonly type: "join_board" }
  | { readonly type: "retry_board"; readonly failures: number }
  | { readonly type: "lines_changed"; readonly lines: readonly TaskSummary[] };

/** `tick` is null while we are not on the board: lines are then as they were last seen. */
export class Board {
  tick: number | null = null;
  lines: ReadonlyMap<string, TaskSummary> = new Map();
  failures = 0;
  isWanted = false;
  isConnected = false;
  isAsked = false;
  isDelayed = false;

  step(input: BoardInput): BoardOutput[] {
    switch (input.type) {
      case "board_wanted":
        this.isWanted = true;
        return [{ type: "ensure_connected" }, ...this.#ask()];
      case "connected":
        this.#losePlace(true);
        return this.#ask();
      case "disconnected":
        this.#losePlace(false);
        return [];
      case "board:joined":
        return this.isAsked ? this.#join(input) : [];
      case "board_refused":
        return this.isAsked ? this.#fail() : [];
      case "board:task":
      case "board:behind":
        return this.#hear(input);
      case "board_retry_due":
        this.isDelayed = false;
        return this.#ask();
    }
  }

  #ask(): BoardOutput[] {
    const isUnderWay = this.tick !== null || this.isAsked || this.isDelayed;
    if (isUnderWay || !this.isWanted || !this.isConnected) return [];
    this.isAsked = true;
    return [{ type: "join_board" }];
  }

  #losePlace(isConnected: boolean): void {
    this.isConnected = isConnected;
    this.tick = null;
    this.failures = 0;
    this.isAsked = false;
    this.isDelayed = false;
  }

  /** Stand where the server stands. */
  #join(joined: BoardJoined): BoardOutput[] {
    this.tick = joined.tick;
    this.failures = 0;
    this.isAsked = false;
    const named = new Set(joined.tasks.map((line) => line.task_id));
    this.lines = new Map([...this.lines].filter(([taskId]) => named.has(taskId)));
    return this.#take(joined.tasks);
  }

  #fail(): BoardOutput[] {
    this.failures += 1;
    this.isAsked = false;
    this.isDelayed = true;
    return [{ type: "retry_board", failures: this.failures }];
  }

  #hear(frame: BoardTask | BoardBehind): BoardOutput[] {
    if (this.tick === null || (frame.type === "board:task" && frame.tick <= this.tick)) return [];
    if (frame.type === "board:task" && frame.tick === this.tick + 1) {
      this.tick = frame.tick;
      return this.#take([frame.task]);
    }
    this.tick = null;
    return this.#ask();
  }

  #take(lines: readonly TaskSummary[]): BoardOutput[] {
    const known = new Map(this.lines);
    const changed: TaskSummary[] = [];
    for (const line of lines) {
      const copy = known.get(line.task_id);
      if (copy !== undefined && (line.version < copy.version || isEqualJson(line, copy))) continue;
      known.set(line.task_id, line);
      changed.push(line);
    }
    if (changed.length === 0) return [];
    this.lines = known;
    return [{ type: "lines_changed", lines: changed }];
  }
}
