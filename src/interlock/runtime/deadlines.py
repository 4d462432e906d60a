"""Many deadlines, one timer: the shell arms a timer for `earliest()` and asks `pop_due(now)` when it fires."""

from __future__ import annotations

import heapq
import math
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from interlock.vocabulary.errors import ContractError

KeyT = TypeVar("KeyT", bound=Hashable)

_SLACK: Final = 16


def earliest(*moments: float | None) -> float | None:
    """The first of these moments; None where there is none."""
    found = [moment for moment in moments if moment is not None]
    return min(found) if found else None


class DeadlineHeap(Generic[KeyT]):
    """One deadline a key, in the order in which they fall due; those of one moment in the order in which they were set.

    `set` and `cancel` cost O(log n) amortised: a replaced or cancelled entry stays in the heap until it comes to the
    top, or until such entries outnumber the living. For one owner: it has no lock.
    """

    def __init__(self) -> None:
        # The serial number settles ties and tells a living entry from a replaced one. Keys are never compared.
        self._heap: list[tuple[float, int, KeyT]] = []
        self._serials: dict[KeyT, int] = {}
        self._next_serial = 0

    def __len__(self) -> int:
        return len(self._serials)

    def set(self, key: KeyT, when: float) -> None:
        """Give `key` this deadline in place of the one it had."""
        if not math.isfinite(when):
            raise ContractError(f"a deadline must be a finite time, got {when} for {key!r}; `cancel` means never")
        self._serials[key] = self._next_serial
        heapq.heappush(self._heap, (when, self._next_serial, key))
        self._next_serial += 1
        self._compact()

    def cancel(self, key: KeyT) -> None:
        """Forget the deadline of `key`, if it has one."""
        self._serials.pop(key, None)
        self._compact()

    def earliest(self) -> float | None:
        """The next deadline, due or not; None when there is none."""
        while self._heap and not self._is_living(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: float) -> list[KeyT]:
        """Remove and return every key whose deadline is not after `now`."""
        due: list[KeyT] = []
        while (when := self.earliest()) is not None and when <= now:
            _, _, key = heapq.heappop(self._heap)
            del self._serials[key]
            due.append(key)
        return due

    def _is_living(self, entry: tuple[float, int, KeyT]) -> bool:
        _, serial, key = entry
        return self._serials.get(key) == serial

    def _compact(self) -> None:
        if len(self._heap) > 2 * len(self._serials) + _SLACK:
            self._heap = [entry for entry in self._heap if self._is_living(entry)]
            heapq.heapify(self._heap)
