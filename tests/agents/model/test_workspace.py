"""The workspace: no way out, by any name of a path, and the write policy sees the one true form."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from interlock.agents.model.tools.builtin import builtin_tools
from interlock.agents.model.tools.tool import Tool, ToolCallOutcome, ToolFailure, run_tool, settle_arguments
from interlock.agents.model.tools.workspace import Workspace
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import PermissionBehavior
from interlock.vocabulary.events.conversation import ToolError
from interlock.vocabulary.events.registry import Json
from tests.agents.model.harness import own_spawn_id


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace, and next to it what must not be reached."""
    inside = tmp_path / "work"
    (inside / "sub").mkdir(parents=True)
    (inside / "a.txt").write_text("one\ntwo\n\nthree\n")
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "work-not").mkdir()
    (tmp_path / "work-not" / "x").write_text("secret")
    (inside / "out").symlink_to(tmp_path)
    (inside / "out.txt").symlink_to(tmp_path / "secret")
    (inside / "in").symlink_to("sub")
    return inside


OUTSIDE = [
    "../secret",
    "sub/../../secret",
    "out/secret",
    "out.txt",
    "../work-not/x",
    "/etc/passwd",
    "in/../../secret",
    "..",
]


def tools(root: Path, *policy: str) -> dict[str, Tool]:
    made = builtin_tools(Workspace(str(root), policy), spawn_id=own_spawn_id(), environment=dict(os.environ))
    return {tool.name: tool for tool in made}


def use(root: Path, name: str, **args: Json) -> ToolCallOutcome:
    tool = tools(root)[name]
    arguments = settle_arguments(tool, args)
    if isinstance(arguments, ToolError):
        return ToolCallOutcome(error=arguments)
    return asyncio.run(run_tool(tool, arguments))


def kind(outcome: ToolCallOutcome) -> str:
    return outcome.error.kind if outcome.error else ""


@pytest.mark.parametrize("path", OUTSIDE)
def test_no_path_leads_out(root: Path, path: str) -> None:
    for outcome in (
        use(root, "read", path=path),
        use(root, "write", path=path, text="x"),
        use(root, "edit", path=path, old="s", new="x"),
        use(root, "search", path=path, text="secret"),
    ):
        assert kind(outcome) == "outside_workspace"
    assert (root.parent / "secret").read_text() == "secret"


def test_an_absolute_path_inside_is_as_good_as_a_relative_one(root: Path) -> None:
    assert use(root, "read", path=str(root / "a.txt")).output == "one\ntwo\n\nthree\n"


@pytest.mark.parametrize("name", ["link", "folder/file"])
def test_a_link_that_is_put_there_after_the_path_was_judged_is_refused(root: Path, name: str) -> None:
    workspace = Workspace(str(root))
    (root / "folder").mkdir()
    settled = workspace.settle_path(name)
    if name == "link":
        (root / "link").symlink_to(root.parent / "secret")
    else:
        (root / "folder").rmdir()
        (root / "folder").symlink_to(root.parent)
        (root.parent / "file").write_text("secret")
    with pytest.raises(ToolFailure):
        workspace.read(settled)
    with pytest.raises(ToolFailure):
        workspace.write(settled, "x")
    assert (root.parent / "secret").read_text() == "secret"


@pytest.mark.parametrize("path", ["conf/.env", "./conf/.env", "in/../conf/.env", "sub/../conf//.env"])
def test_the_write_policy_sees_one_form_of_a_path(root: Path, path: str) -> None:
    write = tools(root, 'deny "*.env"', "ask sub/*")["write"]
    arguments = settle_arguments(write, {"path": path, "text": "x"})
    assert isinstance(arguments, dict)
    assert arguments["path"] == "conf/.env"
    assert write.gate(arguments) is PermissionBehavior.DENY


def test_the_write_policy_asks_or_says_nothing(root: Path) -> None:
    workspace = Workspace(str(root), ["ask sub/*", "allow sub/free"])
    assert workspace.may_write("sub/x") is PermissionBehavior.ASK
    assert workspace.may_write("sub/free") is PermissionBehavior.ASK, "ask beats allow"
    assert workspace.may_write("other") is PermissionBehavior.ALLOW


def test_a_write_policy_with_arguments_is_refused(root: Path) -> None:
    with pytest.raises(UsageError, match="has arguments"):
        Workspace(str(root), ["deny write(path=x)"])


def test_lines_can_be_read_and_text_replaced_once(root: Path) -> None:
    assert use(root, "read", path="a.txt", from_line=2, max_lines=2).output == "two\n\n"
    assert kind(use(root, "edit", path="a.txt", old="nowhere", new="x")) == "no_match"
    assert kind(use(root, "edit", path="a.txt", old="e\n", new="x")) == "many_matches"
    assert kind(use(root, "edit", path="a.txt", old="two", new="2")) == ""
    assert (root / "a.txt").read_text() == "one\n2\n\nthree\n"


def test_a_file_is_written_whole_with_its_folders_and_keeps_its_mode(root: Path) -> None:
    assert kind(use(root, "write", path="new/deep/file", text="héllo")) == ""
    assert (root / "new/deep/file").read_text() == "héllo"
    (root / "a.txt").chmod(0o755)
    use(root, "write", path="a.txt", text="x")
    assert (root / "a.txt").stat().st_mode & 0o777 == 0o755
    assert sorted(path.name for path in root.iterdir() if path.name.endswith(".new")) == []


def test_what_is_no_plain_text_file_is_refused(root: Path) -> None:
    (root / "binary").write_bytes(b"\xff\x00")
    os.mkfifo(root / "pipe")
    assert kind(use(root, "read", path="binary")) == "not_text"
    assert kind(use(root, "read", path="pipe")) == "not_a_file"
    assert kind(use(root, "write", path="pipe", text="x")) == "not_a_file"
    assert kind(use(root, "read", path="sub")) == "not_a_file"
    assert kind(use(root, "read", path=".")) == "not_a_file"
    assert kind(use(root, "read", path="none")) == "not_found"
    assert kind(use(root, "read", path="a\0b")) == "bad_path"


def test_a_file_that_is_too_large_is_neither_read_nor_written(root: Path) -> None:
    workspace = Workspace(str(root), max_file_bytes=4)
    with pytest.raises(ToolFailure, match="more than"):
        workspace.read("a.txt")
    with pytest.raises(ToolFailure, match="more than"):
        workspace.write("b.txt", "12345")
    assert not (root / "b.txt").exists()


def test_a_search_names_file_and_line_and_follows_no_link(root: Path) -> None:
    (root / "sub" / "b.py").write_text("x\ntwo = 2\n")
    assert use(root, "search", text="two").output == "a.txt:2: two\nsub/b.py:2: two = 2"
    assert use(root, "search", text="two", glob="*.py").output == "sub/b.py:2: two = 2"
    assert use(root, "search", text="two", path="a.txt").output == "a.txt:2: two"
    assert use(root, "search", text="secret").output == "no match"
    assert kind(use(root, "search", text="")) == "bad_pattern"
