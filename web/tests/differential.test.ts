/** Random runs of the Python machine, played to this one: the same outputs, the same states. Another seed finds others:
 * `INTERLOCK_SEED=7 INTERLOCK_RUNS=10000 npx vitest run tests/differential.test.ts`. */

import { spawnSync } from "node:child_process";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { newState } from "../client/state.ts";
import { step } from "../client/task-machine.ts";
import { taskView } from "./views.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const [count, seed] = [process.env["INTERLOCK_RUNS"] ?? "300", process.env["INTERLOCK_SEED"] ?? "1"];

test(`${count} random runs, seed ${seed}: Python and TypeScript agree on every step`, { timeout: 600_000 }, () => {
  const made = spawnSync(join(ROOT, ".venv/bin/python"), ["-m", "tools.random_vectors", "--count", count, "--seed", seed], {
    cwd: ROOT,
    maxBuffer: 2 ** 31,
    encoding: "utf8",
  });
  if (made.status !== 0) throw new Error(`no runs (\`make setup\`?): ${made.error?.message ?? made.stderr}`);
  const runs = made.stdout.trim().split("\n").map((line) => JSON.parse(line));
  expect(runs.length).toBeGreaterThanOrEqual(Number(count) * 0.9);
  runs.forEach((run, number) => {
    let state = newState(run.initial.task_id, run.initial.is_connected);
    run.steps.forEach(({ at, input, expect: expected }: any, place: number) => {
      const where = `run ${number}, step ${place}: ${JSON.stringify(input).slice(0, 300)}`;
      const [next, outputs] = step(state, input, at);
      state = next;
      expect(outputs, where).toEqual(expected.outputs);
      expect(taskView(state), where).toEqual(expected.state);
    });
  });
});
