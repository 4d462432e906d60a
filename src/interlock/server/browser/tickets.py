"""One-time tickets: what a link to the page holds, and what a browser gives for its cookie.

Laws:
1. A ticket is used once, and not after its time. Wrong, used and late ones get the same answer.
2. What is kept is a digest, in memory: a restart forgets them all.
3. After so many failures in a minute a peer waits, also with a good ticket.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from interlock.server.http.problems import ProblemKind, RequestRefusal, TooMany
from interlock.vocabulary.wire.requests import AccessRole

TICKET_SECONDS: Final = 60.0
MAX_TICKET_SECONDS: Final = 300.0
_BYTES: Final = 16
_MAX_TICKETS: Final = 64
_MAX_FAILURES: Final = 10
_FAILURE_SECONDS: Final = 60.0
_MAX_PEERS: Final = 1_024


class BadTicket(RequestRefusal):
    """A ticket that gives no login."""

    kind = ProblemKind("bad_ticket", 401, "This link is not valid")

    def __init__(self) -> None:
        super().__init__(
            "the link was used already, is too old, or was never one", remedy="`interlock open` makes a new one"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """What a ticket gives."""

    role: AccessRole
    name: str
    ends_at_seconds: float
    issued_by: str = ""


class Tickets:
    """The tickets of one server. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._tickets: dict[bytes, Ticket] = {}
        self._failures: dict[str, deque[float]] = {}

    def __len__(self) -> int:
        return len(self._tickets)

    def issue(self, role: AccessRole, name: str, seconds: float, issued_by: str = "") -> str:
        """A new ticket. It is shown to its caller only."""
        now = self._clock()
        self._tickets = {key: one for key, one in self._tickets.items() if one.ends_at_seconds > now}
        while len(self._tickets) >= _MAX_TICKETS:  # the oldest goes first
            del self._tickets[next(iter(self._tickets))]
        spelled = secrets.token_urlsafe(_BYTES)
        self._tickets[_digest(spelled)] = Ticket(
            role=role, name=name, ends_at_seconds=now + seconds, issued_by=issued_by
        )
        return spelled

    def drop_of(self, login_id: str) -> None:
        """A login is over, and so are the tickets that it made."""
        self._tickets = {key: one for key, one in self._tickets.items() if one.issued_by != login_id}

    def redeem(self, spelled: str, peer: str) -> Ticket:
        """Use a ticket up. `BadTicket`, or `TooMany` after too many of those."""
        now = self._clock()
        failures = self._failures.pop(peer, None) or deque[float]()
        while failures and failures[0] <= now - _FAILURE_SECONDS:
            failures.popleft()
        if len(failures) >= _MAX_FAILURES:
            self._failures[peer] = failures
            raise TooMany("too many links that are not valid", retry_after_seconds=failures[0] + _FAILURE_SECONDS - now)
        found = self._tickets.pop(_digest(spelled), None)
        if found is not None and found.ends_at_seconds > now:
            return found
        failures.append(now)
        self._failures[peer] = failures
        while len(self._failures) > _MAX_PEERS:
            del self._failures[next(iter(self._failures))]
        raise BadTicket


def _digest(spelled: str) -> bytes:
    return hashlib.sha256(spelled.encode("utf-8", "surrogatepass")).digest()
