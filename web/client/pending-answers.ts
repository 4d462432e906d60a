/** The open questions of one connection, by the ids of their requests. Each has one answer: the server's, that it was
 * lost, or that none came in time. */

import { type ClientError, Unreachable } from "./errors.ts";
import type { Ack, BoardJoined, TaskJoined } from "./wire.ts";

export type Answer = Ack | TaskJoined | BoardJoined;
export type OnAnswer = (outcome: Answer | ClientError) => void;

export class PendingAnswers {
  readonly #asked = new Map<string, { readonly onAnswer: OnAnswer; readonly timer: ReturnType<typeof setTimeout> }>();

  ask(requestId: string, onAnswer: OnAnswer, seconds: number): void {
    const late = new Unreachable(`the server did not answer within ${Math.round(seconds)} s; whether it was done is not known`);
    const timer = setTimeout(() => this.settle(requestId, late), seconds * 1000);
    this.#asked.set(requestId, { onAnswer, timer });
  }

  settle(requestId: string, outcome: Answer | ClientError): void {
    const asked = this.#asked.get(requestId);
    if (asked === undefined) return; // it came too late, or twice
    this.#asked.delete(requestId);
    clearTimeout(asked.timer);
    asked.onAnswer(outcome);
  }

  /** Answer them all: there will be no other answer. */
  lose(reason: string): void {
    const lost = new Unreachable(`the connection was lost before the answer came: ${reason}`);
    for (const requestId of [...this.#asked.keys()]) this.settle(requestId, lost);
  }
}
