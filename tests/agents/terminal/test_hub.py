"""The panes of one tmux server: who left, or never watched, leaves nothing behind."""

from __future__ import annotations

import asyncio

from interlock.agents.terminal.hub import TerminalHub
from interlock.agents.tmux.server import TmuxServer
from tests.contract.harness import run


def test_whoever_never_watched_can_leave_and_leave_again() -> None:
    """A start that fails between the pane and its watch leaves so."""

    async def main() -> None:
        hub = TerminalHub(TmuxServer("/nonexistent/socket"))
        await hub.leave("%1")
        await hub.leave("%1")
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(main())
