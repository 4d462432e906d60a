"""The vectors: current, true of the machine, and able to tell when they are not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from interlock.client.machine.inputs import Opened, StopPressed
from interlock.client.machine.task_machine import TaskStateMachine
from interlock.vocabulary.errors import ContractError, PeerFault
from tests.task_scenarios.expected import PAGE
from tests.task_scenarios.vectors import (
    INPUTS,
    TASK,
    Book,
    Script,
    Vector,
    decode_input,
    encode_input,
    run_vector,
    view,
)
from tools import vectors

FILES = sorted(vectors.VECTORS.glob("*.json"))


def test_the_files_are_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert vectors.main(["--check"]) == 0, capsys.readouterr().err
    assert len(FILES) >= 60


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_machine_does_what_the_file_says(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert run_vector(text) == []
    vector = msgspec.json.decode(text, type=Vector)
    assert vector.name == path.stem
    assert any(one.expect.state for one in vector.steps), "a file that asserts nothing"
    times = [one.at for one in vector.steps]
    assert times == sorted(times)


def test_every_input_and_every_field_is_used_somewhere() -> None:
    seen = [msgspec.json.decode(path.read_bytes(), type=Vector) for path in FILES]
    steps = [one for vector in seen for one in vector.steps]
    assert {str(one.input["type"]) for one in steps} == set(INPUTS)
    asserted = {key for one in steps for key in one.expect.state}
    assert asserted == set(view(TaskStateMachine(TASK).state))
    readme = (vectors.VECTORS / "README.md").read_text(encoding="utf-8")
    assert [name for name in (*INPUTS, *sorted(asserted)) if f"`{name}`" not in readme] == []


@pytest.mark.parametrize("name", ["weakness_a", "terminal_clears_what_ran", "a_gap_is_asked_for_once"])
def test_a_changed_file_is_noticed(name: str) -> None:
    text = (vectors.VECTORS / f"{name}.json").read_text(encoding="utf-8")
    vector = msgspec.json.decode(text, type=Vector)
    found = 0
    for step in vector.steps:
        for key, value in step.expect.state.items():
            step.expect.state[key] = "something else"
            assert len(run_vector(msgspec.json.encode(vector).decode())) == 1
            step.expect.state[key] = value
            found += 1
        step.expect.outputs.append({"type": "leave"})
        assert len(run_vector(msgspec.json.encode(vector).decode())) == 1
        step.expect.outputs.pop()
    assert found > 3


def test_a_script_refuses_what_the_machine_does_not_do() -> None:
    with pytest.raises(ContractError, match="expected"):
        Script("one", "two").do(0, Opened())
    with pytest.raises(ContractError, match="sync is 'idle'"):
        Script("one", "two").do(0, Opened(), "pull task-selected", sync="joined")
    with pytest.raises(ContractError, match="no check"):
        Script("one", "two").fail(0)
    with pytest.raises(ContractError, match="no join"):
        Script("one", "two").refuse(0)


def test_inputs_survive_json() -> None:
    for path in FILES:
        for step in msgspec.json.decode(path.read_bytes(), type=Vector).steps:
            decoded = decode_input(step.input)
            assert decode_input(msgspec.json.decode(msgspec.json.encode(encode_input(decoded)))) == decoded
    with pytest.raises(PeerFault, match="no such input"):
        decode_input({"type": "nothing"})


def test_a_story_has_its_own_name_and_says_what_it_is_about() -> None:
    book = Book()

    def tale(script: Script) -> None:
        """A tale."""
        script.do(0, StopPressed())

    book.story()(tale)
    with pytest.raises(ContractError, match="a name of its own"):
        book.story()(tale)
    tale.__doc__, tale.__name__ = None, "other"
    with pytest.raises(ContractError, match="docstring"):
        book.story()(tale)
    assert list(book.tell()) == ["tale.json"]


def test_writing_and_comparing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = PAGE.tell()
    (tmp_path / "old.json").write_text("{}")
    (tmp_path / "README.md").write_text("mine")
    assert "extra: vectors/old.json" in vectors.stale(tmp_path, wanted)
    vectors.write(tmp_path, wanted)
    assert vectors.stale(tmp_path, wanted) == []
    assert (tmp_path / "README.md").read_text() == "mine"
    (tmp_path / "status_failed.json").write_text("{}")
    (tmp_path / "status_running.json").unlink()
    assert sorted(vectors.stale(tmp_path, wanted)) == [
        "missing: vectors/status_running.json",
        "stale: vectors/status_failed.json",
    ]
    assert vectors.main(["--check"], tmp_path) == 1
    assert vectors.main([], tmp_path) == 0
    assert vectors.main(["--check"], tmp_path) == 0
    assert vectors.main(["--other"], tmp_path) == 2
    assert "usage" in capsys.readouterr().err


def test_the_view_is_of_the_state_alone() -> None:
    state = TaskStateMachine(TASK).state
    assert view(state) == view(replace(state))
