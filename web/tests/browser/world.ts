/** A real server with scripted agents in a home of its own, and a real Chromium that looks at it. */

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { closeSync, existsSync, mkdirSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { digestOfSnapshot } from "../../client/state.ts";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";

export const CHROMIUM = process.env["CHROMIUM"] ?? "/usr/bin/chromium";
const ROOT = resolve(import.meta.dirname, "../../..");
export const PYTHON = join(ROOT, ".venv/bin/python");
const FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const LIFETIME_SECONDS = "600";
const WAIT_MILLISECONDS = 60_000;

export type Role = "operator" | "observer";

/** Wait until something holds, with a bound that only a hang can reach. */
export async function until<T>(what: string, look: () => Promise<T | null | undefined | false> | T | null | undefined | false): Promise<T> {
  const end = Date.now() + WAIT_MILLISECONDS;
  for (;;) {
    const found = await look();
    if (found !== null && found !== undefined && found !== false) return found;
    if (Date.now() > end) throw new Error(`not within ${WAIT_MILLISECONDS / 1000} s: ${what}`);
    await new Promise((done) => setTimeout(done, 30));
  }
}

export class World {
  readonly folder = mkdtempSync(join(tmpdir(), "ilw-"));
  readonly home = join(this.folder, "h");
  readonly ledger = join(this.folder, "ledger");
  port = 0;
  #server: ChildProcess | null = null;
  readonly #terminals: string[] = [];

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Have the server running; at the same port as before. */
  async start(): Promise<void> {
    if (this.port === 0) this.port = await freePort();
    const args = ["-m", "interlock.cli", "up", "--foreground", "--home", this.home, "--port", String(this.port)];
    const errors = openSync(join(this.folder, "stderr"), "a");
    const config = join(this.folder, "config.toml");
    writeFileSync(config, `[agents.scripted]\ndriver = "claude-stream"\nargv = ["sh", "${this.#program("configured", "--stream-json")}"]\n`);
    const env = { ...process.env, INTERLOCK_HOME: this.home, INTERLOCK_CONFIG: config };
    const server = spawn(PYTHON, args, { cwd: ROOT, stdio: ["ignore", "pipe", errors], env });
    closeSync(errors);
    this.#server = server;
    let ended = false;
    server.once("exit", () => (ended = true));
    await until("the server is ready", async () => {
      if (ended) throw new Error(`the server ended: ${readFileSync(join(this.folder, "stderr"), "utf8").slice(-2_000)}`);
      const answer = await fetch(`${this.url}/health`).catch(() => null);
      return answer !== null && ((await answer.json()) as { ready: boolean }).ready;
    });
  }

  /** End the server as a crash would. */
  async kill(): Promise<void> {
    await this.#end("SIGKILL");
  }

  async close(): Promise<void> {
    for (const taskId of this.#terminals) await this.api("POST", `/api/tasks/${taskId}/stop`).catch(() => undefined);
    await this.#end("SIGTERM");
    this.#endAgents();
    if (this.#terminals.length > 0) {
      const end = "import subprocess, sys, pathlib; from interlock.agents.tmux.server import TmuxServer; subprocess.run(TmuxServer.of_home(pathlib.Path(sys.argv[1])).argv('kill-server'), check=False)";
      spawnSync(PYTHON, ["-c", end, this.home], { cwd: ROOT });
    }
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  }

  /** Agents that wait at a gate do not notice that the server which was killed is gone. */
  #endAgents(): void {
    for (const name of readdirSync(this.folder).filter((one) => one.endsWith(".reached"))) {
      for (const pid of readFileSync(join(this.folder, name), "utf8").trim().split("\n").map(Number)) {
        try {
          if (readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(this.folder)) process.kill(pid, "SIGKILL");
        } catch {
          // It has ended.
        }
      }
    }
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const server = this.#server;
    this.#server = null;
    if (server === null || server.exitCode !== null) return;
    const gone = new Promise((done) => server.once("exit", done));
    server.kill(signal);
    const hard = setTimeout(() => server.kill("SIGKILL"), 15_000);
    await gone;
    clearTimeout(hard);
  }

  token(role: Role): string {
    return JSON.parse(readFileSync(join(this.home, "tokens.json"), "utf8"))[role];
  }

  async api<T = any>(method: string, path: string, body?: unknown, role: Role = "operator"): Promise<T> {
    const headers = { Authorization: `Bearer ${this.token(role)}`, "Content-Type": "application/json" };
    const answer = await fetch(this.url + path, { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return (text === "" ? null : JSON.parse(text)) as T;
  }

  /** The program of an agent, with whatever arguments its driver adds. */
  #program(name: string, ...more: string[]): string {
    const argv = [PYTHON, "-m", "interlock.testing.scripted_agent", "--gates", this.folder, "--ledger", this.ledger, "--lifetime", LIFETIME_SECONDS, ...more];
    const program = join(this.folder, `${name}.agent`);
    writeFileSync(program, `exec ${argv.map((one) => `'${one}'`).join(" ")} "$@"\n`);
    return program;
  }

  /** A session of a scripted agent, which does what its prompts say, or what its script says at the first one. With
   * `isTerminal` it runs in tmux. */
  async open(title: string, prompt?: string, script?: string, isTerminal = false): Promise<string> {
    const more = [isTerminal ? "--tui" : "--stream-json"];
    if (script !== undefined) {
      writeFileSync(join(this.folder, `${title}.script`), `${script}\n`);
      more.push("--script", join(this.folder, `${title}.script`));
    }
    const program = this.#program(title, ...more);
    const cwd = join(this.folder, "shop");
    mkdirSync(cwd, { recursive: true });
    const asked = { agent: "scripted", driver: isTerminal ? "terminal" : "claude-stream", argv: ["sh", program], cwd, title, ...(prompt === undefined ? {} : { prompt }) };
    const { task_id } = await this.api<{ task_id: string }>("POST", "/api/tasks", asked);
    if (isTerminal) this.#terminals.push(task_id);
    return task_id;
  }

  prompt(taskId: string, text: string): Promise<unknown> {
    return this.api("POST", `/api/tasks/${taskId}/prompts`, { text });
  }

  /** Let every agent pass that waits at this gate, or will come to it. */
  gate(name: string): void {
    writeFileSync(join(this.folder, name), "");
  }

  /** Wait until an agent stands at a gate. */
  reached(name: string, count = 1): Promise<unknown> {
    return until(`${count} at the gate ${name}`, () => {
      const file = join(this.folder, `${name}.reached`);
      return existsSync(file) && readFileSync(file, "utf8").trim().split("\n").length >= count;
    });
  }

  task(taskId: string): Promise<any> {
    return this.api("GET", `/api/tasks/${taskId}`);
  }

  status(taskId: string, wanted: string): Promise<unknown> {
    return until(`${taskId} is ${wanted}`, async () => (await this.task(taskId)).summary.task_status === wanted);
  }

  /** The prompts that agents were given, as they wrote them down themselves. */
  prompts(): string[] {
    if (!existsSync(this.ledger)) return [];
    const lines = readFileSync(this.ledger, "utf8").trim().split("\n").filter(Boolean);
    return lines.map((line) => JSON.parse(line)).filter((one) => one.what === "prompt").map((one) => one.text ?? one.prompt ?? JSON.stringify(one));
  }

  async ticket(role: Role, name = "test"): Promise<string> {
    return (await this.api<{ url: string }>("POST", "/api/login/tickets", { role, name })).url;
  }
}

function freePort(): Promise<number> {
  return new Promise((done, failed) => {
    const probe = createServer();
    probe.once("error", failed);
    probe.listen(0, "127.0.0.1", () => {
      const { port } = probe.address() as { port: number };
      probe.close(() => done(port));
    });
  });
}

/** A browser whose pages write down whatever goes wrong in them. */
export class Eyes {
  readonly browser: Browser;
  readonly faults: string[] = [];
  /** While the server is gone on purpose, or a refusal is meant, the browser's own words about that are no fault. */
  mayFail: RegExp | null = null;

  private constructor(browser: Browser) {
    this.browser = browser;
  }

  static async open(): Promise<Eyes> {
    return new Eyes(await chromium.launch({ executablePath: CHROMIUM, args: FLAGS, headless: true }));
  }

  async context(more: Parameters<Browser["newContext"]>[0] = {}): Promise<BrowserContext> {
    const context = await this.browser.newContext({ viewport: { width: 1280, height: 800 }, locale: "en-GB", ...more });
    await context.addInitScript(() => {
      addEventListener("securitypolicyviolation", (event) => console.error(`CSP: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
    });
    context.on("page", (page) => this.#watch(page));
    return context;
  }

  /** A context that is logged in by a one-time link, and its page on the board. */
  async logIn(world: World, role: Role = "operator", more: Parameters<Browser["newContext"]>[0] = {}): Promise<Page> {
    const page = await (await this.context(more)).newPage();
    await page.goto(await world.ticket(role));
    await page.waitForURL(`${world.url}/`);
    await page.locator(".top .fresh.live").waitFor();
    return page;
  }

  #watch(page: Page): void {
    const note = (what: string) => {
      if (this.mayFail?.test(what)) return;
      this.faults.push(what);
    };
    page.on("console", (message) => ["error", "warning"].includes(message.type()) && note(`${message.type()}: ${message.text()}`));
    page.on("pageerror", (error) => note(`thrown: ${error.message}\n${error.stack ?? ""}`));
  }

  close(): Promise<void> {
    return this.browser.close();
  }
}

export const NETWORK = /Failed to load resource|WebSocket connection|ERR_CONNECTION|net::/;

/** Wait until a page has of a task what the server has of it: messages, status, version, stream, questions, queue. */
export async function converged(world: World, page: Page, taskId: string): Promise<void> {
  let [here, there] = ["", ""];
  await until(`the page has what the server has of ${taskId}`, async () => {
    there = await serverDigest(world, taskId);
    here = (await page.evaluate((id) => globalThis.interlock.digest(id), taskId)) ?? "";
    return here === there;
  }).catch((error: Error) => {
    throw new Error(`${error.message}\npage:   ${here}\nserver: ${there}`);
  });
}

/** The digest of the server's own whole snapshot: the first of its server-sent events. */
export async function serverDigest(world: World, taskId: string): Promise<string> {
  const headers = { Authorization: `Bearer ${world.token("observer")}` };
  const answer = await fetch(`${world.url}/api/tasks/${taskId}/events`, { headers, signal: AbortSignal.timeout(WAIT_MILLISECONDS) });
  const reader = answer.body?.getReader();
  let text = "";
  try {
    for (let piece = await reader?.read(); piece !== undefined && !piece.done; piece = await reader?.read()) {
      text += Buffer.from(piece.value).toString("latin1"); // joined bytes, decoded below: a piece may end inside a character
      const data = /^data: (.*"snapshot".*)$/m.exec(text)?.[1];
      if (data !== undefined && text.includes("\n\n")) return digestOfSnapshot(JSON.parse(Buffer.from(data, "latin1").toString("utf8")).snapshot);
    }
  } finally {
    await reader?.cancel();
  }
  throw new Error(`no snapshot of ${taskId}: ${text.slice(0, 300)}`);
}
