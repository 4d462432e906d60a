"""The questions of one session: each one recorded, stepped, and closed by what the agent does.

Laws:
1. Every question is a record before it is shown: a suspended tool call where it is about one, else a dialog.
2. An answer is persisted, then given to the agent. A verdict and an option that contradict each other are refused
   before anything is written. The same answer twice is one answer; another one is told what was decided.
3. An agent may not decide what it asks: a decision from inside its own process tree is refused, and that is recorded.
4. A decision that did not reach the agent is taken back in the log, with the reason, and the question is open again.
5. A question that the agent takes back, or that outlives its turn, is closed as such.
6. A question that was open when an earlier runtime died is the same one if it is still asked. If it had an answer then,
   it is asked anew: nobody knows whether what is asked now is what was answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

from interlock.agents.observations import ApprovalAsked, ApprovalOption
from interlock.agents.port import Decision
from interlock.lifecycle.decisions import approvals
from interlock.lifecycle.decisions.approvals import (
    CallDecided,
    CallRequested,
    CallsInput,
    CallSuspended,
    DecisionDelivered,
    DecisionLost,
    DecisionRejected,
    Persist,
)
from interlock.lifecycle.decisions.decisions import is_suspended
from interlock.lifecycle.decisions.dialogs import DialogState
from interlock.lifecycle.decisions.toolcall import CallKey, ToolCallState
from interlock.runtime.policy import Instant
from interlock.runtime.session.inputs import AnswerQuestion
from interlock.runtime.session.questions.choice import (
    UNNAMED_TOOL,
    chosen_option,
    dialog_answer,
    offered,
    tool_decision,
    without_lasting_allow,
)
from interlock.runtime.session.questions.question import (
    AnswerDeliveryUnknown,
    AnswerNotDelivered,
    AskerGone,
    ConfirmDue,
    DecideQuestion,
    Delivered,
    Dropped,
    Expire,
    Give,
    MovedOn,
    Note,
    Question,
    QuestionInput,
    QuestionState,
    Reopen,
    step,
)
from interlock.runtime.session_fold import SessionFold
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import (
    Anomaly,
    DecisionUndelivered,
    DialogClosed,
    DialogOpened,
    DialogOutcome,
    PendingCall,
    Suspension,
    SuspensionTicket,
)
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import CallId
from interlock.vocabulary.states import Attention, ToolCallStatus


class SessionQuestions:
    """The questions of one session that are not closed. `append` writes to the log and folds into the book at once.
    What is returned is to be given to the agent."""

    def __init__(
        self, book: SessionFold, append: Callable[..., None], new_id: Callable[[str], str], confirm_seconds: float
    ) -> None:
        self._book = book
        self._append = append
        self._new_id = new_id
        self._confirm_seconds = confirm_seconds
        self.questions: dict[str, Question] = {}

    @property
    def has_any(self) -> bool:
        """Whether anything is asked, or was and is not closed: here, or in the log."""
        return bool(self.questions or self._book.dialogs.open or self._book.suspended)

    @property
    def open_count(self) -> int:
        """How many decisions the run waits for."""
        if not self.has_any:
            return 0
        dialogs = self._book.dialogs.open.values()
        return len(self._suspended()) + sum(dialog.state is DialogState.OPEN for dialog in dialogs)

    @property
    def own_open_count(self) -> int:
        """How many questions of the agent itself, not of a child, nobody has decided."""
        return sum(one.state is QuestionState.OPEN and not one.asked.sub_agent for one in self.questions.values())

    @property
    def is_answer_pending(self) -> bool:
        """Whether the agent has yet to go on after a decision."""
        return any(one.state is not QuestionState.OPEN and not one.asked.sub_agent for one in self.questions.values())

    def _suspended(self) -> list[ToolCallState]:
        """The calls that wait for a decision. One that the agent does not ask about any more waits for none."""
        waiting = self._book.suspended if self._book.turn is not None else ()
        return [call for call in waiting if _approval_id(call) not in self._book.closed_questions]

    @property
    def problem(self) -> str:
        """What is wrong with the delivery of a decision; blank: nothing."""
        if not self.questions:
            return ""
        return next((question.problem for question in self.questions.values() if question.problem), "")

    @property
    def attention(self) -> Attention:
        """What a person is needed for, the newest question first."""
        if not self.questions:
            return Attention.NONE
        waiting = [one for one in self.questions.values() if one.state is QuestionState.OPEN]
        return waiting[-1].asked.attention if waiting else Attention.NONE

    def deadline(self, now: Instant) -> float | None:
        """When to ask what is `due`, in the seconds of `Instant`; None: never, as things stand."""
        if not self.questions:
            return None
        return min((at for one in self.questions.values() for at in _deadlines(one, now)), default=None)

    def of_request(self, request_id: str) -> Question | None:
        return next((one for one in self.questions.values() if one.asked.request_id == request_id), None)

    def of_call(self, call_id: str) -> tuple[Question, ...]:
        """The questions about a tool call."""
        return tuple(one for one in self.questions.values() if one.key is not None and one.key.call_id == call_id)

    # Asked

    def ask(self, asked: ApprovalAsked, now: Instant, seconds: float | None) -> Question | None:
        """Take down a question, and return it. None: the same request again, or one that an earlier runtime knew."""
        asked = without_lasting_allow(asked, self._tool_of(asked))
        if self.of_request(asked.request_id) is not None or self._take_over(asked, seconds):
            return None  # an agent that outlived its runtime still asks what it asked: the record is there
        self.close_left(DialogOutcome.WITHDRAWN)
        return self._record(asked, now, seconds, asked.problem)

    def _tool_of(self, asked: ApprovalAsked) -> str:
        """The name of the tool that a question is about, as the agent told it, now or with the call."""
        known = (
            None if self._book.calls is None or not asked.call_id else self._book.calls.latest(CallId(asked.call_id))
        )
        return asked.name or ("" if known is None else known.tool_name)

    def _record(self, asked: ApprovalAsked, now: Instant, seconds: float | None, problem: str = "") -> Question:
        deadline_at = None if seconds is None else now.at + timedelta(seconds=seconds)
        approval_id = self._new_id("apr")
        is_of_a_call = bool(asked.call_id) and not asked.sub_agent and self._book.turn is not None and not problem
        key = self._suspend(approval_id, asked, now, deadline_at) if is_of_a_call else None
        if key is None:
            self._append(
                DialogOpened(
                    dialog_id=approval_id,
                    attention=asked.attention,
                    question=asked.question,
                    tool=asked.name,
                    arguments=asked.args,
                    options=offered(asked.options),
                    deadline_at=deadline_at,
                    problem=problem,
                )
            )
        question = Question(approval_id, asked, key, deadline_at, seconds, problem=problem)
        self.questions[approval_id] = question
        return question

    def _take_over(self, asked: ApprovalAsked, seconds: float | None) -> bool:
        """Whether an earlier runtime took this question down, and nobody answered it."""
        for call in self._suspended():
            left = _approval_id(call)
            if left and left not in self.questions and call.key.call_id == asked.call_id:
                self.questions[left] = Question(left, asked, call.key, call.deadline_at, seconds)
                return True
        labels = [option.label for option in asked.options if option.label]
        for left, dialog in self._book.dialogs.open.items():
            opened = dialog.opened
            known = (opened.question, opened.tool, opened.arguments, [one.label for one in opened.options])
            is_same = known == (asked.question, asked.name, asked.args, labels)
            if is_same and dialog.state is DialogState.OPEN and left not in self.questions:
                self.questions[left] = Question(left, asked, None, dialog.opened.deadline_at, seconds)
                return True
        return False

    def _suspend(
        self, approval_id: str, asked: ApprovalAsked, now: Instant, deadline_at: datetime | None
    ) -> CallKey | None:
        turn_id, calls = self._book.turn_id, self._book.calls
        if turn_id is None or calls is None:
            return None
        call_id, name = CallId(asked.call_id), asked.name or UNNAMED_TOOL
        known = calls.latest(call_id)
        if known is None or not known.is_open:
            self.step(CallRequested(turn_id, call_id, name, asked.args), now)
        call = self._book.calls.latest(call_id) if self._book.calls is not None else None
        if call is None or not call.is_open or is_suspended(call):
            return None
        options: list[Json] = [{"id": one.id, "label": one.label, "kind": one.kind.value} for one in asked.options]
        ticket = SuspensionTicket(
            suspension=Suspension(
                id=approval_id,
                action=f"tool:{call.tool_name}",
                message=asked.question,
                parameters={"attention": asked.attention.value, "options": options},
                response_schema=asked.response_schema,
            ),
            pending=PendingCall(id=approval_id, name=call.tool_name, arguments=asked.args),
        )
        self.step(CallSuspended(call.key, ticket, deadline_at), now)
        return call.key

    # Decided and delivered

    def answer(self, given: AnswerQuestion, now: Instant) -> Decision | None:
        """Persist an answer, and return what to tell the agent; None for a repeat. `UsageError` where it cannot be."""
        question = self.questions.get(given.approval_id)
        if question is None:
            raise UsageError(f"nothing is asked as {given.approval_id}", remedy="look at what is asked now")
        self._refuse_own(given)
        option = chosen_option(question.asked, given)
        decision = Decision(
            request_id=question.asked.request_id,
            is_allowed=given.is_allowed,
            option_id="" if option is None else option.id,
            option_label="" if option is None else option.label,
            text=given.text,
            data=given.data,
        )
        if question.state is not QuestionState.OPEN:
            if question.decision == decision:
                return None
            raise UsageError(f"the decision has no effect: {_told(question)}", remedy="look at what is asked now")
        self._persist(question, given, option, now)
        return self._take(question, DecideQuestion(decision, self._confirm_by(now)), now)

    def _refuse_own(self, given: AnswerQuestion) -> None:
        if is_own_question(self._book, given.from_spawn):
            why = f"a process of spawn {given.from_spawn} wanted to decide {given.approval_id}, which its agent asks"
            about: Json = {"approval_id": given.approval_id}
            self._append(Anomaly(kind="own_question_decided", source=given.decided_by, message=why, details=about))
            raise UsageError(
                "an agent may not decide what it asks: this comes from inside its own process tree",
                remedy="decide from another terminal",
            )

    def _persist(self, question: Question, given: AnswerQuestion, option: ApprovalOption | None, now: Instant) -> None:
        if question.key is None:
            record = self._book.dialogs.answer(dialog_answer(given, option))
            if record is not None:
                self._append(record)
            return
        decided = CallDecided(tool_decision(given, option), self._book.turn_id, awaits_delivery=True)
        for output in self.step(decided, now):
            if isinstance(output, DecisionRejected):
                why = f"the decision has no effect: {output.reason.value}"
                raise UsageError(why, remedy="look at what is asked now")

    def delivered(self, request_id: str, problem: str, is_unknown: bool, now: Instant) -> Decision | None:
        """Take in how giving a decision went, and return it where it is to be given again."""
        question = self.of_request(request_id)
        if question is None:
            return None
        if not problem:
            self._confirm_call(question, now)
            return self._take(question, Delivered(self._confirm_by(now)), now)
        if is_unknown:
            return self._take(question, AnswerDeliveryUnknown(problem), now)
        return self._take(question, AnswerNotDelivered(problem, self._confirm_by(now)), now)

    def due(self, now: Instant) -> tuple[Decision, ...]:
        """Apply what is due, and return what to tell the agent: past its deadline the answer is no."""
        self.step(approvals.ApprovalTimerFired(), now)
        told: list[Decision] = []
        for question in list(self.questions.values()):
            if question.confirm_by_seconds is not None and question.confirm_by_seconds <= now.seconds:
                self._take(question, ConfirmDue(), now)
            elif question.state is QuestionState.OPEN and _is_past(question.deadline_at, now):
                if question.approval_id in self._book.dialogs.open:
                    self._append(DialogClosed(dialog_id=question.approval_id, outcome=DialogOutcome.EXPIRED))
                decision = self._take(question, Expire(self._confirm_by(now)), now)
                told += () if decision is None else (decision,)
        return tuple(told)

    def _confirm_by(self, now: Instant) -> float:
        return now.seconds + self._confirm_seconds

    def _take(self, question: Question, input: QuestionInput, now: Instant) -> Decision | None:
        """Step one question, write what follows, and return the decision that is to be given."""
        moved, outputs = step(question, input)
        self.questions[question.approval_id] = moved
        told: Decision | None = None
        for output in outputs:
            match output:
                case Give(decision):
                    told = decision
                case Note():
                    self._note(question, output)
                case Reopen(reason):
                    self._reopen(moved, reason, now)
        return told

    def _note(self, question: Question, note: Note) -> None:
        about: Json = {"approval_id": question.approval_id}
        self._append(Anomaly(kind=note.kind, source="runtime", message=note.message, details=about))

    def _reopen(self, question: Question, reason: str, now: Instant) -> None:
        """The record is opened again; where it is over, as past a deadline, the question is asked as a new one."""
        call = self._call(question)
        dialog = self._book.dialogs.open.get(question.approval_id)
        if question.key is not None and call is not None and call.status is ToolCallStatus.RESUMING:
            self.step(DecisionLost(question.key, reason, question.deadline_at), now)
        elif dialog is not None and dialog.answer is not None:
            self._append(
                DecisionUndelivered(
                    target_id=question.approval_id,
                    decision_id=dialog.answer.decision_id,
                    reason=reason,
                    deadline_at=question.deadline_at,
                )
            )
        else:
            del self.questions[question.approval_id]
            self._record(question.asked, now, question.answer_seconds, question.problem)

    def _call(self, question: Question) -> ToolCallState | None:
        return None if question.key is None or self._book.calls is None else self._book.calls.find(question.key)

    def _confirm_call(self, question: Question, now: Instant) -> None:
        """The agent has the decision: what follows from it for its call is recorded."""
        call = self._call(question)
        if call is not None and call.status is ToolCallStatus.RESUMING and question.decision is not None:
            self.step(DecisionDelivered(call.key), now)

    # Closed

    def gone(self, request_id: str, now: Instant, *, is_answered: bool) -> None:
        """The agent moved on from a question."""
        question = self.of_request(request_id)
        if question is not None:
            if is_answered:
                self._confirm_call(question, now)
                self._close(question, AskerGone(), DialogOutcome.ANSWERED)
            else:
                self._close(question, Dropped(), DialogOutcome.WITHDRAWN)

    def moved_on(self) -> None:
        """The agent did something else: every answer that it was given has been taken."""
        if self.has_any:
            self.close_left(DialogOutcome.WITHDRAWN)
            for question in list(self.questions.values()):
                self._close(question, MovedOn(), DialogOutcome.ANSWERED)

    def end(self, *, is_agent_gone: bool = False, is_clean: bool = False) -> None:
        """The turn is over, and nothing of it is asked any more. What a child of the agent asks stays asked. A clean
        end shows that the agent took what it was given."""
        for question in list(self.questions.values()):
            if is_agent_gone or not question.asked.sub_agent:
                self._close(question, AskerGone() if is_clean else Dropped(), DialogOutcome.TURN_ENDED)
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

    def _close(self, question: Question, input: MovedOn | AskerGone | Dropped, outcome: DialogOutcome) -> None:
        moved, outputs = step(question, input)
        if moved.state is not QuestionState.CLOSED:
            return
        del self.questions[question.approval_id]
        for output in outputs:
            if isinstance(output, Note):
                self._note(question, output)
        # What became of a call that nobody asks about any more, its result will tell.
        waiting = [] if outcome is DialogOutcome.TURN_ENDED else [_approval_id(call) for call in self._suspended()]
        if question.approval_id in (*self._book.dialogs.open, *waiting):
            self._append(DialogClosed(dialog_id=question.approval_id, outcome=outcome))

    def step(self, input: CallsInput, now: Instant) -> tuple[approvals.Output, ...]:
        """Tell the tool calls of the open turn something, and write down what follows."""
        if self._book.calls is None:
            return ()
        _, outputs = approvals.step(self._book.calls, input, now.at)
        for output in outputs:
            if isinstance(output, Persist):
                self._append(output.record)
        return outputs


def is_own_question(book: SessionFold, from_spawn: str) -> bool:
    """Whether a decision comes from inside the process tree of the agent that asks."""
    return bool(from_spawn) and book.spawn is not None and book.spawn.spawn_id == from_spawn


def _deadlines(question: Question, now: Instant) -> Iterator[float]:
    if question.confirm_by_seconds is not None:
        yield question.confirm_by_seconds
    if question.state is QuestionState.OPEN and question.deadline_at is not None:
        yield now.seconds + (question.deadline_at - now.at).total_seconds()


def _is_past(deadline_at: datetime | None, now: Instant) -> bool:
    return deadline_at is not None and deadline_at <= now.at


def _told(question: Question) -> str:
    """What was decided about a question, in words."""
    decision = question.decision
    if decision is None:
        return "it is not open any more"
    said = decision.option_label or ("allowed" if decision.is_allowed else "denied")
    return f"it was decided already: {said}{f', {decision.text!r}' if decision.text else ''}"


def _approval_id(call: ToolCallState) -> str:
    return "" if call.ticket is None else call.ticket.suspension.id
