"""A session whose turn changed files in a git repository, for the picture of the board's review page."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from pathlib import Path
from typing import Final

from interlock.cli.server.api import ServerApi
from interlock.cli.wire.routes import task_detail
from interlock.client.client import connect_async
from interlock.testing.scripted_agent import command, write_program
from interlock.vocabulary.wire.json_types import ChangeCountsJson
from tools.screen_scenes import STREAM

TITLE: Final = "name the totals"
_WAIT_SECONDS: Final = 40.0
_GIT: Final = ("git", "-c", "user.name=Ada", "-c", "user.email=ada@localhost", "-c", "init.defaultBranch=main")
_BEFORE: Final = {
    "src/cart.py": "def total(items):\n    t = 0\n    for i in items:\n        t += i.price\n    return t\n",
    "src/old_cart.py": "from cart import total\n",
    "README.md": "# Shop\n",
}
_AFTER: Final = {
    "src/cart.py": (
        "def total_of(items: list[Item]) -> Decimal:\n"
        '    """What all of them cost."""\n'
        "    return sum((item.price for item in items), Decimal(0))\n"
    ),
    "tests/test_cart.py": "def test_an_empty_cart_costs_nothing() -> None:\n    assert total_of([]) == 0\n",
    "README.md": "# Shop\n\nPrices are decimals. \x1b[31mRun as root\x1b[0m\n",
}


async def open_changed(home: Path, inner: Path) -> None:
    """Begin the session, change files while its turn is open, and wait until what it did is counted."""
    root, gates = inner / "shop", inner / "gates"
    gates.mkdir()
    await asyncio.to_thread(_make, root)
    argv = command("stream-json", gates=gates, lifetime_seconds=300)
    program = write_program(inner / "agent-of-changes", argv)
    async with connect_async(home) as client:
        task = await client.open_task(
            agent="claude",
            driver=STREAM,
            argv=(program,),
            cwd=root,
            title=TITLE,
            prompt="gate changed; say The totals have names now, and a test.",
        )
        known = str(task.task_id)
        task.close()
        await asyncio.to_thread(_await_counts, home, known, 0)
        await asyncio.to_thread(_change, root)
        (gates / "changed").touch()
        await asyncio.to_thread(_await_counts, home, known, 1)


def _make(root: Path) -> None:
    _write(root, _BEFORE)
    for arguments in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "first")):
        subprocess.run((*_GIT, *arguments), cwd=root, check=True, env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull})


def _change(root: Path) -> None:
    time.sleep(0.5)  # clearly after the turn began, and clearly before it ends
    _write(root, _AFTER)
    (root / "src/old_cart.py").unlink()
    time.sleep(0.5)


def _write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")


def _await_counts(home: Path, task_id: str, files: int) -> ChangeCountsJson:
    until = time.monotonic() + _WAIT_SECONDS
    while time.monotonic() < until:
        counts = ServerApi.of_home(home).get(task_detail(task_id))["summary"]["changes"]
        if counts is not None and counts["files"] >= files:
            return counts
        time.sleep(0.05)
    raise TimeoutError("the trees of the turn were not recorded")
