"""A real CLI in a private tmux server, watched five times a second and driven by the test.

    with Harness(CLAUDE, executable, model, tmp_path, scenario="approval") as agent:
        agent.wait_for_text("? for shortcuts")
        agent.truth("idle", "ready")
        agent.submit("SCN:approval")

The test knows the truth from the model's gates and says it with `truth`; `save` writes a recording that can be scored.
When the test fails, the last screens go with the error. Leaving the block ends every process that the run started.
"""

from __future__ import annotations

import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from os import getpid
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from interlock.testing.scripted_model import RequestKind, RequestOutcome, ScriptedModel
from interlock.vocabulary.events.registry import Json
from tests.real.processes import end_all, family
from tests.real.recipes import LabFolder, Recipe, command_line
from tests.real.recording import Frame, Input, Line, Truth, write_recording

SAMPLE_EVERY_SECONDS: Final = 0.2
WAIT_SECONDS: Final = 45.0
# How long a test lets a state stand, so that a scorer has frames to count: it leaves out the first seconds of each,
# more of them for a dialog, and more still after an interrupt or a refusal.
HOLD_SECONDS: Final = 3.0
DIALOG_SECONDS: Final = 5.0
AFTERMATH_SECONDS: Final = 6.0
# A tool that runs until `let_tool_end`, within bounds. It writes, so that a CLI asks first.
HELD_COMMAND: Final = "touch made.txt; for i in $(seq 600); do [ -e go ] && break; sleep 0.1; done; echo over"
_TMUX_SECONDS: Final = 20.0
_STATE: Final = "#{cursor_x} #{cursor_y} #{cursor_flag} #{alternate_on} #{pane_dead} #{pane_current_command}"
_CONFIG: Final = "set -g status off\nset -g remain-on-exit on\nset -g default-terminal tmux-256color\n"
_SEQUENCE: Final = re.compile(r"\x1b\[[0-9;:]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x0e|\x0f")
_NUMBERS: Final = count()
_KEPT_SCREENS: Final = 3


class Harness:
    """One run of one CLI. Not to be used from two threads at once; the sampling thread is its own affair."""

    def __init__(
        self,
        recipe: Recipe,
        executable: Path,
        model: ScriptedModel,
        root: Path,
        *,
        scenario: str,
        columns: int = 120,
        height: int = 40,
        save_to: Path | None = None,
    ) -> None:
        self.recipe, self.model, self.place = recipe, model, LabFolder(root)
        self.scenario, self.columns, self.height = scenario, columns, height
        self._executable, self._save_to = executable, save_to
        self.socket = f"il-real-{getpid()}-{next(_NUMBERS)}"
        self._changed = threading.Condition()
        self._lines: list[Line] = []
        self._has_ended = threading.Event()
        self._sampler = threading.Thread(target=self._sample, name="screen-sampler", daemon=True)
        self._began = 0.0
        self.pid = 0
        self._socket_path: Path | None = None

    # Starting and ending

    def __enter__(self) -> Self:
        self.place.make()
        self.recipe.seed(self.place, self.model.url)
        config = self.place.root / "tmux.conf"
        config.write_text(_CONFIG, encoding="utf-8")
        size = ["-x", str(self.columns), "-y", str(self.height)]
        called = command_line(self.recipe, self._executable, self.place, self.model.url)
        began = ["-f", str(config), "new-session", "-d", *size, "-c", str(self.place.project), called]
        self._began = time.monotonic()
        self._tmux(*began)
        try:
            pid, _, socket_path = (
                self._tmux("display-message", "-p", "#{pane_pid} #{socket_path}").strip().partition(" ")
            )
            self.pid, self._socket_path = int(pid), Path(socket_path)
            self.truth("unscored", "starting")
            self._sampler.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if error is not None:
            error.add_note(self.last_screens())
        if self._save_to is not None:
            self.save(self._save_to / self.recipe.cli / f"{self.scenario}.ndjson.gz")

    def stop(self) -> None:
        """End the sampling, every process of the run, and its tmux server. May be called twice."""
        self._has_ended.set()
        if self._sampler.is_alive():
            self._sampler.join(_TMUX_SECONDS)
        if self.pid:
            end_all(family(self.pid))
        subprocess.run(["tmux", "-L", self.socket, "kill-server"], capture_output=True, check=False, timeout=20)
        if self._socket_path is not None:
            self._socket_path.unlink(missing_ok=True)  # tmux leaves it behind.

    def _tmux(self, *words: str) -> str:
        run = subprocess.run(
            ["tmux", "-L", self.socket, *words], capture_output=True, text=True, timeout=_TMUX_SECONDS, check=False
        )
        if run.returncode != 0:
            raise AssertionError(f"tmux {words[0]} ended with code {run.returncode}: {run.stderr.strip()}")
        return run.stdout

    # Watching

    def capture(self) -> Frame:
        """The screen right now. Its `t` is when we asked: the screen is at least as new as that."""
        asked = time.monotonic() - self._began
        told = self._tmux(
            "display-message", "-p", _STATE, ";", "display-message", "-p", "#{pane_title}", ";",
            "capture-pane", "-p", "-e",
        )  # fmt: skip
        state, title, ansi = told.split("\n", 2)
        column, row, is_visible, is_alternate, is_dead, command = state.split(" ", 5)
        return Frame(
            t=asked,
            ansi=ansi,
            title=title,
            cursor=(int(column), int(row)),
            cursor_visible=is_visible == "1",
            alternate=is_alternate == "1",
            command=command,
            dead=is_dead == "1",
            text=_SEQUENCE.sub("", ansi).replace("\u00a0", " "),
        )

    def frames(self) -> Iterator[Frame]:
        """The samples so far, oldest first."""
        with self._changed:
            return iter([line for line in self._lines if isinstance(line, Frame)])

    def _sample(self) -> None:
        while not self._has_ended.is_set():
            began = time.monotonic()
            try:
                self._add(self.capture())
            except (AssertionError, subprocess.TimeoutExpired, ValueError):
                return  # The server is gone. Whoever waits for a screen reaches the deadline and says so.
            self._has_ended.wait(max(0.0, SAMPLE_EVERY_SECONDS - (time.monotonic() - began)))

    def _add(self, line: Line) -> None:
        with self._changed:
            self._lines.append(line)
            self._changed.notify_all()

    def wait_for(self, holds: Callable[[Frame], bool], what: str, *, within_seconds: float = WAIT_SECONDS) -> Frame:
        """The first sample taken after this call that satisfies `holds`. AssertionError after the deadline."""
        called = time.monotonic()
        with self._changed:
            seen = len(self._lines)
            while True:
                for line in self._lines[seen:]:
                    if isinstance(line, Frame) and line.t >= called - self._began and holds(line):
                        return line
                seen = len(self._lines)
                if not self._changed.wait(max(0.0, called + within_seconds - time.monotonic())):
                    raise AssertionError(f"within {within_seconds} s the screen did not show {what}")

    def wait_for_text(self, *words: str, within_seconds: float = WAIT_SECONDS) -> Frame:
        """Wait until all the words stand on the screen at once."""
        return self.wait_for(
            lambda frame: all(word in frame.text for word in words), repr(words), within_seconds=within_seconds
        )

    def watch(self, seconds: float) -> list[Frame]:
        """The samples of the next few seconds: what a state looks like while the model holds it."""
        until = time.monotonic() + seconds - self._began
        last = self.wait_for(lambda frame: frame.t >= until, f"anything {seconds} s later")
        return [frame for frame in self.frames() if until - seconds <= frame.t <= last.t]

    def last_screens(self) -> str:
        """The last different screens, and what the model received: for a person who looks at a failure."""
        different: list[Frame] = []
        for frame in self.frames():
            if not different or different[-1].text != frame.text:
                different.append(frame)
        screens = [
            f"--- {frame.t:.1f} s, title {frame.title!r}, command {frame.command!r}, dead {frame.dead}\n"
            + "\n".join(line for line in frame.text.splitlines() if line.strip())
            for frame in different[-_KEPT_SCREENS:]
        ]
        asked = [f"{one.kind} {one.path} {one.script or one.purpose}: {one.outcome}" for one in self.model.requests]
        return "\n".join([*screens, "--- the model received", *asked[-20:], *self.model.faults])

    def wait_dropped(self) -> None:
        """Wait until the CLI has hung up on the request of its last turn."""
        self.model.wait_requests(
            lambda requests: (
                [one for one in requests if one.kind is RequestKind.MAIN][-1].outcome is RequestOutcome.DROPPED
            )
        )

    # Driving

    def keys(self, *names: str) -> None:
        """Press keys by tmux's names: Enter, Escape, C-c, Down, y."""
        self._tmux("send-keys", *names)

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-l", "--", text)

    def submit(self, prompt: str) -> None:
        """Type a prompt of one line, see that it stands on the screen, and press Enter."""
        self.type(prompt)
        self.wait_for_text(prompt)
        self._add(Input(time.monotonic() - self._began))
        self.keys("Enter")
        self.truth("working", "submitted")

    def let_tool_end(self) -> None:
        (self.place.project / "go").touch()

    def truth(self, state: str, detail: str) -> None:
        """Say what is the case from now on."""
        self._add(Truth(time.monotonic() - self._began, state, detail))

    def save(self, path: Path) -> None:
        """Write the run so far as a recording."""
        with self._changed:
            lines = list(self._lines)
        header: dict[str, Json] = {
            "cli": self.recipe.cli,
            "version": self.recipe.version,
            "cols": self.columns,
            "rows": self.height,
            "scenario": self.scenario,
            "tmux_env": True,
        }
        write_recording(path, header, lines)
