"""The vectors of board, manager and shell: true of the machines, complete, and able to tell when they are not."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from interlock.client.machine.board import BoardWanted
from interlock.client.machine.inputs import Connected, StopPressed
from interlock.vocabulary.errors import ContractError, PeerFault
from tests.task_scenarios.client_vectors import (
    SUBJECTS,
    ClientBook,
    ClientScript,
    ClientVector,
    input_names,
    run_client_vector,
)
from tests.task_scenarios.vectors import JsonObject
from tools.vectors import VECTORS

FILES = [(folder, path) for folder in SUBJECTS for path in sorted((VECTORS / folder).glob("*.json"))]
README = (VECTORS / "README.md").read_text(encoding="utf-8")


def vectors(folder: str) -> list[ClientVector]:
    return [msgspec.json.decode(path.read_bytes(), type=ClientVector) for one, path in FILES if one == folder]


@pytest.mark.parametrize(("folder", "path"), FILES, ids=lambda one: getattr(one, "stem", one))
def test_the_machine_does_what_the_file_says(folder: str, path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert run_client_vector(folder, text) == []
    vector = msgspec.json.decode(text, type=ClientVector)
    assert vector.name == path.stem
    assert (times := [one.at for one in vector.steps]) == sorted(times)


@pytest.mark.parametrize("folder", SUBJECTS)
def test_every_input_and_every_output_is_used_and_explained(folder: str) -> None:
    steps = [step for vector in vectors(folder) for step in vector.steps]
    used = {str(step.input["type"]) for step in steps}
    assert used == input_names(folder)
    outputs = {str(one["type"]) for step in steps for one in step.expect.outputs if isinstance(one, dict)}
    fields = {key for step in steps for key in step.expect.state}
    assert len(outputs) >= 4
    assert [name for name in sorted(used | outputs | fields) if f"`{name}`" not in README] == []


@pytest.mark.parametrize("folder", SUBJECTS)
def test_a_changed_file_is_noticed(folder: str) -> None:
    vector = vectors(folder)[0]
    for step in vector.steps:
        for key, value in step.expect.state.items():
            step.expect.state[key] = "something else"
            assert len(run_client_vector(folder, msgspec.json.encode(vector).decode())) == 1
            step.expect.state[key] = value
        step.expect.outputs.append({"type": "leave"})
        assert len(run_client_vector(folder, msgspec.json.encode(vector).decode())) == 1
        step.expect.outputs.pop()


def test_a_script_refuses_what_the_machine_does_not_do() -> None:
    with pytest.raises(ContractError, match="expected"):
        ClientScript("board", "one", "two").do(0, BoardWanted())
    with pytest.raises(ContractError, match="is_wanted is False"):
        ClientScript("board", "one", "two").do(0, Connected(), is_wanted=True)
    with pytest.raises(ContractError, match="no lines__x"):
        ClientScript("board", "one", "two").do(0, Connected(), lines__x=1)


def test_a_story_has_its_own_name_and_an_input_is_known() -> None:
    book = ClientBook("board")

    def tale(script: ClientScript) -> None:
        """A tale."""
        script.do(0, Connected())

    book.story(tale)
    with pytest.raises(ContractError, match="a name of its own"):
        book.story(tale)
    assert list(book.tell()) == ["board/tale.json"]
    for name, subject in SUBJECTS.items():
        with pytest.raises(PeerFault, match="no such input"):
            subject().decode({"type": "nothing"})
        assert name in README
    told: JsonObject = {"type": "task_told", "task_id": "task_1", "input": {"type": "stop_pressed"}}
    assert SUBJECTS["shell"]().decode(told) is not None
    assert isinstance(SUBJECTS["manager"]().decode(told).input, StopPressed)  # type: ignore[attr-defined]
