"""How a turn ended, from what its agent said and what we asked of it."""

from __future__ import annotations

from typing import assert_never

from interlock.agents.observations import Exited, TurnEnded, TurnEnding
from interlock.lifecycle.closing import Ending
from interlock.lifecycle.run import exit_to_reason
from interlock.vocabulary.actions import NextAction, NextActionKind
from interlock.vocabulary.ending_words import AGENT, TIMED_BY
from interlock.vocabulary.events.conversation import MessageSource
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import RunId
from interlock.vocabulary.run import CANCELLED, NATURAL_END, StopCode, TerminationReason
from interlock.vocabulary.states import DriverKind, ExitReason


def ending_by_agent(
    said: TurnEnded, run_id: RunId, kind: DriverKind, text: str, *, cancel_asked: bool, elapsed_seconds: float
) -> Ending:
    """By the agent's own word. `text` is what we heard of the answer; the agent's own repetition of it counts more.

    A clean end that comes while we wait for a cancel is a clean end: it was there first.
    """
    reason = _reason(said, cancel_asked=cancel_asked)
    whole = said.text if said.text is not None and said.text.strip() else text
    source = MessageSource.STREAM
    if kind is DriverKind.TERMINAL:
        whole, source = (whole, MessageSource.TRANSCRIPT) if whole.strip() else ("", MessageSource.NONE)
    is_timed = reason.stop_code == StopCode.TIMEOUT
    details: dict[str, Json] = {TIMED_BY: AGENT} if is_timed else {}
    if said.details is not None:
        details["agent"] = said.details
    return Ending(
        run_id=run_id,
        reason=reason,
        text=whole,
        source=source,
        error_kind=said.error_kind or ("silent_end" if said.ending is TurnEnding.SILENT and not cancel_asked else ""),
        error_message=said.error_message,
        budget_seconds=_told_budget(said.details) if is_timed else None,
        elapsed_seconds=elapsed_seconds if is_timed else None,
        cancel_requested=cancel_asked,
        details=details,
    )


def _told_budget(details: Json) -> float | None:
    """How much time the agent says that it gave itself; None: it did not say."""
    told = details.get("budget_seconds") if isinstance(details, dict) else None
    return float(told) if isinstance(told, int | float) and not isinstance(told, bool) else None


def _reason(said: TurnEnded, *, cancel_asked: bool) -> TerminationReason:
    match said.ending:
        case TurnEnding.NATURAL:
            return NATURAL_END
        case TurnEnding.INTERRUPTED:
            return CANCELLED
        case TurnEnding.STOPPED:
            return TerminationReason.stopped(said.stop_code or "agent_limit", said.error_message or None)
        case TurnEnding.ERROR:
            return TerminationReason.error(said.error_message or "the agent reported an error without a message")
        case TurnEnding.SILENT if cancel_asked:
            return CANCELLED
        case TurnEnding.SILENT:
            return TerminationReason.error(said.error_message or "the agent fell silent without ending its turn")
        case unreachable:
            assert_never(unreachable)


def ending_by_death(exited: Exited, exit_reason: ExitReason, run_id: RunId, text: str, *, cancel_asked: bool) -> Ending:
    """By the end of its process."""
    how = f"signal {exited.signal}" if exited.signal is not None else f"exit code {exited.code}"
    detail = how if exited.code is not None or exited.signal is not None else ""
    reason = exit_to_reason(exit_reason, stop_requested=cancel_asked, detail=detail)
    details: dict[str, Json] = {"exit_code": exited.code, "signal": exited.signal, "stderr_tail": exited.stderr_tail}
    return Ending(
        run_id=run_id,
        reason=reason,
        text=text,
        error_kind="" if reason == CANCELLED else "process_died",
        cancel_requested=cancel_asked,
        details={key: value for key, value in details.items() if value not in (None, "")},
    )


def ending_by_clock(run_id: RunId, text: str, *, budget_seconds: float | None, elapsed_seconds: float) -> Ending:
    """By the wall clock."""
    return Ending(
        run_id=run_id,
        reason=TerminationReason.stopped(StopCode.TIMEOUT),
        text=text,
        budget_seconds=budget_seconds,
        elapsed_seconds=elapsed_seconds,
    )


def ending_by_cancel(run_id: RunId, text: str = "") -> Ending:
    """By a cancel alone: the agent never got the prompt, or is seen to rest without a word."""
    return Ending(run_id=run_id, reason=CANCELLED, text=text, cancel_requested=True)


def ending_by_failure(run_id: RunId, text: str, kind: str, message: str) -> Ending:
    """By something that we found out ourselves: a stall, a prompt that never arrived."""
    advice = (NextAction(NextActionKind.SEND_AGAIN), NextAction(NextActionKind.ASK_OPERATOR))
    return Ending(
        run_id=run_id,
        reason=TerminationReason.error(message),
        text=text,
        error_kind=kind,
        error_message=message,
        next_actions=advice,
    )
