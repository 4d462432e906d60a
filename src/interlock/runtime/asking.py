"""What an agent asks, from the question to the proof that it went on.

Laws:
1. Every question is a record before it is shown: a suspended tool call where it is about one, else a dialog.
2. An answer is persisted, then given to the agent, once. It is confirmed by what the agent does next.
3. A question that the agent takes back, or that outlives its turn, is closed as such. Past its deadline: no.
4. A question that was open when an earlier runtime died is the same one if it is still asked. If it had an answer then,
   it is asked anew: nobody knows whether what is asked now is what was answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from interlock.agents.observations import ApprovalAsked, ApprovalOption, OptionKind
from interlock.agents.port import Decision
from interlock.lifecycle import approvals
from interlock.lifecycle.approvals import (
    CallDecided,
    CallRequested,
    CallsInput,
    CallSuspended,
    DecisionRejected,
    Persist,
    TimerFired,
)
from interlock.lifecycle.decisions import is_suspended
from interlock.lifecycle.dialogs import DialogState
from interlock.lifecycle.toolcall import CallKey, ToolCallState
from interlock.runtime.acts import Answer
from interlock.runtime.book import SessionBook
from interlock.vocabulary.audit import (
    DecisionAction,
    DialogAnswered,
    DialogClosed,
    DialogOpened,
    DialogOption,
    DialogOutcome,
    PendingCall,
    Suspension,
    SuspensionTicket,
    ToolCallDecided,
)
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.ids import CallId
from interlock.vocabulary.registry import Json
from interlock.vocabulary.states import Attention


@dataclass(slots=True)
class _Question:
    """One question of this spawn: who asked, and what stands for it in the log. `is_given`: the decision did reach the
    agent, or may have."""

    approval_id: str
    asked: ApprovalAsked
    key: CallKey | None
    deadline_at: datetime | None
    decision: Decision | None = None
    confirm_by_seconds: float | None = None
    attempts: int = 0
    is_given: bool = False
    problem: str = ""


class Asking:
    """The open questions of one session. `append` writes to the log and folds into the book at once."""

    def __init__(self, book: SessionBook, append: Callable[..., None], new_id: Callable[[str], str]) -> None:
        self._book = book
        self._append = append
        self._new_id = new_id
        self.questions: dict[str, _Question] = {}

    @property
    def open_count(self) -> int:
        """How many decisions the run waits for."""
        dialogs = self._book.dialogs.open.values()
        return len(self._suspended()) + sum(dialog.state is DialogState.OPEN for dialog in dialogs)

    def _suspended(self) -> list[ToolCallState]:
        """The calls that wait for a decision. One that the agent does not ask about any more waits for none."""
        waiting = self._book.suspended if self._book.turn is not None else ()
        return [call for call in waiting if _approval_id(call) not in self._book.closed_questions]

    @property
    def problem(self) -> str:
        """What is wrong with the delivery of a decision; blank: nothing."""
        return next((question.problem for question in self.questions.values() if question.problem), "")

    @property
    def attention(self) -> Attention:
        """What a person is needed for, the newest question first."""
        waiting = [question for question in self.questions.values() if question.decision is None]
        return waiting[-1].asked.attention if waiting else Attention.NONE

    def ask(self, asked: ApprovalAsked, now: datetime, seconds: float | None) -> None:
        """Take down a question. The same request again is a repeat."""
        if any(question.asked.request_id == asked.request_id for question in self.questions.values()):
            return
        if self._take_over(asked):
            return  # an agent that outlived its runtime still asks what it asked: the record is there
        self.close_left(DialogOutcome.WITHDRAWN)
        deadline_at = None if seconds is None else now + timedelta(seconds=seconds)
        approval_id = self._new_id("apr")
        is_of_a_call = bool(asked.call_id) and not asked.sub_agent and self._book.turn is not None
        key = self._suspend(approval_id, asked, now, deadline_at) if is_of_a_call else None
        if key is None:
            options = tuple(
                DialogOption(label=option.label, id=option.id, kind=option.kind.value)
                for option in asked.options
                if option.label
            )
            self._append(
                DialogOpened(
                    dialog_id=approval_id,
                    attention=asked.attention,
                    question=asked.question,
                    options=options,
                    deadline_at=deadline_at,
                )
            )
        self.questions[approval_id] = _Question(approval_id, asked, key, deadline_at)

    def _take_over(self, asked: ApprovalAsked) -> bool:
        """Whether an earlier runtime took this question down, and nobody answered it."""
        for call in self._suspended():
            left = _approval_id(call)
            if left and left not in self.questions and call.key.call_id == asked.call_id:
                self.questions[left] = _Question(left, asked, call.key, call.deadline_at)
                return True
        labels = [option.label for option in asked.options if option.label]
        for left, dialog in self._book.dialogs.open.items():
            is_same = dialog.opened.question == asked.question and [o.label for o in dialog.opened.options] == labels
            if is_same and dialog.state is DialogState.OPEN and left not in self.questions:
                self.questions[left] = _Question(left, asked, None, dialog.opened.deadline_at)
                return True
        return False

    def _suspend(
        self, approval_id: str, asked: ApprovalAsked, now: datetime, deadline_at: datetime | None
    ) -> CallKey | None:
        turn_id, calls = self._book.turn_id, self._book.calls
        if turn_id is None or calls is None:
            return None
        call_id, name = CallId(asked.call_id), asked.name or "tool"
        known = calls.latest(call_id)
        if known is None or not known.is_open:
            self.step(CallRequested(turn_id, call_id, name, asked.args), now)
        call = self._book.calls.latest(call_id) if self._book.calls is not None else None
        if call is None or not call.is_open or is_suspended(call):
            return None
        ticket = SuspensionTicket(
            suspension=Suspension(
                id=approval_id,
                action=f"tool:{call.tool_name}",
                message=asked.question,
                parameters={"attention": asked.attention.value, "options": [_option(one) for one in asked.options]},
                response_schema=asked.response_schema,
            ),
            pending=PendingCall(id=approval_id, name=call.tool_name, arguments=asked.args),
        )
        self.step(CallSuspended(call.key, ticket, deadline_at), now)
        return call.key

    def step(self, input: CallsInput, now: datetime) -> tuple[approvals.Output, ...]:
        """Tell the tool calls of the open turn something, and write down what follows."""
        if self._book.calls is None:
            return ()
        _, outputs = approvals.step(self._book.calls, input, now)
        for output in outputs:
            if isinstance(output, Persist):
                self._append(output.record)
        return outputs

    def answer(self, given: Answer, now: datetime) -> Decision | None:
        """Persist an answer, and return what to tell the agent; None for a repeat. `UsageError` where it cannot be."""
        question = self.questions.get(given.approval_id)
        if question is None:
            raise UsageError(f"nothing is asked as {given.approval_id}", remedy="look at what is asked now")
        option = _chosen(question.asked.options, given)
        is_allowed = given.is_allowed and (option is None or option.kind not in _REJECTIONS)
        if question.key is None:
            is_new = self._answer_dialog(given, option, is_allowed=is_allowed)
        else:
            is_new = self._decide_call(given, option, now, is_allowed=is_allowed)
        if not is_new:
            return self._once_more(question)
        question.decision = Decision(
            request_id=question.asked.request_id,
            is_allowed=is_allowed,
            option_id="" if option is None else option.id,
            option_label="" if option is None else option.label,
            text=given.text,
            data=given.data,
        )
        return question.decision

    def _once_more(self, question: _Question) -> Decision | None:
        """A repeat changes nothing, but for a decision that certainly did not reach the agent."""
        is_lost = bool(question.problem) and not question.is_given
        if is_lost:
            question.attempts, question.problem = 0, ""
        return question.decision if is_lost else None

    def _answer_dialog(self, given: Answer, option: ApprovalOption | None, *, is_allowed: bool) -> bool:
        label = "" if option is None else option.label
        text = given.text or ("" if label else "yes" if is_allowed else "no")
        told = DialogAnswered(
            dialog_id=given.approval_id,
            option=label,
            text=text,
            decision_id=given.decision_id,
            decided_by=given.decided_by,
        )
        record = self._book.dialogs.answer(told)
        if record is not None:
            self._append(record)
        return record is not None

    def _decide_call(self, given: Answer, option: ApprovalOption | None, now: datetime, *, is_allowed: bool) -> bool:
        result: Json = given.data
        if result is None and option is not None and option.kind is OptionKind.CHOICE:
            result = option.label
        decided = ToolCallDecided(
            target_id=given.approval_id,
            action=DecisionAction.RESUME if is_allowed else DecisionAction.CANCEL,
            decision_id=given.decision_id or given.approval_id,
            result=result if is_allowed else None,
            reason=given.text,
            decided_by=given.decided_by,
        )
        outputs = self.step(CallDecided(decided, self._book.turn_id), now)
        for output in outputs:
            if isinstance(output, DecisionRejected):
                raise UsageError(
                    f"the decision has no effect: {output.reason.value}", remedy="look at what is asked now"
                )
        return bool(outputs)

    def gone(self, request_id: str, *, is_answered: bool) -> None:
        """The agent moved on from a question."""
        for question in [one for one in self.questions.values() if one.asked.request_id == request_id]:
            self._close(question, DialogOutcome.ANSWERED if is_answered else DialogOutcome.WITHDRAWN)

    def moved_on(self) -> None:
        """The agent did something else: every answer that it was given has been taken."""
        self.close_left(DialogOutcome.WITHDRAWN)
        for question in [one for one in self.questions.values() if one.decision is not None and one.is_given]:
            self._close(question, DialogOutcome.ANSWERED)

    def end(self, *, is_agent_gone: bool = False) -> None:
        """The turn is over, and nothing of it is asked any more. What a child of the agent asks stays asked."""
        for question in list(self.questions.values()):
            if is_agent_gone or not question.asked.sub_agent:
                self._close(question, DialogOutcome.TURN_ENDED)
        self.close_left(DialogOutcome.TURN_ENDED)

    def close_left(self, outcome: DialogOutcome) -> None:
        """Close what an earlier runtime left open and the agent does not ask any more."""
        for left, dialog in list(self._book.dialogs.open.items()):
            if left not in self.questions:
                is_answered = dialog.state is DialogState.ANSWERED and outcome is DialogOutcome.WITHDRAWN
                self._append(DialogClosed(dialog_id=left, outcome=DialogOutcome.ANSWERED if is_answered else outcome))
        for call in self._suspended():
            left = _approval_id(call)
            if left not in self.questions and outcome is not DialogOutcome.TURN_ENDED:
                self._append(DialogClosed(dialog_id=left, outcome=outcome))

    def _close(self, question: _Question, outcome: DialogOutcome) -> None:
        del self.questions[question.approval_id]
        # What became of a call that nobody asks about any more, its result will tell.
        waiting = [] if outcome is DialogOutcome.TURN_ENDED else [_approval_id(call) for call in self._suspended()]
        if question.approval_id in (*self._book.dialogs.open, *waiting):
            self._append(DialogClosed(dialog_id=question.approval_id, outcome=outcome))

    def expire(self, now: datetime) -> Iterator[Decision]:
        """What to tell the agent about questions whose time is up."""
        self.step(TimerFired(), now)
        for question in list(self.questions.values()):
            is_due = question.deadline_at is not None and question.deadline_at <= now
            if is_due and question.decision is None:
                text = "No decision came before the deadline"
                if question.key is None:
                    self._append(DialogClosed(dialog_id=question.approval_id, outcome=DialogOutcome.EXPIRED))
                question.decision = Decision(request_id=question.asked.request_id, is_allowed=False, text=text)
                yield question.decision

    def of_request(self, request_id: str) -> _Question | None:
        return next((one for one in self.questions.values() if one.asked.request_id == request_id), None)


def _approval_id(call: ToolCallState) -> str:
    return "" if call.ticket is None else call.ticket.suspension.id


_REJECTIONS = (OptionKind.REJECT_ONCE, OptionKind.REJECT_ALWAYS)


def _option(option: ApprovalOption) -> Json:
    return {"id": option.id, "label": option.label, "kind": option.kind.value}


def _chosen(options: tuple[ApprovalOption, ...], given: Answer) -> ApprovalOption | None:
    """The option that an answer means: by its text, else by what it amounts to where that is told."""
    if given.option:
        named = [option for option in options if given.option in (option.label, option.id)]
        if not named:
            offered = ", ".join(repr(option.label) for option in options) or "none"
            raise UsageError(f"there is no option {given.option!r}", remedy=f"it offers {offered}")
        return named[0]
    wanted = OptionKind.ALLOW_ONCE if given.is_allowed else OptionKind.REJECT_ONCE
    return next((option for option in options if option.kind is wanted), None)
