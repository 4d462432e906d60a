"""Who broke the rule: us, the caller, or the world.

`ContractError` is our own bug or illegal command and changes nothing. `UsageError` is the caller's, and its message
names the remedy. `PeerFault` is the agent's, the network's or a damaged file's: it becomes an event, not a traceback.
`Unreachable` means that we cannot know, and is never drawn as empty or idle.
"""

from __future__ import annotations


class InterlockError(Exception):
    """Base of every error that Interlock raises on purpose."""


class ContractError(InterlockError, ValueError):
    """We broke one of our own rules. The state that refused the command is unchanged.

    It is a `ValueError` too, so that a struct which refuses its own fields is named with its path when it is decoded.
    """


class UsageError(InterlockError):
    """The caller asked for something that cannot be done; `remedy` says what to do instead."""

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(f"{message}; {remedy}" if remedy else message)
        self.remedy = remedy


class MissingAgent(UsageError):
    """The program of the agent that was asked for is not installed; `remedy` says how to install it."""


class PeerFault(InterlockError):
    """Something outside (an agent, the network, a file) broke its side of a protocol."""


class Unreachable(InterlockError):
    """The thing asked about could not be asked. Nothing is known about its state."""


class StillStarting(Unreachable):
    """The server that was asked for is starting: it reads its log, and answers when it has."""


class MalformedEvent(PeerFault):
    """Bytes that are not an event. Names the field, and the line when the source has lines."""

    def __init__(self, reason: str, *, field: str = "$", line: int | None = None) -> None:
        where = f"line {line}: " if line is not None else ""
        super().__init__(f"{where}{field}: {reason}")
        self.reason = reason
        self.field = field
        self.line = line

    def at_line(self, line: int) -> MalformedEvent:
        """Return the same fault with the line of its source named."""
        return MalformedEvent(self.reason, field=self.field, line=line)
