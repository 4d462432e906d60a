"""Following the transcript that an agent writes of its own session, and finding it.

A transcript proves what the screen cannot: which prompt a turn belongs to, the whole answer, and an interrupt. It is
written a moment after the fact, so a turn that is not there yet is not known, and never "not begun".
"""

from __future__ import annotations

import asyncio
import os
import re
import stat
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interlock.agents.evidence.claude_transcript import ClaudeTranscript
from interlock.agents.evidence.codex_transcript import CodexTranscript
from interlock.agents.evidence.transcript_turns import TranscriptNews, TranscriptParser, TranscriptTurn, TranscriptTurns
from interlock.agents.observations import Warned
from interlock.agents.processes.lines import Line, LineSplitter

# A growing file, read as far as it goes.
#
# Laws:
# 1. Each line is given once, whole, in order. A last line without its end waits until it has one.
# 2. A file that was cut, or in which something else stands before our place, begins anew, and the caller is told. One
#    that was replaced by a copy of itself goes on.
# 3. Only a plain file is read, and one call reads no more than a bound.

READ_BYTES: Final = 4 * 1024 * 1024
# What stood before our place is compared with what stands there now: another file shows by it, and a rewrite too.
_MARK_BYTES: Final = 64


@dataclass(frozen=True, slots=True)
class Tailed:
    """What a look at the file gave. `is_anew`: these lines are of another file than those before.

    `has_more`: the bound was reached, and another look gives more at once.
    """

    lines: tuple[Line, ...] = ()
    is_anew: bool = False
    has_more: bool = False


class FileTail:
    """The lines of one file, from its beginning. A file that is not there yet has none."""

    def __init__(self, path: Path, read_bytes: int = READ_BYTES) -> None:
        self.path = path
        self._read_bytes = read_bytes
        self._seen: tuple[int, int, int] | None = None
        self._restart()

    def look(self) -> Tailed:
        """What came since the last look; nothing while the file cannot be read. It costs a `stat` if none did."""
        try:
            found = self.path.stat()
        except OSError:
            return Tailed()
        now = (found.st_ino, found.st_size, found.st_mtime_ns)
        if now == self._seen:
            return Tailed()
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                tailed = self._read(descriptor)
            finally:
                os.close(descriptor)
        except OSError:
            return Tailed()
        self._seen = None if tailed.has_more else now
        return tailed

    def _restart(self) -> None:
        self._offset, self._mark, self._lines = 0, b"", LineSplitter()

    def _read(self, descriptor: int) -> Tailed:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return Tailed()
        is_anew = not self._continues(descriptor, found.st_size)
        if is_anew:
            self._restart()
        data = os.pread(descriptor, self._read_bytes, self._offset)
        self._offset += len(data)
        self._mark = (self._mark + data)[-_MARK_BYTES:]
        return Tailed(tuple(self._lines.feed(data)), is_anew, bool(data) and self._offset < found.st_size)

    def _continues(self, descriptor: int, size: int) -> bool:
        if size < self._offset:
            return False
        return os.pread(descriptor, len(self._mark), self._offset - len(self._mark)) == self._mark


LOOK_EVERY_SECONDS: Final = 0.2
_SESSION_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")
_PARSERS: Final[dict[str, Callable[[], TranscriptParser]]] = {"claude": ClaudeTranscript, "codex": CodexTranscript}
_LOOKS_A_POLL: Final = 16
# The first line of a rollout holds the instructions of the model.


class TranscriptReader:
    """One transcript. `poll` from one task; `turns` is all that it told so far, the newest last."""

    def __init__(self, cli: str, path: Path) -> None:
        self._make_parser = _PARSERS[cli]
        self._tail = FileTail(path)
        self._restart()

    @property
    def path(self) -> Path:
        return self._tail.path

    @property
    def turns(self) -> Sequence[TranscriptTurn]:
        return self._fold.turns

    @property
    def last_number(self) -> int:
        """The number of the newest turn: a fence for `turn_of`."""
        return self._fold.last_number

    @property
    def steps(self) -> int:
        """How much of what it told shows that the agent got on: text, thoughts, calls of tools and their results."""
        return self._fold.steps

    def turn_of(self, prompt: str, *, after: int = 0, since_unix_seconds: float | None = None) -> TranscriptTurn | None:
        """The newest turn that is proven to belong to this prompt, and to have begun after the turn of that number, or
        since that time. Without either it may be an older turn with the same words."""
        return self._fold.turn_of(prompt, after=after, since_unix_seconds=since_unix_seconds)

    def poll(self) -> list[TranscriptNews]:
        """What was written since the last call, of a huge file the next part. Where nothing was, it costs a `stat`.

        If the file began anew (`Warned`, kind `transcript_anew`), so do the turns, and it is told from its beginning.
        """
        news: list[TranscriptNews] = []
        for _ in range(_LOOKS_A_POLL):
            tailed = self._tail.look()
            if tailed.is_anew:
                self._restart()
                news.append(Warned(kind="transcript_anew", message="the transcript was cut or replaced"))
            for line in tailed.lines:
                told = self._parser.feed(line.data)
                self._fold.add(told)
                news += told
            if not tailed.has_more:
                break
        return news

    async def follow(self, every_seconds: float = LOOK_EVERY_SECONDS) -> AsyncGenerator[TranscriptNews, None]:
        """Everything from the beginning of the file, as it comes, without end. Close it (`aclosing`) to stop."""
        while True:
            for news in self.poll():
                yield news
            await asyncio.sleep(every_seconds)

    def _restart(self) -> None:
        self._parser, self._fold = self._make_parser(), TranscriptTurns()


def find_claude_transcript(config_dir: Path, session_id: str) -> Path | None:
    """The transcript of a session of Claude Code; None where there is none."""
    found = config_dir.glob(f"projects/*/{session_id}.jsonl") if _SESSION_ID.fullmatch(session_id) else iter(())
    return _newest(found)


def _newest(paths: Iterator[Path]) -> Path | None:
    return max(paths, key=_modified, default=None)


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
