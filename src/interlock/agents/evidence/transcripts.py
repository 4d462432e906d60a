"""Following the transcript that an agent writes of its own session, and finding it.

A transcript proves what the screen cannot: which prompt a turn belongs to, the whole answer, and an interrupt. It is
written a moment after the fact, so a turn that is not there yet is not known, and never "not begun".
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from interlock.agents.evidence.claude_transcript import ClaudeTranscript
from interlock.agents.evidence.codex_transcript import CodexTranscript
from interlock.agents.evidence.file_tail import FileTail
from interlock.agents.evidence.transcript_turns import TranscriptNews, TranscriptParser, TranscriptTurn, TurnFold
from interlock.agents.observations import Warned

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
        self._parser, self._fold = self._make_parser(), TurnFold()


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
