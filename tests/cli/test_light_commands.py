"""The commands that are typed all day load themselves: no parser, no store, no encoder, no event loop."""

from __future__ import annotations

import json

import pytest

from interlock.cli import main
from tests.cli.harness import python
from tests.cli.serving import Served

HEAVY = {"apsw", "asyncio", "cyclopts", "httpx", "litestar", "msgspec", "rich", "subprocess", "textual", "websockets"}


@pytest.mark.parametrize(
    "words",
    [
        "status",
        "spawns",
        "usage",
        "show light",
        "logs light --turns",
        "ps --all",
        "version",
        "why light",
        "turns light",
    ],
)
def test_a_command_that_asks_a_server_loads_little(acting_server: Served, words: str) -> None:
    if not acting_server.cli("show", "light").stdout:
        acting_server.done("say hello", title="light")
    code = (
        "import json, sys\nfrom interlock.cli import main\n"
        f"code = main({words.split()!r})\nsys.stderr.write(json.dumps([code, *sorted(sys.modules)]))"
    )
    done = python(code, env={"INTERLOCK_HOME": str(acting_server.home)})
    exit_code, *loaded = json.loads(done.stderr.splitlines()[-1])
    assert exit_code == 0, done.stderr
    assert not HEAVY & set(loaded)


@pytest.mark.parametrize(("prompt", "status"), [("say hello", "COMPLETED"), ("say a; fail overloaded", "FAILED")])
def test_why_says_by_the_server_what_it_says_by_the_log(acting_server: Served, prompt: str, status: str) -> None:
    """The short way asks the server; a turn that is named is looked for in the log."""
    task_id = acting_server.done(prompt, status=status)
    short, long = acting_server.cli("why", task_id), acting_server.cli("why", task_id, "--turn", "1")
    assert (short.stdout, short.returncode) == (long.stdout, long.returncode)
    assert "evidence" in short.stdout
    state = short.stdout.split(": ")[1].split()[0]
    assert short.returncode == {"completed": 0, "failed": 1, "partial_failed": 3}[state]


def test_why_of_a_session_without_a_turn_and_of_none_at_all(acting_server: Served) -> None:
    task_id = acting_server.open()
    told = acting_server.cli("why", task_id)
    assert told.stdout.startswith("any turn: unknown: the log holds no such turn as of event 1\n")
    assert told.returncode == 7
    unknown = acting_server.cli("why", "ses_nobody")
    assert (unknown.stdout, unknown.returncode) == ("", 2)
    assert "interlock log ls" in unknown.stderr


def test_turns_say_by_the_server_what_they_say_by_the_log(
    acting_server: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Page by page. What began last is read from the log, and here that is all."""
    task_id = acting_server.done("say hello")
    acting_server.cli("send", task_id, "say a; fail overloaded", "--wait")
    monkeypatch.setattr("interlock.cli.log.turns.PAGE", 1)
    for form in ([], ["--json"]):
        told = []
        for words in ([], ["--last", "9"]):
            code = main(["turns", task_id, "--home", str(acting_server.home), *form, *words])
            told.append((code, *capsys.readouterr()))
        assert told[0] == told[1]
        assert told[0][0] == 0
        assert told[0][1].count("partial_failed") + told[0][1].count('"failed"') >= 1


def test_turns_of_a_session_that_has_none_are_told_alike(acting_server: Served) -> None:
    task_id = acting_server.open()
    assert acting_server.cli("turns", task_id).stderr == "the session has no turn yet\n"
    assert acting_server.cli("turns", task_id, "--json").stdout == f'{{"session_id":"{task_id}","turns":[]}}\n'
    assert acting_server.cli("turns", "ses_nobody").returncode == 2
