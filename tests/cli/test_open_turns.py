"""What the server says of a turn from its first frame to its end: while it is open, it is never idle, done or over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest

from interlock.cli.server.api import SocketFrame
from interlock.lifecycle.task_status import has_open_turn
from interlock.vocabulary.states import BoardGroup
from tests.bodies import Body
from tests.cli.serving import Served

AT_REST = {BoardGroup.IDLE, BoardGroup.DONE, BoardGroup.ENDED}


def until_the_end(served: Served, task_id: str, frames: Iterator[SocketFrame]) -> list[tuple[str | None, str, str]]:
    """Status, group and activity of each badge that the server told, to the end of the turn. What is asked is approved
    by command."""
    status, told = None, []
    for data in (cast("Body", frame.data) for frame in frames):
        if data["type"] == "approval:opened":
            assert served.cli("approve", task_id).returncode == 0
        if data["type"] == "task:status":
            status = data["task_status"]
        if (badge := data.get("badge")) is not None:
            told.append((status, badge["group"], badge["activity"]))
        if status == "COMPLETED":
            return told
    raise AssertionError(f"the turn did not end: {told}")


@pytest.mark.parametrize("face", ["tui", "stream-json"])
def test_an_open_turn_is_never_told_as_idle_also_while_its_prompt_is_typed_and_its_end_is_not_proven(
    acting_server: Served, face: str
) -> None:
    task_id = acting_server.open(face=face)
    frames = acting_server.api.events(task_id)
    assert next(frames).data["type"] == "task:joined"  # from here on every change is told
    acting_server.send(task_id, 'request Bash {"command": "ls"} -> ok; say done')
    told = until_the_end(acting_server, task_id, frames)
    of_open = [one for one in told if has_open_turn(one[0])]
    assert {"needs_you", "working"} <= {group for _, group, _ in of_open}
    assert [one for one in of_open if one[1] in AT_REST or one[2] in ("quiet", "gone")] == []
