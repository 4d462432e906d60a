"""Commands by a client of a moment: whatever tmux prints can be read."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from interlock.agents.tmux.server import Absent, NoServer, TmuxRefused, TmuxServer, failure
from tests.contract.harness import run
from tests.each_row import each_row


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


@each_row(
    ("said", "kind", "message"),
    [
        ("no server running on /tmp/s", NoServer, "there is no tmux server: no server running on /tmp/s"),
        ("error connecting to /tmp/s (x)", NoServer, "there is no tmux server: error connecting to /tmp/s (x)"),
        ("lost server\n", NoServer, "there is no tmux server: lost server"),
        ("server exited unexpectedly", NoServer, "there is no tmux server: server exited unexpectedly"),
        ("can't find pane: %7\n", Absent, "tmux: can't find pane: %7"),
        ("no such window: @3", Absent, "tmux: no such window: @3"),
        ("no sessions", Absent, "tmux: no sessions"),
        ("no current target", Absent, "tmux: no current target"),
        ("unknown command: x", TmuxRefused, "tmux: unknown command: x"),
        (" \n", TmuxRefused, "tmux: tmux gave no reason"),
        ("x" * 400, TmuxRefused, f"tmux: {'x' * 300}"),
    ],
)
def test_what_tmux_says_is_no_server_an_absence_or_a_refusal(said: str, kind: type[Exception], message: str) -> None:
    told = failure(said)
    assert (type(told), str(told)) == (kind, message)
