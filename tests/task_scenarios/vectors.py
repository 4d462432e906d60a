"""Scenarios of the client's task machine, as Python that reads as a story and as JSON that any language can run.

A `Script` runs the machine while it is written. Each step says what must come out, by hand; a step that says something
else than the machine does is an error. The JSON then holds the same words, with every number filled in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Final, TypeAlias

import msgspec

from interlock.client.machine import inputs
from interlock.client.machine.inputs import (
    CheckAnswered,
    CheckFailed,
    EnsureConnected,
    Join,
    JoinAcked,
    JoinFailed,
    Leave,
    Output,
    PullRuntime,
    TaskInput,
)
from interlock.client.machine.state import TaskState
from interlock.client.machine.task_machine import TaskStateMachine
from interlock.vocabulary.errors import ContractError, PeerFault
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.wire.approval import ApprovalState
from interlock.vocabulary.wire.encoding import fill
from interlock.vocabulary.wire.frames import RuntimeCheck, TaskSnapshot

JsonObject: TypeAlias = dict[str, Json]

TASK: Final = SessionId("task_1")
INPUTS: Final[Mapping[str, type[TaskInput]]] = {
    re.sub(r"(?<!^)(?=[A-Z])", "_", one.__name__).lower(): one
    for one in (
        inputs.Opened,
        inputs.Closed,
        inputs.CheckRequested,
        inputs.CheckAnswered,
        inputs.CheckFailed,
        inputs.JoinAcked,
        inputs.JoinFailed,
        inputs.FrameArrived,
        inputs.FellBehind,
        inputs.Connected,
        inputs.Disconnected,
        inputs.DetailSynced,
        inputs.StatusHeard,
        inputs.SendAccepted,
        inputs.StopPressed,
        inputs.CancelAcked,
        inputs.CancelFailed,
        inputs.QueueHeld,
        inputs.TimerFired,
    )
}
"""Every input, by its name in JSON."""
_NAMES: Final[Mapping[type[TaskInput], str]] = {one: name for name, one in INPUTS.items()}


def encode_input(given: TaskInput) -> JsonObject:
    """An input as JSON."""
    return {"type": _NAMES[type(given)], **_builtins(fill(given))}


def decode_input(data: JsonObject) -> TaskInput:
    """JSON as an input."""
    kind = INPUTS.get(str(data.get("type")))
    if kind is None:
        raise PeerFault(f"no such input: {data.get('type')!r}")
    return msgspec.convert({name: value for name, value in data.items() if name != "type"}, kind)


def encode_output(output: Output) -> JsonObject:
    """An output as JSON."""
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", type(output).__name__).lower()
    return {"type": name, **_builtins(output)}


def describe(output: Output) -> str:
    """An output in a word or two, as scenarios write it."""
    match output:
        case PullRuntime(reason=reason):
            return f"pull {reason.value}"
        case Join(is_resume=False):
            return "join"
        case Join(after_version=version, stream_id=None):
            return f"resume {version}"
        case Join(after_version=version, stream_id=stream_id, cursor=cursor):
            return f"resume {version} {stream_id}:{cursor}"
        case Leave():
            return "leave"
        case EnsureConnected():
            return "connect"


def view(state: TaskState) -> JsonObject:
    """What a vector may assert of a state, derived values included, as JSON."""
    stream = state.stream
    return {
        "sync": state.sync.value,
        "phase": state.phase.value,
        "connection": state.connection,
        "is_connected": state.is_connected,
        "status": state.status,
        "version": state.version,
        "turn_id": state.turn_id,
        "is_verified": state.is_verified,
        "server_confirmed_no_stream": state.server_confirmed_no_stream,
        "synced_version": state.synced_version,
        "tick": state.tick,
        "stream": None if stream is None else [stream.stream_id, stream.text],
        "messages": [[one.message_id, one.status.value, one.text] for one in state.messages],
        "interrupted": [[one.stream_id, one.text] for one in state.interrupted],
        "approvals": [one.approval_id for one in state.approvals if one.state is ApprovalState.OPEN],
        "queue": [one.prompt_id for one in state.queue.waiting],
        "receipts": [[one.prompt_id, one.stage.value] for one in state.receipts],
        "is_stopping": state.is_stopping,
        "awaiting_send": state.awaiting_send,
        "queued_here": state.queued_here,
        "is_checking": state.check is not None,
        "is_joining": state.joining is not None,
        "follow_up": None if state.follow_up is None else state.follow_up.value,
        "early": [frame.tick for frame in state.early],
        "is_unstable": state.is_unstable,
        "deadline": state.deadline,
        "last_reason": None if state.last_reason is None else state.last_reason.value,
        "problem": state.problem,
        "anomalies": state.anomalies,
        **{one.name: getattr(state.flags, one.name) for one in fields(state.flags)},
    }


@dataclass(slots=True)
class Script:
    """One scenario: the machine, and what was done to it."""

    name: str
    about: str
    is_connected: bool = True
    steps: list[JsonObject] = field(default_factory=list)
    machine: TaskStateMachine = field(init=False)

    def __post_init__(self) -> None:
        self.machine = TaskStateMachine(TASK, is_connected=self.is_connected)

    @property
    def state(self) -> TaskState:
        return self.machine.state

    def do(self, at: float, given: TaskInput, *outputs: str, **expected: Json) -> None:
        """Give an input; exactly these outputs must come, and these fields of the state must hold."""
        made = self.machine.step(given, at)
        if [describe(one) for one in made] != list(outputs):
            raise ContractError(
                f"{self.name} at {at}: {list(outputs)} expected, {[describe(one) for one in made]} made"
            )
        seen = view(self.state)
        for key, value in expected.items():
            if seen[key] != value:
                raise ContractError(f"{self.name} at {at}: {key} is {seen[key]!r}, and not {value!r}")
        expect: JsonObject = {"outputs": [encode_output(one) for one in made], "state": seen}
        self.steps.append({"at": at, "input": encode_input(given), "expect": expect})

    def answer(self, at: float, check: RuntimeCheck, *outputs: str, **expected: Json) -> None:
        """The check that is in flight is answered."""
        self.do(at, CheckAnswered(self._check(), check), *outputs, **expected)

    def fail(self, at: float, *outputs: str, **expected: Json) -> None:
        """The check that is in flight fails."""
        self.do(at, CheckFailed(self._check(), "no route"), *outputs, **expected)

    def ack(self, at: float, snapshot: TaskSnapshot, *outputs: str, **expected: Json) -> None:
        """The join that is in flight is answered."""
        self.do(at, JoinAcked(self._join(), snapshot), *outputs, **expected)

    def refuse(self, at: float, *outputs: str, is_final: bool = False, **expected: Json) -> None:
        """The join that is in flight is refused."""
        self.do(at, JoinFailed(self._join(), "refused", is_final), *outputs, **expected)

    def encode(self) -> str:
        """The file of this scenario: a step a line, so that a change of one shows as one."""
        head: JsonObject = {"name": self.name, "about": self.about, "initial": self._initial()}
        lines = [f" {_json(key)}: {_json(value)}," for key, value in head.items()]
        steps = ",\n".join(f"  {_json(step)}" for step in self.steps)
        return "\n".join(["{", *lines, ' "steps": [', steps, " ]", "}"]) + "\n"

    def _initial(self) -> JsonObject:
        return {"task_id": TASK, "is_connected": self.is_connected}

    def _check(self) -> int:
        if self.state.check is None:
            raise ContractError(f"{self.name}: no check is in flight")
        return self.state.check.generation

    def _join(self) -> int:
        if self.state.joining is None:
            raise ContractError(f"{self.name}: no join is in flight")
        return self.state.joining.generation


Story: TypeAlias = Callable[[Script], None]


class Book:
    """Scenarios: functions that tell a story to a script."""

    def __init__(self) -> None:
        self._stories: dict[str, tuple[Story, bool]] = {}

    def story(self, *, is_connected: bool = True) -> Callable[[Story], Story]:
        """Take a function in. Its name is the name of the file, its docstring what the file is about."""

        def keep(tell: Story) -> Story:
            if tell.__name__ in self._stories or not tell.__doc__:
                raise ContractError(f"scenario {tell.__name__} needs a name of its own and a docstring")
            self._stories[tell.__name__] = (tell, is_connected)
            return tell

        return keep

    def tell(self) -> dict[str, str]:
        """Every scenario, run: file names, and what belongs into them."""
        files = {}
        for name, (tell, is_connected) in self._stories.items():
            script = Script(name, " ".join((tell.__doc__ or "").split()), is_connected)
            tell(script)
            files[f"{name}.json"] = script.encode()
        return files


def run_vector(text: str) -> list[str]:
    """Run the file of a scenario; what differs, one line each."""
    vector = msgspec.json.decode(text, type=Vector)
    machine = TaskStateMachine(vector.initial.task_id, is_connected=vector.initial.is_connected)
    found = []
    for number, one in enumerate(vector.steps):
        made: list[Json] = [encode_output(output) for output in machine.step(decode_input(one.input), one.at)]
        if made != one.expect.outputs:
            found.append(f"{vector.name} step {number}: outputs {made!r}, expected {one.expect.outputs!r}")
        seen = view(machine.state)
        for key, value in one.expect.state.items():
            if key not in seen or seen[key] != value:
                found.append(f"{vector.name} step {number}: {key} is {seen.get(key)!r}, expected {value!r}")
    return found


class Initial(msgspec.Struct, forbid_unknown_fields=True):
    """How the machine is made."""

    task_id: SessionId
    is_connected: bool


class Expectation(msgspec.Struct, forbid_unknown_fields=True):
    """What a step leads to: all outputs, in order, and some fields of the state."""

    outputs: list[Json]
    state: JsonObject


class VectorStep(msgspec.Struct, forbid_unknown_fields=True):
    """One input, at its time."""

    at: float
    input: JsonObject
    expect: Expectation


class Vector(msgspec.Struct, forbid_unknown_fields=True):
    """One file."""

    name: str
    about: str
    initial: Initial
    steps: list[VectorStep]


def _builtins(value: TaskInput | Output) -> JsonObject:
    built: JsonObject = msgspec.to_builtins(value)
    return built


def _json(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)
