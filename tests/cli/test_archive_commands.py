"""`interlock log archive`, `restore` and `vacuum`, beside a server that runs and without one."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from interlock.log.sqlite.store import SqliteLog
from interlock.vocabulary.events.audit import QueueEvent, QueueEventKind, SessionOpened
from interlock.vocabulary.events.conversation import UserMessage
from interlock.vocabulary.events.envelope import new_event
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.ids import EventId, PromptId, SessionId
from interlock.vocabulary.states import DriverKind
from tests.cli.harness import interlock
from tests.cli.serving import Served, serving


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path) as one:
        yield one


def answers(served: Served, task_id: str) -> list[str]:
    """What everybody who looks at a session is told, in their own words; without what grows older."""
    told = [served.cli(*line.split(), task_id) for line in ("logs", "why", "debug turns", "log show", "log export")]
    assert [one.returncode for one in told] == [0] * len(told), told
    return [one.stdout for one in told]


def test_sessions_are_archived_and_restored_beside_a_server(served: Served) -> None:
    task_id = served.done("echo hello", title="an old one")
    served.api.ask("POST", f"/api/tasks/{task_id}/stop")
    busy = served.done("echo too")
    before = answers(served, task_id)
    plan = served.cli("log", "archive", "--before", "0h", "--dry-run", "--json")
    told = json.loads(plan.stdout)
    assert [one["session_id"] for one in told["would_archive"]] == [task_id]
    assert told["refused"] == [{"session_id": busy, "reason": "its agent is not known to have ended"}]
    named = served.cli("log", "archive", "--session", busy)
    assert (named.returncode, "not known to have ended" in named.stderr) == (3, True)
    done = served.cli("log", "archive", "--before", "0h", "--json")
    assert done.returncode == 0, done.stderr
    (moved,) = json.loads(done.stdout)["archived"]
    assert (served.home / "archive" / moved["file"]).exists()
    assert moved["session_id"] == task_id
    assert answers(served, task_id) == before
    assert task_id in served.cli("log", "ls").stdout
    assert "in a file" in served.cli("log", "ls").stdout
    assert task_id in [one["session_id"] for one in served.json("ps", "--all")["sessions"]]
    assert served.cli("log", "verify", task_id).returncode == 0
    refused = served.cli("send", task_id, "more")
    assert refused.returncode == 2
    assert "freed" in served.cli("log", "vacuum").stdout
    served.stop()
    served.start()  # what reads its log reads the file, too
    assert answers(served, task_id) == before
    restored = served.cli("log", "restore", task_id, "--json")
    assert json.loads(restored.stdout)["head"] == moved["head"]
    assert answers(served, task_id) == before
    assert list((served.home / "archive").iterdir()) == []


def run(home: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return interlock(*args, env={"INTERLOCK_HOME": str(home)})


async def fill(home: Path, session_id: str, *payloads: Payload, day: int = 1) -> None:
    async with await SqliteLog.open(home) as log:
        events = [
            new_event(
                one,
                id=EventId(f"evt_{number}"),
                session_id=SessionId(session_id),
                ts=datetime(2026, 1, day, tzinfo=UTC),
            )
            for number, one in enumerate(payloads)
        ]
        await log.append(SessionId(session_id), events)


def test_without_a_server_the_command_does_it_and_bad_words_are_refused(tmp_path: Path) -> None:
    home = tmp_path / "home"
    opened = SessionOpened(agent="x", driver="acp", kind=DriverKind.ACP, title="my title")
    asyncio.run(fill(home, "ses_old", opened, UserMessage(text="hello")))
    asyncio.run(fill(home, "ses_young", opened, day=20))
    asyncio.run(
        fill(
            home,
            "ses_queued",
            opened,
            QueueEvent(kind=QueueEventKind.QUEUED, prompt_id=PromptId("prm_1"), text="later"),
        )
    )
    for words, said in ((), "which sessions"), (("--before", "soon"), "no day"), (("--session", "nope"), "nope"):
        refused = run(home, "log", "archive", *words)
        assert (refused.returncode, said in refused.stderr) == (2, True), refused.stderr
    done = run(home, "log", "archive", "--before", "2026-01-10")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("ses_old: 2 events")
    assert "ses_queued stays" in done.stderr
    assert "1 prompt waits" in done.stderr
    assert run(home, "log", "archive", "--before", "2026-01-10").stdout == ""
    shown = run(home, "log", "show", "ses_old", "--json")
    assert shown.stdout.count("\n") == 2
    assert run(home, "log", "verify").returncode == 0
    (file,) = (home / "archive").iterdir()
    kept = file.read_bytes()
    file.unlink()
    verified = run(home, "log", "verify", "--json")
    assert verified.returncode == 9
    assert file.name in verified.stdout
    refused = run(home, "log", "restore", "ses_old")
    assert (refused.returncode, "backup" in refused.stderr) == (1, True)
    file.write_bytes(kept)
    assert "restored ses_old: 2 events" in run(home, "log", "restore", "ses_old").stdout
    twice = run(home, "log", "restore", "ses_old")
    assert (twice.returncode, "in no archive file" in twice.stderr) == (2, True)
    assert json.loads(run(home, "log", "vacuum", "--json").stdout)["left_bytes"] == 0


def test_the_page_can_be_typed(tmp_path: Path) -> None:
    home, page = tmp_path / "home", Path("docs/how-to/archive-sessions.md").read_text()
    asyncio.run(fill(home, "ses_01", UserMessage(text="hello")))
    blocks = [block.partition("```")[0] for block in page.split("```sh\n")[1:]]
    lines = [line.partition("#")[0].split() for block in blocks for line in block.splitlines()]
    assert len(lines) == 4
    for program, *words in lines:
        done = run(home, *words)
        assert (program, done.returncode) == ("interlock", 0), done.stderr
