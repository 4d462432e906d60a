/** Every vector of /vectors, unchanged: outputs and whole states of each step. The vectors are the contract. */

import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { Board } from "../client/board.ts";
import { ClientMachine } from "../client/client-machine.ts";
import type { TaskFrame } from "../client/inputs.ts";
import { TaskStateManager } from "../client/manager.ts";
import { newState } from "../client/state.ts";
import { step } from "../client/task-machine.ts";
import { runtimePhase, classify, taskFlags } from "../client/task-status.ts";
import { boardView, brief, taskView } from "./views.ts";

const ROOT = fileURLToPath(new URL("../../vectors/", import.meta.url));

interface Step {
  readonly at: number;
  readonly input: any;
  readonly expect: { readonly outputs: readonly unknown[]; readonly state: unknown };
}
interface Subject {
  step(input: any, at: number): readonly unknown[];
  view(): unknown;
}

function vectorsIn(folder: string): { name: string; about: string; initial?: any; steps: Step[] }[] {
  const names = readdirSync(`${ROOT}${folder}`).filter((name) => name.endsWith(".json"));
  return names.map((name) => JSON.parse(readFileSync(`${ROOT}${folder}/${name}`, "utf8")));
}

class TaskSubject implements Subject {
  #state;
  constructor(initial: { task_id: string; is_connected: boolean }) {
    this.#state = newState(initial.task_id, initial.is_connected);
  }
  step(input: any, at: number): readonly unknown[] {
    const [state, outputs] = step(this.#state, input, at);
    this.#state = state;
    return outputs;
  }
  view(): unknown {
    return taskView(this.#state);
  }
}

class BoardSubject implements Subject {
  readonly #board = new Board();
  step(input: any): readonly unknown[] {
    return this.#board.step(input).map(encoded);
  }
  view(): unknown {
    return boardView(this.#board);
  }
}

class ManagerSubject implements Subject {
  readonly #manager = new TaskStateManager();
  step(input: any, at: number): readonly unknown[] {
    const manager = this.#manager;
    switch (input.type) {
      case "task_followed":
        return manager.open(input.task_id, at);
      case "task_left":
        return manager.close(input.task_id, at);
      case "task_told":
        return manager.step(input.task_id, input.input, at);
      case "frame_pushed":
        return manager.route(input.frame as TaskFrame, at);
      case "looked_again":
        return manager.lookAgain(input.reason, at);
      case "connected":
        return manager.connected(at);
      case "disconnected":
        return manager.disconnected(at, input.reason);
      case "time_passed":
        return manager.fire(at);
      default:
        throw new Error(`no such input: ${input.type}`);
    }
  }
  view(): unknown {
    return managerView(this.#manager);
  }
}

class ShellSubject implements Subject {
  readonly #machine = new ClientMachine();
  step(input: any, at: number): readonly unknown[] {
    return this.#machine.step(input, at).map(encoded);
  }
  view(): unknown {
    return { ...managerView(this.#machine.manager), board: boardView(this.#machine.board) };
  }
}

function managerView(manager: TaskStateManager): Record<string, unknown> {
  const tasks = Object.fromEntries([...manager.states].map(([taskId, state]) => [taskId, taskView(state)]));
  return { is_connected: manager.isConnected, dropped: manager.dropped, deadline: manager.deadline, tasks };
}

function encoded(output: any): unknown {
  return output.type === "lines_changed" ? { ...output, lines: output.lines.map(brief) } : output;
}

function play(subject: Subject, steps: readonly Step[]): void {
  steps.forEach(({ at, input, expect: expected }, number) => {
    expect(subject.step(input, at), `outputs of step ${number}`).toEqual(expected.outputs);
    expect(subject.view(), `state after step ${number}`).toEqual(expected.state);
  });
}

const FOLDERS: readonly [string, number, (initial: any) => Subject][] = [
  [".", 80, (initial) => new TaskSubject(initial)],
  ["board", 10, () => new BoardSubject()],
  ["manager", 6, () => new ManagerSubject()],
  ["shell", 8, () => new ShellSubject()],
];

for (const [folder, least, make] of FOLDERS) {
  const vectors = vectorsIn(folder);
  describe(`vectors/${folder}`, () => {
    test("are all there", () => expect(vectors.length).toBeGreaterThanOrEqual(least));
    for (const { name, about, initial, steps } of vectors) test(`${name}: ${about}`, () => play(make(initial), steps));
  });
}

describe("vectors/tables", () => {
  const table = (name: string) => JSON.parse(readFileSync(`${ROOT}tables/${name}.json`, "utf8")).rows;
  test("statuses", () => {
    for (const row of table("statuses")) {
      expect([classify(row.status), runtimePhase(row.status, false), runtimePhase(row.status, true)], row.status).toEqual([
        row.class,
        ...phasesOf(row),
      ]);
    }
  });
  test("flags", () => {
    for (const { flags, ...facts } of table("flags")) expect(taskFlags(facts), JSON.stringify(facts)).toEqual(flags);
  });
});

function phasesOf(row: any): string[] {
  return [row.phase, row.phase_with_stream];
}
