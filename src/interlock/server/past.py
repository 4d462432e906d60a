"""Whether a command was carried out before: what the log says of it, against what is asked now."""

from __future__ import annotations

from typing import Final

from msgspec import structs, to_builtins

from interlock.agents.observations import OptionKind
from interlock.agents.pool.masking import masked_argv
from interlock.lifecycle.decisions import agree
from interlock.log.port import Log
from interlock.server.fitness import fit_policy, opened_of
from interlock.server.shapes import OpenTask
from interlock.vocabulary.approval import Approval
from interlock.vocabulary.audit import DecisionAction, DialogAnswered, DialogOption, SessionOpened, ToolCallDecided
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.requests import ApprovalDecide

_REJECTIONS: Final = frozenset({OptionKind.REJECT_ONCE, OptionKind.REJECT_ALWAYS})


def is_same_task(opened: SessionOpened, asked: OpenTask) -> bool:
    """Whether a session of the log is the one that is asked for. Values of the environment are not kept: their names
    must do, and so must an argument list without its secrets."""
    policy = fit_policy(asked)
    now = opened_of(asked, kind=opened.kind, argv=masked_argv(asked.argv))
    wanted = structs.replace(now, policy=None if policy is None else to_builtins(policy))
    return bool(to_builtins(wanted) == to_builtins(opened))


async def find_decision(log: Log, asked: ApprovalDecide) -> ToolCallDecided | DialogAnswered | None:
    """The answer to this question that the log has."""
    return next(
        (
            event.data
            for event in reversed((await log.read(SessionId(asked.task_id))).events)
            if (isinstance(event.data, ToolCallDecided) and event.data.target_id == asked.approval_id)
            or (isinstance(event.data, DialogAnswered) and event.data.dialog_id == asked.approval_id)
        ),
        None,
    )


def is_same_decision(found: ToolCallDecided | DialogAnswered, asked: ApprovalDecide, question: Approval) -> bool:
    """Whether an answer that was given says what is said now: it is read as the runtime would read it."""
    option = _option(asked, question)
    if asked.option and option is None:
        return False
    is_allowed = asked.is_allowed and (option is None or option.kind not in _REJECTIONS)
    label = "" if option is None else option.label
    if isinstance(found, DialogAnswered):
        text = asked.text or ("" if label else "yes" if is_allowed else "no")
        return (found.option, found.text) == (label, text)
    is_choice = option is not None and option.kind == OptionKind.CHOICE
    result = label if asked.data is None and is_choice else asked.data
    wanted = ToolCallDecided(
        target_id=found.target_id,
        action=DecisionAction.RESUME if is_allowed else DecisionAction.CANCEL,
        result=result if is_allowed else None,
        reason=asked.text,
    )
    return agree(found, wanted) and found.reason == wanted.reason


def _option(asked: ApprovalDecide, question: Approval) -> DialogOption | None:
    if asked.option:
        return next((one for one in question.options if asked.option in (one.label, one.id)), None)
    wanted = OptionKind.ALLOW_ONCE if asked.is_allowed else OptionKind.REJECT_ONCE
    return next((one for one in question.options if one.kind == wanted), None)
