"""What the outside world's side says when it refuses: message and remedy word for word, bounds at, below and above."""

from __future__ import annotations

import asyncio
import gzip
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.agents.drivers import DRIVERS, driver
from interlock.agents.model import ModelDriver
from interlock.agents.model.calls import FaultKind
from interlock.agents.model.driver import ModelOptions, read_options
from interlock.agents.model.provider import fault_of
from interlock.agents.model.tools import builtin
from interlock.agents.model.tools.builtin import builtin_tools
from interlock.agents.model.tools.children import CHECKPOINT_TOOL
from interlock.agents.model.tools.tool import (
    MAX_OUTPUT_CHARACTERS,
    ToolCallOutcome,
    cut_text,
    run_tool,
    settle_arguments,
    tool_from,
)
from interlock.agents.model.tools.workspace import Workspace
from interlock.agents.observations import Exited
from interlock.agents.pool.pool import PoolLimits, exit_reason
from interlock.agents.port import AgentSpec
from interlock.agents.processes.child import ChildProcess
from interlock.agents.profiles import read_profile_file
from interlock.agents.recording_files import open_recording, recordings_under
from interlock.vocabulary.errors import ContractError, PeerFault, UsageError
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import SpawnId
from interlock.vocabulary.states import ExitReason

SPAWN = SpawnId("spn_1")


def refused(act: Callable[[], object]) -> tuple[str, str]:
    """The message and the remedy of a usage error."""
    with pytest.raises(UsageError) as wrong:
        act()
    remedy = wrong.value.remedy
    return str(wrong.value).removesuffix(f"; {remedy}") if remedy else str(wrong.value), remedy


# Tools of a model


def use(root: Path, name: str, /, **args: Json) -> ToolCallOutcome:
    return use_up_to(60, root, name, args)


def use_up_to(size: int, root: Path, name: str, args: dict[str, Json]) -> ToolCallOutcome:
    workspace = Workspace(str(root), (), max_file_bytes=size)
    tools = builtin_tools(workspace, spawn_id=SPAWN, environment={"PATH": os.defpath})
    (tool,) = [one for one in tools if one.name == name]
    arguments = settle_arguments(tool, args)
    if not isinstance(arguments, dict):
        return ToolCallOutcome(error=arguments)
    return asyncio.run(run_tool(tool, arguments))


@pytest.mark.parametrize(
    ("name", "args", "kind", "message"),
    [
        ("shell", {"command": " "}, "bad_command", "a command is not empty and holds no NUL"),
        ("shell", {"command": "a\0b"}, "bad_command", "a command is not empty and holds no NUL"),
        ("shell", {"command": ["sh", "-c", "exit 3"]}, "exit_code", "exit code 3"),
        ("shell", {"command": "sleep 60", "timeout_seconds": 0.2}, "tool_timeout", "over 0.2 s; it was ended"),
        ("edit", {"path": "a", "old": "z", "new": "y"}, "no_match", "'a' does not hold the old text"),
        ("edit", {"path": "a", "old": "", "new": "y"}, "no_match", "'a' does not hold the old text"),
        (
            "edit",
            {"path": "a", "old": "one", "new": "y"},
            "many_matches",
            "'a' holds the old text 2 times; give more of its context",
        ),
        ("search", {"text": ""}, "bad_pattern", "there is no text to search for"),
        ("read", {"path": "a\0"}, "bad_path", "a path holds no NUL"),
        ("read", {"path": "../x"}, "outside_workspace", "'../x' is outside the workspace"),
        ("read", {"path": "none"}, "not_found", "'none': No such file or directory"),
        ("read", {"path": "a/b"}, "file_error", "'a/b': Not a directory"),
        ("read", {"path": "."}, "not_a_file", "'.' is not the name of a file"),
        ("read", {"path": "sub"}, "not_a_file", "'sub' is not a plain file"),
        ("write", {"path": "sub", "text": "x"}, "not_a_file", "'sub' is not a plain file"),
        ("read", {"path": "long"}, "too_large", "'long' has more than 60 bytes"),
        ("write", {"path": "n", "text": "x" * 61}, "too_large", "61 bytes are more than 60"),
        ("read", {"path": "bytes"}, "not_text", "'bytes' is not UTF-8 text"),
    ],
)
def test_a_built_in_tool_says_what_is_wrong(
    name: str, args: dict[str, Json], kind: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "a").write_text("one\ntwo\none\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "long").write_text("x" * 61)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    before = sorted(tmp_path.iterdir())
    error = use_up_to(60, tmp_path, name, args).error
    assert error is not None
    assert (error.kind, error.message) == (kind, message)
    assert sorted(tmp_path.iterdir()) == before  # nothing was written, and no new file is left behind


def test_a_built_in_tool_says_what_it_did(tmp_path: Path) -> None:
    assert use(tmp_path, "write", path="d/a", text="one\ntwo\none").output == "wrote 11 bytes to d/a"
    assert use(tmp_path, "write", path="whole", text="x" * 60).output == "wrote 60 bytes to whole"
    assert use(tmp_path, "read", path="whole").output == "x" * 60
    assert use(tmp_path, "read", path="d/a", from_line=2, max_lines=1).output == "two\n"
    assert use(tmp_path, "search", text="one").output == "d/a:1: one\nd/a:3: one"
    assert use(tmp_path, "search", text="one", path="d/a").output == "d/a:1: one\nd/a:3: one"
    assert use(tmp_path, "search", text="one", glob="*.py").output == "no match"
    assert use(tmp_path, "edit", path="d/a", old="two", new="2").output == "replaced 1 in d/a"
    assert use(tmp_path, "edit", path="d/a", old="one", new="1", replace_all=True).output == "replaced 2 in d/a"
    assert (tmp_path / "d/a").read_text() == "1\n2\n1"
    assert use(tmp_path, "shell", command=["printf", "%s", "a b"]).output == "a b"
    for hidden in (".git", ".hg", ".venv", "node_modules", "__pycache__"):
        (tmp_path / hidden).mkdir()
        (tmp_path / hidden / "f").write_text("secret")
    assert use(tmp_path, "search", text="secret").output == "no match"


def test_a_search_stops_at_its_bound(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\n" * (builtin.MAX_MATCHES - 1))
    found = str(use_up_to(10_000, tmp_path, "search", {"text": "x"}).output).splitlines()
    assert len(found) == builtin.MAX_MATCHES - 1
    (tmp_path / "a").write_text("x\n" * (builtin.MAX_MATCHES + 1))
    found = str(use_up_to(10_000, tmp_path, "search", {"text": "x"}).output).splitlines()
    assert found[-1] == f"[only the first {builtin.MAX_MATCHES} matches]"
    assert found[-2] == f"a:{builtin.MAX_MATCHES}: x"
    (tmp_path / "a").write_text("x" * 5000)
    (line,) = str(use_up_to(10_000, tmp_path, "search", {"text": "x"}).output).splitlines()
    assert line == f"a:1: {'x' * (len(line) - 5)}"
    assert 100 < len(line) < 1000


def test_what_a_tool_gives_is_cut_at_its_bound() -> None:
    assert cut_text("x" * 10, 10) == "x" * 10
    assert cut_text("aaaaa" + "-" + "bbbbb", 10) == "aaaaa\n[... 1 characters left out ...]\nbbbbb"

    def big(n: int) -> str:
        return "x" * n

    tool = tool_from(big)
    assert asyncio.run(run_tool(tool, {"n": MAX_OUTPUT_CHARACTERS - 2})).output == "x" * (MAX_OUTPUT_CHARACTERS - 2)
    assert "characters left out" in str(asyncio.run(run_tool(tool, {"n": MAX_OUTPUT_CHARACTERS + 1})).output)


def test_a_tool_that_fails_in_its_own_way_is_told() -> None:
    async def cancels() -> None:
        raise asyncio.CancelledError

    def odd() -> object:
        return object

    def raises() -> None:
        raise KeyError("k")

    def errors(function: Callable[..., object]) -> tuple[str, str]:
        error = asyncio.run(run_tool(tool_from(function), {})).error
        assert error is not None
        return error.kind, error.message

    assert errors(cancels) == ("tool_error", "the tool cancelled itself")
    assert errors(raises) == ("tool_error", "KeyError: 'k'")
    kind, message = errors(odd)
    assert kind == "unserialisable_result"
    assert message.startswith("the tool gave what cannot be written as JSON: ")
    wrong = settle_arguments(tool_from(raises), [1])
    assert (wrong.kind, wrong.message) == (  # type: ignore[union-attr]
        "invalid_arguments",
        "the arguments are not a JSON object",
    )


def test_what_no_tool_can_be_is_refused(tmp_path: Path) -> None:
    def untyped(a):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        return a

    def odd(a: type) -> None: ...

    assert refused(lambda: tool_from(untyped)) == ("argument 'a' of tool 'untyped' has no type", "annotate it")
    assert refused(lambda: tool_from(odd))[1] == "use types that JSON can hold"
    gone = str(tmp_path / "gone")
    assert refused(lambda: Workspace(gone)) == (f"there is no folder {gone!r}", "name one that exists")
    assert refused(lambda: Workspace(str(tmp_path), ["deny a(x=1)"])) == (
        "the write policy 'deny a(x=1)' has arguments",
        "write it like `deny secrets/*`",
    )


# Drivers and processes


def test_options_of_the_model_driver_are_checked() -> None:
    message, remedy = refused(lambda: read_options({"tools": "x"}))
    assert message.startswith("an option of the model driver is wrong: ")
    assert remedy == f"the options are {', '.join(ModelOptions.__struct_fields__)}"
    assert refused(lambda: read_options({"tools": ["read", "rm"]})) == (
        "there is no built-in tool 'rm'",
        f"there are {', '.join((*builtin.NAMES, CHECKPOINT_TOOL))}",
    )
    for spec in (
        AgentSpec(agent="m", driver="model", argv=("a",)),
        AgentSpec(agent="m", driver="model", resume="x"),
    ):
        assert refused(lambda one=spec: asyncio.run(ModelDriver().spawn(one, SPAWN))) == (  # type: ignore[misc]
            "a model has neither a program nor a session of its own",
            "leave out argv, resume",
        )


@pytest.mark.parametrize(
    ("wrong", "kind", "message"),
    [
        (TimeoutError("slow"), FaultKind.TIMEOUT, "slow"),
        (OSError("cut"), FaultKind.CONNECTION, "cut"),
        (ValueError("odd"), FaultKind.CLIENT, "odd"),
        (ValueError("beyond the Context Window of"), FaultKind.CONTEXT_OVERFLOW, "beyond the Context Window of"),
    ],
)
def test_a_fault_of_a_library_has_one_kind(wrong: Exception, kind: FaultKind, message: str) -> None:
    fault = fault_of(wrong)
    assert (fault.kind, str(fault)) == (kind, message)


def test_there_is_no_other_driver() -> None:
    assert refused(lambda: driver("none")) == (
        "there is no driver 'none'",
        f"the drivers are {', '.join(DRIVERS)}",
    )


def test_a_cap_lets_at_least_one_agent_run() -> None:
    assert PoolLimits(total=1, each=1, per_agent={"a": 1, "b": None}).of("b") is None
    for limits in ({"total": 0}, {"each": 0}, {"per_agent": {"a": 0}}, {"total": -1}):
        said = refused(lambda limits=limits: PoolLimits(**limits))  # type: ignore[misc]
        assert said == ("a cap below one lets no agent run", "leave it out for no cap")


def test_only_what_was_asked_for_is_the_reason_of_a_stop() -> None:
    assert exit_reason(Exited(code=0), stop_requested=ExitReason.REPLACED) is ExitReason.REPLACED
    assert exit_reason(Exited(code=0)) is ExitReason.CLEAN
    assert exit_reason(Exited(code=1)) is ExitReason.CRASHED
    assert exit_reason(Exited(code=None, signal=9)) is ExitReason.CRASHED
    assert exit_reason(Exited(code=None)) is ExitReason.UNCLEAN
    with pytest.raises(ContractError, match=r"^crashed is nothing that one asks for$"):
        exit_reason(Exited(code=0), stop_requested=ExitReason.CRASHED)


def test_a_program_that_cannot_be_started_says_why(tmp_path: Path) -> None:
    def start(*argv: str, cwd: Path = tmp_path) -> Callable[[], object]:
        return lambda: asyncio.run(ChildProcess.start(argv, cwd=str(cwd), environment={}, spawn_id=SPAWN))

    remedy = "check the program and its folder"
    gone = tmp_path / "gone"
    assert refused(start()) == ("there is no program to start", "give its name and arguments as a list")
    assert refused(start(str(gone))) == (f"there is no {str(gone)!r}", remedy)
    assert refused(start(sys.executable, cwd=gone)) == (f"there is no {str(gone)!r}", remedy)
    message, remedy = refused(start("a\0b"))
    assert (message.startswith("'a\\x00b' cannot be started so: "), remedy) == (True, "leave out NUL characters")
    (tmp_path / "plain").write_text("x")
    with pytest.raises(PeerFault, match=r"plain' did not start: Permission denied$"):
        start(str(tmp_path / "plain"))()


# Files


def test_a_recording_that_cannot_be_read_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def first(source: str) -> object:
        with open_recording(source) as records:
            return list(records)

    gone, cut = tmp_path / "gone", tmp_path / "cut.ndjson.gz"
    cut.write_bytes(gzip.compress(b"x" * 5000)[:20])
    assert refused(lambda: first(str(gone)))[0] == f"{gone}: cannot be read: No such file or directory"
    assert refused(lambda: first(str(cut)))[0].startswith(f"{cut}:1: the file is cut or damaged: ")
    assert refused(lambda: recordings_under(gone))[0] == f"{gone}: there is no such file or folder"
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "a.ndjsonx").write_text("")
    empty = tmp_path / "empty"
    assert refused(lambda: recordings_under(empty))[0] == f"{empty}: holds no recording (*.ndjson, *.ndjson.gz)"
    assert recordings_under(cut) == recordings_under(tmp_path) == [cut]
    monkeypatch.setattr(sys, "stdin", None)
    assert refused(lambda: first("-"))[0] == "standard input is closed; name a file"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"{")))
    assert refused(lambda: first("-"))[0].startswith("standard input:1")


def test_a_profile_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    assert refused(lambda: read_profile_file(path))[0] == f"{path}: cannot be read: No such file or directory"
    path.write_bytes(b"\xff")
    assert refused(lambda: read_profile_file(path))[0].startswith(f"{path}: not UTF-8: ")
