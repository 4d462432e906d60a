"""The driver of agents that run outside tmux: it adopts, watches and lets go. It starts, types and stops nothing.

Laws:
1. What is told rests on files that the agent writes and on its process; each standing names the file.
2. `Exited` is told when that very process, by its number and start time, is gone.
3. No command reaches the agent; each is refused before anything happens.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from interlock.agents.evidence.session_files import SessionFile
from interlock.agents.evidence.transcripts import TranscriptReader, find_claude_transcript
from interlock.agents.observations import (
    BecameReady,
    Exited,
    Observation,
    Progressed,
    SessionNamed,
    StandingSeen,
    ToolsSeen,
    Warned,
)
from interlock.agents.observed.finding import OBSERVED, ObservedWhere
from interlock.agents.observed.reading import TranscriptSeen, standing_of
from interlock.agents.port import (
    AgentHandle,
    AgentSpec,
    Capabilities,
    Decision,
    NotDelivered,
    ProcessIdentity,
    Prompt,
    StopReport,
)
from interlock.agents.processes.identity import is_alive
from interlock.agents.terminal.ending import process_gone
from interlock.agents.terminal.side_files import open_rollouts
from interlock.log.host import host
from interlock.monitor.arbitration.agent_status import Standing
from interlock.monitor.arbitration.claims import Claim
from interlock.vocabulary.errors import PeerFault, UsageError
from interlock.vocabulary.events.audit import DeliveryStage
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.evidence import EvidenceSource
from interlock.vocabulary.ids import SpawnId
from interlock.vocabulary.states import DriverKind

CAPABILITIES: Final = Capabilities(
    owns_text=False, can_interrupt=False, outlives_runtime=True, is_foreign=True, is_read_only=True
)
LOOK_EVERY_SECONDS: Final = 0.5


class ObservedDriver:
    """Adopts agents outside tmux."""

    @property
    def name(self) -> str:
        return OBSERVED

    @property
    def kind(self) -> DriverKind:
        return DriverKind.TERMINAL

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    async def spawn(self, spec: AgentSpec, spawn_id: SpawnId) -> AgentHandle:
        del spawn_id
        raise UsageError(
            f"{spec.agent} was only watched where a person ran it, and cannot be started from here",
            remedy=f"`interlock run {spec.agent}` starts one",
        )

    async def adopt(self, spec: AgentSpec, spawn_id: SpawnId, where: Json) -> AgentHandle:
        try:
            place = msgspec.convert(where, ObservedWhere)
        except msgspec.ValidationError as error:
            raise UsageError(f"this does not say where an agent is: {error}", remedy="name its process") from error
        if not await asyncio.to_thread(is_alive, place.process):
            raise PeerFault(f"process {place.pid} is gone")
        return ObservedHandle(place, spec, spawn_id)


class ObservedHandle:
    """One such agent."""

    def __init__(self, place: ObservedWhere, spec: AgentSpec, spawn_id: SpawnId) -> None:
        self._place = place
        self._argv = spec.argv
        self._spawn_id = spawn_id
        self._files = _Files(place, spawn_id)
        self._stood: tuple[object, ...] | None = None
        self._over = asyncio.Event()

    @property
    def spawn_id(self) -> SpawnId:
        return self._spawn_id

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    @property
    def argv(self) -> tuple[str, ...]:
        return self._argv

    @property
    def process(self) -> ProcessIdentity | None:
        return self._place.process

    @property
    def where(self) -> Json:
        return self._place.as_json()

    async def observations(self) -> AsyncIterator[Observation]:
        """What its files and its process show, until it ends or is let go of."""
        gone = asyncio.ensure_future(process_gone(self._place.process))
        let_go = asyncio.ensure_future(self._over.wait())
        try:
            while not (gone.done() or let_go.done()):
                now = asyncio.get_running_loop().time()
                for seen in await asyncio.to_thread(self._look, now):
                    yield seen
                await asyncio.wait((gone, let_go), timeout=LOOK_EVERY_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if gone.done() and not let_go.done():
                gone.result()
                yield Exited()
        finally:
            for task in (gone, let_go):
                task.cancel()
            await asyncio.gather(gone, let_go, return_exceptions=True)

    def _look(self, now: float) -> list[Observation]:
        told = self._files.look(now)
        standing = standing_of(self._files.status, self._files.transcript(now), now)
        stood = (standing.activity, standing.attention, *((one.rule, one.where) for one in standing.evidence))
        if stood != self._stood:
            self._stood = stood
            told.append(StandingSeen(standing=_since(standing, now)))
            told += [BecameReady()] if standing.is_ready else []
        return told

    async def submit(self, prompt: Prompt) -> DeliveryStage:
        del prompt
        raise _refused()

    async def interrupt(self) -> None:
        raise _refused()

    async def decide(self, decision: Decision) -> None:
        del decision
        raise _refused()

    async def stop(self) -> StopReport:
        """It is never stopped: this lets go of it."""
        await self.release()
        return StopReport()

    async def release(self) -> None:
        self._over.set()


class _Files:
    """What one agent has written so far."""

    def __init__(self, place: ObservedWhere, spawn_id: SpawnId) -> None:
        self.status: Claim | None = None
        self._place = place
        self._file = SessionFile(Path(place.home), place.pid, spawn_id) if place.cli == "claude" else None
        self._reader: TranscriptReader | None = None
        self._session_id = ""
        self._named = ""
        self._steps = 0
        self._tools: tuple[tuple[str, str], ...] = ()

    def look(self, now: float) -> list[Observation]:
        told: list[Observation] = []
        reading = None if self._file is None else self._file.look(now)
        for claim in () if reading is None else reading.claims:
            if claim.withdraws:
                self.status = None
            elif claim.at_seconds >= now - _age_seconds(self._place):
                self.status = claim
                self._session_id = claim.session_id or self._session_id
        anomalies = () if reading is None else reading.anomalies
        told += [Warned(kind=one.kind, message=one.message, details=one.details) for one in anomalies]
        with suppress(OSError):
            self._find()
        if self._reader is not None:
            with suppress(OSError):
                self._reader.poll()
            told += self._news(self._reader)
        return told

    def transcript(self, now: float) -> TranscriptSeen | None:
        """The transcript, if it has a turn that was written while this process lived."""
        reader = self._reader
        if reader is None or not reader.turns:
            return None
        try:
            written_at = now - max(0.0, time.time() - reader.path.stat().st_mtime)
        except OSError:
            return None
        if written_at < now - _age_seconds(self._place):
            return None
        return TranscriptSeen(path=str(reader.path), is_open=reader.turns[-1].ending is None, written_at=written_at)

    def _find(self) -> None:
        if self._place.cli == "claude":
            if self._session_id and (self._reader is None or self._reader.path.stem != self._session_id):
                path = find_claude_transcript(Path(self._place.home), self._session_id)
                self._reader = None if path is None else TranscriptReader("claude", path)
            return
        newest = next(iter(open_rollouts(self._place.pid)), None)
        if newest is not None and (self._reader is None or self._reader.path != newest):
            self._reader = TranscriptReader("codex", newest)

    def _news(self, reader: TranscriptReader) -> list[Observation]:
        told: list[Observation] = []
        name = self._session_id if self._place.cli == "claude" else reader.path.stem[-36:]
        if name and name != self._named:
            self._named, self._steps = name, reader.steps
            told.append(SessionNamed(native_session_id=name, transcript_path=str(reader.path)))
        if reader.steps != self._steps:
            self._steps = reader.steps
            told.append(Progressed(source=EvidenceSource.NATIVE_FILE, rule="transcript.grew"))
        turn = reader.turns[-1] if reader.turns else None
        tools = turn.open_calls if turn is not None and turn.ending is None else ()
        if tools != self._tools:
            self._tools = tools
            told.append(ToolsSeen(open=tools))
        return told


def _since(standing: Standing, now: float) -> Standing:
    return Standing(
        standing.activity, standing.attention, standing.activity_basis, standing.attention_basis, since_seconds=now
    )


def _age_seconds(place: ObservedWhere) -> float:
    """For how long the process has lived, and a second more; for ever where this system does not tell."""
    began, now = host().ticks_of(place.started), host().now_ticks()
    if began is None or now is None:
        return float("inf")
    return (now - began) / os.sysconf("SC_CLK_TCK") + 1.0


def _refused() -> NotDelivered:
    return NotDelivered("this agent runs outside tmux and is only watched: use it where you started it")
