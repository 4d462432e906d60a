"""How the end of an agent's process is noticed where the system gives no descriptor of it."""

from __future__ import annotations

import asyncio
import os

import pytest

from interlock.agents.port import ProcessIdentity
from interlock.agents.terminal import ending
from interlock.vocabulary.errors import Unreachable

PROCESS = ProcessIdentity(pid=4321, start_time="1")
MANY_LOOKS = 1000


@pytest.mark.parametrize("is_hidden", [False, True])
def test_without_a_descriptor_the_process_is_looked_at_until_it_is_gone(
    monkeypatch: pytest.MonkeyPatch, is_hidden: bool
) -> None:
    """Between two looks everything else goes on; a process that cannot be looked at is not taken for gone."""
    looks, has_ended = 0, False

    def refuse(_: int) -> int:
        raise OSError("planted in a test")

    def is_alive(process: ProcessIdentity) -> bool:
        nonlocal looks
        looks += 1
        assert process == PROCESS
        assert looks < MANY_LOOKS, "nothing else runs between two looks"
        if is_hidden and not has_ended:
            raise Unreachable("planted in a test")
        return not has_ended

    def end() -> None:
        nonlocal has_ended
        has_ended = True

    async def main() -> None:
        asyncio.get_running_loop().call_soon(end)
        await ending.process_gone(PROCESS)

    monkeypatch.setattr(os, "pidfd_open", refuse, raising=False)
    monkeypatch.setattr(ending, "is_alive", is_alive)
    monkeypatch.setattr(ending, "_LOOK_EVERY_SECONDS", 0)
    asyncio.run(main())
    assert looks > 1
