"""What became of a turn, for a caller: the answer of a turn that completed, or a typed error that says what is known.

Laws:
1. An answer is the text of a turn that completed, and of no other. What was kept of another turn is `partial_text`.
2. A result is never better than what the log proves: blocked, unknown and removed prompts are results of their own, and
   text that was read off a screen is not verified.
3. An answer that no channel gives is missing, and not empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from interlock.client.prompt_watch import PromptEnding, PromptOutcome
from interlock.lifecycle.turns import TurnRecord
from interlock.vocabulary.ending_words import repeats
from interlock.vocabulary.errors import InterlockError
from interlock.vocabulary.ids import PromptId, SessionId, TurnId
from interlock.vocabulary.states import TurnState
from interlock.vocabulary.wire.approval import Approval, ApprovalState
from interlock.vocabulary.wire.frames import Message, MessageStatus, Role


class TurnResult(StrEnum):
    """How a turn ended, or why it cannot be waited for."""

    COMPLETED = "completed"
    PARTIAL = "partial"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    INTERRUPTED = "interrupted"
    BLOCKED = "blocked"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnText:
    """The words of a turn. `label` says in words what they are not: whole, confirmed or verified."""

    text: str
    is_partial: bool
    is_verified: bool
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnOutcome:
    """How a turn ended. `answer` is its text if it completed, and None otherwise; `partial_text` is what was kept of
    one that did not. `why` says in one sentence what is known. `turn` is the server's record, with the evidence; None:
    the prompt has no turn. `approvals` are the open questions of a turn that is blocked."""

    result: TurnResult
    session_id: SessionId
    prompt_id: PromptId
    why: str
    turn: TurnRecord | None = None
    answer: str | None = None
    partial_text: str = ""
    is_verified: bool = True
    approvals: tuple[Approval, ...] = ()

    @property
    def is_completed(self) -> bool:
        return self.result is TurnResult.COMPLETED


class TurnError(InterlockError):
    """A turn gave no answer. `outcome` is all that is known of it."""

    def __init__(self, outcome: TurnOutcome, message: str = "") -> None:
        kept = "; a part of its text was kept, see `partial_text`" if outcome.partial_text else ""
        super().__init__(f"{message or outcome.why}{kept}; `interlock why {outcome.session_id}` shows the evidence")
        self.outcome = outcome

    @property
    def partial_text(self) -> str:
        """What was kept of the text. It is not an answer."""
        return self.outcome.partial_text


class TurnFailedError(TurnError):
    """The turn failed, and nothing of its answer was kept."""


class TurnPartialError(TurnError):
    """The turn failed, and a part of its answer was kept."""


class TurnTimedOutError(TurnError):
    """The turn ran out of its own time budget. The bound of a wait is `TimeoutError`, and says nothing of the turn."""


class TurnInterruptedError(TurnError):
    """The turn was stopped, or its prompt was removed before it was sent."""


class TurnBlockedError(TurnError):
    """The turn needs a person, or its queue is paused. It can still complete: wait again."""


class TurnUnknownError(TurnError):
    """It is not known how the turn stands."""


class NoAnswerError(TurnError):
    """The turn completed, and its text is not available, or not verified."""


_ERRORS: Final[dict[TurnResult, type[TurnError]]] = {
    TurnResult.PARTIAL: TurnPartialError,
    TurnResult.FAILED: TurnFailedError,
    TurnResult.TIMED_OUT: TurnTimedOutError,
    TurnResult.INTERRUPTED: TurnInterruptedError,
    TurnResult.BLOCKED: TurnBlockedError,
    TurnResult.UNKNOWN: TurnUnknownError,
}
_BY_STATE: Final = {
    TurnState.COMPLETED: TurnResult.COMPLETED,
    TurnState.PARTIAL_FAILED: TurnResult.PARTIAL,
    TurnState.FAILED: TurnResult.FAILED,
    TurnState.TIMED_OUT: TurnResult.TIMED_OUT,
    TurnState.INTERRUPTED: TurnResult.INTERRUPTED,
}
_BY_ENDING: Final = {
    PromptEnding.BLOCKED: TurnResult.BLOCKED,
    PromptEnding.HELD: TurnResult.BLOCKED,
    PromptEnding.TAKEN_BACK: TurnResult.INTERRUPTED,
    PromptEnding.UNKNOWN: TurnResult.UNKNOWN,
    PromptEnding.UNREADABLE: TurnResult.UNKNOWN,
}


def check_completed(outcome: TurnOutcome) -> None:
    """Raise the error of an outcome that is not `completed`."""
    if outcome.result in _ERRORS:
        raise _ERRORS[outcome.result](outcome)


def answer_of(outcome: TurnOutcome, *, unverified: bool = False) -> str:
    """The answer, or the error that says why there is none."""
    check_completed(outcome)
    if outcome.answer is None:
        raise NoAnswerError(outcome, "the turn completed; no channel gives its text")
    if not (outcome.is_verified or unverified):
        raise NoAnswerError(
            outcome, "the turn completed; its text was read off a screen (`answer(unverified=True)` gives it)"
        )
    return outcome.answer


def outcome_of(prompt_id: PromptId, found: PromptOutcome, messages: Sequence[Message]) -> TurnOutcome:
    """What a caller is told of a prompt, by the last look and the messages of its turn."""
    turn, summary = found.look.turn, found.look.summary
    is_ended = found.ending is PromptEnding.ENDED and turn is not None
    result = _BY_STATE[turn.state] if turn is not None and is_ended else _BY_ENDING[found.ending]
    said = None if turn is None else turn_text(turn.turn_id, messages, is_completed=result is TurnResult.COMPLETED)
    return TurnOutcome(
        result=result,
        session_id=summary.task_id,
        prompt_id=prompt_id,
        why=_why(prompt_id, found, result),
        turn=turn,
        answer=said.text if said is not None and not said.is_partial else None,
        partial_text=said.text if said is not None and said.is_partial else "",
        is_verified=said is None or said.is_verified,
        approvals=open_questions(found.look.detail.approvals) if result is TurnResult.BLOCKED else (),
    )


def open_questions(approvals: Iterable[Approval]) -> tuple[Approval, ...]:
    """What somebody can answer now."""
    return tuple(one for one in approvals if one.state is ApprovalState.OPEN and one.is_answerable)


def turn_text(turn_id: TurnId, messages: Iterable[Message], *, is_completed: bool) -> TurnText | None:
    """The last answer of a turn that completed; everything that was kept of one that did not; None: no text."""
    mine = [one for one in messages if one.turn_id == turn_id and one.role is Role.ANSWER]
    if is_completed:
        kept = [one for one in mine if one.status is MessageStatus.COMPLETED][-1:]
    else:
        kept = [one for one in mine if one.text]
    if not kept:
        return None
    return TurnText(
        text="\n".join(one.text for one in kept),
        is_partial=not is_completed,
        is_verified=all(one.is_verified for one in kept),
        label=kept[-1].label,
    )


def _why(prompt_id: PromptId, found: PromptOutcome, result: TurnResult) -> str:
    turn, look = found.look.turn, found.look
    match found.ending:
        case PromptEnding.ENDED if turn is not None:
            details = ": ".join(one for one in (turn.error_kind, turn.error_message) if not repeats(turn.state, one))
            return f"the turn {_VERBS[result]}{f': {details}' if details else ''}"
        case PromptEnding.HELD:
            return f"the queue is held: {look.detail.queue.gate_reason or 'somebody asked for it'}"
        case PromptEnding.BLOCKED:
            asked = [one.question for one in open_questions(look.detail.approvals)]
            return f"the agent waits for a person: {'; '.join(asked) or look.summary.question or 'see its screen'}"
        case PromptEnding.TAKEN_BACK:
            return f"prompt {prompt_id} is not in this task: it was removed before it was sent, or never sent"
        case PromptEnding.UNREADABLE:
            return f"no profile fits the agent's screen, so prompt {prompt_id} stays queued"
        case _ if turn is not None and turn.state is TurnState.UNKNOWN:
            return f"events of turn {turn.turn_id} are lost: how it ended is not known"
        case _ if turn is not None:
            return f"turn {turn.turn_id} has no end, and no server runs it in task {look.summary.task_id}"
        case _:
            return f"prompt {prompt_id} waits, and no server runs it in task {look.summary.task_id}"


_VERBS: Final = {
    TurnResult.COMPLETED: "completed",
    TurnResult.PARTIAL: "failed part of the way",
    TurnResult.FAILED: "failed",
    TurnResult.TIMED_OUT: "timed out",
    TurnResult.INTERRUPTED: "was interrupted",
}


class TextReader:
    """Gives what is new of the text of a turn, message after message, with a line break between two."""

    def __init__(self) -> None:
        self._heard: dict[str, int] = {}

    def read(self, messages: Iterable[Message], turn_id: TurnId | None) -> str:
        """What was added since the last call. A message takes the place of the stream that it was."""
        pieces: list[str] = []
        for one in messages:
            if one.turn_id != turn_id or turn_id is None or one.role not in (Role.ANSWER, Role.COMMENTARY):
                continue
            key = one.stream_id or str(one.message_id)
            heard = self._heard.get(key, 0)
            if len(one.text) > heard:
                is_next = not heard and any(self._heard.values())
                pieces.append(("\n" if is_next else "") + one.text[heard:])
                self._heard[key] = len(one.text)
        return "".join(pieces)
