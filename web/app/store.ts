/** All that the page shows, from one client: components read it by selectors, and none combines flags.
 *
 * Laws:
 * 1. Listeners are told once a frame while the page is visible, and not at all while it is hidden; the title at once.
 * 2. An act is shown as the act: `sending` until the server has answered. Nothing is flipped before.
 * 3. A question that is over stays for as long as the page lives, with how it ended.
 * 4. A prompt leaves the outbox when the server has accepted it, and not before.
 */

import type { Decision } from "../client/api.ts";
import type { PushedFrame } from "../client/client-machine.ts";
import { clientError, Refusal, Unreachable } from "../client/errors.ts";
import type { CheckReason } from "../client/inputs.ts";
import type { ServerInfo } from "../client/resources.ts";
import { ClientShell } from "../client/shell.ts";
import { digestOf, type TaskState } from "../client/state.ts";
import type { Approval, Message, TaskSummary } from "../client/wire.ts";
import { newId, type Outgoing, readOutbox, writeOutbox } from "./kept.ts";

export const GRACE_MILLISECONDS = 2_500;
const MAX_PAST_QUESTIONS = 200;
const SLOW_MILLISECONDS = 12;
const MAX_REST_MILLISECONDS = 200;

/** The connection, which is no status of any session. `lost` is told after a grace; `asOf`: when the server was last
 * heard of, null: never. */
export interface ConnectionView {
  readonly kind: "connecting" | "live" | "lost" | "out";
  readonly asOf: number | null;
  readonly reason: string;
  readonly retryAt: number | null;
}

/** A decision of this page. `over`: somebody else was first, or the question is gone. */
export interface DecisionView {
  readonly stage: "sending" | "decided" | "unknown" | "refused" | "over";
  readonly decision: Decision;
  readonly decisionId: string;
  /** How many decisions on it had been lost before: one more, and this one is lost, too. */
  readonly undelivered: number;
  readonly problem: string;
}

export class PageStore {
  readonly shell: ClientShell;
  info: ServerInfo | null = null;
  lines: readonly TaskSummary[] = [];
  connection: ConnectionView = { kind: "connecting", asOf: null, reason: "", retryAt: null };
  outbox: readonly Outgoing[] = readOutbox();
  /** Older pages of a transcript, by task. */
  history: ReadonlyMap<string, { readonly items: readonly Message[]; readonly before: number | null }> = new Map();
  notice = "";
  /** The server holds another build of this page than the one that runs here. */
  isOld = false;
  readonly #listeners = new Set<() => void>();
  readonly #onLines: (lines: readonly TaskSummary[]) => void;
  readonly #onConnection: (kind: ConnectionView["kind"]) => void;
  #decisions: ReadonlyMap<string, DecisionView> = new Map();
  #past: ReadonlyMap<string, Approval> = new Map();
  #asOf: ReadonlyMap<string, number> = new Map();
  #thoughts: ReadonlyMap<string, string> = new Map();
  #isDue = false;
  #restUntil = 0;
  #graceTimer: ReturnType<typeof setTimeout> | undefined;
  #lostAt: number | null = null;
  #sending = new Set<string>();
  #noticeTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(base: string, onLines: (lines: readonly TaskSummary[]) => void, onConnection: (kind: ConnectionView["kind"]) => void) {
    this.#onLines = onLines;
    this.#onConnection = onConnection;
    this.shell = new ClientShell({
      base,
      onStep: (taskId, before, after) => this.#stepped(taskId, before, after),
      onLines: () => this.#takeLines(),
      onEdge: () => this.#edge(),
      onDecided: () => this.changed(),
      onFrame: (frame) => this.#hear(frame),
    });
  }

  // Reading

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  task = (taskId: string): TaskState | null => this.shell.machine.manager.states.get(taskId) ?? null;
  line = (taskId: string): TaskSummary | undefined => this.shell.machine.board.lines.get(taskId);
  decision = ({ approval_id, undelivered }: Approval): DecisionView | undefined => {
    const known = this.#decisions.get(approval_id);
    return known === undefined || undelivered > known.undelivered ? undefined : known;
  };
  past = (approvalId: string): Approval | undefined => this.#past.get(approvalId);
  pastOf = (taskId: string): readonly Approval[] => [...this.#past.values()].filter((one) => one.session_id === taskId);
  thought = (taskId: string): string => this.#thoughts.get(taskId) ?? "";
  canAct = (): boolean => this.info?.role === "operator" && this.info.log_problem === "";

  /** Whether the lines of the board are what the server says now. */
  isBoardLive(): boolean {
    return this.connection.kind === "live" && this.shell.machine.board.tick !== null;
  }

  /** Whether what is shown of a task is what the server says now. */
  isTaskLive(taskId: string): boolean {
    const state = this.task(taskId);
    return this.connection.kind === "live" && state !== null && state.tick !== null && state.isVerified && state.sync !== "error";
  }

  /** When a task was last known to be as shown; null: never. */
  taskAsOf = (taskId: string): number | null => this.#asOf.get(taskId) ?? null;

  digest = (taskId: string): string | null => {
    const state = this.task(taskId);
    return state === null ? null : digestOf(state);
  };

  /** The server's time, by its own clock. */
  now(): number {
    return Date.now() + this.#clockOffset;
  }
  #clockOffset = 0;
  #build: string | null = null;

  // Looking

  async start(): Promise<Refusal | null> {
    try {
      this.info = await this.shell.api.server();
    } catch (thrown) {
      const error = clientError(thrown);
      if (error instanceof Refusal && error.status === 401) return error;
      this.connection = { kind: "lost", asOf: null, reason: error.message, retryAt: null };
    }
    this.shell.wantBoard();
    this.changed();
    return null;
  }

  lookAgain(reason: CheckReason): void {
    if (this.connection.kind === "out") {
      // What is known here is shown to nobody until a login holds again: by another tab, perhaps.
      this.shell.api.server().then(() => location.reload(), () => undefined);
      return;
    }
    this.shell.lookAgain(reason);
    void this.flushOutbox();
    this.changed();
  }

  async older(taskId: string): Promise<void> {
    const kept = this.history.get(taskId);
    const before = kept === undefined ? (this.task(taskId)?.historyBefore ?? null) : kept.before;
    if (before === null) return;
    try {
      const page = await this.shell.api.messages(taskId, before);
      const next = page.next === null ? null : Number(page.next);
      const items = [...page.items, ...(kept?.items ?? [])];
      this.history = new Map(this.history).set(taskId, { items, before: next });
      this.changed();
    } catch (thrown) {
      this.say(clientError(thrown).message);
    }
  }

  /** How a question that is over ended: asked of the server where this page did not hear it. */
  async findQuestion(taskId: string, approvalId: string): Promise<void> {
    if (this.#past.has(approvalId)) return;
    try {
      const found = (await this.shell.api.approvals(taskId)).items.find((one) => one.approval_id === approvalId);
      if (found !== undefined && found.state !== "open") this.#keepPast(found);
      this.changed();
    } catch {
      // It stays as it is: over, and not known how.
    }
  }

  // Acting

  send(taskId: string, text: string): void {
    const entry: Outgoing = { promptId: newId("prompt"), taskId, text, at: Date.now(), problem: "" };
    this.#setOutbox([...this.outbox, entry]);
    void this.flushOutbox();
  }

  /** Take a prompt back that the server has not accepted. */
  unsend(promptId: string): void {
    this.#setOutbox(this.outbox.filter((one) => one.promptId !== promptId));
  }

  retrySend(promptId: string): void {
    this.#setOutbox(this.outbox.map((one) => (one.promptId === promptId ? { ...one, problem: "" } : one)));
    void this.flushOutbox();
  }

  /** Give the server what waits here. A prompt has one id, however often it is given: twice is once. */
  async flushOutbox(): Promise<void> {
    if (!this.shell.connection.isConnected || !this.canAct()) return;
    for (const entry of this.outbox) {
      if (entry.problem !== "" || this.#sending.has(entry.promptId)) continue;
      this.#sending.add(entry.promptId);
      try {
        await this.shell.api.send(entry.taskId, entry.promptId, entry.text);
        this.#setOutbox(this.outbox.filter((one) => one.promptId !== entry.promptId));
        this.shell.feed(entry.taskId, { type: "send_accepted", prompt_id: entry.promptId });
      } catch (thrown) {
        const error = clientError(thrown);
        if (error instanceof Refusal && error.retryAfterSeconds === null && error.status !== 401) {
          this.#setOutbox(this.outbox.map((one) => (one.promptId === entry.promptId ? { ...one, problem: error.message } : one)));
        } else {
          setTimeout(() => void this.flushOutbox(), 1000 * ((error instanceof Refusal && error.retryAfterSeconds) || 3));
        }
      } finally {
        this.#sending.delete(entry.promptId);
      }
    }
  }

  async decide(approval: Approval, decision: Decision): Promise<void> {
    const { approval_id: approvalId, session_id: taskId } = approval;
    const known = this.decision(approval);
    if (known?.stage === "sending" || known?.stage === "decided") return;
    const isAgain = known?.stage === "unknown" && JSON.stringify(known.decision) === JSON.stringify(decision);
    const decisionId = isAgain ? known.decisionId : newId("dec");
    const set = (stage: DecisionView["stage"], problem = "") => {
      this.#decisions = new Map(this.#decisions).set(approvalId, { stage, decision, decisionId, undelivered: approval.undelivered, problem });
      this.changed();
    };
    set("sending");
    try {
      await this.shell.api.decide(taskId, approvalId, decision, decisionId);
      set("decided");
    } catch (thrown) {
      const error = clientError(thrown);
      if (error instanceof Unreachable || error.status >= 500) set("unknown", error.message);
      else if (error.status === 409 || error.status === 404) set("over", error.message);
      else set("refused", error.message);
      if (error instanceof Refusal && (error.status === 409 || error.status === 404)) await this.findQuestion(taskId, approvalId);
    }
  }

  async interrupt(taskId: string): Promise<void> {
    const turnId = this.task(taskId)?.turnId ?? null;
    this.shell.feed(taskId, { type: "stop_pressed" });
    try {
      const { delivered, problem } = await this.shell.api.cancel(taskId, turnId);
      this.shell.feed(taskId, { type: "cancel_acked", is_delivered: delivered, problem });
      if (!delivered) this.say(problem || "the interrupt did not reach the agent");
    } catch (thrown) {
      const { message } = clientError(thrown);
      this.shell.feed(taskId, { type: "cancel_failed", problem: message });
      this.say(message);
    }
  }

  /** Do something, and say so if it did not work. */
  async act(doing: () => Promise<unknown>): Promise<boolean> {
    try {
      await doing();
      return true;
    } catch (thrown) {
      const error = clientError(thrown);
      this.say(error instanceof Refusal && error.remedy ? `${error.message}: ${error.remedy}` : error.message);
      return false;
    }
  }

  /** Note that somebody looked at how a turn ended. */
  markSeen(taskId: string): void {
    const line = this.line(taskId);
    if (!this.canAct() || !this.isBoardLive() || line?.badge == null || line.badge.is_seen || line.turn_id === null) return;
    this.shell.api.seen(taskId, line.turn_id).catch(() => undefined);
  }

  say(notice: string): void {
    this.notice = notice;
    clearTimeout(this.#noticeTimer);
    if (notice !== "") this.#noticeTimer = setTimeout(() => this.say(""), 8_000);
    this.changed();
  }

  // Hearing

  #stepped(taskId: string, before: TaskState, after: TaskState): void {
    if (after.tick !== null && after.isVerified) this.#asOf = new Map(this.#asOf).set(taskId, Date.now());
    if (before.approvals !== after.approvals) {
      const open = new Set(after.approvals.map((one) => one.approval_id));
      for (const one of before.approvals) if (!open.has(one.approval_id)) void this.findQuestion(taskId, one.approval_id);
    }
    if (after.stream?.streamId !== before.stream?.streamId && this.#thoughts.has(taskId)) {
      const rest = new Map(this.#thoughts);
      rest.delete(taskId);
      this.#thoughts = rest;
    }
    this.changed();
  }

  #hear(frame: PushedFrame): void {
    if (frame.type === "approval:closed") this.#keepPast(frame.approval);
    if (frame.type === "chat:thought") {
      const text = ((this.#thoughts.get(frame.task_id) ?? "") + frame.text).slice(-4_000);
      this.#thoughts = new Map(this.#thoughts).set(frame.task_id, text);
    }
  }

  #keepPast(approval: Approval): void {
    const kept = [...this.#past, [approval.approval_id, approval] as const];
    this.#past = new Map(kept.slice(-MAX_PAST_QUESTIONS));
  }

  #takeLines(): void {
    this.lines = [...this.shell.machine.board.lines.values()];
    this.#onLines(this.lines);
    this.changed();
  }

  #edge(): void {
    const { connection } = this.shell;
    const asOf = connection.heardAt;
    clearTimeout(this.#graceTimer);
    if (connection.isConnected) {
      this.#lostAt = null;
      if (connection.hello !== null) {
        const { at, build } = connection.hello;
        if (at !== null) this.#clockOffset = Date.parse(at) - Date.now();
        this.isOld = this.#build !== null && this.#build !== build;
        this.#build ??= build;
      }
      this.connection = { kind: "live", asOf, reason: "", retryAt: null };
      if (this.info === null) void this.#readInfo();
      void this.flushOutbox();
    } else if (connection.problem !== null) {
      const kind = connection.problem.status === 401 ? "out" : "lost";
      this.connection = { kind, asOf, reason: connection.problem.message, retryAt: null };
    } else {
      this.#lostAt ??= Date.now();
      const left = navigator.onLine ? this.#lostAt + GRACE_MILLISECONDS - Date.now() : 0;
      const { reason, retryAt } = connection;
      this.connection = { kind: left > 0 ? "connecting" : "lost", asOf, reason, retryAt };
      if (left > 0) this.#graceTimer = setTimeout(() => this.#edge(), left);
    }
    this.#onConnection(this.connection.kind);
    this.changed();
  }

  async #readInfo(): Promise<void> {
    try {
      this.info = await this.shell.api.server();
      this.changed();
      await this.flushOutbox();
    } catch {
      // The next connection asks again.
    }
  }

  #setOutbox(entries: readonly Outgoing[]): void {
    this.outbox = entries;
    writeOutbox(entries);
    this.changed();
  }

  /** Tell the listeners, once a frame. What took long to draw is drawn less often: the page stays free for its person. */
  changed(): void {
    if (this.#isDue || document.visibilityState === "hidden") return;
    this.#isDue = true;
    const wait = this.#restUntil - performance.now();
    if (wait > 0) setTimeout(() => requestAnimationFrame(() => this.#tell()), wait);
    else requestAnimationFrame(() => this.#tell());
  }

  #tell(): void {
    const began = performance.now();
    this.#isDue = false;
    for (const listener of [...this.#listeners]) listener();
    setTimeout(() => {
      const took = performance.now() - began; // with layout and paint, which come after the frame
      this.#restUntil = took > SLOW_MILLISECONDS ? performance.now() + Math.min(took, MAX_REST_MILLISECONDS) : 0;
    });
  }
}
