/** What may go wrong between a client and its server, each with what to do next. */

import type { Problem } from "./wire.ts";

/** The server said no. `status` is that of HTTP; `code` is for programs. */
export class Refusal extends Error {
  readonly status: number;
  readonly code: string;
  readonly remedy: string;
  readonly retryAfterSeconds: number | null;

  constructor(problem: Partial<Problem> & { readonly status: number }) {
    super(problem.detail || problem.title || `the server refused (${problem.status})`);
    this.name = "Refusal";
    this.status = problem.status;
    this.code = problem.code ?? "";
    this.remedy = problem.remedy ?? "";
    this.retryAfterSeconds = problem.retry_after_seconds ?? null;
  }
}

/** There was no answer: whether it was done is not known. It is never drawn as empty or idle. */
export class Unreachable extends Error {
  override readonly name = "Unreachable";
}

export type ClientError = Refusal | Unreachable;

/** Anything that was thrown, as one of ours. */
export function clientError(thrown: unknown): ClientError {
  if (thrown instanceof Refusal || thrown instanceof Unreachable) return thrown;
  return new Unreachable(thrown instanceof Error ? thrown.message : String(thrown));
}
