/** Requests to the API by HTTP: each has a deadline, and a failure is a `Refusal` or an `Unreachable`. */

import { Refusal, Unreachable } from "./errors.ts";
import { ANSWER_SECONDS } from "./timeouts.ts";

export interface Asking {
  readonly method?: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  readonly body?: unknown;
  /** The idempotency key: the same key with the same body is done once. */
  readonly key?: string;
  readonly seconds?: number;
}

export class Http {
  readonly #base: string;
  readonly #token: string | undefined;

  /** `base`: the origin of the server, such as `http://127.0.0.1:8000`. Without a token the browser's cookie counts. */
  constructor(base: string, token?: string) {
    this.#base = base.replace(/\/$/, "");
    this.#token = token;
  }

  async call<T>(path: string, asking: Asking = {}): Promise<T> {
    const { method = "GET", body, key, seconds = ANSWER_SECONDS } = asking;
    const headers: Record<string, string> = { Accept: "application/json" };
    if (method !== "GET") Object.assign(headers, { "Content-Type": "application/json", "X-Interlock": "1" });
    if (key !== undefined) headers["Idempotency-Key"] = key;
    if (this.#token !== undefined) headers["Authorization"] = `Bearer ${this.#token}`;
    const late = AbortSignal.timeout(seconds * 1000);
    const init: RequestInit = { method, headers, signal: late, cache: "no-store" };
    if (body !== undefined) init.body = JSON.stringify(body);
    try {
      const response = await fetch(this.#base + path, init);
      const text = await response.text();
      if (!response.ok) throw refusal(response.status, text);
      return (text === "" ? null : JSON.parse(text)) as T;
    } catch (thrown) {
      if (thrown instanceof Refusal) throw thrown;
      const how = late.aborted ? `it did not answer within ${Math.round(seconds)} s` : "it cannot be reached";
      throw new Unreachable(`${this.#base}: ${how}`);
    }
  }
}

function refusal(status: number, text: string): Refusal {
  try {
    return new Refusal({ ...JSON.parse(text), status });
  } catch {
    return new Refusal({ status });
  }
}
