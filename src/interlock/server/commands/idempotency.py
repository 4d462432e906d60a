"""Whether a command was carried out before: what the log says of it, against what is asked now."""

from __future__ import annotations

from msgspec import structs, to_builtins

from interlock.agents.observations import OptionKind
from interlock.lifecycle.decisions.decisions import agree
from interlock.log.port import Log
from interlock.runtime.redaction.redactor import Redactor
from interlock.runtime.session.questions.choice import REJECTIONS, refuse_contradiction
from interlock.server.commands.validation import fit_policy, opened_of
from interlock.server.http.problems import Unfit
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import (
    DecisionAction,
    DialogAnswered,
    DialogOption,
    SessionOpened,
    ToolCallDecided,
)
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.wire.approval import Approval, ApprovalState
from interlock.vocabulary.wire.requests import ApprovalDecide
from interlock.vocabulary.wire.resources import OpenTask


def is_same_task(opened: SessionOpened, asked: OpenTask, redactor: Redactor) -> bool:
    """Whether a session of the log is the one that is asked for. Values of the environment are not kept: their names
    must do, and so must an argument list without its secrets."""
    policy = fit_policy(asked)
    redactor.learn(asked.environment)
    now = opened_of(asked, kind=opened.kind, argv=asked.argv)
    wanted = redactor.payload(structs.replace(now, policy=None if policy is None else to_builtins(policy)))
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
    is_allowed = asked.is_allowed and (option is None or option.kind not in REJECTIONS)
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
        option=label if found.option else "",  # older logs do not say
    )
    return agree(found, wanted) and found.reason == wanted.reason


def refuse_unfit_option(asked: ApprovalDecide, question: Approval) -> None:
    """An option that is not offered, and a verdict and an option that say different things, decide nothing."""
    option = _option(asked, question)
    if asked.option and option is None and question.state is ApprovalState.OPEN:
        offered = ", ".join(repr(one.label) for one in question.options) or "none"
        raise Unfit(f"there is no option {asked.option!r}", remedy=f"it offers {offered}")
    if asked.option and option is not None:
        try:
            refuse_contradiction(option.kind or OptionKind.CHOICE, asked.option, is_allowed=asked.is_allowed)
        except UsageError as error:
            raise Unfit(str(error).removesuffix(f"; {error.remedy}"), remedy=error.remedy) from error


def _option(asked: ApprovalDecide, question: Approval) -> DialogOption | None:
    if asked.option:
        return next((one for one in question.options if asked.option in (one.label, one.id)), None)
    wanted = OptionKind.ALLOW_ONCE if asked.is_allowed else OptionKind.REJECT_ONCE
    return next((one for one in question.options if one.kind == wanted), None)
