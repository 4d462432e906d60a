/** The operations of the HTTP API that this client uses, each in one line. */

import { Http } from "./http.ts";
import type { ConfiguredAgent, ExplainedTurn, LoginLine, LoginTicket, OpenTask, Page, ServerInfo, TaskOpened, TaskScreen, TaskUsage } from "./resources.ts";
import { COMMAND_SECONDS } from "./timeouts.ts";
import type { AccessRole, Approval, ApprovalStanding, Cancelled, Message, PromptStanding, RuntimeCheck } from "./wire.ts";

/** An answer to a question. The verdict is always named. */
export interface Decision {
  readonly is_allowed: boolean;
  readonly option?: string;
  readonly text?: string;
}

export class Api {
  readonly #http: Http;

  constructor(http: Http) {
    this.#http = http;
  }

  server = (seconds?: number) => this.#http.call<ServerInfo>("/api/server", seconds === undefined ? {} : { seconds });
  runtimeCheck = (taskId: string, seconds: number) => this.#http.call<RuntimeCheck>(`${task(taskId)}/runtime-check`, { seconds });
  messages = (taskId: string, before: number, limit = 100) => this.#http.call<Page<Message>>(`${task(taskId)}/messages?before=${before}&limit=${limit}`);
  approvals = (taskId: string) => this.#http.call<Page<Approval>>(`${task(taskId)}/approvals?limit=500`);
  screen = (taskId: string, since: string) => this.#http.call<TaskScreen>(`${task(taskId)}/screen${since ? `?since=${encodeURIComponent(since)}` : ""}`);
  why = (taskId: string) => this.#http.call<ExplainedTurn>(`${task(taskId)}/why/lines`);
  usage = (taskId: string) => this.#http.call<TaskUsage>(`${task(taskId)}/usage`);
  agents = () => this.#http.call<{ readonly configured: readonly ConfiguredAgent[] }>("/api/agents");

  openTask = (given: OpenTask, key: string) => this.#command<TaskOpened>("POST", "/api/tasks", given, key);
  send = (taskId: string, promptId: string, text: string) => this.#command<PromptStanding>("POST", `${task(taskId)}/prompts`, { text }, promptId);
  removePrompt = (taskId: string, promptId: string) => this.#command<PromptStanding>("DELETE", `${task(taskId)}/prompts/${encodeURIComponent(promptId)}`);
  setGate = (taskId: string, isOpen: boolean) => this.#command<unknown>("PUT", `${task(taskId)}/queue/gate`, { is_open: isOpen, reason: isOpen ? "" : "paused on the dashboard" });
  cancel = (taskId: string, turnId: string | null) => this.#command<Cancelled>("POST", `${task(taskId)}/cancel`, turnId === null ? {} : { turn_id: turnId });
  stop = (taskId: string) => this.#command<unknown>("POST", `${task(taskId)}/stop`);
  start = (taskId: string) => this.#command<unknown>("POST", `${task(taskId)}/start`);
  seen = (taskId: string, turnId: string) => this.#command<unknown>("POST", `${task(taskId)}/seen`, { turn_id: turnId });
  decide = (taskId: string, approvalId: string, decision: Decision, decisionId: string) =>
    this.#command<ApprovalStanding>("POST", `${task(taskId)}/approvals/${encodeURIComponent(approvalId)}/decision`, decision, decisionId);

  logIn = (ticket: string, device: string) => this.#command<null>("POST", "/api/login", { ticket, device });
  logins = () => this.#http.call<Page<LoginLine>>("/api/logins");
  revokeLogin = (loginId: string) => this.#command<null>("DELETE", `/api/logins/${encodeURIComponent(loginId)}`);
  createTicket = (role: AccessRole, name: string) => this.#command<LoginTicket>("POST", "/api/login/tickets", { role, name });

  #command<T>(method: "POST" | "PUT" | "DELETE", path: string, body?: unknown, key?: string): Promise<T> {
    return this.#http.call<T>(path, { method, seconds: COMMAND_SECONDS, ...(body === undefined ? {} : { body }), ...(key === undefined ? {} : { key }) });
  }
}

function task(taskId: string): string {
  return `/api/tasks/${encodeURIComponent(taskId)}`;
}
