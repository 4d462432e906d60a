"""The JSON of the commands: a session is `session_id`, a list stands in an object, and nothing in `cli/` is `Any`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, get_args, get_type_hints, is_typeddict

import pytest

import interlock.cli
from interlock.cli.commands import COMMANDS
from interlock.cli.wire import json_shapes
from tests.cli.serving import Served

ASKED: Final = (
    *("ps --all", "show {S}", "show {S} --state", "logs {S}", "logs {S} --turns", "why {S}", "usage", "usage {S}"),
    *(
        "status",
        "statusline",
        "seen {S}",
        "session rename {S} other",
        "approvals",
        "send {S} again --wait",
        "wait {S}",
        "start {S}",
        "stop {S}",
    ),
    *("queue ls {S}", "queue pause {S}", "queue resume {S}", "session history", "session history {S}"),
    *(
        "session fork {S} --dry-run",
        "session compact {S} --keep-turns 1 --dry-run",
        "debug turns {S}",
        "debug diagnose {S}",
        "diff {S}",
    ),
    *(
        "search hello",
        "debug replay {S} --explain",
        "log ls",
        "log show {S}",
        "log verify",
        "log repair",
        "log tail {S}",
    ),
    *("log archive --before 90d --dry-run", "log purge --before 2020-01-01 --dry-run"),
)
# Held by the types of `json_shapes`, for they need an agent that asks, works or waits, or end what others here use.
TYPED: Final = (
    *("run", "approve", "deny", "answer", "interrupt", "attach", "up", "down", "session archive", "session purge"),
    *("queue edit", "queue rm", "debug screen", "adopt", "resume", "blame"),
    *("worktree ls", "worktree show", "worktree rm", "worktree pr", "worktree prune", "merge"),
    *("review accept", "review send-back", "review discard"),
    # Those that tell of a workflow are asked in `test_plan_commands.py`.
    *("plan run", "plan ls", "plan show", "plan wait", "plan stop", "plan release", "plan give-up", "plan answer"),
)
# They tell of files, terminals and this machine, and of no session; or of events, as the log keeps them.
OF_NO_SESSION: Final = (
    *("debug inspect", "debug record", "debug track", "debug score", "debug lab", "debug profiles", "debug machines"),
    *("plan check", "plan trust"),
    *("open", "pair", "logins ls", "logins revoke"),
    *("doctor", "hooks", "config show", "config path", "config check", "notify test", "demo", "top", "debug shim"),
    *(
        "rules trust",
        "rules pause",
        "rules resume",
        "rules import",
        "rules ls",
        "rules check",
        "rules test",
        "rules suggest",
    ),
    *("log export", "log import", "log restore", "log vacuum", "version", "completion", "service", "uninstall"),
)
NOT_OURS: Final = {"task_id", "task", "tasks", "task_status", "status_updated_at"}
# What an agent or a person wrote, and events as the log keeps them.
_QUOTED: Final = {"data", "arguments", "state"}


def names(told: object) -> Iterator[tuple[str, object]]:
    """Every name in an answer, with what it names."""
    if isinstance(told, dict):
        for name, value in told.items():
            yield name, value
            if name not in _QUOTED:
                yield from names(value)
    elif isinstance(told, list):
        for one in told:
            yield from names(one)


@pytest.fixture(scope="module")
def session(acting_server: Served) -> str:
    task_id = acting_server.done("say hello", title="json words")
    assert acting_server.cli("send", task_id, "say more", "--wait").returncode == 0
    return task_id


@pytest.mark.parametrize("line", ASKED)
def test_a_session_is_session_id_and_nothing_else(acting_server: Served, session: str, line: str) -> None:
    done = acting_server.cli(*line.format(S=session).split(), "--json")
    assert done.stdout, done.stderr
    for printed in done.stdout.splitlines():
        told = json.loads(printed)
        assert isinstance(told, dict), "a list stands in an object"
        found = list(names(told))
        assert not NOT_OURS & {name for name, _ in found}
        assert {name for name, value in found if value == session} <= {"session_id", "parent_session_id"}


def test_every_command_is_asked_or_held_by_its_type() -> None:
    asked = {command.name for command in COMMANDS if any(f"{line} ".startswith(f"{command.name} ") for line in ASKED)}
    assert asked | {*TYPED, *OF_NO_SESSION} == {command.name for command in COMMANDS}


def test_no_type_of_an_answer_has_a_word_of_the_http_api() -> None:
    def fields(kind: object) -> Iterator[str]:
        if is_typeddict(kind):
            for name, inner in get_type_hints(kind).items():
                yield name
                yield from fields(inner)
        for inner in get_args(kind):
            yield from fields(inner)

    shapes = [kind for kind in vars(json_shapes).values() if is_typeddict(kind)]
    assert len(shapes) > 20
    assert [(kind.__name__, name) for kind in shapes for name in fields(kind) if name in NOT_OURS] == []


def test_no_answer_is_read_as_anything() -> None:
    files = Path(interlock.cli.__file__).parent.rglob("*.py")
    # mypy holds it for what is written (pyproject.toml, disallow_any_explicit).
    assert [path.name for path in files if re.search(r"(import|=|\[|,) *Any\b", path.read_text())] == []
