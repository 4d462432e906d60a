"""`interlock adopt` for agents outside tmux: real processes with the names of the CLIs, and recorded transcripts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.cli.serving import Served, serving, until

RECORDED: Final = Path(__file__).parents[1] / "recordings" / "transcripts"
SESSION: Final = "0db9778b-62e8-4ee1-8acb-4860c54da72b"
# It holds the file open that it is given, as Codex does its rollout, and does nothing else.
PROGRAM: Final = (
    f"#!{sys.executable}\nimport signal, sys\nkept = [open(one, 'a') for one in sys.argv[1:]]\nsignal.pause()\n"
)


@dataclass
class Outside:
    """A process that bears the name of a CLI, and the files that it is said to write."""

    process: subprocess.Popen[bytes]
    home: Path
    transcript: Path
    lines: list[bytes]

    @property
    def pid(self) -> int:
        return self.process.pid

    def writes(self, first: int, last: int) -> None:
        """Some recorded lines of its transcript."""
        with self.transcript.open("ab") as file:
            file.writelines(self.lines[first:last])

    def says(self, status: str, **more: str) -> None:
        """What Claude Code writes into its status file."""
        told = {"pid": self.pid, "sessionId": SESSION, "status": status, "statusUpdatedAt": time.time() * 1000, **more}
        path = self.home / "sessions" / f"{self.pid}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(told))


@contextmanager
def outside(folder: Path, cli: str) -> Iterator[Outside]:
    home = folder / f"{cli}-home"
    name = f"{SESSION}.jsonl" if cli == "claude" else f"rollout-2026-11-16T02-26-17-{SESSION}.jsonl"
    transcript = home / "projects" / "x" / name
    transcript.parent.mkdir(parents=True)
    program = home / cli
    program.write_text(PROGRAM)
    program.chmod(0o700)
    variable = "CLAUDE_CONFIG_DIR" if cli == "claude" else "CODEX_HOME"
    kept = () if cli == "claude" else (str(transcript),)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("INTERLOCK", "TMUX"))}
    process = subprocess.Popen(
        (str(program), *kept), cwd=folder, env={**environment, variable: str(home)}, start_new_session=True
    )
    try:
        lines = (RECORDED / f"{cli}-turns.jsonl").read_bytes().splitlines(keepends=True)
        yield Outside(process, home, transcript, lines)
    finally:
        process.kill()
        process.wait()


def badge(served: Served, session: str) -> dict[str, Any]:
    found: dict[str, Any] = served.task(session)["summary"]["badge"]
    return found


def shows(served: Served, session: str, activity: str, rule: str, attention: str = "none") -> None:
    """Wait until its badge says so, and names this evidence."""

    def is_so() -> bool:
        told = badge(served, session)
        rules = [one["rule"] for one in told["evidence"]]
        return (told["activity"], told["attention"]) == (activity, attention) and rule in rules

    until(is_so, f"{activity}, {attention} by {rule}", lambda: str(badge(served, session)))


def found(served: Served, pid: int) -> list[dict[str, Any]]:
    done = served.cli("adopt", "--all", "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    return [row for row in json.loads(done.stdout)["agents"] if row["process"] == pid]


def adopt(served: Served, pid: int) -> dict[str, Any]:
    done = served.cli("adopt", "--process", str(pid), "--json")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["agents"]
    return dict(row)


def test_claude_outside_tmux_is_watched_by_its_files_and_never_touched(tmp_path: Path) -> None:
    with serving(tmp_path) as served, outside(tmp_path, "claude") as agent:
        assert found(served, agent.pid) == [], "a name is no proof"
        done = served.cli("adopt", "--process", str(agent.pid))
        assert (done.returncode, "no status file" in done.stderr) == (2, True), done.stderr
        agent.writes(0, 13)
        agent.says("idle")
        (row,) = found(served, agent.pid)
        status = agent.home / "sessions" / f"{agent.pid}.json"
        assert (row["cli"], row["evidence"], row["session_id"]) == ("claude", str(status), None)

        row = adopt(served, agent.pid)
        session = row["session_id"]
        assert (row["result"], row["is_new"], adopt(served, agent.pid)["session_id"]) == ("watched", True, session)
        shows(served, session, "quiet", "claude.session_file.idle")
        agent.says("busy")
        agent.writes(13, 20)
        shows(served, session, "working", "claude.session_file.busy")
        agent.says("waiting", waitingFor="permission prompt")
        shows(served, session, "working", "claude.session_file.waiting", "approval")
        agent.says("idle")
        agent.writes(20, 22)  # its turn goes on after that
        shows(served, session, "unknown", "transcript.contradicts_status")
        agent.writes(22, 25)
        shows(served, session, "quiet", "claude.session_file.idle")

        for words in (("send", session, "no"), ("stop", session)):
            done = served.cli(*words)
            assert (done.returncode, "only watched" in done.stderr) == (2, True), done.stderr
        served.kill()
        served.start()
        shows(served, session, "quiet", "claude.session_file.idle")
        assert served.cli("down", "--stop-agents", "--now").returncode == 0
        assert agent.process.poll() is None, "it was never ours to end"


def test_codex_outside_tmux_is_known_by_the_rollout_that_it_holds_and_its_end_by_its_process(tmp_path: Path) -> None:
    with serving(tmp_path) as served, outside(tmp_path, "codex") as agent:
        until(lambda: bool(found(served, agent.pid)), "it holds its rollout")
        (row,) = found(served, agent.pid)
        assert (row["cli"], row["evidence"]) == ("codex", str(agent.transcript))
        session = adopt(served, agent.pid)["session_id"]
        agent.writes(0, 10)
        shows(served, session, "working", "transcript.turn_open")
        agent.writes(10, 17)
        shows(served, session, "quiet", "transcript.turn_ended")
        agent.process.send_signal(signal.SIGKILL)
        agent.process.wait()
        assert served.cli("wait", session, "--until", "gone", "--timeout", "60").returncode == 0
        (spawn,) = json.loads(served.cli("session", "history", session, "--json").stdout)["spawns"]
        assert (spawn["is_foreign"], spawn["pid"], spawn["standing"]) == (True, agent.pid, "exited")
        done = served.cli("resume", session)
        assert "cannot be started from here" in done.stdout
        done = served.cli("adopt", "--process", str(agent.pid))
        assert (done.returncode, "no such process" in done.stderr) == (2, True), done.stderr


def test_what_runs_in_tmux_or_is_ours_is_not_taken_for_one_outside(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        for words, said in (
            (("--process", str(os.getpid())), "neither Claude Code nor Codex"),
            (("--process", "7", "--control"), "give no pane"),
            (("--all", "--process", "7"), "--all takes every agent"),
        ):
            done = served.cli("adopt", *words)
            assert (done.returncode, said in done.stderr) == (2, True), done.stderr
