"""The process machine with a lock around it, for one reader that applies events and many threads that ask."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from interlock.lifecycle import process
from interlock.lifecycle.process import AgentEvent, LifecycleChanged, Mark, ProcessInput, ProcessState
from interlock.vocabulary.states import AgentState, Lifecycle


class AgentMachine:
    """The state of one agent's process. Every method may be called from any thread, and from the hook.

    `on_change` is called once for each change of the lifecycle, one call at a time, in the order in which the changes
    happened, and never under the lock. One thread delivers: a call that finds another thread (or an outer call of its
    own) delivering leaves its change to that one and returns at once.

    A hook that raises loses nothing: the changes behind it are delivered first, then its error is raised in the thread
    that delivered (several errors as an `ExceptionGroup`). The state had moved before the hook was called.
    """

    def __init__(
        self,
        clock: Callable[[], float] | None = None,
        on_change: Callable[[LifecycleChanged], None] | None = None,
    ) -> None:
        self._clock = time.monotonic if clock is None else clock
        self._on_change = on_change
        self._lock = threading.Lock()
        self._state = ProcessState(last_active=self._clock())
        self._undelivered: deque[LifecycleChanged] = deque()
        self._is_delivering = False

    def apply(self, event: AgentEvent) -> AgentState:
        """Take in one event of the agent's output and return the substate that it led to. Refuses nothing."""
        return self._take(event)

    def mark_idle(self) -> None:
        """Show the agent as idle; neither lifecycle nor `last_active` changes."""
        self._take(Mark.IDLE)

    def mark_killed(self) -> None:
        """The process is gone, for whatever reason."""
        self._take(Mark.KILLED)

    def mark_spawning(self) -> None:
        """A process is being started; this also revives a killed one."""
        self._take(Mark.SPAWNING)

    # The state is replaced whole and never changed in place, so that readers need no lock.

    def snapshot(self) -> ProcessState:
        """All that is known at one moment; prefer it to several questions in a row."""
        return self._state

    def current(self) -> AgentState:
        return self._state.substate

    def lifecycle(self) -> Lifecycle:
        return self._state.lifecycle

    def last_active(self) -> float:
        """The clock's time of the last event, or of the last `mark_spawning`, or of birth."""
        return self._state.last_active

    def idle_deadline(self, idle_timeout_seconds: float | None, *, turn_open: bool) -> float | None:
        """When an unused process is to be killed, on this machine's clock; see `process.idle_deadline`."""
        return process.idle_deadline(self._state, idle_timeout_seconds, turn_open=turn_open)

    def _take(self, given: ProcessInput) -> AgentState:
        now = self._clock()  # not under the lock: it is the caller's code. `step` takes late readings.
        with self._lock:
            self._state, changes = process.step(self._state, given, now)
            substate = self._state.substate
            if self._on_change is None:
                return substate
            self._undelivered.extend(changes)
            if self._is_delivering or not self._undelivered:
                return substate
            self._is_delivering = True
        self._deliver(self._on_change)
        return substate

    def _deliver(self, hook: Callable[[LifecycleChanged], None]) -> None:
        errors: list[Exception] = []
        try:
            while (change := self._next_change()) is not None:
                try:
                    hook(change)
                except Exception as error:
                    errors.append(error)
        except BaseException:
            # An interrupt is not held back. What is undelivered goes out with the next call, before newer changes.
            with self._lock:
                self._is_delivering = False
            raise
        if errors:
            raise errors[0] if len(errors) == 1 else ExceptionGroup("lifecycle hooks failed", errors)

    def _next_change(self) -> LifecycleChanged | None:
        """The oldest undelivered change. Finding none and ceasing to deliver is one act, so none is left behind."""
        with self._lock:
            if self._undelivered:
                return self._undelivered.popleft()
            self._is_delivering = False
            return None
