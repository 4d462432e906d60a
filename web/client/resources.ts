/** What the HTTP API answers, as far as this client reads it: see docs/reference/http.md. */

import type { AccessRole, TurnState } from "./wire.ts";

export interface Page<T> {
  readonly items: readonly T[];
  readonly next: string | null;
}

export interface ServerInfo {
  readonly version: string;
  readonly protocol: number;
  readonly role: AccessRole;
  readonly log_problem: string;
}

/** `[row, start, end, sgr]`: characters of a row, in the colour that these SGR numbers name. */
export type Paint = readonly [number, number, number, string];

export interface TaskScreen {
  readonly task_id: string;
  readonly is_live: boolean;
  readonly problem: string;
  readonly captured_at: string;
  readonly age_seconds: number;
  readonly columns: number;
  readonly height: number;
  readonly title: string;
  readonly cursor: readonly [number, number] | null;
  readonly digest: string;
  readonly is_unchanged: boolean;
  readonly has_ended: boolean;
  readonly is_cut: boolean;
  readonly rows: readonly string[];
  readonly paint: readonly Paint[];
}

export interface ExplainedTurn {
  readonly state: TurnState | null;
  readonly lines: readonly string[];
  readonly is_damaged: boolean;
}

export interface Usage {
  readonly input_tokens: number | null;
  readonly output_tokens: number | null;
  readonly cached_input_tokens: number | null;
  readonly cost_usd: number | null;
  readonly turns_without_report: number;
}

export interface TaskUsage {
  readonly task_id: string;
  readonly total: Usage;
  readonly turns: readonly { readonly turn_id: string; readonly usage: Usage }[];
}

/** An agent that the server's configuration names. */
export interface ConfiguredAgent {
  readonly name: string;
  readonly driver: string;
  readonly model: string;
  readonly is_installed: boolean;
}

/** A browser that is logged in. */
export interface LoginLine {
  readonly login_id: string;
  readonly role: AccessRole;
  readonly device: string;
  readonly created_at: string;
  readonly seen_at: string;
  readonly is_this: boolean;
}

export interface LoginTicket {
  readonly ticket: string;
  readonly url: string;
  readonly expires_at: string;
}

/** A new session of an agent that the server's configuration names. */
export interface OpenTask {
  readonly agent: string;
  readonly cwd: string;
  readonly title?: string;
  readonly prompt?: string;
}

export interface TaskOpened {
  readonly task_id: string;
  readonly is_new: boolean;
  readonly prompt_id: string | null;
}
