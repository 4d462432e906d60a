"""The tables of the vectors: the states of the client obey every row of them."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from interlock.client.machine.state import LocalStream, SyncState, TaskState
from interlock.testing.scribe import EPOCH
from interlock.vocabulary.ids import SessionId, StreamId
from interlock.vocabulary.states import TaskStatus
from tools.vectors import VECTORS

STREAM = LocalStream(stream_id=StreamId("s1"), started_at=EPOCH)


def rows(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((VECTORS / "tables" / f"{name}.json").read_text(encoding="utf-8"))["rows"]
    return found


def state(row: dict[str, Any], **facts: bool) -> TaskState:
    return TaskState(
        task_id=SessionId("task_1"),
        sync=SyncState.JOINED,
        status=row["status"],
        stream=STREAM if facts.get("has_stream") else None,
        tick=1 if facts.get("joined_room", True) else None,
        is_reachable=facts.get("is_reachable", True),
        is_verified=facts.get("is_verified", True),
        server_confirmed_no_stream=facts.get("server_confirmed_no_stream", False),
    )


def test_the_phase_of_a_state_is_that_of_the_table() -> None:
    table = rows("statuses")
    assert {row["status"] for row in table} == {*TaskStatus, None, "NEVER_HEARD_OF"}
    for row in table:
        assert state(row).phase == row["phase"]
        assert state(row, has_stream=True).phase == row["phase_with_stream"]


def test_the_flags_of_a_state_are_those_of_the_table_for_every_combination_of_facts() -> None:
    table = rows("flags")
    assert len(table) == 32 * (len(TaskStatus) + 2)
    for row in table:
        facts = {name: given for name, given in row.items() if name not in ("status", "flags")}
        assert asdict(state(row, **facts).flags) == row["flags"], row


def test_a_task_without_a_prompt_is_free_once_that_is_verified_and_an_unknown_one_is_not() -> None:
    blocks = {
        (row["status"], row["is_verified"]): row["flags"]["blocks_queued_dispatch"]
        for row in rows("flags")
        if row["status"] in (None, "UNKNOWN", "COMPLETED")
    }
    assert blocks == {
        (None, False): True,
        (None, True): False,
        ("UNKNOWN", False): True,
        ("UNKNOWN", True): True,
        ("COMPLETED", False): True,
        ("COMPLETED", True): False,
    }
