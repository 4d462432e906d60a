/** How long a client waits, and how it tries again.
 *
 * Law: attempt after attempt the delay may be anything up to a ceiling that doubles, so that many clients which lost one
 * server do not come back as one. A server that said when to come back is believed, within reason.
 */

/** From 0 up to 1, as `Math.random` gives it. */
export type Chance = () => number;

export const OPEN_SECONDS = 10;
export const ANSWER_SECONDS = 10;
export const COMMAND_SECONDS = 45;
export const STEADY_SECONDS = 5;
export const REVIVE_SECONDS = 3;
const FIRST_DELAY_SECONDS = 0.5;
const MAX_DELAY_SECONDS = 5;
const MAX_TOLD_DELAY_SECONDS = 60;

/** How long to wait before an attempt, after so many failed ones (1: one failed). */
export function delayBefore(attempt: number, chance: Chance): number {
  return chance() * Math.min(MAX_DELAY_SECONDS, FIRST_DELAY_SECONDS * 2 ** Math.min(attempt - 1, 32));
}

/** How long to wait when the server said how long. */
export function toldDelay(retryAfterSeconds: number, chance: Chance): number {
  const told = Math.min(Math.max(retryAfterSeconds, 0), MAX_TOLD_DELAY_SECONDS);
  return told + chance() * Math.max(told, FIRST_DELAY_SECONDS);
}

/** A clock in seconds that never goes back, and does not stand still while the machine sleeps. */
export class SteadyClock {
  #seconds = 0;
  #ran = performance.now();
  #wall = Date.now();

  now(): number {
    const [ran, wall] = [performance.now(), Date.now()];
    this.#seconds += Math.max(0, ran - this.#ran, wall - this.#wall) / 1000;
    this.#ran = ran;
    this.#wall = wall;
    return this.#seconds;
  }
}
