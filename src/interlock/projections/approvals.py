"""Everything that agents ask, in one shape, whether it is about a tool call or a dialog on a terminal.

Laws:
1. A question is listed from the event that recorded it; what is not in the log is not asked.
2. `open` until it is decided; `decided` until the log shows that the agent went on; then it is `closed`, with how. It
   is open again, with the reason, if the decision did not reach the agent.
3. The end of its turn closes a question: nobody can answer it any more.
4. A step of a workflow that waits for a decision is a question, too, of no turn, with the id `WORKFLOW:STEP`. The next
   fact about that step closes it, or the end of its workflow does. One that waits for a lost step asks nothing: there
   is nothing to decide.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from msgspec import structs

from interlock.lifecycle.children.workflow_step import GATE_REACHED
from interlock.vocabulary.events.audit import (
    DecisionAction,
    DecisionUndelivered,
    DialogAnswered,
    DialogClosed,
    DialogOpened,
    DialogOption,
    RunState,
    ToolCallDecided,
    ToolCallSuspended,
    WorkflowEvent,
    WorkflowEventKind,
)
from interlock.vocabulary.events.conversation import ToolResult
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import TurnId
from interlock.vocabulary.run import RunStatus
from interlock.vocabulary.states import Attention, StepState
from interlock.vocabulary.wire.approval import Approval, ApprovalState

MAX_CALLED_WITH: Final = 4_000
RELEASE: Final = "release"
GIVE_UP: Final = "give-up"
"""What can be decided about a held step that is no gate."""
PLAIN_CHOICES: Final[Mapping[str, str]] = {"go": "allow_once", "stop": "reject_once"}


class ApprovalFold:
    """Feed it a session's events in order; `approvals` holds every question, oldest first."""

    def __init__(self) -> None:
        self.approvals: dict[str, Approval] = {}
        self._of_call: dict[tuple[TurnId | None, str, int], str] = {}

    @property
    def open(self) -> tuple[Approval, ...]:
        """What somebody can answer now."""
        return tuple(one for one in self.approvals.values() if one.state is ApprovalState.OPEN)

    def add(self, event: Event) -> None:
        """Fold one event."""
        match event.data:
            case ToolCallSuspended() as asked:
                self._ask_about_call(event, asked)
            case DialogOpened() as opened:
                self._open_dialog(event, opened)
            case ToolCallDecided(target_id=target, action=action, decided_by=who):
                said = "allowed" if action is DecisionAction.RESUME else "denied"
                self._move(target, ApprovalState.DECIDED, said, who)
            case DialogAnswered(dialog_id=target, option=option, text=text, decided_by=who):
                self._move(target, ApprovalState.DECIDED, option or text, who)
            case DecisionUndelivered(target_id=target):
                self._reopen(target, event.data)
            case DialogClosed(dialog_id=target, outcome=outcome):
                self._move(target, ApprovalState.CLOSED, outcome.value)
            case ToolResult(call_id=call_id, occurrence=occurrence, error=error):
                target = self._of_call.get((event.turn_id, call_id, occurrence), "")
                self._move(target, ApprovalState.CLOSED, "" if error is None else error.kind)
            case RunState(status=RunStatus.DONE):
                self._end_turn(event.turn_id)
            case WorkflowEvent() as fact:
                self._fold_workflow(event, fact)
            case _:
                pass

    def _end_turn(self, turn_id: TurnId | None) -> None:
        for one in [one for one in self.approvals.values() if one.turn_id == turn_id]:
            if one.attention is not Attention.DECISION:  # that is of no turn
                self._move(one.approval_id, ApprovalState.CLOSED, "turn_ended")

    def _fold_workflow(self, event: Event, fact: WorkflowEvent) -> None:
        """Law 4."""
        if fact.kind is WorkflowEventKind.WORKFLOW_FINISHED:
            for one in [one for one in self.approvals if one.startswith(f"{fact.workflow_id}:")]:
                self._move(one, ApprovalState.CLOSED, "workflow_over")
            return
        target = f"{fact.workflow_id}:{fact.step_id}"
        self._move(target, ApprovalState.CLOSED, decision_of(fact), fact.decided_by)
        if _waits_for_decision(fact):
            choices = fact.choices or (RELEASE, GIVE_UP)
            self.approvals[target] = Approval(
                approval_id=target,
                session_id=event.session_id,
                turn_id=None,
                state=ApprovalState.OPEN,
                attention=Attention.DECISION,
                question=fact.question or _held_question(fact),
                options=tuple(_choice(one, choices) for one in choices),
                asked_at=event.ts,
                deadline_at=fact.answer_by,
            )

    def _ask_about_call(self, event: Event, asked: ToolCallSuspended) -> None:
        suspension = asked.ticket.suspension
        told = suspension.parameters if isinstance(suspension.parameters, dict) else {}
        self._of_call[(event.turn_id, asked.call_id, asked.occurrence)] = suspension.id
        self.approvals[suspension.id] = Approval(
            approval_id=suspension.id,
            session_id=event.session_id,
            turn_id=event.turn_id,
            state=ApprovalState.OPEN,
            attention=_attention(told.get("attention")),
            question=suspension.message,
            tool=asked.name,
            arguments=asked.args,
            options=_options(told.get("options")),
            asked_at=event.ts,
            deadline_at=asked.deadline_at,
        )

    def _open_dialog(self, event: Event, opened: DialogOpened) -> None:
        self.approvals[opened.dialog_id] = Approval(
            approval_id=opened.dialog_id,
            session_id=event.session_id,
            turn_id=event.turn_id,
            state=ApprovalState.OPEN,
            attention=opened.attention,
            question=opened.question,
            tool=opened.tool,
            arguments=opened.arguments,
            options=opened.options,
            asked_at=event.ts,
            deadline_at=opened.deadline_at,
            problem=opened.problem,
        )

    def _reopen(self, approval_id: str, lost: DecisionUndelivered) -> None:
        known = self.approvals.get(approval_id)
        if known is not None and known.state is ApprovalState.DECIDED:
            self.approvals[approval_id] = structs.replace(
                known,
                state=ApprovalState.OPEN,
                outcome="",
                decided_by="",
                problem=lost.reason,
                undelivered=known.undelivered + 1,
                deadline_at=lost.deadline_at,
            )

    def _move(self, approval_id: str, state: ApprovalState, outcome: str, decided_by: str = "") -> None:
        """Never back: an answer that comes after the close says nothing."""
        known = self.approvals.get(approval_id)
        if known is None or known.state is ApprovalState.CLOSED or known.state is state:
            return
        self.approvals[approval_id] = structs.replace(
            known,
            state=state,
            problem="",
            # What was decided says more than that the agent then went on.
            outcome=known.outcome or outcome,
            decided_by=known.decided_by or decided_by,
        )


def _waits_for_decision(fact: WorkflowEvent) -> bool:
    is_held = fact.step_state is StepState.HELD and (fact.reason == GATE_REACHED or fact.subagent_id is not None)
    return is_held or fact.step_state is StepState.NEEDS_ORCHESTRATOR


def _held_question(fact: WorkflowEvent) -> str:
    why = fact.reason.replace("_", " ")
    return f"Step {fact.step_id} waits for a decision{f': {why}' if why else ''}. Run it again, or give it up?"


def _choice(choice: str, choices: tuple[str, ...]) -> DialogOption:
    """A choice as an option. Only of exactly `go` and `stop` is it known which one allows, and which one rejects."""
    is_plain = sorted(choices) == sorted(PLAIN_CHOICES)
    return DialogOption(label=choice, kind=PLAIN_CHOICES.get(choice, "") if is_plain else "")


def decision_of(fact: WorkflowEvent) -> str:
    """What was decided about a step that waited."""
    if not fact.decided_by:
        return fact.step_state.value if fact.step_state is not None else ""
    if fact.step_state is StepState.PENDING:
        return RELEASE
    chosen = fact.checkpoint.get("choice") if isinstance(fact.checkpoint, dict) else None
    return str(chosen) if chosen else GIVE_UP


def _attention(spelled: Json) -> Attention:
    known = {one.value: one for one in Attention}
    return known.get(spelled, Attention.APPROVAL) if isinstance(spelled, str) else Attention.APPROVAL


def _options(spelled: Json) -> tuple[DialogOption, ...]:
    """The options that a suspension carries, as far as they can be read."""
    given = spelled if isinstance(spelled, list) else []
    return tuple(
        DialogOption(label=str(one["label"]), id=str(one.get("id", "")), kind=str(one.get("kind", "")))
        for one in given
        if isinstance(one, dict) and one.get("label")
    )


def called_with(approval: Approval) -> str:
    """The tool that is asked for and its arguments, in one line. Blank where nothing is to be allowed: what a
    question in words was asked with says the same again."""
    if not approval.tool or approval.attention not in (Attention.APPROVAL, Attention.PLAN):
        return ""
    arguments = "" if approval.arguments is None else json.dumps(approval.arguments, ensure_ascii=False)
    return f"{approval.tool} {arguments}".rstrip()[:MAX_CALLED_WITH]
