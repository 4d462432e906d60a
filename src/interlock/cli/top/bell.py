"""The bell of the board: once for each edge into needing a person.

Laws:
1. What is on the board when it opens is before somebody's eyes: it is noted, and not rung. What comes later rings.
2. The boards of one home ring each edge once between them, in whichever terminal saw it first. Their ledger is not the
   server's: that somebody was sent a webhook does not silence a bell.
3. Without a connection nothing is known to stand, and nothing rings.
4. A failure here is said on the board once, and changes nothing else of it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from msgspec import structs

from interlock.client.client import Client
from interlock.projections.attention import AttentionPolicy, AttentionTimerFired, Input, Lost, Sighted, Surveyed
from interlock.runtime.config.sections import NotifySection
from interlock.runtime.notify.channels import TerminalChannel, channels_of, desktop_channel
from interlock.runtime.notify.notifier import BELL_LEDGER_NAME, BoardWatcher, LedgerFile, NoticeChannel, Outlets
from interlock.vocabulary.errors import InterlockError

LOOK_SECONDS: Final = 0.5
RETRY_SECONDS: Final = 3.0


@dataclass(frozen=True, slots=True)
class Ringing:
    """Rings for one home, as `[notify]` says."""

    home: Path
    settings: NotifySection
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def channels(self, terminal: TerminalChannel) -> list[NoticeChannel]:
        """What a board tells by: its bell, and its terminal's own notices where the server has no desktop to show any.

        Commands, webhooks and ntfy are the server's.
        """
        is_shown = self.settings.desktop and desktop_channel(self.environ, None) is None
        ours = structs.replace(self.settings, desktop=is_shown, command=(), webhook="", ntfy="")
        return channels_of(ours, self.environ, terminal)

    async def ring(self, client: Client, terminal: TerminalChannel, report: Callable[[str], None]) -> None:
        """Watch the board, for ever, and ring."""
        channels = self.channels(terminal)
        if not channels:
            return
        file = LedgerFile(self.home, BELL_LEDGER_NAME)
        policy = AttentionPolicy(kinds=frozenset(self.settings.kinds), quiet_seconds=self.settings.quiet_seconds)
        try:
            present = await _note_present(client, file, report)
            async with Outlets(channels, report) as outlets:
                watcher = BoardWatcher(file, outlets.tell, report, policy)
                for seen in present:
                    await watcher.take(seen)
                await watcher.follow(_lines(client))
        except Exception as error:
            report(f"the bell does not ring any more ({type(error).__name__}); everything else goes on")


async def _note_present(client: Client, file: LedgerFile, report: Callable[[str], None]) -> list[Input]:
    """Note what is on the board when it opens, so that it is no news; and give it."""
    silent = AttentionPolicy(kinds=frozenset(), quiet_seconds=0.0)
    watcher = BoardWatcher(file, lambda _: None, report, silent)
    present: list[Input] = [*await _present(client), Surveyed()]
    for seen in present:
        await watcher.take(seen)
    await watcher.take(AttentionTimerFired())  # also where there is none: from now on it is news
    return present


async def _present(client: Client) -> list[Sighted]:
    while True:
        try:
            return [Sighted(line) for line in await client.tasks()]
        except InterlockError:
            await asyncio.sleep(RETRY_SECONDS)  # the board itself says why


async def _lines(client: Client) -> AsyncIterator[Input]:
    """The lines of the board. A lost connection is told, and after it every line again: what is the same is not sent
    anew, and has to be seen to stand."""
    lines = client.board()
    is_connected = True
    coming = asyncio.ensure_future(anext(lines, None))
    try:
        while True:
            done, _ = await asyncio.wait((coming,), timeout=LOOK_SECONDS)
            if client.is_connected != is_connected:
                is_connected = not is_connected
                found: list[Input] = [*await _present(client), Surveyed()] if is_connected else [Lost()]
                for one in found:
                    yield one
            if not done:
                continue
            try:
                line = coming.result()
            except InterlockError:
                await asyncio.sleep(RETRY_SECONDS)  # the board itself says why, and looks again
            else:
                if line is None:
                    return
                yield Sighted(line)
            coming = asyncio.ensure_future(anext(lines, None))
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)
