"""What a pane shows and what stands beside it, all of one moment, in one round trip.

The commands go out as one sequence. tmux runs a sequence in one go and reads no program's output in between, so text,
cursor and size belong together, and nothing has to be asked twice (a test counts on a pane that never rests).

Titles and names of programs are text from outside: control characters become blanks inside tmux, before a line is
printed. The rows of a screen cannot be guarded so; a row could imitate the end of the reply. A screen has as many rows
as the pane is high, so a reply with another number of rows is refused, and the connection with it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from interlock.agents.tmux.client import TmuxClient
from interlock.agents.tmux.link import FalseReply, Replies
from interlock.agents.tmux.server import Absent, Command, constant_word
from interlock.screen.snapshot import Snapshot, read_snapshot

_NUMBERS: Final = (
    "pane_id", "window_id", "pane_pid", "pane_width", "pane_height", "cursor_x", "cursor_y", "cursor_flag",
    "alternate_on", "pane_dead", "pane_dead_status", "pane_dead_signal", "history_size", "pane_in_mode",
    "pane_synchronized", "pane_input_off",
)  # fmt: skip
_TEXTS: Final = ("pane_title", "pane_current_command")
_FORMAT: Final = constant_word(
    "\t".join([f"#{{{name}}}" for name in _NUMBERS] + [f"#{{s/[\001-\037]/ /:{name}}}" for name in _TEXTS])
)


@dataclass(frozen=True, slots=True)
class PaneCapture:
    """One look at a pane. `captured_at_seconds` is monotonic, when the answer was read.

    `exit_status` and `exit_signal` are of a program that has ended and whose pane remains; they may come a moment after
    the pane is dead. What a program wrote in the moment of its end may be missing: tmux 3.3 drops what it has not read
    by then. `why_closed` says why keys would not reach the program alone: a person reads back, input is off, or panes
    are synchronized.
    """

    pane_id: str
    window_id: str
    snapshot: Snapshot
    pid: int
    exit_status: int | None
    exit_signal: int | None
    history_size: int
    captured_at_seconds: float
    why_closed: str | None = None

    @property
    def has_exit(self) -> bool:
        """How the program ended is known."""
        return self.exit_status is not None or self.exit_signal is not None


def capture_commands(pane_id: str) -> tuple[Command, ...]:
    """The sequence whose replies `read_capture` reads."""
    return ("display-message", "-p", "-t", pane_id, _FORMAT), ("capture-pane", "-p", "-e", "-t", pane_id)


async def capture_pane(client: TmuxClient, pane_id: str) -> PaneCapture:
    """Look at a pane. `Absent` if there is none, `Unreachable` if tmux cannot be asked."""
    return await client.ask_pane(pane_id, capture_commands(pane_id), lambda replies: read_capture(pane_id, replies))


def read_capture(pane_id: str, replies: Replies) -> PaneCapture:
    """Put the replies together. Raises `FalseReply` if they do not fit each other."""
    beside, screen = replies
    values = beside.text.split("\t")
    if values[0] == "":  # tmux prints nothing for a pane that it does not find
        raise Absent(f"tmux has no pane {pane_id}")
    if len(values) != len(_NUMBERS) + len(_TEXTS) or values[0] != pane_id:
        raise FalseReply(f"tmux did not describe pane {pane_id}")
    told = dict(zip(_NUMBERS + _TEXTS, values, strict=True))
    height = _number(told["pane_height"])
    if len(screen.lines) != height:
        raise FalseReply(f"pane {pane_id} is {height} rows high, and the reply has {len(screen.lines)}")
    return PaneCapture(
        pane_id=pane_id,
        window_id=told["window_id"],
        snapshot=_snapshot(told, screen.lines, height),
        pid=_number(told["pane_pid"]),
        exit_status=_maybe(told["pane_dead_status"]),
        exit_signal=_maybe(told["pane_dead_signal"]),
        history_size=_number(told["history_size"]),
        captured_at_seconds=time.monotonic(),
        why_closed=_why_closed(told),
    )


def _snapshot(told: dict[str, str], lines: Sequence[bytes], height: int) -> Snapshot:
    return read_snapshot(
        b"\n".join(lines).decode("utf-8", "replace"),
        columns=_number(told["pane_width"]),
        height=height,
        title=told["pane_title"],
        cursor=(_number(told["cursor_x"]), _number(told["cursor_y"])),
        cursor_visible=told["cursor_flag"] == "1",
        is_alternate=told["alternate_on"] == "1",
        command=told["pane_current_command"] or None,
        is_dead=told["pane_dead"] == "1",
    )


def _why_closed(told: dict[str, str]) -> str | None:
    if told["pane_dead"] == "1":
        return "its program has ended"
    if told["pane_in_mode"] not in ("", "0"):
        return "a person is reading back in it"
    if told["pane_input_off"] == "1":
        return "its input is switched off"
    return "its keys also go to other panes (synchronize-panes)" if told["pane_synchronized"] == "1" else None


def _number(text: str) -> int:
    if not text.isdecimal():
        raise FalseReply(f"tmux said {text[:20]!r} where a number stands")
    return int(text)


def _maybe(text: str) -> int | None:
    return _number(text) if text else None
