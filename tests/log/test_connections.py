"""What every connection to the log is set to: a commit is on the disk when it is acknowledged, damage shows early."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from interlock.log.paths import DATABASE_NAME
from interlock.log.sqlite.schema import CHECKPOINT_PAGES, connect
from interlock.log.sqlite.store import SqliteLog
from tests.contract.harness import run

FULL = 2  # of `PRAGMA synchronous`: the WAL is synced at every commit
SET_TO = {
    "journal_mode": "wal",
    "synchronous": FULL,
    "cell_size_check": 1,
    "trusted_schema": 0,
    "wal_autocheckpoint": CHECKPOINT_PAGES,
}


@pytest.mark.parametrize("readonly", [False, True])
def test_every_connection_is_durable_and_careful(tmp_path: Path, readonly: bool) -> None:
    async def made() -> None:
        await (await SqliteLog.open(tmp_path / "home")).close()

    run(made())
    with closing(connect(tmp_path / "home" / DATABASE_NAME, readonly=readonly)) as connection:
        assert {name: connection.pragma(name) for name in SET_TO} == SET_TO
