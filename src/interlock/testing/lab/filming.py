"""Records the screen of the agent while a scenario runs, with the truth as the scenario knows it."""

from __future__ import annotations

import asyncio
import os
import re
import time
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Final

import msgspec

from interlock.agents.recorder import RecordingFile, record_pane
from interlock.agents.tmux.panes import adopt
from interlock.agents.tmux.server import TmuxServer
from interlock.monitor.scoring.recording import FORMAT, Frame, Header, Input, Record, Truth
from interlock.vocabulary.errors import InterlockError

_LOOK_AT_CLOCK_SECONDS: Final = 0.1
_STYLE: Final = re.compile(r"\x1b\[[0-9;:]*m|[\x0e\x0f]")


class WallClock:
    """Which moment of the monotonic clock a time of the wall clock was. The log is dated by the wall clock, which is
    set now and then, or jumps where a machine was held; the model's record and the frames go by the monotonic one."""

    def __init__(self) -> None:
        self._offsets: list[tuple[float, float]] = []

    def look(self, monotonic: float, wall: float) -> None:
        """Take in what both say now. Without a look the wall clock counts as running evenly since the last one."""
        self._offsets.append((monotonic, wall - monotonic))

    def monotonic_of(self, wall: float) -> float:
        """By the last look that was before it, as the wall clock went then."""
        offset = next((by for at, by in reversed(self._offsets) if at + by <= wall), self._offsets[0][1])
        return wall - offset

    async def follow(self) -> None:
        """Look until cancelled."""
        while True:
            self.look(time.monotonic(), time.time())
            await asyncio.sleep(_LOOK_AT_CLOCK_SECONDS)


class Film:
    """One recording. Times are of the loop's clock, and count from the first frame once it is saved."""

    def __init__(self, cli: str, version: str, scenario: str) -> None:
        self._header = Header(FORMAT, cli, version, 120, 40, scenario, True)
        self._frames: list[Frame] = []
        self._told: list[tuple[float, str, str]] = []
        self._inputs: list[tuple[float, str]] = []
        self._began = 0.0
        self._task: asyncio.Task[None] | None = None

    def start(self, server: TmuxServer, pane_id: str) -> None:
        """Begin to record. A second agent of the same session (after a kill) is recorded as the first one's sequel."""
        self._task = asyncio.create_task(self._record(server, pane_id))

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError, InterlockError):
                await self._task
            self._task = None

    async def _record(self, server: TmuxServer, pane_id: str) -> None:
        adopted = await adopt(server, pane_id)
        try:
            snapshot = adopted.capture.snapshot
            header = Header(
                FORMAT, self._header.cli, self._header.version, snapshot.columns, len(snapshot.rows),
                self._header.scenario, True,
            )  # fmt: skip
            async with aclosing(record_pane(adopted.pane, header)) as records:
                began = 0.0
                async for one in records:
                    if isinstance(one, Header):
                        began = asyncio.get_running_loop().time()
                        self._header, self._began = (self._header, self._began) if self._frames else (one, began)
                    elif isinstance(one, Frame):
                        t = round(one.t + began - self._began, 3)
                        self._frames.append(msgspec.structs.replace(one, t=t))
        finally:
            await adopted.pane.client.close()

    def shows(self, text: str) -> bool:
        """Whether the screen showed a text, in whatever style, when it last changed."""
        shown = next((one.ansi for one in reversed(self._frames) if one.ansi is not None), None) or ""
        return text in _STYLE.sub("", shown)

    def truth(self, at_seconds: float, state: str, detail: str) -> None:
        """What is the case from then on. A later word on a time that lies before replaces what was said for after."""
        self._told = [one for one in self._told if one[0] <= at_seconds]
        self._told.append((at_seconds, state, detail))

    def submitted(self, at_seconds: float, prompt: str) -> None:
        self._inputs.append((at_seconds, prompt))

    def records(self) -> list[Record]:
        """Everything in order of time, the header first."""
        lines: list[Frame | Truth | Input] = [*self._frames]
        lines += [Truth(self._t(at), state, detail) for at, state, detail in self._told]
        lines += [Input(self._t(at), prompt=prompt) for at, prompt in self._inputs]
        return [self._header, *sorted(lines, key=lambda one: one.t)]

    def _t(self, at_seconds: float) -> float:
        return round(max(0.0, at_seconds - self._began), 3)

    def save(self, path: Path) -> None:
        """Write it in one piece; what stood there before gives way."""
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{os.getpid()}-{path.name}")
        partial.unlink(missing_ok=True)
        file = RecordingFile(partial)
        try:
            for one in self.records():
                file.write(one)
        finally:
            file.close()
        partial.replace(path)
