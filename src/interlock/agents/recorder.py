"""Record a pane: frames at an even pace, whole where the screen changed, and what other sources told meanwhile."""

from __future__ import annotations

import asyncio
import gzip
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing, closing, nullcontext
from pathlib import Path
from typing import BinaryIO, Final, cast

import msgspec

from interlock.agents.tmux.capture import PaneCapture
from interlock.agents.tmux.panes import Pane
from interlock.agents.tmux.watcher import (
    PaneChannelLost,
    PaneDied,
    PaneGone,
    PaneMoved,
    PaneSeen,
    PaneWatch,
    WatchEvent,
)
from interlock.monitor.scoring.recording import FORMAT, Frame, Header, Record, RecordedStatus
from interlock.monitor.scoring.replay import SHIM
from interlock.vocabulary.errors import UsageError

_DIED: Final = (PaneGone, PaneDied)
_ENDS: Final = (*_DIED, PaneMoved, PaneChannelLost)  # of a pane that cannot be seen any more, nothing is claimed
_MAX_STATUS_LINE: Final = 64 * 1024


class RecordingFile:
    """A recording that is being written: 0600, and gzip if its name ends so."""

    def __init__(self, path: Path) -> None:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError as error:
            raise UsageError(f"{path} is there already", remedy="name another file, or move it away") from error
        except OSError as error:
            raise UsageError(f"{path}: cannot be written: {error.strerror}") from error
        raw = os.fdopen(descriptor, "wb")
        self._file: BinaryIO = cast("BinaryIO", gzip.GzipFile(fileobj=raw, mode="wb")) if path.suffix == ".gz" else raw
        self._raw = raw
        self.frames = 0

    def write(self, record: Record) -> None:
        self.frames += isinstance(record, Frame)
        self._file.write(msgspec.json.encode(record) + b"\n")

    def close(self) -> None:
        self._file.close()
        self._raw.close()


async def record_pane(
    pane: Pane, header: Header, *, hz: float = 5.0, status_file: Path | None = None
) -> AsyncGenerator[Record, None]:
    """The records of a pane, until it ends. Frames come at an even pace, so that silence is recorded as silence."""
    yield msgspec.structs.replace(header, format=FORMAT)
    loop = asyncio.get_running_loop()
    start = due = loop.time()
    standing, shown = await pane.capture(), ""
    with closing(_Tail(status_file)) if status_file is not None else nullcontext() as told:
        async with PaneWatch() as watch, aclosing(_events(watch, pane)) as events:
            pending = asyncio.ensure_future(anext(events, None))
            try:
                while True:
                    await asyncio.wait({pending}, timeout=max(0.0, due - loop.time()))
                    if pending.done():
                        event = pending.result()
                        if isinstance(event, PaneSeen):
                            standing = event.capture
                        if isinstance(event, _DIED):
                            yield _frame(standing, loop.time() - start, shown, is_dead=True)
                        if event is None or isinstance(event, _ENDS):
                            return
                        pending = asyncio.ensure_future(anext(events, None))
                        continue
                    now = loop.time()
                    for line in told.lines() if told else ():
                        yield RecordedStatus(now - start, SHIM, msgspec.Raw(line))
                    yield (frame := _frame(standing, now - start, shown))
                    shown = shown if frame.ansi is None else frame.ansi
                    due = max(due + 1 / hz, now)
            finally:
                pending.cancel()
                await asyncio.gather(pending, return_exceptions=True)


async def _events(watch: PaneWatch, pane: Pane) -> AsyncGenerator[WatchEvent, None]:
    watch.add(pane.client, pane.pane_id)
    while not watch.is_over:
        yield await anext(watch)


def _frame(capture: PaneCapture, t: float, shown: str, *, is_dead: bool = False) -> Frame:
    snapshot = capture.snapshot
    return Frame(
        t=round(t, 3),
        title=snapshot.title,
        command=snapshot.command,
        dead=is_dead or snapshot.is_dead,
        alt=snapshot.is_alternate,
        cursor=snapshot.cursor,
        cursor_visible=snapshot.cursor_visible,
        ansi=None if snapshot.raw_text == shown else snapshot.raw_text,
        cols=snapshot.columns,
        rows=len(snapshot.rows),
    )


class _Tail:
    """The lines that were added to a file since the last look. A line that is no JSON is left out."""

    def __init__(self, path: Path) -> None:
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
        self._file.seek(0, os.SEEK_END)
        self._rest = b""

    def close(self) -> None:
        self._file.close()

    def lines(self) -> list[bytes]:
        *whole, self._rest = (self._rest + self._file.read(_MAX_STATUS_LINE)).split(b"\n")
        self._rest = self._rest if len(self._rest) < _MAX_STATUS_LINE else b""
        return [line for line in whole if _is_json(line)]


def _is_json(line: bytes) -> bool:
    try:
        msgspec.json.decode(line)
    except msgspec.MsgspecError:
        return False
    return True
