"""What a live Claude Code tells beside its screen: its hooks, and the file of its session."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from interlock.monitor.arbitration.claims import Claim, SourceReading
from interlock.monitor.sources.claude_status import FileRead, read_claude_status
from interlock.monitor.sources.hooks import read_hook
from tests.real.live import LiveAgent
from tests.real.recipes import CLAUDE, LabFolder

LOOK_EVERY_SECONDS: Final = 0.05
EVENTS: Final = (
    "SessionStart", "UserPromptSubmit", "PreToolUse", "PermissionRequest", "PostToolUse", "Stop", "StopFailure",
    "Notification", "SubagentStart", "SubagentStop", "SessionEnd",
)  # fmt: skip


def _hooks_file(place: LabFolder) -> Path:
    return place.root / "hooks.ndjson"


def _seed_with_hooks(place: LabFolder, url: str) -> None:
    CLAUDE.seed(place, url)
    settings = place.home / ".claude" / "settings.json"
    command = f"told=$(cat); printf '%s\\n' \"$told\" >> '{_hooks_file(place)}'"
    hooks = {event: [{"hooks": [{"type": "command", "command": command}]}] for event in EVENTS}
    settings.write_text(json.dumps(json.loads(settings.read_text("utf-8")) | {"hooks": hooks}), "utf-8")
    _hooks_file(place).touch()


HOOKED: Final = replace(CLAUDE, seed=_seed_with_hooks)
"""Claude Code whose hooks append what they are given to a file."""


class Sources:
    """What was told so far. Only what is fed goes to the session."""

    def __init__(self, agent: LiveAgent) -> None:
        self._agent = agent
        self.hooks: list[Claim] = []
        self.files: list[Claim] = []
        self.feeds_hooks, self.feeds_file = True, False

    @property
    def statuses(self) -> list[str]:
        """What the file said, repeats left out."""
        rules = [claim.rule.rpartition(".")[2] for claim in self.files]
        return [rule for number, rule in enumerate(rules) if number == 0 or rule != rules[number - 1]]

    async def follow_hooks(self) -> None:
        with _hooks_file(self._agent.place).open("rb") as file:
            rest = b""
            while True:
                *lines, rest = (rest + file.read()).split(b"\n")
                for line in lines:
                    self._hear(read_hook(line, at_seconds=_now()), self.hooks, feeds=self.feeds_hooks)
                await asyncio.sleep(LOOK_EVERY_SECONDS)

    async def follow_file(self) -> None:
        folder, shown = self._agent.place.home / ".claude" / "sessions", b""
        while True:
            for file in folder.glob("*.json"):
                with suppress(FileNotFoundError):
                    written, text = file.stat().st_mtime, file.read_bytes()
                    if text != shown and b'"status"' in text:
                        shown = text
                        read = FileRead(_now(), time.time(), written, str(file))
                        self._hear(read_claude_status(text, read), self.files, feeds=self.feeds_file)
            await asyncio.sleep(LOOK_EVERY_SECONDS)

    def _hear(self, reading: SourceReading, kept: list[Claim], *, feeds: bool) -> None:
        assert not reading.anomalies, reading.anomalies
        kept += reading.claims
        if feeds:
            self._agent.tell(lambda session, now: session.on_claims(reading.claims, now))


def _now() -> float:
    return asyncio.get_running_loop().time()


@asynccontextmanager
async def sources_of(agent: LiveAgent) -> AsyncIterator[Sources]:
    """Follow the hooks and the file of an agent's session."""
    sources = Sources(agent)
    works: list[Coroutine[None, None, None]] = [sources.follow_hooks(), sources.follow_file()]
    tasks = [asyncio.create_task(work) for work in works]
    try:
        yield sources
        assert not any(task.done() for task in tasks), "a source was lost"
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
