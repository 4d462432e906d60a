"""Restarts: when an agent that died is started again, and when that is given up.

Laws:
1. Only a death that nobody explained restarts: `crashed`, or `unclean`. A stop, a clean end and want of memory do not.
2. Each attempt waits longer than the one before, up to a cap; the delay is a deadline, and data.
3. So many attempts in a window, and no more, also over restarts of the server: `recall` counts those of the log. An
   end that is explained begins a new window; want of memory does not.
4. A stale resume id is not the agent's fault: the attempt without it is free and at once. It is free once in a window,
   or an agent that blames the id each time would be started for ever.
5. Every decision says in a sentence what was decided and why.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, assert_never

from interlock.vocabulary.states import ExitReason

_DIED: Final = {
    ExitReason.CRASHED: "the agent crashed",
    ExitReason.UNCLEAN: "the agent is gone, and how it ended is not known",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """How often, and how soon. No attempt at all: `max_attempts` 0."""

    max_attempts: int = 3
    window_seconds: float = 3_600.0
    first_delay_seconds: float = 1.0
    max_delay_seconds: float = 60.0


class RestartVerdict(StrEnum):
    """What is done about a death."""

    RESTART = "restart"
    EXHAUSTED = "exhausted"
    NO = "no"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartDecision:
    """What is done about a death. `restart_at` (seconds of the clock that was given) and `attempt` belong to `restart`;
    a free attempt has the number 0."""

    verdict: RestartVerdict
    message: str
    restart_at: float | None = None
    attempt: int | None = None

    @property
    def is_exhausted(self) -> bool:
        return self.verdict is RestartVerdict.EXHAUSTED


class Restarts:
    """The restarts of one agent. It reads no clock: `now` is in seconds, and never goes back."""

    def __init__(self, policy: RestartPolicy | None = None) -> None:
        self.policy = policy or RestartPolicy()
        self._attempts: tuple[float, ...] = ()
        self._freed_at: float | None = None

    def recall(self, made_at: Iterable[float]) -> None:
        """Count attempts that the log tells of, oldest first, in seconds of the same clock."""
        self._attempts = (*made_at, *self._attempts)

    @property
    def is_fresh(self) -> bool:
        """Whether nothing counts against the agent."""
        return not self._attempts and self._freed_at is None

    def after(self, reason: ExitReason, now: float, *, is_stale_resume: bool = False) -> RestartDecision:
        """Decide about a death, and count the attempt."""
        since = now - self.policy.window_seconds
        self._attempts = tuple(at for at in self._attempts if at > since)
        if self._freed_at is not None and self._freed_at <= since:
            self._freed_at = None
        match reason:
            case ExitReason.CRASHED | ExitReason.UNCLEAN:
                return self._free(now) if is_stale_resume and self._freed_at is None else self._again(reason, now)
            case ExitReason.OOM:
                return _no("memory ran out: started again it would most likely run out again")
            case ExitReason.CLEAN | ExitReason.STOPPED | ExitReason.IDLE_TTL | ExitReason.REPLACED:
                self._attempts, self._freed_at = (), None
                return _no(f"the end was no failure ({reason.value})")
            case unreachable:
                assert_never(unreachable)

    def _free(self, now: float) -> RestartDecision:
        self._freed_at = now
        message = "the agent knows no session by the id that it was to resume; it is started without"
        return RestartDecision(verdict=RestartVerdict.RESTART, message=message, restart_at=now, attempt=0)

    def _again(self, reason: ExitReason, now: float) -> RestartDecision:
        made, policy, died = len(self._attempts), self.policy, _DIED[reason]
        if made >= policy.max_attempts:
            times = f"{made} restart{'' if made == 1 else 's'} within {policy.window_seconds:g} s"
            message = f"{died}; not restarted: {times} were of no help"
            return RestartDecision(verdict=RestartVerdict.EXHAUSTED, message=message)
        delay = _delay_seconds(made, policy)
        self._attempts = (*self._attempts, now)
        message = f"{died}; restart {made + 1} of {policy.max_attempts} in {delay:g} s"
        return RestartDecision(
            verdict=RestartVerdict.RESTART, message=message, restart_at=now + delay, attempt=made + 1
        )


def _delay_seconds(made: int, policy: RestartPolicy) -> float:
    # Doubling is bounded before it is done: a number of attempts without bound would overflow.
    doubled = policy.first_delay_seconds * 2.0 ** min(made, 64)
    return min(doubled, policy.max_delay_seconds)


def _no(why: str) -> RestartDecision:
    return RestartDecision(verdict=RestartVerdict.NO, message=f"not restarted: {why}")
