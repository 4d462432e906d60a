// Changes one thing at a time in the machine, and asks whether the vectors notice: `node tools/mutants.mjs [EVERY]`
// takes every EVERYth mutant of all (1: all of them). Prints those that lived. Works in a copy.
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const WEB = resolve(import.meta.dirname, "..");
const FILES = ["acts", "board", "client-machine", "frames", "growing-text", "manager", "probe", "reconcile", "state", "task-machine", "task-status", "transcript"];
const SWAPS = [[/===/g, "!=="], [/!==/g, "==="], [/ && /g, " || "], [/ \|\| /g, " && "], [/ <= /g, " < "], [/ >= /g, " > "], [/ < /g, " <= "], [/ > /g, " >= "], [/\btrue\b/g, "false"], [/\bfalse\b/g, "true"], [/ \+ 1\b/g, " + 2"], [/ - 1\b/g, " - 2"], [/(?<=[( ])!(?=[a-z])/g, ""]];
const every = Number(process.argv[2] ?? 1);

const root = mkdtempSync(join(tmpdir(), "ilm-"));
const web = join(root, "web");
mkdirSync(web);
for (const name of ["client", "tests", "app", "tools", "vitest.config.ts", "tsconfig.json", "package.json"]) cpSync(join(WEB, name), join(web, name), { recursive: true });
symlinkSync(join(WEB, "node_modules"), join(web, "node_modules"));
symlinkSync(join(WEB, "../vectors"), join(root, "vectors"));

const mutants = FILES.flatMap((file) => {
  const text = readFileSync(join(WEB, "client", `${file}.ts`), "utf8");
  const code = (at) => !/^\s*(\/\/|\*|\/\*)/.test(text.slice(text.lastIndexOf("\n", at) + 1)) && !/^(import|export type|  readonly)/.test(text.slice(text.lastIndexOf("\n", at) + 1));
  return SWAPS.flatMap(([from, to]) => [...text.matchAll(from)].filter((match) => code(match.index)).map((match) => ({ file, text, at: match.index, from: match[0], to })));
}).filter((_, number) => number % every === 0);

const lived = [];
try {
  for (const { file, text, at, from, to } of mutants) {
    const path = join(web, "client", `${file}.ts`);
    writeFileSync(path, text.slice(0, at) + to + text.slice(at + from.length));
    const run = spawnSync("npx", ["vitest", "run", "--project", "unit", "tests/vectors.test.ts", "--bail", "1"], { cwd: web, timeout: 60_000 });
    writeFileSync(path, text);
    if (run.status !== 0) continue;
    const line = text.slice(0, at).split("\n").length;
    const told = `${file}.ts:${line}: ${JSON.stringify(from)} -> ${JSON.stringify(to)}: ${text.split("\n")[line - 1].trim()}`;
    lived.push(told);
    console.log(told);
  }
} finally {
  rmSync(root, { recursive: true, force: true });
}
console.log(`${mutants.length - lived.length} of ${mutants.length} killed (${((100 * (mutants.length - lived.length)) / mutants.length).toFixed(1)} %)`);
