/** One WebSocket to a server, kept up from the moment that it is wanted.
 *
 * Laws:
 * 1. Nothing is opened before it is wanted. What is wanted is opened again after each loss, whatever its close code,
 *    later and later, by chance.
 * 2. What can only fail again is not tried again: a login that is over, a protocol that we do not speak. `problem` says
 *    so, until `revive`.
 * 3. Every request has one answer, in the order of the wire with what is pushed.
 * 4. A handshake has a deadline. A server that is silent for a heartbeat is asked; for three, it is gone.
 * 5. A frame that we cannot read is a newer server's: ignored. What is not JSON ends the connection.
 */

import type { PushedFrame } from "./client-machine.ts";
import { clientError, Refusal, Unreachable } from "./errors.ts";
import { type OnAnswer, PendingAnswers } from "./pending-answers.ts";
import { ANSWER_SECONDS, type Chance, delayBefore, OPEN_SECONDS, REVIVE_SECONDS, STEADY_SECONDS, toldDelay } from "./timeouts.ts";
import type { Hello, Request, ServerFrame } from "./wire.ts";

const PROTOCOL = 1;
const SILENT_HEARTBEATS = 3;
const CLOSING_SECONDS = 2;
const LOGIN_OVER = 4001;
const FINAL_STATUSES: ReadonlySet<number> = new Set([400, 401, 403, 404, 421]);

export interface ConnectionOptions {
  /** `ws:` or `wss:` address of the socket. */
  readonly url: string;
  /** A token, where there is no cookie. */
  readonly token?: string;
  readonly onPush: (frame: PushedFrame) => void;
  /** Each change of the connection, and each new reason why there is none. */
  readonly onEdge: (isConnected: boolean, reason: string) => void;
  /** Asks the server by HTTP why it does not let us in: a browser does not tell. Resolves if it would. */
  readonly askWhy: () => Promise<unknown>;
  readonly chance?: Chance;
}

type Distribute<T> = T extends unknown ? Omit<T, "id"> : never;
export type Outgoing = Distribute<Request>;

export class Connection {
  readonly #options: ConnectionOptions;
  readonly #chance: Chance;
  readonly #questions = new PendingAnswers();
  #socket: WebSocket | null = null;
  #isWanted = false;
  #isClosed = false;
  #isGreeted = false;
  #numbers = 0;
  #failures = 0;
  #openedAt = 0;
  #toldDelay: number | null = null;
  #timers = new Map<string, ReturnType<typeof setTimeout>>();
  hello: Hello | null = null;
  problem: Refusal | null = null;
  reason = "not connected yet";
  /** When the server was last heard of, and when the next attempt is due, as `Date.now()` has it. */
  heardAt: number | null = null;
  retryAt: number | null = null;

  constructor(options: ConnectionOptions) {
    this.#options = options;
    this.#chance = options.chance ?? Math.random;
  }

  get isConnected(): boolean {
    return this.#isGreeted;
  }

  /** From now on, be connected. Returns at once; where it cannot be, `problem` says so. */
  ensure(): void {
    if (this.#isClosed || this.problem !== null || this.#isWanted) return;
    this.#isWanted = true;
    this.#open();
  }

  /** Try now: whatever was wrong may be mended. A socket that has been silent is asked, and replaced if it stays so. */
  revive(): void {
    if (this.#isClosed) return;
    if (this.problem !== null) {
      this.problem = null;
      this.ensure();
    } else if (this.#isWanted && this.#socket === null) {
      this.#open();
    } else if (this.#isGreeted && Date.now() - (this.heardAt ?? 0) >= this.#heartbeat()) {
      this.#ping(REVIVE_SECONDS);
    }
  }

  /** End the socket, but not the wish for one: `ensure` or `revive` opens the next. For a page that is put aside. */
  pause(reason: string): void {
    this.#isWanted = false;
    this.#stopTimers();
    this.#drop(reason);
  }

  /** Be connected again after `pause`. */
  resume(): void {
    this.ensure();
  }

  close(): void {
    this.pause("this client was closed");
    this.#isClosed = true;
  }

  /** Ask, and be called with the answer, once. */
  post(request: Outgoing, onAnswer: OnAnswer, seconds: number = ANSWER_SECONDS): void {
    const socket = this.#socket;
    if (socket === null || !this.#isGreeted) {
      onAnswer(new Unreachable(`not connected to the server: ${this.reason}`));
      return;
    }
    this.#numbers += 1;
    const id = `r${this.#numbers}`;
    this.#questions.ask(id, onAnswer, seconds);
    socket.send(JSON.stringify({ ...request, id }));
  }

  #open(): void {
    this.#stopTimers();
    this.retryAt = null;
    const { url, token } = this.#options;
    const protocols = token === undefined ? ["interlock.v1"] : ["interlock.v1", `interlock.token.${token}`];
    const socket = new WebSocket(url, protocols);
    this.#socket = socket;
    this.#openedAt = Date.now();
    this.#after("open", OPEN_SECONDS, () => this.#lose(socket, `the server did not greet us within ${OPEN_SECONDS} s`));
    socket.onmessage = (event) => this.#socket === socket && this.#take(socket, event.data);
    socket.onclose = (event) => this.#lose(socket, describeClose(event), event.code);
  }

  #take(socket: WebSocket, data: unknown): void {
    this.heardAt = Date.now();
    let frame: ServerFrame;
    try {
      frame = JSON.parse(String(data));
    } catch {
      this.#lose(socket, "the server sent what is not JSON");
      return;
    }
    if (!this.#isGreeted) this.#greet(socket, frame);
    else this.#hear(frame);
    if (this.#isGreeted) this.#watch(socket);
  }

  #greet(socket: WebSocket, frame: ServerFrame): void {
    if (frame.type !== "hello") {
      this.#lose(socket, frame.type === "server:closing" ? "the server goes away" : "this is no server of ours: it did not greet us");
      return;
    }
    if (frame.protocol !== PROTOCOL) {
      const detail = `the server speaks protocol ${frame.protocol}, and this page protocol ${PROTOCOL}: reload the page`;
      this.#giveUp(new Refusal({ status: 426, code: "protocol", detail }));
      return;
    }
    this.hello = frame;
    this.#isGreeted = true;
    this.reason = "";
    this.#clear("open");
    this.#options.onEdge(true, "");
  }

  #hear(frame: ServerFrame): void {
    switch (frame.type) {
      case "ack":
      case "task:joined":
      case "board:joined":
        this.#questions.settle(frame.id, frame);
        break;
      case "refused":
        this.#questions.settle(frame.id, new Refusal(frame.problem));
        break;
      case "server:closing":
        this.#toldDelay = toldDelay(frame.retry_after_seconds, this.#chance);
        this.#after("farewell", CLOSING_SECONDS, () => this.#socket !== null && this.#lose(this.#socket, "the server goes away"));
        break;
      case "hello":
        break;
      default:
        if (typeof frame.type === "string") this.#options.onPush(frame);
    }
  }

  /** After each word of the server: ask it after a heartbeat of silence, and give it up after three. The timers are
   * armed here, by a message, and not by one another: nested timers of a hidden page run once a minute. */
  #watch(socket: WebSocket): void {
    const heartbeat = this.#heartbeat() / 1000;
    this.#after("ping", heartbeat, () => this.#ping(heartbeat * (SILENT_HEARTBEATS - 1)));
    this.#after("silence", heartbeat * SILENT_HEARTBEATS, () => {
      this.#lose(socket, `the server said nothing for ${SILENT_HEARTBEATS} heartbeats`);
    });
  }

  #ping(seconds: number): void {
    const socket = this.#socket;
    this.post({ type: "ping" }, (outcome) => {
      if (outcome instanceof Unreachable && socket !== null) this.#lose(socket, "the server did not answer when it was asked");
    }, seconds);
  }

  #heartbeat(): number {
    return Math.max(0.01, this.hello?.heartbeat_seconds ?? 20) * 1000;
  }

  /** The socket is gone. It is opened again, unless that can only fail again. */
  #lose(socket: WebSocket, reason: string, code = 0): void {
    if (this.#socket !== socket) return;
    const wasGreeted = this.#isGreeted;
    this.#stopTimers();
    this.#drop(reason);
    if (!this.#isWanted) return;
    this.#failures = wasGreeted && Date.now() - this.#openedAt >= STEADY_SECONDS * 1000 ? 1 : this.#failures + 1;
    if (code === LOGIN_OVER) {
      this.#giveUp(new Refusal({ status: 401, code: "unauthenticated", detail: "this login is over" }));
      return;
    }
    const delay = this.#toldDelay ?? delayBefore(this.#failures, this.#chance);
    this.#toldDelay = null;
    this.retryAt = Date.now() + delay * 1000;
    this.#after("retry", delay, () => void this.#retry(wasGreeted));
    this.#options.onEdge(false, reason);
  }

  async #retry(wasGreeted: boolean): Promise<void> {
    if (!wasGreeted) {
      try {
        await this.#options.askWhy();
      } catch (thrown) {
        const error = clientError(thrown);
        if (error instanceof Refusal && FINAL_STATUSES.has(error.status)) return this.#giveUp(error);
      }
    }
    if (this.#isWanted && this.#socket === null) this.#open();
  }

  #giveUp(problem: Refusal): void {
    this.#isWanted = false;
    this.problem = problem;
    this.#stopTimers();
    this.#drop(problem.message);
    this.#options.onEdge(false, problem.message);
  }

  #drop(reason: string): void {
    const socket = this.#socket;
    const wasConnected = this.#isGreeted;
    this.#socket = null;
    this.#isGreeted = false;
    this.retryAt = null;
    this.reason = reason;
    if (socket !== null) {
      socket.onmessage = socket.onclose = null;
      socket.close();
    }
    this.#questions.lose(reason);
    if (wasConnected) this.#options.onEdge(false, reason);
  }

  #after(name: string, seconds: number, then: () => void): void {
    this.#clear(name);
    this.#timers.set(name, setTimeout(then, seconds * 1000));
  }

  #clear(name: string): void {
    clearTimeout(this.#timers.get(name));
    this.#timers.delete(name);
  }

  #stopTimers(): void {
    for (const name of [...this.#timers.keys()]) this.#clear(name);
  }
}

function describeClose(event: CloseEvent): string {
  if (event.code === 1006 || event.code === 1005) return "the connection broke off";
  return `the server closed the connection (${event.code}${event.reason ? `: ${event.reason}` : ""})`;
}
