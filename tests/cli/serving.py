"""A real server process in a home of its own, with scripted agents, for tests that run the real `interlock`."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar

from interlock.agents.tmux.server import TmuxServer
from interlock.cli.server.api import ANSWER_SECONDS, ServerApi, ServerRefusal
from interlock.testing.scripted_agent import Gates, command, write_program
from interlock.vocabulary.errors import Unreachable
from tests.any_route import any_route
from tests.bodies import Body
from tests.cli.births import Birth, bear, is_possible
from tests.cli.harness import interlock
from tests.cli.warm import SERVER

T = TypeVar("T")
WAIT_SECONDS: Final = 100.0
TMUX: Final = shutil.which("tmux") or "tmux"  # found now: a test may change where programs are looked for
LOOK_SECONDS: Final = 0.02
STREAM: Final = "stream-json"
_DRIVERS: Final = {STREAM: "claude-stream", "acp": "acp", "tui": "terminal"}


class UnhurriedApi(ServerApi):
    """Repeats what was refused for haste: a test asks faster than a person does, and what was refused was not done."""

    def ask_raw(
        self, method: str, path: str, body: object = None, *, key: str = "", seconds: float = ANSWER_SECONDS
    ) -> bytes:
        for _ in range(500):
            try:
                return super().ask_raw(method, path, body, key=key, seconds=seconds)
            except ServerRefusal as refusal:
                if refusal.code != "too_many":
                    raise
                time.sleep(max(refusal.pause_seconds, 0.01))
        raise AssertionError(f"{method} {path} was refused for haste for ever")


class Served:
    """A home with a server. `cli` runs a command on it; `open` begins a session with a scripted agent."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.home = home
        (folder / "gates").mkdir()
        self.folder = folder
        self.gates = Gates(folder / "gates")
        self.process: Birth | subprocess.Popen[bytes] | None = None
        self.arguments: tuple[str, ...] = ()

    # The server

    def start(self, **environment: str) -> None:
        """Start it, perhaps with more in its environment, and wait until it is ready."""
        settings = {**os.environ, **environment}
        ours, theirs = os.pipe()
        with os.fdopen(ours, "rb") as told, (self.folder / "server-stderr").open("ab") as stderr:
            try:
                self.process = self._begin(settings, theirs, stderr)
            finally:
                os.close(theirs)
            assert told.readline(), (self.folder / "server-stderr").read_text()
        until(lambda: self.api.get(any_route("/health"))["ready"], "the server is ready")

    def _begin(self, settings: Mapping[str, str], stdout: int, stderr: BinaryIO) -> Birth | subprocess.Popen[bytes]:
        """A fork of a warm interpreter; a cold start where the environment asks for one."""
        args = ("--home", str(self.home), *self.arguments)
        with Path(os.devnull).open("rb") as nothing:
            if is_possible(settings):
                return bear(
                    args, settings, stdin=nothing, stdout=stdout, stderr=stderr, new_session=True, program=SERVER
                )
            return subprocess.Popen(
                (sys.executable, "-m", "interlock.server", *args),
                stdin=nothing,
                stdout=stdout,
                stderr=stderr,
                env=settings,
                start_new_session=True,
            )

    def kill(self) -> None:
        """End it as a crash would."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(WAIT_SECONDS)

    def stop(self) -> int:
        """End it as an operator would, and return its exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(WAIT_SECONDS)
            raise

    @property
    def api(self) -> ServerApi:
        """The way to the server, wherever it listens now."""
        return UnhurriedApi.of_home(self.home)

    # Commands

    def cli(self, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run `interlock ARGS` on this home."""
        return interlock(*args, env={"INTERLOCK_HOME": str(self.home), **env})

    def json(self, *args: str) -> Any:  # noqa: ANN401  # whatever a command says
        """What `interlock ARGS --json` says; it must succeed."""
        done = self.cli(*args, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    @contextmanager
    def following(self, *args: str) -> Iterator[Following]:
        """`interlock ARGS` while it goes on."""
        environment = {**os.environ, "INTERLOCK_HOME": str(self.home), "PYTHONUNBUFFERED": "1"}
        out, err = self.folder / f"out-{secrets.token_hex(4)}", self.folder / f"err-{secrets.token_hex(4)}"
        with Path(os.devnull).open("rb") as nothing, out.open("wb") as stdout, err.open("wb") as stderr:
            process = bear(args, environment, stdin=nothing, stdout=stdout, stderr=stderr)
        try:
            yield Following(process, out, err)
        finally:
            process.kill()
            process.wait(WAIT_SECONDS)

    # Sessions

    def open(self, prompt: str | None = None, *, title: str = "", face: str = STREAM, agent: str = "scripted") -> str:
        """Begin a session with a scripted agent, perhaps with a prompt, and return its id."""
        argv = command(face, gates=self.folder / "gates", lifetime_seconds=0 if face == "tui" else 300)
        if face == STREAM:  # this driver puts arguments of its own behind the program's name
            argv = (write_program(self.folder / f"agent-{secrets.token_hex(4)}", argv),)
        body: Body = {"agent": agent, "driver": _DRIVERS[face], "argv": argv, "cwd": str(self.folder), "title": title}
        if prompt is not None:
            body["prompt"] = prompt
        return str(self.api.ask("POST", "/api/tasks", body)["task_id"])

    def send(self, task_id: str, text: str) -> None:
        """Another prompt."""
        self.api.ask("POST", f"/api/tasks/{task_id}/prompts", {"text": text})

    def task(self, task_id: str) -> Body:
        """The session as the server tells it."""
        return self.api.get(any_route(f"/api/tasks/{task_id}"))

    def shows(self, task_id: str, *, status: str | None = None, attention: str | None = None) -> Body:
        """Wait until the session has a status, and its agent an attention; return its summary."""

        def look() -> Body | None:
            summary: Body = self.task(task_id)["summary"]
            seen = (summary.get("live") or {}).get("attention", "none")
            is_so = status in (None, summary.get("task_status")) and attention in (None, seen)
            return summary if is_so else None

        return until(look, f"{task_id} shows {status} {attention}")

    def done(self, prompt: str, *, title: str = "", status: str = "COMPLETED") -> str:
        """A session with one turn that is over."""
        task_id = self.open(prompt, title=title)
        self.shows(task_id, status=status)
        return task_id


class Following:
    """A command that goes on, and what it has written so far."""

    def __init__(self, process: Birth, out: Path, err: Path) -> None:
        self.process = process
        self._out = out
        self._err = err

    @property
    def stdout(self) -> str:
        return self._out.read_text(errors="replace")

    @property
    def stderr(self) -> str:
        return self._err.read_text(errors="replace")

    def says(self, text: str) -> str:
        """Wait until that is on its standard output, and return all of it."""
        return until(lambda: self.stdout if text in self.stdout else None, f"{text!r} is said", self._tell)

    def notes(self, text: str) -> str:
        """The same for standard error."""
        return until(lambda: self.stderr if text in self.stderr else None, f"{text!r} is noted", self._tell)

    def ends(self, send: int | None = None) -> int:
        """Perhaps send it a signal, then wait for its end; the exit code."""
        if send is not None:
            self.process.send_signal(send)
        return self.process.wait(WAIT_SECONDS)

    def interrupted(self) -> int:
        """Ctrl-C."""
        return self.ends(signal.SIGINT)

    def _tell(self) -> str:
        return f"exit code {self.process.poll()}\nstdout: {self.stdout}\nstderr: {self.stderr}"


def until(look: Callable[[], T | None], what: str, tell: Callable[[], str] = str) -> T:
    """Look until something is there, and return it. A server that is not there yet is looked for again."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        with suppress(Unreachable):
            found = look()
            if found:
                return found
        time.sleep(LOOK_SECONDS)
    raise AssertionError(f"not within {WAIT_SECONDS:g} s: {what}\n{tell()}")


@contextmanager
def serving(folder: Path, arguments: tuple[str, ...] = (), /, **environment: str) -> Iterator[Served]:
    """A server in a home of its own, for the block, perhaps with more in its environment. Its agents end with it.
    Whatever else is written is in `folder`."""
    with tempfile.TemporaryDirectory(prefix="il-") as short:  # the paths of sockets may not be long
        served = Served(folder, Path(short) / "home")
        served.home.mkdir(mode=0o700)
        served.arguments = arguments
        served.start(**environment)
        try:
            yield served
        finally:
            _stop_agents(served)
            served.stop()
            end_tmux(served.home)


def end_tmux(home: Path) -> None:
    """Whatever of tmux is left in a home was started here: its socket is in our folder."""
    _, *words = TmuxServer.of_home(home).argv("kill-server")
    subprocess.run([TMUX, *words], check=False, capture_output=True, timeout=WAIT_SECONDS)


def _stop_agents(served: Served) -> None:
    """What lives in tmux would outlive the server."""
    with suppress(Unreachable):
        for task in served.api.items(any_route("/api/tasks")):
            if task.get("driver") == "terminal":
                served.api.ask("POST", f"/api/tasks/{task['task_id']}/stop?spare_adopted=true")
