"""A home that an older program wrote: a server takes it up in the background, answers meanwhile, and can be ended."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Final

import pytest

from interlock.log.port import Slice
from interlock.log.sqlite.store import SqliteLog
from interlock.runtime.runtime import Runtime
from interlock.server.live import hub as hub_module
from interlock.server.serving import bind, running
from interlock.testing.puppet import PuppetDriver
from interlock.vocabulary.ids import SessionId
from tests.contract.harness import run
from tests.server.http_harness import OBSERVER, SETTINGS, TOKENS, client
from tests.server.test_resting import answers, fill, forget_all, history, server_of

SESSIONS: Final = hub_module._MANY + 2
_OLDER: Final = "UPDATE snapshots SET fold_version = 'of the version before', payload = x'7b7d'"


async def make_older(home: Path) -> list[SessionId]:
    """Sessions at rest whose lines are of another fold, in words that this program does not know."""
    ids = await fill(home, [history(2, begins=at) for at in range(SESSIONS)])
    async with server_of(home):
        pass
    async with await SqliteLog.open(home) as log:
        await log.maintain("test", {}, lambda connection: connection.execute(_OLDER).fetchall())
    return ids


def test_an_upgrade_goes_on_in_the_background_and_can_be_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, bare = tmp_path / "home", tmp_path / "bare"
    read = SqliteLog.read

    async def look_meanwhile(ids: list[SessionId]) -> None:
        """While no other session can be read, one is shown, and the list says that it is not whole."""
        gate, shown = asyncio.Event(), ids[-1]

        async def gated(log: SqliteLog, session_id: SessionId, *, after: int = 0, limit: int | None = None) -> Slice:
            if session_id != shown:
                await gate.wait()
            return await read(log, session_id, after=after, limit=limit)

        monkeypatch.setattr(SqliteLog, "read", gated)
        with bind(SETTINGS) as listening:
            async with (
                await SqliteLog.open(home) as log,
                Runtime(log, [PuppetDriver()], sleeps=True) as runtime,
                running(runtime, log, TOKENS, SETTINGS, listening) as server,
                client(server.url, OBSERVER) as asking,
            ):
                health = (await asking.get("/health")).json()
                assert (health["alive"], health["ready"]) == (True, False)
                task = await asking.get(f"/api/tasks/{shown}")
                assert (task.status_code, task.json()["summary"]["task_id"]) == (200, shown)
                listed = await asking.get("/api/tasks")
                assert listed.status_code == 503 or not listed.json()["is_complete"]
        monkeypatch.undo()

    async def story() -> None:
        ids = await make_older(home)
        shutil.copytree(home, bare)
        await forget_all(bare)
        await look_meanwhile(ids)  # and the server is ended before it could read anything else
        upgraded, folded = await answers(home, ids[:3], has_driver=True)
        assert folded > 0, "a line of an older fold is never read"
        assert upgraded == (await answers(bare, ids[:3], has_driver=True))[0]
        again, folded = await answers(home, ids[:3], has_driver=True)
        assert (again, folded) == (upgraded, 0), "from now on they are read no more"

    run(story(), 120)
