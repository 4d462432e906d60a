"""The words of the run lifecycle: status, why a run ended, and the one mapping between them.

JSON shapes are those of the seed: a reason is adjacently tagged, `{"type": "stopped", "value": {"code": "timeout"}}`,
absent details are left out, and `plugin_requested` is read as `behavior_requested`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, assert_never

from msgspec import Struct

from interlock.vocabulary.errors import ContractError


class RunStatus(StrEnum):
    """Coarse state of a run. Default `running`; only `done` is terminal, and it never reopens."""

    RUNNING = "running"
    WAITING = "waiting"
    DONE = "done"

    @property
    def is_terminal(self) -> bool:
        return self is RunStatus.DONE

    def can_transition_to(self, following: RunStatus) -> bool:
        """Whether a record may go from this status to `following`; staying is always allowed."""
        return self is following or following in RUN_SUCCESSORS[self]


RUN_SUCCESSORS: Final[Mapping[RunStatus, frozenset[RunStatus]]] = {
    RunStatus.RUNNING: frozenset({RunStatus.WAITING, RunStatus.DONE}),
    RunStatus.WAITING: frozenset({RunStatus.RUNNING, RunStatus.DONE}),
    RunStatus.DONE: frozenset(),
}


class StopCode(StrEnum):
    """The stop conditions that Interlock itself applies. A plugin may stop a run with a code of its own."""

    TIMEOUT = "timeout"
    MAX_ROUNDS = "max_rounds"
    TOKEN_BUDGET = "token_budget"
    CONSECUTIVE_ERRORS = "consecutive_errors"
    LOOP_DETECTED = "loop_detected"
    TOOL_CALLED = "tool_called"
    CONTENT_MATCHED = "content_matched"


_STOP_CODE_SPELLINGS: Final[Mapping[str, StopCode]] = {
    **{code.value: code for code in StopCode},
    "timeout_reached": StopCode.TIMEOUT,
    "max_rounds_reached": StopCode.MAX_ROUNDS,
    "token_budget_exceeded": StopCode.TOKEN_BUDGET,
    "consecutive_errors_exceeded": StopCode.CONSECUTIVE_ERRORS,
}


class StoppedReason(Struct, frozen=True, omit_defaults=True):
    """Which stop condition fired. The code is kept as it was given; `known` reads other spellings of ours."""

    code: str
    detail: str | None = None

    def __post_init__(self) -> None:
        if not self.code.strip():
            raise ContractError("a stop code must not be blank")

    @classmethod
    def with_detail(cls, code: str, detail: str) -> StoppedReason:
        return cls(code, detail)

    @property
    def known(self) -> StopCode | None:
        """Our own code, by whichever spelling, or None for a foreign one."""
        return _STOP_CODE_SPELLINGS.get(self.code)


class ReasonType(StrEnum):
    """The kinds of `TerminationReason`."""

    NATURAL_END = "natural_end"
    BEHAVIOR_REQUESTED = "behavior_requested"
    STOPPED = "stopped"
    CANCELLED = "cancelled"
    SUSPENDED = "suspended"
    ERROR = "error"

    @classmethod
    def _missing_(cls, value: object) -> ReasonType | None:
        return cls.BEHAVIOR_REQUESTED if value == "plugin_requested" else None


class TerminationReason(Struct, frozen=True, omit_defaults=True):
    """Why a run ended, or why it pauses. Only `stopped` and `error` carry a value."""

    type: ReasonType
    value: StoppedReason | str | None = None

    def __post_init__(self) -> None:
        match self.type:
            case ReasonType.STOPPED:
                is_valid = isinstance(self.value, StoppedReason)
            case ReasonType.ERROR:
                is_valid = isinstance(self.value, str)
            case _:
                is_valid = self.value is None
        if not is_valid:
            raise ContractError(f"a {self.type.value} reason does not carry {type(self.value).__name__}")

    @classmethod
    def stopped(cls, code: str, detail: str | None = None) -> TerminationReason:
        return cls(ReasonType.STOPPED, StoppedReason(code, detail))

    @classmethod
    def stopped_with_detail(cls, code: str, detail: str) -> TerminationReason:
        return cls(ReasonType.STOPPED, StoppedReason.with_detail(code, detail))

    @classmethod
    def error(cls, message: str) -> TerminationReason:
        return cls(ReasonType.ERROR, message)

    @property
    def stop_code(self) -> str | None:
        """The stop code to decide by: our own for any of its spellings, a foreign one as it was given."""
        if not isinstance(self.value, StoppedReason):
            return None
        return self.value.code if self.value.known is None else self.value.known.value

    def to_run_status(self) -> tuple[RunStatus, str | None]:
        """Return the durable status and its `done_reason`. This is the only mapping between the two."""
        match self.type:
            case ReasonType.SUSPENDED:
                return RunStatus.WAITING, None
            case ReasonType.NATURAL_END:
                return RunStatus.DONE, "natural"
            case ReasonType.BEHAVIOR_REQUESTED:
                return RunStatus.DONE, "behavior_requested"
            case ReasonType.CANCELLED:
                return RunStatus.DONE, "cancelled"
            case ReasonType.ERROR:
                return RunStatus.DONE, "error"
            case ReasonType.STOPPED:
                assert isinstance(self.value, StoppedReason), "checked when it was made"
                return RunStatus.DONE, f"stopped:{self.value.code}"
            case unreachable:
                assert_never(unreachable)


NATURAL_END: Final = TerminationReason(ReasonType.NATURAL_END)
BEHAVIOR_REQUESTED: Final = TerminationReason(ReasonType.BEHAVIOR_REQUESTED)
CANCELLED: Final = TerminationReason(ReasonType.CANCELLED)
SUSPENDED: Final = TerminationReason(ReasonType.SUSPENDED)
