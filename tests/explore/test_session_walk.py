"""The composed session machine, walked breadth first over a bounded alphabet: a prompt or two, one question at a time.

A state is what the machines of the session know: the agent's life, the way of the turn, the questions, the queue, the
turn in the log and which deadline is next. Ids and times make no other state.
"""

from __future__ import annotations

import copy
import types
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import fields
from enum import Enum
from functools import cache
from itertools import count
from typing import Any, Final

import pytest

from interlock.agents import observations as seen
from interlock.agents.observations import TurnEnding
from interlock.agents.port import Capabilities
from interlock.runtime.policy import RunPolicy
from interlock.runtime.session.agent.life import AgentLife
from interlock.runtime.session.effects import (
    Append,
    DecideForAgent,
    Effect,
    InterruptAgent,
    SpawnAgent,
    SubmitPrompt,
)
from interlock.runtime.session.inputs import (
    AgentNotStarted,
    AgentStarted,
    AnswerQuestion,
    CancelTurnInput,
    Command,
    Decided,
    InterruptOutcome,
    News,
    Send,
    SessionTimerFired,
    SetGate,
    StopAgentInput,
    Submitted,
)
from interlock.runtime.session.router import SessionMachine
from interlock.runtime.session.turn_way import TurnWay
from interlock.testing.explore import Exploration, explore
from interlock.vocabulary.events.audit import DeliveryStage, ProcessEvent, ToolCallDecided
from interlock.vocabulary.events.conversation import ToolResult, UserMessage
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import PromptId
from interlock.vocabulary.states import DriverKind, TurnState
from tests.runtime.conducting import Stage

POLICY: Final = RunPolicy(
    turn_budget_seconds=300, stall_after_seconds=120, approval_seconds=60, resubmit_attempts=2, start_seconds=100
)
NATURAL: Final = seen.TurnEnded(ending=TurnEnding.NATURAL, text="the answer")
SAID: Final[dict[str, seen.Observation]] = {
    "ready": seen.BecameReady(),
    "text": seen.TextArrived(text="words"),
    "asks": seen.ApprovalAsked(request_id="r1", call_id="c1", name="Bash", question="may I?"),
    "asks_no_more": seen.ApprovalGone(request_id="r1", is_answered=False),
    "ends": NATURAL,
    "interrupted": seen.TurnEnded(ending=TurnEnding.INTERRUPTED),
    "falls_silent": seen.TurnEnded(ending=TurnEnding.SILENT),
    "is_lost": seen.ChannelLost(message="gone"),
    "exits": seen.Exited(code=0),
    "crashes": seen.Exited(signal=9),
}
ORDERS: Final[dict[str, Command]] = {
    "cancel": CancelTurnInput(),
    "stop": StopAgentInput(),
    "hold": SetGate(is_open=False),
    "go": SetGate(is_open=True),
}
MOVES: Final = (
    *SAID,
    *ORDERS,
    *("send", "allow", "deny", "time"),
    *("spawned", "not_spawned", "typed", "unsure", "not_delivered", "told", "not_told", "decided", "not_decided"),
)


class World:
    """A session, what it waits for from outside, and the law that was broken on the way here, if one was."""

    def __init__(self, capabilities: Capabilities, prompts: int) -> None:
        self.prompts = prompts
        self.stage = Stage(POLICY, kind=DriverKind.STREAM, capabilities=capabilities)
        self.pending: tuple[str, ...] = ()
        self.ended: dict[str, TurnState] = {}
        self.broken = ""
        self.key: tuple[object, ...] = ()
        self._look(())

    def moves(self, alphabet: frozenset[str]) -> Iterator[str]:
        machine = self.stage.conductor
        for move in MOVES:
            if move not in alphabet:
                continue
            if move in SAID:
                possible = machine.agent is not None
            elif move == "send":
                possible = len(machine.book.queue.prompts) < self.prompts
            elif move in ("allow", "deny"):
                possible = bool(machine.questions.questions)
            elif move == "time":
                possible = machine.deadline is not None
            else:
                possible = move in ORDERS or _ANSWERS[move] in self.pending
            if possible:
                yield move

    def move(self, move: str) -> World:
        self.stage.acts.clear()
        after: World = _clone(self, {})
        stage = after.stage
        before = stage.conductor.deadline
        effects = after._do(move)
        after._look(effects)
        due = stage.conductor.deadline
        if move == "time" and due is not None and before is not None and due <= stage.seconds and after == self:
            after.broken = "a deadline that fired is due still, and nothing changed"
        return after

    def _do(self, move: str) -> tuple[Effect, ...]:
        stage = self.stage
        if move in _ANSWERS:
            left = list(self.pending)
            left.remove(_ANSWERS[move])
            self.pending = tuple(left)
            return stage.hear(self._answer(move))
        if move in SAID:
            return stage.see(SAID[move])
        if move == "send":
            number = len(stage.conductor.book.queue.prompts) + 1
            return stage.order(Send(prompt_id=PromptId(f"p{number}"), text="do it"))
        if move == "time":
            due = stage.conductor.deadline
            stage.seconds = max(stage.seconds, stage.seconds if due is None else due)
            return stage.hear(SessionTimerFired())
        if move in ("allow", "deny"):
            approval_id = next(iter(stage.conductor.questions.questions))
            return stage.order(AnswerQuestion(approval_id=approval_id, is_allowed=move == "allow"))
        return stage.order(ORDERS[move])

    def _answer(self, move: str) -> News:
        stage = self.stage
        prompt_id = stage.conductor.book.prompt_id or PromptId("p0")
        spawn_id = stage.spawn_id
        assert spawn_id is not None
        answers: dict[str, News] = {
            "spawned": AgentStarted(spawn_id=spawn_id, capabilities=stage.capabilities),
            "not_spawned": AgentNotStarted(spawn_id=spawn_id, message="no such program"),
            "typed": Submitted(prompt_id=prompt_id, stage=DeliveryStage.TYPED),
            "unsure": Submitted(prompt_id=prompt_id, stage=DeliveryStage.UNKNOWN),
            "not_delivered": Submitted(prompt_id=prompt_id, stage=DeliveryStage.NOT_DELIVERED, message="busy"),
            "told": InterruptOutcome(),
            "not_told": InterruptOutcome(problem="lost"),
            "decided": Decided(request_id="r1"),
            "not_decided": Decided(request_id="r1", problem="broken pipe"),
        }
        return answers[move]

    def _look(self, effects: tuple[Effect, ...]) -> None:
        """What is waited for now; the laws that are seen in one step."""
        appended = False
        for effect in effects:
            appended |= isinstance(effect, Append)
            wants = _WANTS.get(type(effect))
            if wants is not None and wants not in self.pending:
                self.pending = (*self.pending, wants)
            if isinstance(effect, SpawnAgent | SubmitPrompt) and not self._is_recorded(effect):
                self.broken = f"{type(effect).__name__} before the append that records it"
            if isinstance(effect, DecideForAgent) and not appended and not self._has_decision():
                self.broken = "a decision is given that is not recorded"
        if self.stage.conductor.running_spawn is None:
            self.pending = ()
        self._look_at_turns()
        self.key = self._fingerprint()

    def _look_at_turns(self) -> None:
        machine = self.stage.conductor
        book, is_asked = machine.book, machine.questions.open_count > 0
        for turn in self.stage.turns:
            if self.ended.get(turn.turn_id, turn.state) is not turn.state:
                self.broken = f"turn {turn.turn_id} was {self.ended[turn.turn_id]} and is {turn.state}"
            if turn.state.is_terminal:
                self.ended[turn.turn_id] = turn.state
        if (book.turn is None) != (machine.open_turn is None):
            self.broken = "an open turn that nobody watches"
        if book.turn is not None and (book.turn.state is TurnState.WAITING) != is_asked:
            self.broken = "a run waits exactly while a question is open"

    def _is_recorded(self, effect: SpawnAgent | SubmitPrompt) -> bool:
        if isinstance(effect, SpawnAgent):
            return any(
                event.spawn_id == effect.spawn_id for event in self.stage.events if isinstance(event.data, ProcessEvent)
            )
        return any(
            event.turn_id == effect.prompt.turn_id for event in self.stage.events if isinstance(event.data, UserMessage)
        )

    def _has_decision(self) -> bool:
        return any(isinstance(event.data, ToolCallDecided | ToolResult) for event in self.stage.events)

    def _fingerprint(self) -> tuple[object, ...]:
        """Everything but ids and times: of a deadline it counts whether it is set, and which one falls due next."""
        machine = self.stage.conductor
        turn, queue, book = machine.open_turn, machine.book.queue, machine.book
        life = machine.life
        questions = tuple((one.state, one.attempts) for one in machine.questions.questions.values())
        return (
            _shape(life),
            None if turn is None else (_shape(turn.way), bool(turn.answer.text)),
            questions,
            (len(queue.waiting), len(queue.prompts), queue.is_open),
            (None if book.turn is None else (book.turn.state, book.turn.cancel_requested)),
            _due_next(machine),
            self.pending,
            self.broken,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, World) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"{self.broken or 'ok'}: {self.key}"


_ANSWERS: Final = {
    "spawned": "spawn",
    "not_spawned": "spawn",
    "typed": "submit",
    "unsure": "submit",
    "not_delivered": "submit",
    "told": "interrupt",
    "not_told": "interrupt",
    "decided": "decide",
    "not_decided": "decide",
}
_WANTS: Final[dict[type[Effect], str]] = {
    SpawnAgent: "spawn",
    SubmitPrompt: "submit",
    InterruptAgent: "interrupt",
    DecideForAgent: "decide",
}
_TIMES: Final = ("started_seconds", "free_since_seconds", "began_seconds", "watched_since_seconds", "spawn_id")


def _shape(part: AgentLife | TurnWay) -> tuple[object, ...]:
    values = ((field.name, getattr(part, field.name)) for field in fields(part) if field.name not in _TIMES)
    return tuple(value is not None if name.endswith("_seconds") else value for name, value in values)


def _due_next(machine: SessionMachine) -> str:
    """The name of the deadline that falls due next."""
    parts = (machine.life, *(() if machine.open_turn is None else (machine.open_turn.way,)))
    named = [(field.name, getattr(part, field.name)) for part in parts for field in fields(part)]
    ours = [name for name, at in named if name.endswith("_seconds") and name not in _TIMES and at == machine.deadline]
    if machine.deadline is None or ours:
        return next(iter(ours), "")
    return "idle" if machine.deadline == machine.idle_deadline else "a question or a stall"


_SHARED: Final = frozenset({str, int, float, bool, type(None), tuple, frozenset, bytes, Event})


def _clone(thing: Any, known: dict[int, Any]) -> Any:  # noqa: ANN401 - whatever a session is made of
    """A copy that shares everything that cannot change; a deep copy of each frozen event takes most of the time."""
    if id(thing) in known:
        return known[id(thing)]
    kind: Any = type(thing)
    if kind in (dict, list, set):
        known[id(thing)] = new = kind()
        if kind is dict:
            new.update((key, _clone(value, known)) for key, value in thing.items())
        elif kind is list:
            new.extend(_clone(one, known) for one in thing)
        else:
            new.update(thing)
        return new
    if kind is types.MethodType:
        return types.MethodType(thing.__func__, _clone(thing.__self__, known))
    if kind in (count, Counter):
        return copy.copy(thing)
    if kind in _SHARED:
        return thing
    names = _changeable(kind)
    if not names and (not hasattr(thing, "__dict__") or isinstance(thing, Enum | type | types.FunctionType)):
        return thing
    known[id(thing)] = new = object.__new__(kind)
    for name in names or vars(thing):
        setattr(new, name, _clone(getattr(thing, name), known))
    return new


@cache
def _changeable(kind: type[Any]) -> tuple[str, ...]:
    """The slots of an object that may change; none for what is frozen, and for what is no object of ours."""
    parameters = getattr(kind, "__dataclass_params__", None)
    is_ours = parameters is not None and not parameters.frozen
    return tuple(field.name for field in fields(kind)) if is_ours else ()


def walk(alphabet: frozenset[str], capabilities: Capabilities, prompts: int, limit: int) -> Exploration[World, str]:
    return explore(
        start=[World(capabilities, prompts)],
        inputs=lambda world: tuple(world.moves(alphabet)),
        step=World.move,
        label=lambda world: world.stage.conductor.life.stage.value,
        state_laws={"no law is broken on the way": lambda world: not world.broken},
        limit=limit,
    )


def is_at_rest(world: World) -> bool:
    """No turn, and nothing that we wait for: the session can be left alone."""
    machine = world.stage.conductor
    return machine.book.turn is None and (machine.agent is None or machine.agent.is_ready)


ALWAYS: Final = frozenset({"spawned", "time", "typed"})
GROUPS: Final[dict[str, frozenset[str]]] = {
    "cancel": frozenset({"ready", "ends", "exits", "send", "cancel", "told", "not_told"}),
    "questions": frozenset(
        {"ready", "asks", "asks_no_more", "ends", "exits", "send", "allow", "decided", "not_decided"}
    ),
    "delivery": frozenset({"ready", "text", "ends", "crashes", "send", "unsure", "not_delivered", "cancel"}),
    "life": frozenset(
        {"ready", "falls_silent", "is_lost", "crashes", "exits", "send", "stop", "not_spawned", "hold", "go"}
    ),
}


@pytest.mark.parametrize("capabilities", [Capabilities(), Capabilities(is_one_shot=True, can_interrupt=False)])
@pytest.mark.parametrize("name", GROUPS)
def test_the_session_machine_has_no_dead_end_and_breaks_no_law(
    name: str, capabilities: Capabilities, record_property: Callable[[str, object], None]
) -> None:
    found = walk(GROUPS[name] | ALWAYS, capabilities, 1, limit=6_000)
    assert found.stuck(is_at_rest) == []
    record_property("explored", found.summary(f"session, {name}{', one shot' if capabilities.is_one_shot else ''}"))
