"""A day at the board, in a real terminal: at each step its list is compared with what the agents were made to do."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from interlock.agents.tmux.server import TmuxServer
from interlock.log.process_life import process_start
from interlock.testing.scripted_agent import command, write_program
from tests.cli.harness import COMMAND, interlock
from tests.cli.serving import end_tmux, until
from tests.cli.test_adopt import AGENT, Person, person

HEADING: Final = re.compile(r"^ ([A-Z][A-Z ]+[A-Z])  \d+\s*$")
HEADINGS: Final = {
    "needs_you": "NEEDS YOU",
    "stuck": "STUCK OR UNKNOWN",
    "working": "WORKING",
    "done": "DONE",
    "idle": "IDLE",
    "ended": "ENDED",
}
ROW: Final = re.compile(r"^[▌ ][!?●✓○·×] (\S+)\s")


@dataclass(frozen=True)
class Day:
    """A home, a person's tmux, and the board in one of its panes."""

    home: Path
    config: Path
    somebody: Person

    @property
    def environment(self) -> dict[str, str]:
        return {"INTERLOCK_HOME": str(self.home), "INTERLOCK_CONFIG": str(self.config)}

    def cli(self, *words: str) -> subprocess.CompletedProcess[str]:
        return interlock(*words, env=self.environment)

    def run(self, agent: str, title: str, prompt: str) -> None:
        done = self.cli("run", agent, "--title", title, "--cwd", str(self.config.parent), prompt)
        assert done.returncode == 0, done.stderr

    def open_board(self, name: str) -> None:
        settings = [f"{key}={value}" for key, value in self.environment.items()]
        line = shlex.join(
            ["env", "-u", "COLUMNS", "-u", "LINES", *settings, "TERM=screen-256color", "LC_ALL=C.UTF-8", *COMMAND]
        )
        self.somebody.tmux(name, "-u", "new-session", "-d", "-s", "board", "-x", "120", "-y", "40", line)

    def press(self, name: str, *keys: str) -> None:
        self.somebody.tmux(name, "send-keys", "-t", "board", *keys)

    def text(self, name: str) -> str:
        return self.somebody.tmux(name, "capture-pane", "-p", "-t", "board")

    def sees(self, name: str, *words: str) -> None:
        until(lambda: all(one in self.text(name) for one in words), f"{words} on the board", lambda: self.text(name))

    def stands(self, name: str, expected: Mapping[str, str]) -> None:
        """Wait until the board, `ps` and the status line all say this of every session, and nothing else."""

        def is_so() -> bool:
            told = groups(self.text(name)), self.listed(), self._counts()
            return told == (expected, expected, counted(expected))

        def tell() -> str:
            return f"{self.text(name)}\n{self.listed()}\n{self._counts()}"

        until(is_so, f"they say {expected}", tell)

    def listed(self) -> dict[str, str]:
        listed: list[dict[str, Any]] = json.loads(self.cli("ps", "--json").stdout)["sessions"]
        return {one["title"]: HEADINGS[one["badge"]["group"]] for one in listed if not one["badge"]["is_over"]}

    def works(self, title: str) -> bool:
        """Whether its agent was given the prompt and works, and is not only on its way to it."""
        listed: list[dict[str, Any]] = json.loads(self.cli("ps", "--json").stdout)["sessions"]
        (badge,) = (one["badge"] for one in listed if one["title"] == title)
        return bool(badge["activity"] == "working" and badge["evidence"][0]["source"] != "log")

    def _counts(self) -> dict[str, int]:
        counts: dict[str, int] = json.loads(self.cli("statusline", "--json").stdout)["groups"] or {}
        return {group: count for group, count in counts.items() if count and group != "ended"}

    def reboot(self) -> None:
        """End everything that a reboot ends, by number: the server, every tmux server, and what is in it."""
        server = json.loads((self.home / "server.json").read_text())["pid"]
        own = TmuxServer.of_home(self.home)
        person = (self.somebody.folder / f"tmux-{os.getuid()}").iterdir()
        pids = {server, *_processes_of(*own.argv())}
        for socket in person:
            pids |= _processes_of("tmux", "-S", str(socket))
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        until(lambda: not any(process_start(pid) for pid in pids), "they have ended")


def _processes_of(*tmux: str) -> set[int]:
    """A tmux server and what runs in its panes."""
    told = subprocess.run(
        (*tmux, "list-panes", "-a", "-F", "#{pid} #{pane_pid}"), check=True, capture_output=True, text=True, timeout=30
    )
    return set(map(int, told.stdout.split()))


def groups(text: str) -> dict[str, str]:
    """Which session stands under which heading of the board's list."""
    found, heading = {}, ""
    for line in text.splitlines():
        left = line.split("│")[0]
        if (head := HEADING.match(left)) is not None:
            heading = head[1]
        elif heading and (row := ROW.match(left)) is not None:
            found[row[1]] = heading
    return found


def counted(expected: Mapping[str, str]) -> dict[str, int]:
    """What the status line counts of such a board."""
    groups_of = {heading: group for group, heading in HEADINGS.items()}
    said = [groups_of[one] for one in expected.values()]
    return {group: said.count(group) for group in said}


@contextmanager
def day(folder: Path) -> Iterator[Day]:
    """An empty home, and two agents that are scripted: one by its stream, one in a terminal."""
    stream = write_program(folder / "stream-agent", command("stream-json"))
    config = folder / "config.toml"
    config.write_text(
        f"[agents.stream]\nargv = {json.dumps([str(stream)])}\ndriver = 'claude-stream'\n"
        f"[agents.pane]\nargv = {json.dumps(command('tui', lifetime_seconds=0))}\ndriver = 'terminal'\n"
    )
    with person() as somebody, tempfile.TemporaryDirectory(prefix="il-") as short:
        found = Day(Path(short) / "home", config, somebody)
        try:
            yield found
        finally:
            found.cli("down", "--stop-agents", "--now")
            if found.home.exists():
                end_tmux(found.home)


@pytest.mark.deep
def test_a_day_at_the_board(tmp_path: Path) -> None:
    with day(tmp_path) as here:
        here.open_board("desk")
        here.sees("desk", "There is no session yet.")

        here.run("pane", "asks", 'request Bash {"command": "make"} -> ok; say Made.')
        here.sees("desk", "Allow Bash?", "approve")
        here.run("stream", "fails", "fail 500")
        here.run("stream", "finishes", "say All of it is done.")
        here.run("stream", "crashes", "say begun; crash")
        here.somebody.start("default", *AGENT)
        adopted = here.cli("adopt", "work", "--socket", here.somebody.socket("default"), "--json")
        assert adopted.returncode == 0, adopted.stderr
        session = json.loads(adopted.stdout)["agents"][0]["session_id"]
        assert here.cli("session", "rename", session, "adopted").returncode == 0
        need = dict.fromkeys(("asks", "fails", "crashes"), "NEEDS YOU")
        here.stands("desk", {**need, "finishes": "DONE", "adopted": "IDLE"})

        here.press("desk", "a")
        assert here.cli("wait", "asks", "--past-questions").returncode == 0
        here.stands("desk", {**need, "asks": "IDLE", "finishes": "DONE", "adopted": "IDLE"})
        select(here, "fails")
        here.press("desk", "s")
        here.sees("desk", "your prompt")
        here.press("desk", "-l", "say Mended.")
        here.press("desk", "Enter")
        rest = {"crashes": "NEEDS YOU", "asks": "IDLE", "fails": "IDLE", "adopted": "IDLE"}
        here.stands("desk", {**rest, "finishes": "DONE"})
        select(here, "finishes")
        here.press("desk", "X")
        here.sees("desk", "archive it?")
        here.press("desk", "y")
        here.stands("desk", rest)

        for title in ("crashes", "fails"):
            assert here.cli("stop", title).returncode == 0
        here.run("pane", "works", "hang")
        until(lambda: here.works("works"), "it works at its prompt")
        here.stands("desk", {**rest, "works": "WORKING"})
        here.reboot()
        here.open_board("morning")  # which starts the server again
        here.sees("morning", "crashes", "works")
        after = {"works": "NEEDS YOU", "crashes": "IDLE", "asks": "IDLE", "fails": "IDLE", "adopted": "IDLE"}
        here.stands("morning", after)  # what was cut off has failed; what is selected at first, a moment later is seen
        check_resumed(here, after)


def check_resumed(here: Day, after: Mapping[str, str]) -> None:
    """Agents that the reboot ended are started again, and all stand as before. Those that were stopped are not, nor is
    the adopted one: a person started it, and nobody asked for an agent of ours in its place. It is told how to be."""
    resumed = here.cli("resume", "--all", "--json")
    titles = {one["session_id"]: one["title"] for one in json.loads(here.cli("ps", "--json").stdout)["sessions"]}
    results = {titles[one["session_id"]]: one["result"] for one in json.loads(resumed.stdout)["sessions"]}
    expected = {**dict.fromkeys(("asks", "works"), "started_anew"), "adopted": "left_out"}
    assert (results, resumed.returncode) == (expected, 1)
    here.stands("morning", after)


def select(here: Day, title: str) -> None:
    """Go to a session by the search, and leave that."""
    here.press("desk", "/")
    here.press("desk", "-l", title)
    here.press("desk", "Enter")
    until(lambda: list(groups(here.text("desk"))) == [title], "the search", lambda: here.text("desk"))
    here.press("desk", "Escape")
    until(lambda: "▌" in here.text("desk") and len(groups(here.text("desk"))) > 1, "all", lambda: here.text("desk"))
