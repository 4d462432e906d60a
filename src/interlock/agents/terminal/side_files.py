"""What an agent writes beside its screen: Claude Code's status file, and the transcript with tools and answer.

Laws:
1. A transcript is read only if it is proven to be this agent's: named by the status file of its process, or held open
   by its processes. The newest file of the same folder is no proof.
2. An answer belongs to the prompt that we sent last, in a turn that began after it was sent. Else there is no text.
3. None of this delays or ends anything: what is not written in time is not known.
4. That the transcript has the end of our last prompt's turn is told once, and only of a turn that is proven to have
   begun after the prompt was sent. Near the end of a turn the files are looked at often, and for a bounded time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interlock.agents.evidence.session_files import SessionFile
from interlock.agents.evidence.transcript_turns import TranscriptTurn
from interlock.agents.evidence.transcripts import TranscriptReader, find_claude_transcript
from interlock.agents.observations import (
    Observation,
    Progressed,
    SessionNamed,
    ToolsSeen,
    TurnEnded,
    TurnEnding,
    Warned,
)
from interlock.agents.pane_tracker import Told
from interlock.agents.port import ProcessIdentity
from interlock.agents.terminal.tool_processes import ToolProcesses, family
from interlock.log.host import host
from interlock.monitor.arbitration.claims import SourceReading
from interlock.monitor.results import ObserverPayload
from interlock.vocabulary.evidence import EvidenceSource
from interlock.vocabulary.ids import SpawnId, TurnId

_LOOK_EVERY_SECONDS: Final = 0.5
_LOOK_AT_PROCESSES_SECONDS: Final = 2.0
_WRITTEN_WITHIN_SECONDS: Final = 2.0
_LOOK_FOR_ANSWER_SECONDS: Final = 0.03
_LOOK_NEAR_END_SECONDS: Final = 0.03
_NEAR_END_SECONDS: Final = 3.0
_LOOK_ELSEWHERE_SECONDS: Final = 30.0
_HOMES: Final[Mapping[str, tuple[str, str]]] = {
    "claude": ("CLAUDE_CONFIG_DIR", ".claude"),
    "codex": ("CODEX_HOME", ".codex"),
}


def agent_home(cli: str, environment: Mapping[str, str]) -> str:
    """The folder in which a CLI with this environment keeps its files; blank where we read none of them."""
    if cli not in _HOMES:
        return ""
    variable, folder = _HOMES[cli]
    home = environment.get("HOME", "")
    return environment.get(variable) or (str(Path(home, folder)) if home else "")


def home_variable(cli: str) -> str:
    """The variable that names that folder; blank where we read none of its files."""
    return _HOMES[cli][0] if cli in _HOMES else ""


@dataclass(frozen=True, slots=True)
class Fence:
    """The newest turn of a transcript at some moment. Without a path there was none yet.

    `at_unix_seconds`: that moment, by the clock that dates the lines of a transcript. In another file than this one
    only what began later is ours.
    """

    path: Path | None = None
    last_number: int = 0
    at_unix_seconds: float | None = None


class Beside:
    """The files of one agent. `tell` takes claims, `emit` takes what became known of the session."""

    def __init__(self, cli: str, home: str, process: ProcessIdentity, spawn_id: SpawnId) -> None:
        self._cli, self._home, self._process = cli, Path(home), process
        self._is_known = bool(home) and cli in _HOMES
        self._status = SessionFile(self._home, process.pid, spawn_id) if self._is_known and cli == "claude" else None
        self._session_id = ""
        self._named = ""
        self._reader: TranscriptReader | None = None
        self._polling = asyncio.Lock()
        self._prompt = ""
        self._fence = Fence()
        self._turn_id: TurnId | None = None
        self._has_told_end = False
        self._near_end_until: float | None = None
        self._woken = asyncio.Event()
        self._processes = ToolProcesses(process.pid)
        self._steps = 0
        self._open_calls: tuple[tuple[str, str], ...] = ()

    @property
    def session_id(self) -> str:
        """The agent's own name of its session; blank while it is not proven."""
        if self._cli == "codex" and self._reader is not None:
            return self._reader.path.stem[-36:]  # `rollout-<time>-<uuid>`
        return self._session_id

    async def follow(self, tell: Callable[[Told], None], emit: Callable[[Observation], None]) -> None:
        """Look at the files until cancelled; where there are none for this CLI, at the processes that it starts."""
        while not self._is_known:
            self._tell_tools(await asyncio.to_thread(self._processes.look) if self._prompt else (), emit)
            await asyncio.sleep(_LOOK_AT_PROCESSES_SECONDS)
        while self._is_known:
            if self._status is not None:
                self._hear(self._status.look(asyncio.get_running_loop().time()), tell, emit)
            reader = await self._caught_up()
            self._name(reader, emit)
            self._tell_work(reader, emit)
            self._tell_end(reader, tell)
            await self._pause()

    def near_end(self, *, is_near: bool) -> None:
        """The screen is at rest while a turn is open: its end may be written at any moment."""
        if is_near is (self._near_end_until is not None):
            return
        self._near_end_until = asyncio.get_running_loop().time() + _NEAR_END_SECONDS if is_near else None
        if is_near:
            self._woken.set()

    async def _pause(self) -> None:
        until = self._near_end_until
        is_near = until is not None and asyncio.get_running_loop().time() < until
        with suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_NEAR_END_SECONDS if is_near else _LOOK_EVERY_SECONDS):
                await self._woken.wait()
        self._woken.clear()

    async def fence(self) -> Fence:
        """Which turns stand in the transcript now. Ask before a prompt is sent."""
        if not self._is_known:
            await asyncio.to_thread(self._processes.fence)
        reader, now = await self._caught_up(), time.time()
        return Fence(None, 0, now) if reader is None else Fence(reader.path, reader.last_number, now)

    def sent(self, prompt: str, fence: Fence, turn_id: TurnId | None = None) -> None:
        """A prompt is being submitted: its answer is looked for from here on, and with a `turn_id` its end is told."""
        self._prompt, self._fence, self._turn_id, self._has_told_end = prompt, fence, turn_id, False

    async def answer(self) -> str | None:
        """The whole answer to the prompt that was sent last, if the transcript has it, or soon has."""
        ended = await self.ended()
        return ended.text if ended is not None else None

    async def ended(self) -> TurnEnded | None:
        """How the turn of the prompt that was sent last ended, if the transcript tells, or soon does."""
        deadline = asyncio.get_running_loop().time() + _WRITTEN_WITHIN_SECONDS
        while self._is_known and self._prompt:
            turn = await self._turn()
            if turn is not None and turn.ending is not None:
                is_whole = turn.ending is TurnEnding.NATURAL
                text = (turn.answer or None) if is_whole else None
                return TurnEnded(ending=turn.ending, text=text, error_message=turn.error_message)
            may_come = self._reader is not None or bool(self._session_id)
            if asyncio.get_running_loop().time() >= deadline or not may_come:
                return None
            await asyncio.sleep(_LOOK_FOR_ANSWER_SECONDS)
        return None

    async def _turn(self) -> TranscriptTurn | None:
        reader = await self._caught_up()
        return None if reader is None else self._turn_in(reader)

    def _turn_in(self, reader: TranscriptReader) -> TranscriptTurn | None:
        """The turn of our last prompt, if this transcript has it."""
        fence = self._fence
        if fence.path == reader.path:
            return reader.turn_of(self._prompt, after=fence.last_number)
        return reader.turn_of(self._prompt, since_unix_seconds=fence.at_unix_seconds)

    def _tell_end(self, reader: TranscriptReader | None, tell: Callable[[Told], None]) -> None:
        """Tell once that the transcript has the clean end of our prompt's turn."""
        turn_id = self._turn_id
        turn = None if reader is None or turn_id is None or self._has_told_end else self._turn_in(reader)
        if turn is None or turn_id is None or turn.ending is not TurnEnding.NATURAL or turn.open_calls:
            return
        self._has_told_end = True
        found = ObserverPayload("transcript", turn.native_turn_id or f"turn {turn.number}")
        tell(lambda session, now: session.on_reported(turn_id, found, now))

    async def _caught_up(self) -> TranscriptReader | None:
        """The transcript, with all that was written so far; None if there is none yet, or it cannot be read."""
        async with self._polling:
            with suppress(OSError):
                await self._find()
                if self._reader is not None:
                    await asyncio.to_thread(self._reader.poll)
                return self._reader
            return None

    def _hear(self, reading: SourceReading, tell: Callable[[Told], None], emit: Callable[[Observation], None]) -> None:
        for anomaly in reading.anomalies:
            emit(Warned(kind=anomaly.kind, message=anomaly.message, details=anomaly.details))
        if reading.claims:
            tell(lambda session, now: session.on_claims(reading.claims, now))
            self._session_id = reading.claims[-1].session_id or self._session_id

    async def _find(self) -> None:
        if not self._is_known:
            return
        if self._cli == "claude":
            wanted = self._session_id
            is_ours = self._reader is not None and self._reader.path.stem == wanted
            if not wanted or is_ours:
                return
            path = await asyncio.to_thread(find_claude_transcript, self._home, wanted)
            if path is not None:
                self._reader = TranscriptReader(self._cli, path)
        elif self._reader is None or self._may_be_elsewhere(self._reader):
            self._reader = await asyncio.to_thread(self._held_rollout)

    def _may_be_elsewhere(self, reader: TranscriptReader) -> bool:
        """Whether our last prompt should stand in the transcript by now, and does not."""
        since, now = self._fence.at_unix_seconds, time.time()
        return since is not None and now - since < _LOOK_ELSEWHERE_SECONDS and self._turn_in(reader) is None

    def _held_rollout(self) -> TranscriptReader | None:
        """The rollout with our last prompt, of those that the process holds open; else the one from before.

        After `/clear` and `/new` Codex begins another one with the next prompt, and keeps the old one open.
        """
        known, newest = self._reader, list[TranscriptReader]()
        for path in open_rollouts(self._process.pid):
            if known is not None and path == known.path:
                continue
            reader = TranscriptReader(self._cli, path)
            reader.poll()
            if self._prompt and self._turn_in(reader) is not None:
                return reader
            newest.append(reader)
        return known or (newest[0] if newest else None)

    def _tell_work(self, reader: TranscriptReader | None, emit: Callable[[Observation], None]) -> None:
        """Tell that the transcript grew, and which tools its open turn runs."""
        if reader is None:
            return
        if reader.steps != self._steps:
            self._steps = reader.steps
            emit(Progressed(source=EvidenceSource.NATIVE_FILE, rule="transcript.grew"))
        turn = reader.turns[-1] if reader.turns else None
        self._tell_tools(turn.open_calls if turn is not None and turn.ending is None else (), emit)

    def _tell_tools(self, calls: tuple[tuple[str, str], ...], emit: Callable[[Observation], None]) -> None:
        if calls != self._open_calls:
            self._open_calls = calls
            emit(ToolsSeen(open=calls))

    def _name(self, reader: TranscriptReader | None, emit: Callable[[Observation], None]) -> None:
        """Name the session once it has a transcript: one without a word in it cannot be taken up again."""
        if reader is not None and self.session_id not in ("", self._named):
            self._named = self.session_id
            emit(SessionNamed(native_session_id=self._named, transcript_path=str(reader.path)))


def open_rollouts(pid: int) -> list[Path]:
    """The transcripts of Codex that this process, or one that it started, holds open; the one begun last first."""
    paths = {Path(name) for one in family(pid) for name in host().open_names(one)}
    found = [path for path in paths if path.suffix == ".jsonl" and path.name.startswith("rollout-")]
    return sorted(found, key=lambda path: path.name, reverse=True)
