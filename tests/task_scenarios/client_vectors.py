"""Scenarios of the board, of the manager and of the shell's decisions, in the form of those of the task machine: each
step with its time, its input, all of its outputs and the whole state after it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from interlock.client.machine import board, client_machine, inputs
from interlock.client.machine.board import Board, BoardInput, JoinBoard, LinesChanged, RetryBoard
from interlock.client.machine.client_machine import (
    CheckTask,
    ClientInput,
    ClientMachine,
    FramePushed,
    LookedAgain,
    ReviveConnection,
    SendRequest,
    TaskFollowed,
    TaskLeft,
    TaskTold,
    TimePassed,
)
from interlock.client.machine.inputs import Connected, Disconnected, EnsureConnected
from interlock.client.machine.manager import Outputs, TaskStateManager
from interlock.vocabulary.errors import ContractError, PeerFault
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.wire.encoding import fill
from interlock.vocabulary.wire.frames import TaskSummary
from interlock.vocabulary.wire.requests import BoardBehind, BoardJoined, BoardTask
from tests.task_scenarios.vectors import (
    JsonObject,
    VectorStep,
    decode_input,
    describe,
    encode_input,
    encode_output,
    view,
)

ManagerInput: TypeAlias = (
    TaskFollowed | TaskLeft | TaskTold | FramePushed | LookedAgain | Connected | Disconnected | TimePassed
)
_COMMON: Final = (inputs.Connected, inputs.Disconnected)
_BOARD: Final = (*_COMMON, board.BoardWanted, board.BoardRefused, board.BoardRetryDue)
_MANAGER: Final = (*_COMMON, TaskFollowed, TaskLeft, TaskTold, FramePushed, LookedAgain, TimePassed)
_SHELL: Final = (
    *_MANAGER,
    board.BoardWanted,
    board.BoardRetryDue,
    client_machine.RequestAnswered,
    client_machine.RequestFailed,
    client_machine.CheckSucceeded,
    client_machine.CheckRefused,
)
_BOARD_FRAMES: Final = (BoardJoined, BoardTask, BoardBehind)


def _snake(kind: type) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


def _encode(given: object) -> JsonObject:
    """An input or an output as JSON. A frame is as it is on the wire."""
    if isinstance(given, msgspec.Struct):
        frame: JsonObject = msgspec.to_builtins(fill(given))
        return frame
    if isinstance(given, TaskTold):
        return {"type": "task_told", "task_id": given.task_id, "input": encode_input(given.input)}
    if isinstance(given, LinesChanged):
        return {"type": "lines_changed", "lines": [brief(line) for line in given.lines]}
    built: JsonObject = {"type": _snake(type(given)), **msgspec.to_builtins(fill(given))}
    if isinstance(given, SendRequest):
        request = built["request"]
        assert isinstance(request, dict)
        built["request"] = {name: value for name, value in request.items() if name != "id"}
    return built


def _decode(data: JsonObject, kinds: Sequence[type], frames: Sequence[type] = ()) -> Any:  # noqa: ANN401 - of `kinds`
    name, rest = str(data.get("type")), {key: value for key, value in data.items() if key != "type"}
    if name in {str(kind.__struct_config__.tag) for kind in frames}:  # type: ignore[attr-defined]
        return msgspec.convert(data, BoardJoined | BoardTask | BoardBehind)
    if name == "task_told" and TaskTold in kinds:
        return TaskTold(str(rest["task_id"]), decode_input(rest["input"]))  # type: ignore[arg-type]
    kind = next((one for one in kinds if _snake(one) == name), None)
    if kind is None:
        raise PeerFault(f"no such input: {name!r}")
    return msgspec.convert(rest, kind)


def brief(line: TaskSummary) -> Json:
    """A line of the board, as vectors name it."""
    return [line.task_id, line.version, None if line.task_status is None else line.task_status.value, line.title]


def _board_view(one: Board) -> JsonObject:
    return {
        "is_wanted": one.is_wanted,
        "is_connected": one.is_connected,
        "is_asked": one.is_asked,
        "is_delayed": one.is_delayed,
        "failures": one.failures,
        "tick": one.tick,
        "lines": [brief(one.tasks[task_id]) for task_id in sorted(one.tasks)],
    }


class Subject(Protocol):
    """What a scenario is played to."""

    def step(self, given: Any, at: float) -> tuple[list[str], list[JsonObject]]:  # noqa: ANN401 - its own inputs
        """Take an input. Returns the outputs in words, and as JSON."""

    def view(self) -> JsonObject: ...
    def decode(self, data: JsonObject) -> object: ...


class BoardSubject:
    """The board alone."""

    kinds: Final = _BOARD
    frames: Final = _BOARD_FRAMES

    def __init__(self) -> None:
        self._board = Board()

    def step(self, given: BoardInput, at: float) -> tuple[list[str], list[JsonObject]]:
        del at  # the board knows no time
        made = self._board.step(given)
        return [_words(one) for one in made], [_encode(one) for one in made]

    def view(self) -> JsonObject:
        return _board_view(self._board)

    def decode(self, data: JsonObject) -> object:
        return _decode(data, self.kinds, self.frames)


class ManagerSubject:
    """The task machines of one client."""

    kinds: Final = _MANAGER

    def __init__(self) -> None:
        self._manager = TaskStateManager()

    def step(self, given: ManagerInput, at: float) -> tuple[list[str], list[JsonObject]]:
        made = self._do(given, at)
        words = [f"{task_id}: {describe(output)}" for task_id, output in made]
        return words, [{"task_id": task_id, **encode_output(output)} for task_id, output in made]

    def view(self) -> JsonObject:
        manager = self._manager
        return {
            "is_connected": manager.is_connected,
            "dropped": manager.dropped,
            "deadline": manager.deadline,
            "tasks": {task_id: view(one.state) for task_id, one in manager.machines.items()},
        }

    def decode(self, data: JsonObject) -> object:
        return _decode(data, self.kinds)

    def _do(self, given: ManagerInput, at: float) -> Outputs:
        manager = self._manager
        match given:
            case TaskFollowed(task_id):
                return manager.open(task_id, at)
            case TaskLeft(task_id):
                return manager.close(task_id, at)
            case TaskTold(task_id, told):
                return manager.step(task_id, told, at)
            case FramePushed(frame):
                if isinstance(frame, BoardTask | BoardBehind):
                    raise ContractError("the manager hears no board")
                return manager.route(frame, at)
            case LookedAgain(reason):
                return manager.look_again(reason, at)
            case Connected():
                return manager.connected(at)
            case Disconnected(reason):
                return manager.disconnected(at, reason)
            case TimePassed():
                return manager.fire(at)


class ShellSubject:
    """What a client decides about its tasks and its board."""

    kinds: Final = _SHELL

    def __init__(self) -> None:
        self._machine = ClientMachine()

    def step(self, given: ClientInput, at: float) -> tuple[list[str], list[JsonObject]]:
        made = self._machine.step(given, at)
        return [_words(one) for one in made], [_encode(one) for one in made]

    def view(self) -> JsonObject:
        manager = self._machine.manager
        return {
            "is_connected": manager.is_connected,
            "dropped": manager.dropped,
            "deadline": manager.deadline,
            "tasks": {task_id: view(one.state) for task_id, one in manager.machines.items()},
            "board": _board_view(self._machine.board),
        }

    def decode(self, data: JsonObject) -> object:
        return _decode(data, self.kinds)


SUBJECTS: Final[Mapping[str, type[BoardSubject | ManagerSubject | ShellSubject]]] = {
    "board": BoardSubject,
    "manager": ManagerSubject,
    "shell": ShellSubject,
}
"""By the name of the folder of its files."""


def input_names(folder: str) -> set[str]:
    """Every input that a subject takes, by its name in JSON."""
    frames = {str(kind.__struct_config__.tag) for kind in _BOARD_FRAMES} if folder == "board" else set()
    return {_snake(kind) for kind in SUBJECTS[folder].kinds} | frames


def _words(output: object) -> str:
    """An output in a word or two, as scenarios write it."""
    match output:
        case EnsureConnected():
            return "connect"
        case ReviveConnection():
            return "revive"
        case JoinBoard():
            return "join board"
        case RetryBoard(failures):
            return f"retry {failures}"
        case LinesChanged(lines):
            return " ".join(["lines", *(line.task_id for line in lines)])
        case CheckTask(task_id):
            return f"check {task_id}"
        case SendRequest(request, task_id):
            return " ".join(["send", str(request.__struct_config__.tag), *(() if task_id is None else (task_id,))])
        case _:
            raise ContractError(f"no words for {output!r}")


@dataclass(slots=True)
class ClientScript:
    """One scenario of a subject."""

    folder: str
    name: str
    about: str
    steps: list[JsonObject] = field(default_factory=list)
    subject: Subject = field(init=False)

    def __post_init__(self) -> None:
        self.subject = SUBJECTS[self.folder]()

    def do(self, at: float, given: object, *outputs: str, **expected: Json) -> None:
        """Give an input; exactly these outputs must come, and these parts of the state must hold. `a__b` is b in a."""
        words, made = self.subject.step(given, at)
        if words != list(outputs):
            raise ContractError(f"{self.name} at {at}: {list(outputs)} expected, {words} made")
        seen = self.subject.view()
        for key, value in expected.items():
            found = _part(seen, key)
            if found != value:
                raise ContractError(f"{self.name} at {at}: {key} is {found!r}, and not {value!r}")
        expect: JsonObject = {"outputs": list(made), "state": seen}
        self.steps.append({"at": at, "input": _encode(given), "expect": expect})

    def encode(self) -> str:
        """The file of this scenario, a step a line."""
        head = {"name": self.name, "about": self.about}
        lines = [f' "{key}": {json.dumps(value)},' for key, value in head.items()]
        steps = ",\n".join(f"  {json.dumps(step, ensure_ascii=False)}" for step in self.steps)
        return "\n".join(["{", *lines, ' "steps": [', steps, " ]", "}"]) + "\n"


def _part(state: JsonObject, path: str) -> Json:
    found: Json = state
    for name in path.split("__"):
        if not isinstance(found, dict):
            raise ContractError(f"the state has no {path}")
        found = found[name]
    return found


ClientStory: TypeAlias = Callable[[ClientScript], None]


class ClientBook:
    """Scenarios of one subject. The name of a function is the name of its file, its docstring what it is about."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._stories: dict[str, ClientStory] = {}

    def story(self, tell: ClientStory) -> ClientStory:
        if tell.__name__ in self._stories or not tell.__doc__:
            raise ContractError(f"scenario {tell.__name__} needs a name of its own and a docstring")
        self._stories[tell.__name__] = tell
        return tell

    def tell(self) -> dict[str, str]:
        """Every scenario, run: file names, and what belongs into them."""
        files = {}
        for name, tell in self._stories.items():
            script = ClientScript(self._folder, name, " ".join((tell.__doc__ or "").split()))
            tell(script)
            files[f"{self._folder}/{name}.json"] = script.encode()
        return files


class ClientVector(msgspec.Struct, forbid_unknown_fields=True):
    """One file. Every subject begins empty."""

    name: str
    about: str
    steps: list[VectorStep]


def run_client_vector(folder: str, text: str) -> list[str]:
    """Run the file of a scenario; what differs, one line each."""
    vector = msgspec.json.decode(text, type=ClientVector)
    subject: Subject = SUBJECTS[folder]()
    found = []
    for number, one in enumerate(vector.steps):
        _, made = subject.step(subject.decode(one.input), one.at)
        seen, wanted = subject.view(), one.expect.state
        if made != one.expect.outputs:
            found.append(f"{vector.name} step {number}: outputs {made!r}, expected {one.expect.outputs!r}")
        wrong = [key for key in sorted(seen.keys() | wanted.keys()) if seen.get(key) != wanted.get(key)]
        found += [
            f"{vector.name} step {number}: {key} is {seen.get(key)!r}, expected {wanted.get(key)!r}" for key in wrong
        ]
    return found
