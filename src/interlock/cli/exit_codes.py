"""The exit codes of every command: one table, so that a script may rely on a number without reading text."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final, Self

from interlock.vocabulary.errors import (
    ContractError,
    InterlockError,
    MalformedEvent,
    MissingAgent,
    PeerFault,
    StillStarting,
    Unreachable,
    UsageError,
)
from interlock.vocabulary.states import TurnState


class DamagedLog(Unreachable):
    """The log cannot be asked, for what is there is no log, or is broken."""


class ExitCode(IntEnum):
    """What a command proved, as a number. `meaning` is the sentence that the documentation prints."""

    meaning: str

    COMPLETED = 0, "the command did what was asked; for a turn: it completed"
    FAILED = 1, "the work failed, a rule was broken, or the answer could not be written out"
    USAGE = 2, "the command line cannot be carried out as written; the message names the remedy"
    PARTIAL = 3, "a part was done and kept, the rest failed"
    INTERRUPTED = 4, "stopped by a person or a signal before the end"
    TIMED_OUT = 5, "the time budget ran out first"
    BLOCKED = 6, "the agent waits for an approval or an answer from a person"
    UNKNOWN = 7, "the evidence does not decide; nothing is claimed"
    UNREACHABLE = 8, "the agent, server or log could not be asked; nothing is known about its state"
    DAMAGED_LOG = 9, "the log holds bytes that are no event, or its chain is broken"
    STARTING = 10, "the server is starting and reads its log; nothing is known yet, ask again"
    NO_AGENT = 11, "the program of the agent is not installed; the message names the command that installs it"

    def __new__(cls, value: int, meaning: str) -> Self:
        member = int.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member


_BY_ERROR: Final[Mapping[type[BaseException], ExitCode]] = MappingProxyType(
    {
        UsageError: ExitCode.USAGE,
        MissingAgent: ExitCode.NO_AGENT,
        Unreachable: ExitCode.UNREACHABLE,
        StillStarting: ExitCode.STARTING,
        DamagedLog: ExitCode.DAMAGED_LOG,
        MalformedEvent: ExitCode.DAMAGED_LOG,
        PeerFault: ExitCode.FAILED,
        ContractError: ExitCode.FAILED,
        InterlockError: ExitCode.FAILED,
        KeyboardInterrupt: ExitCode.INTERRUPTED,
    }
)


def exit_code_for(error: BaseException) -> ExitCode:
    """The code of the nearest class in the table; an error that nobody foresaw is a failure."""
    return next((_BY_ERROR[kind] for kind in type(error).__mro__ if kind in _BY_ERROR), ExitCode.FAILED)


_BY_TURN: Final[Mapping[TurnState | None, ExitCode]] = MappingProxyType(
    {
        TurnState.COMPLETED: ExitCode.COMPLETED,
        TurnState.FAILED: ExitCode.FAILED,
        TurnState.PARTIAL_FAILED: ExitCode.PARTIAL,
        TurnState.INTERRUPTED: ExitCode.INTERRUPTED,
        TurnState.TIMED_OUT: ExitCode.TIMED_OUT,
        TurnState.WAITING: ExitCode.BLOCKED,
        TurnState.RUNNING: ExitCode.UNKNOWN,
        TurnState.ABANDONED: ExitCode.UNKNOWN,
        TurnState.UNKNOWN: ExitCode.UNKNOWN,
        None: ExitCode.UNKNOWN,
    }
)


def exit_code_for_turn(state: TurnState | None) -> ExitCode:
    """The code that tells how a turn stands. Open, abandoned, or not in the log at all: nothing is claimed."""
    return _BY_TURN[state]
