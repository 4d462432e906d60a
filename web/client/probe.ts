/** The probe: when to look again at a task that is not known to stand where the server says.
 *
 * Laws:
 * 1. It schedules, and decides nothing else.
 * 2. One grace window after something became doubtful. No event extends it; an end of the doubt takes it away.
 * 3. While looking fails the window doubles, up to a cap. One success makes it short again.
 * 4. While something is awaited already, which has a deadline of its own, nothing is scheduled.
 */

const GRACE_SECONDS = 3;
const CAP_SECONDS = 30;
const MAX_FAILURES = 16;

/** When to look next (null: no need to), and how often looking failed since it last worked. */
export interface Probe {
  readonly dueAt: number | null;
  readonly failures: number;
}

export const IDLE_PROBE: Probe = { dueAt: null, failures: 0 };

export function windowSeconds(failures: number): number {
  return Math.min(CAP_SECONDS, GRACE_SECONDS * 2 ** Math.min(failures, MAX_FAILURES));
}

/** Arm it where there is doubt and nothing is awaited, and else disarm it. What is armed stays as it is. */
export function resync(probe: Probe, isUnstable: boolean, isAwaiting: boolean, now: number): Probe {
  if (!isUnstable || isAwaiting) return probe.dueAt === null ? probe : { ...probe, dueAt: null };
  return probe.dueAt === null ? { ...probe, dueAt: now + windowSeconds(probe.failures) } : probe;
}

export function fail(probe: Probe): Probe {
  return { ...probe, failures: Math.min(probe.failures + 1, MAX_FAILURES) };
}

export function succeed(probe: Probe): Probe {
  return { ...probe, failures: 0 };
}
