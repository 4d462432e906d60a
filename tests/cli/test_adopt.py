"""`interlock adopt` over real tmux servers of a person: watched, controlled, let go of, and never stopped by us."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from interlock.agents.port import ProcessIdentity
from interlock.agents.processes.identity import identity_of, is_alive
from interlock.log.host import HOST_VARIABLE
from tests.cli.serving import Served, serving

AGENT: Final = (sys.executable, "-m", "interlock.testing.scripted_agent")


@dataclass(frozen=True)
class Person:
    """A person's tmux folder, with servers in it that know nothing of us."""

    folder: Path

    def socket(self, name: str) -> str:
        return str(self.folder / f"tmux-{os.getuid()}" / name)

    def tmux(self, name: str, *words: str) -> str:
        command = ("tmux", "-f", os.devnull, "-S", self.socket(name), *words)
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout.strip()

    def start(self, name: str, *argv: str) -> ProcessIdentity:
        size = ("-x", "91", "-y", "27")
        self.tmux(name, "new-session", "-d", "-s", "work", *size, "--", shutil.which("env") or "env", *argv)
        found = identity_of(int(self.tmux(name, "display-message", "-p", "-t", "work", "#{pane_pid}")))
        assert found is not None
        return found

    def shape(self, name: str) -> str:
        return self.tmux(name, "display-message", "-p", "-t", "work", "#{pane_width}x#{pane_height}")


@contextmanager
def person() -> Iterator[Person]:
    with tempfile.TemporaryDirectory(prefix="il-") as folder:  # a socket's path must be short
        found = Person(Path(folder))
        (found.folder / f"tmux-{os.getuid()}").mkdir(mode=0o700)
        try:
            yield found
        finally:
            for socket in (found.folder / f"tmux-{os.getuid()}").iterdir():
                subprocess.run(("tmux", "-S", str(socket), "kill-server"), check=False, capture_output=True, timeout=30)


def adopted(served: Served, *words: str, code: int = 0) -> list[dict[str, Any]]:
    done = served.cli("adopt", *words, "--json")
    assert done.returncode == code, done.stderr
    rows: list[dict[str, Any]] = json.loads(done.stdout)["agents"]
    return rows


def test_an_agent_of_a_person_is_watched_then_controlled_and_never_stopped_in_passing(tmp_path: Path) -> None:
    with person() as somebody, serving(tmp_path) as served:
        process, where = somebody.start("default", *AGENT), somebody.socket("default")
        shape = somebody.shape("default")
        (row,) = adopted(served, "work", "--socket", where)
        session = row["session_id"]
        assert (row["result"], row["is_new"]) == ("watched", True)
        assert served.cli("wait", session, "--until", "ready", "--timeout", "60").returncode == 0
        assert somebody.shape("default") == shape

        refused = served.cli("send", session, "say no")
        assert refused.returncode == 2
        assert f"interlock adopt %0 --socket {where} --control" in refused.stderr
        assert served.cli("stop", session).returncode == 2
        assert "say no" not in somebody.tmux("default", "capture-pane", "-p", "-t", "work")

        (row,) = adopted(served, "%0", "--socket", where, "--control")
        assert (row["session_id"], row["result"], row["is_new"]) == (session, "controlled", False)
        sent = served.cli("send", session, "--wait", "--timeout", "60", "say Hello.")
        assert sent.returncode == 0, sent.stderr
        assert "Hello." in somebody.tmux("default", "capture-pane", "-p", "-t", "work")

        down = served.cli("down", "--stop-agents")
        assert down.returncode == 0, down.stderr
        assert is_alive(process)
        assert served.cli("up").returncode == 0
        assert served.cli("wait", session, "--until", "ready", "--timeout", "60").returncode == 0
        history = json.loads(served.cli("session", "history", session, "--json").stdout)
        assert history["spawns"][-1]["is_adopted"]

        archived = served.cli("session", "archive", session, "--yes")
        assert archived.returncode == 0, archived.stderr
        assert is_alive(process)
        assert not somebody.tmux("default", "show-options", "-p", "-t", "work", "-q", "-v", "@interlock_owner")
        assert served.cli("down").returncode == 0


def test_all_finds_every_server_and_the_end_of_an_adopted_agent_is_told(tmp_path: Path) -> None:
    with person() as somebody, serving(tmp_path) as served:
        somebody.start("default", *AGENT)
        somebody.start("other", *AGENT)
        somebody.start("plain", "sleep", "600")
        env = {"TMUX_TMPDIR": str(somebody.folder)}
        done = served.cli("adopt", "--all", "--dry-run", "--json", **env)
        assert done.returncode == 0, done.stderr
        rows = [row for row in json.loads(done.stdout)["agents"] if row["socket"].startswith(str(somebody.folder))]
        assert [Path(row["socket"]).name for row in rows] == ["default", "other"]
        assert {row["cli"] for row in rows} == {"scripted"}

        # All of one server: other tests' agents are on this machine, too.
        (row,) = adopted(served, "--all", "--socket", somebody.socket("other"))
        session = row["session_id"]
        somebody.tmux("other", "kill-server")
        assert served.cli("wait", session, "--until", "gone", "--timeout", "60").returncode == 0
        spawn = json.loads(served.cli("session", "history", session, "--json").stdout)["spawns"]
        assert len(spawn) == 1, "an adopted agent that ended is not started again"
        assert spawn[0]["is_foreign"]
        done = served.cli("resume", "--all", "--json")
        # Agents of this machine that are no part of the test are adopted, too, and may end meanwhile.
        (row,) = [one for one in json.loads(done.stdout)["sessions"] if one["session_id"] == session]
        assert (row["result"], bool(row["title"]), done.returncode) == ("left_out", True, 0)
        assert f"interlock resume {session}" in row["evidence"]


@pytest.mark.parametrize("host", ["", "portable"])
def test_all_finds_a_server_wherever_its_socket_is_and_no_agent_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.setenv(HOST_VARIABLE, host)
    with person() as somebody, serving(tmp_path) as served, tempfile.TemporaryDirectory(prefix="il-") as elsewhere:
        # lsof on Linux tells a path up to its first blank.
        socket = str(Path(elsewhere).resolve() / ("mine" if host else "my socket"))
        monkeypatch.setattr(Person, "socket", lambda self, name: socket)
        somebody.start("default", *AGENT)
        try:
            config = json.dumps([sys.executable, "-m", "interlock.testing.scripted_agent"])
            (tmp_path / "config.toml").write_text(f"[agents.ours]\ndriver = 'terminal'\nargv = {config}\n")
            env = {"TMUX_TMPDIR": str(somebody.folder), "TMUX": "", "INTERLOCK_CONFIG": str(tmp_path / "config.toml")}
            began = served.cli("run", "ours", "--title", "ours", **env)
            assert began.returncode == 0, began.stderr
            assert served.cli("wait", "ours", "--until", "ready", "--timeout", "60").returncode == 0
            done = served.cli("adopt", "--all", "--dry-run", "--json", **env)
            assert done.returncode == 0, done.stderr
            places = [row["socket"] for row in json.loads(done.stdout)["agents"]]
            assert socket in places
            assert not [one for one in places if one.startswith(str(served.home))], "these are ours"
            (row,) = adopted(served, "--all", "--socket", socket)
            assert (row["result"], row["socket"]) == ("watched", socket)
        finally:
            somebody.tmux("default", "kill-server")


def test_what_cannot_be_adopted_says_why(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with person() as somebody, serving(tmp_path / "one") as served, serving(tmp_path / "two") as other:
        process = somebody.start("default", *AGENT)
        somebody.start("plain", "sleep", "600")
        where = somebody.socket("default")
        for words, said in (
            (("%9", "--socket", where), "no pane"),
            (("--socket", somebody.socket("none")), "no tmux server"),
            (("--all", "--socket", somebody.socket("none")), "no tmux server"),
            (("--socket", somebody.socket("plain")), "no known CLI is in pane %0"),
            (("--socket", where, "--cli", "nobody"), "no profile for 'nobody'"),
        ):
            done = served.cli("adopt", *words)
            assert (done.returncode, said in done.stderr) == (2, True), done.stderr
        adopted(served, "--socket", where)
        done = other.cli("adopt", "--socket", where)
        assert (done.returncode, "belongs to another home" in done.stderr) == (8, True), done.stderr
        assert is_alive(process)
