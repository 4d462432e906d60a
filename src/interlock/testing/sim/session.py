"""A runtime with a misbehaving agent, as far as a server sees it: what it appends to the log, and what it shows live.

It writes what the real runtime writes, in the same order and with the same closing batches, and also what only bad luck
writes: pieces of text that never reach the server, text that begins again, words of turns and processes that are over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Final, Protocol

from interlock.lifecycle.closing import Ending, abandoned_ending, closing_batch
from interlock.lifecycle.queue import SendQueue
from interlock.lifecycle.turn import TurnFacts
from interlock.lifecycle.turns import TurnFold
from interlock.vocabulary.events.audit import (
    DecisionAction,
    DeliveryReceipt,
    DeliveryStage,
    DialogClosed,
    DialogOpened,
    DialogOutcome,
    PendingCall,
    QueueGate,
    RunState,
    SessionDeleted,
    SessionOpened,
    StreamCheckpoint,
    Suspension,
    SuspensionTicket,
    ToolCallDecided,
    ToolCallSuspended,
    TurnStarted,
)
from interlock.vocabulary.events.conversation import (
    AssistantMessage,
    MessageMetadata,
    ToolCall,
    ToolResult,
    UserMessage,
)
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.presenter import ReasoningDelta, Status, TextDelta
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.ids import CallId, PromptId, RunId, SessionId, SpawnId, StreamId, TurnId
from interlock.vocabulary.run import CANCELLED, NATURAL_END, SUSPENDED, RunStatus, TerminationReason
from interlock.vocabulary.states import Activity, Attention, DriverKind

_WORDS: Final = ("so ", "the cat 🐈 ", "é", "result is 42. ", "\n", "naïve ", "x", "…and then ")


class SimulatedOutlet(Protocol):
    """Where a session's events go: into the log and then to the rooms, or to the rooms alone."""

    def append(
        self, task_id: SessionId, payloads: list[Payload], turn: TurnId | None, spawn: SpawnId | None
    ) -> None: ...
    def show(self, task_id: SessionId, payload: Payload, turn: TurnId | None, spawn: SpawnId | None) -> None: ...


class SimulatedSession:
    """One task. `act` does one thing that an agent or its runtime might do next, by chance."""

    def __init__(self, task_id: SessionId, outlet: SimulatedOutlet, chance: Random) -> None:
        self.task_id = task_id
        self.turns = TurnFold()
        self.queue = SendQueue()
        self.is_deleted = False
        self._outlet = outlet
        self._chance = chance
        self._numbers = 0
        self._spawn = SpawnId("spn_1")
        self._stream = StreamId("none")
        self._text = ""
        self._attempt = 1
        self._question: str | None = None
        self._call: CallId | None = None
        self._old: list[tuple[TurnId, StreamId, SpawnId]] = []

    def open(self) -> None:
        self._append([SessionOpened(agent="sim", driver="sim", kind=DriverKind.STREAM)], None)

    # What others ask of it

    @property
    def turn(self) -> TurnFacts | None:
        """The open turn."""
        newest = next(reversed(self.turns.turns.values()), None)
        return None if newest is None or newest.is_terminal else newest

    def send(self, prompt_id: PromptId, text: str) -> None:
        """Queue a prompt; one that was accepted before, or taken back since, is no news."""
        is_known = prompt_id in self.queue.prompts
        event = None if self.is_deleted or is_known else self.queue.accept(prompt_id, text)
        if event is not None:
            self._append([event, DeliveryReceipt(prompt_id=prompt_id, stage=DeliveryStage.QUEUED)], None)

    def cancel(self) -> bool:
        """Ask the open turn to end; with none open take back what waits. False: there was nothing to end."""
        turn = self.turn
        if turn is not None and turn.run_id is not None:
            if not turn.cancel_requested:
                state = RunStatus.WAITING if self._question is not None else RunStatus.RUNNING
                reason = SUSPENDED if state is RunStatus.WAITING else None
                self._of_turn(RunState(run_id=turn.run_id, status=state, reason=reason, cancel_requested=True))
            return True
        waiting = self.queue.waiting
        self._append([self.queue.remove(one.prompt_id) for one in waiting], None)
        return bool(waiting)

    def decide(self) -> bool:
        """Answer the open question, if there is one."""
        if self._question is None:
            return False
        self._settle_question()
        return True

    def recover(self, *, is_adopted: bool) -> None:
        """What a runtime does about this session when it starts: go on with the turn, or close what nobody runs."""
        turn = self.turn
        if turn is None:
            self._forget_talk()
        elif is_adopted:
            # The process lives; what it said since the last checkpoint is lost, and it goes on from there or anew.
            kept = turn.checkpoint
            if kept is not None and self._chance.random() < 0.5:
                self._stream, self._text, self._attempt = kept.stream_id, kept.text, kept.attempt
            else:
                self._begin_stream()
        else:
            ending = abandoned_ending(turn, turn.run_id or RunId("run_lost"), "the server was killed")
            self._close(turn, ending)
            self._spawn = SpawnId(self._name("spn"))

    def settle(self) -> None:
        """Come to rest, in the middle of a turn or after it. What somebody asked to stop is stopped."""
        turn = self.turn
        if turn is not None and turn.cancel_requested:
            self._end_with(turn, CANCELLED)
        elif turn is not None and self._chance.random() < 0.3:
            self._end_with(turn, self._chance.choice((NATURAL_END, TerminationReason.error("died"))))
        if self._chance.random() < 0.6:
            self._append([self.queue.remove(one.prompt_id) for one in self.queue.waiting], None)
        if self._chance.random() < 0.3 and self.turn is not None:
            self._chance.choice((self._speak, self._rewrite, self._set_aside, self._checkpoint))()

    # What it does by itself

    def act(self) -> str:
        """Do one thing, and return its name."""
        acts = tuple(self._possible())
        act: Callable[[], None] = self._chance.choices([one for one, _ in acts], [weight for _, weight in acts])[0]
        act()
        return act.__name__.lstrip("_")

    def _possible(self) -> Iterator[tuple[Callable[[], None], float]]:
        if self.is_deleted:
            yield self._speak_late, 1
            return
        yield self._speak_late, 1.5
        yield self._queue_prompt, 0.7
        yield self._work_on_queue, 1
        yield self._show_status, 1
        if self.turn is None:
            yield self._begin_turn, 6
            yield self._delete, 0.02
            return
        yield self._speak, 12
        yield self._think, 1
        yield self._checkpoint, 2
        yield self._lose_a_piece, 0.7
        yield self._rewrite, 1
        yield self._void_attempt, 0.5
        yield self._set_aside, 1
        yield self._use_tool, 1.5
        yield self._ask if self._question is None else self._settle_question, 2
        yield self._complete, 3
        yield self._fail, 1
        yield self._cancelled if self.turn.cancel_requested else self._cancel_by_another, 1
        yield self._respawn, 0.3

    def _queue_prompt(self) -> None:
        self.send(PromptId(self._name("prm")), "do something")

    def _work_on_queue(self) -> None:
        waiting = self.queue.waiting
        if waiting and self._chance.random() < 0.5:
            self._append([self.queue.remove(waiting[-1].prompt_id)], None)
        elif waiting:
            self._append([self.queue.edit(waiting[-1].prompt_id, self._name("do another thing"))], None)
        else:
            self._append([QueueGate(is_open=not self.queue.is_open, reason="budget", decided_by="sim")], None)

    def _show_status(self) -> None:
        activity = self._chance.choice((Activity.WORKING, Activity.QUIET, Activity.STALLED))
        self._outlet.show(self.task_id, Status(activity=activity), None, self._spawn)

    def _begin_turn(self) -> None:
        turn_id, head = TurnId(self._name("trn")), self.queue.head
        begun: list[Payload] = [
            TurnStarted(driver=DriverKind.STREAM),
            RunState(run_id=RunId(self._name("run")), status=RunStatus.RUNNING),
        ]
        if head is not None and self.queue.is_open:
            dispatched = self.queue.dispatch(head.prompt_id)
            begun = [dispatched, UserMessage(text=head.text, prompt_id=head.prompt_id), *begun]
            begun.append(DeliveryReceipt(prompt_id=head.prompt_id, stage=DeliveryStage.STARTED))
        self._append(begun, turn_id)
        self._begin_stream()

    def _speak(self) -> None:
        more = "".join(self._chance.choices(_WORDS, k=self._chance.randint(1, 3)))
        self._show(TextDelta(stream_id=self._stream, offset=len(self._text), text=more))
        self._text += more

    def _lose_a_piece(self) -> None:
        """The agent said it, and the server never heard: the next piece leaves a gap."""
        self._text += self._chance.choice(_WORDS)

    def _rewrite(self) -> None:
        """Text that was said is said otherwise, or the same words again and not all of them."""
        at = self._chance.randint(0, len(self._text))
        again = self._text[at : at + self._chance.randint(1, 8)]
        more = again if again and self._chance.random() < 0.5 else self._chance.choice(_WORDS)
        self._show(TextDelta(stream_id=self._stream, offset=at, text=more))
        self._text = self._text[:at] + more

    def _think(self) -> None:
        self._show(ReasoningDelta(stream_id=StreamId("str_thoughts"), offset=0, text="hm"))

    def _checkpoint(self) -> None:
        text = self._text
        self._of_turn(
            StreamCheckpoint(stream_id=self._stream, offset=len(text), text=text, attempt=self._attempt),
        )

    def _void_attempt(self) -> None:
        self._begin_stream(self._attempt + 1)
        self._checkpoint()

    def _set_aside(self) -> None:
        turn = self.turn
        if turn is not None and self._text.strip():
            self._old.append((turn.turn_id, self._stream, self._spawn))
            metadata = MessageMetadata(intermediate=True, stream_id=self._stream)
            self._of_turn(AssistantMessage(text=self._text, metadata=metadata))
        self._begin_stream()

    def _use_tool(self) -> None:
        if self._question is None and self._call is None:
            self._set_aside()
            self._call = CallId(self._name("call"))
            self._of_turn(ToolCall(call_id=self._call, name="read", args={"path": "a"}))
        elif self._call is not None and self._question is None:
            call, self._call = self._call, None
            self._of_turn(ToolResult(call_id=call, ok=True, output="b"))

    def _ask(self) -> None:
        turn = self.turn
        if turn is None or turn.run_id is None or turn.cancel_requested:
            return
        self._question = self._name("ask")
        if self._chance.random() < 0.5:
            asked: list[Payload] = [
                DialogOpened(dialog_id=self._question, attention=Attention.QUESTION, question="sure?"),
            ]
        else:
            self._call = self._call or CallId(self._name("call"))
            ticket = SuspensionTicket(
                suspension=Suspension(id=self._question, action="confirm", message="may I?"),
                pending=PendingCall(id=self._call, name="write"),
            )
            called: list[Payload] = []
            if not turn.open_calls:
                called = [ToolCall(call_id=self._call, name="write")]
            asked = [*called, ToolCallSuspended(call_id=self._call, name="write", ticket=ticket)]
        self._of_turn(*asked, RunState(run_id=turn.run_id, status=RunStatus.WAITING, reason=SUSPENDED))

    def _settle_question(self) -> None:
        turn, question, self._question = self.turn, self._question, None
        if turn is None or question is None or turn.run_id is None:
            return
        going_on = RunState(run_id=turn.run_id, status=RunStatus.RUNNING)
        if self._call is None:
            self._of_turn(DialogClosed(dialog_id=question, outcome=DialogOutcome.ANSWERED), going_on)
        else:
            call, self._call = self._call, None
            decided = ToolCallDecided(target_id=question, action=DecisionAction.RESUME, decision_id=question)
            closed = DialogClosed(dialog_id=question, outcome=DialogOutcome.ANSWERED)
            self._of_turn(decided, going_on, closed, ToolResult(call_id=call, ok=True, output="done"))

    def _cancel_by_another(self) -> None:
        self.cancel()

    def _complete(self) -> None:
        self._end_turn(NATURAL_END)

    def _cancelled(self) -> None:
        self._end_turn(self._chance.choice((CANCELLED, CANCELLED, NATURAL_END)))

    def _fail(self) -> None:
        self._end_turn(self._chance.choice((TerminationReason.error("died"), TerminationReason.stopped("timeout"))))

    def _respawn(self) -> None:
        """Another process takes the turn; the first one talks on."""
        turn = self.turn
        if turn is not None:
            self._old.append((turn.turn_id, self._stream, self._spawn))
            self._spawn = SpawnId(self._name("spn"))
            self._of_turn(TurnStarted(driver=DriverKind.STREAM))
            self._begin_stream()

    def _speak_late(self) -> None:
        """Words of what is over: a turn, a process, or a message of the open turn."""
        if not self._old:
            return
        turn, stream, spawn = self._chance.choice(self._old[-4:])
        late = self._chance.choice((0, 1, 2))
        if late == 0:
            self._outlet.show(self.task_id, TextDelta(stream_id=stream, offset=0, text="late "), turn, spawn)
        elif late == 1:
            self._append([AssistantMessage(text="late answer")], turn, spawn)
        else:
            self._append([StreamCheckpoint(stream_id=stream, offset=4, text="late")], turn, spawn)

    def _delete(self) -> None:
        self.is_deleted = True
        self._append([SessionDeleted(decided_by="sim")], None)

    # Within

    def _end_turn(self, reason: TerminationReason) -> None:
        turn = self.turn
        if turn is not None:
            self._end_with(turn, reason)

    def _end_with(self, turn: TurnFacts, reason: TerminationReason) -> None:
        run_id = turn.run_id or RunId("run_unknown")
        stream = self._stream if self._text else None
        told = Ending(run_id=run_id, reason=reason, text=self._text, budget_seconds=1, elapsed_seconds=2)
        self._close(turn, replace(told, stream_id=stream))

    def _close(self, turn: TurnFacts, ending: Ending) -> None:
        self._old.append((turn.turn_id, self._stream, self._spawn))
        batch = list(closing_batch(turn, ending))
        if self._question is not None:
            batch.insert(0, DialogClosed(dialog_id=self._question, outcome=DialogOutcome.TURN_ENDED))
        self._append(batch, turn.turn_id)
        self._forget_talk()

    def _forget_talk(self) -> None:
        self._text, self._question, self._call = "", None, None

    def _begin_stream(self, attempt: int = 1) -> None:
        self._stream, self._text, self._attempt = StreamId(self._name("str")), "", attempt

    def _name(self, prefix: str) -> str:
        self._numbers += 1
        return f"{prefix}_{self._numbers}"

    def _of_turn(self, *payloads: Payload) -> None:
        turn = self.turn
        if turn is not None:
            self._append(list(payloads), turn.turn_id, self._spawn)

    def _show(self, payload: Payload) -> None:
        turn = self.turn
        self._outlet.show(self.task_id, payload, None if turn is None else turn.turn_id, self._spawn)

    def _append(self, payloads: list[Payload], turn: TurnId | None, spawn: SpawnId | None = None) -> None:
        if payloads:
            self._outlet.append(self.task_id, payloads, turn, spawn)

    def fold(self, event: Event) -> None:
        """What was appended, as its own runtime reads it."""
        self.turns.add(event)
        self.queue.add(event.data)
