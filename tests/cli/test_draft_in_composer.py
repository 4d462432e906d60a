"""A person types at an agent's terminal, and a prompt of another person waits for that draft: by the commands."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.serving import WAIT_SECONDS, Served, serving, until

DRAFT = "a draft of somebody stands in the composer"
pytestmark = pytest.mark.deep


class Terminal:
    """The terminal of a session, as a person has it who attached to it."""

    def __init__(self, server: Served, task_id: str) -> None:
        argv = until(lambda: _attach(server, task_id), "there is a terminal")
        self._tmux, self._pane = argv[: argv.index("-N")], argv[-1]
        self._folder = server.home

    def press(self, *keys: str) -> None:
        self._run("send-keys", "-t", self._pane, *keys)

    @property
    def screen(self) -> str:
        return self._run("capture-pane", "-p", "-t", self._pane)

    def _run(self, *words: str) -> str:
        environment = {"TMUX_TMPDIR": str(self._folder), "PATH": "/usr/local/bin:/usr/bin:/bin"}
        done = subprocess.run([*self._tmux, *words], env=environment, capture_output=True, timeout=60, check=True)
        return done.stdout.decode("utf-8", "replace")


def _attach(server: Served, task_id: str) -> list[str] | None:
    done = server.cli("attach", task_id, "--print")
    return None if done.returncode else list(server.json("attach", task_id)["argv"])


def begin(server: Served) -> tuple[str, Terminal]:
    """A session whose agent rests after a first turn, with a draft of a person in its composer."""
    task_id = server.open("say Hello.", face="tui")
    server.shows(task_id, status="COMPLETED")
    terminal = Terminal(server, task_id)
    terminal.press("half a thought")
    until(lambda: "> half a thought" in terminal.screen, "the draft is drawn")
    return task_id, terminal


def waits(server: Served, task_id: str) -> None:
    until(lambda: server.task(task_id)["summary"]["waits_for"] == DRAFT, "the prompt waits for the draft")


def test_a_prompt_waits_for_a_draft_on_every_surface_and_goes_on_by_itself(acting_server: Served) -> None:
    server = acting_server
    task_id, terminal = begin(server)
    with server.following("send", task_id, "say Mine.", "--wait", "--timeout", str(WAIT_SECONDS)) as sending:
        sending.notes(f"queued, {DRAFT}")
        assert f"prompt waits: {DRAFT}" in server.cli("ps", "--all", COLUMNS="300").stdout
        assert DRAFT in server.cli("show", task_id).stdout
        listed = server.cli("queue", "ls", task_id)
        assert ("say Mine." in listed.stdout, f"the next prompt waits: {DRAFT}" in listed.stderr) == (True, True)
        assert server.json("queue", "ls", task_id)["waits_for"] == DRAFT
        assert "> half a thought" in terminal.screen, "the draft is as the person left it"
        terminal.press(*["BSpace"] * len("half a thought"))
        assert sending.ends() == 0, sending.stderr
    assert "half a thought" not in terminal.screen
    assert terminal.screen.count("> say Mine.") == 1
    assert server.task(task_id)["summary"]["waits_for"] == ""


def test_a_draft_that_its_person_submits_is_a_turn_before_the_prompt(acting_server: Served) -> None:
    server = acting_server
    task_id, terminal = begin(server)
    terminal.press(*["BSpace"] * len("half a thought"))
    terminal.press("think 2; say Of the person.")
    until(lambda: "> think 2" in terminal.screen, "the draft is drawn")
    with server.following("send", task_id, "say Mine.", "--wait", "--timeout", str(WAIT_SECONDS)) as sending:
        sending.notes(f"queued, {DRAFT}")
        terminal.press("Enter")
        assert sending.ends() == 0, sending.stderr
    rows = terminal.screen
    assert rows.index("• Of the person.") < rows.index("> say Mine.") < rows.index("• Mine.")


def test_a_prompt_that_waits_for_a_draft_is_taken_back_and_the_draft_stays(acting_server: Served) -> None:
    server = acting_server
    task_id, terminal = begin(server)
    server.send(task_id, "say Mine.")
    waits(server, task_id)
    assert server.cli("queue", "rm", task_id, "1").returncode == 0
    assert server.task(task_id)["summary"]["waits_for"] == ""
    assert server.json("queue", "ls", task_id)["waiting"] == []
    assert "> half a thought" in terminal.screen


def test_a_prompt_waits_for_the_draft_across_a_restart_of_the_server(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        task_id, terminal = begin(server)
        server.send(task_id, "say Mine.")
        waits(server, task_id)
        server.kill()
        server.start()
        waits(server, task_id)
        assert "> half a thought" in terminal.screen
        terminal.press(*["BSpace"] * len("half a thought"))
        until(lambda: "• Mine." in terminal.screen, "the prompt went on by itself")
        server.shows(task_id, status="COMPLETED")
        assert terminal.screen.count("> say Mine.") == 1
