"""Commands by a client of a moment: whatever tmux prints can be read."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from interlock.agents.tmux.server import TmuxServer
from tests.contract.harness import run


def test_bytes_that_are_no_text_cost_a_sign_and_not_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The title of a pane holds whatever its program wrote there."""

    async def nothing() -> None: ...

    async def spawn(_: TmuxServer, *__: str, on_data: Callable[[bytes], None]) -> SimpleNamespace:
        for piece in (b"caf\xc3", b"\xa9 \xff\n"):  # a character may come in two pieces
            on_data(piece)
        return SimpleNamespace(write=lambda *_, **__: None, wait=nothing, close=nothing, exit_status=0, errors="")

    monkeypatch.setattr(TmuxServer, "spawn", spawn)
    assert (
        run(TmuxServer("/nonexistent/socket").run(["display-message", "-p", "x"])) == "café \N{REPLACEMENT CHARACTER}\n"
    )
