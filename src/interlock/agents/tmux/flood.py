"""Flow control of panes that write much: paused, so that their news cost nothing, and listened to again soon.

tmux tells of a pane that repaints its screen in dozens of short lines. One of them says all that a watcher needs: that
the pane changed.

Laws:
1. A pause stops the news and not the program. A pane that nobody watches is paused with its first word, one that is
   watched when it wrote more than `FLOOD_BYTES` since it was looked at.
2. A watched pane is not left paused: after `LISTEN_AFTER_SECONDS` tmux is asked to tell of it again, and its next word
   pauses it. So the moment of its last change is known within that time, also where no look at it comes for seconds.
3. From the reply on it is told of. Until then it may have changed, so the reply itself counts as a change.
4. One command pauses, or resumes, all panes of which that is due. Without a paused pane that is watched no timer runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from interlock.agents.tmux.server import Command

FLOOD_BYTES: Final = 1 << 10
LISTEN_AFTER_SECONDS: Final = 0.03


class FloodControl:
    """Tell it what comes (`heard`, `was_paused`) and what is looked at. `send` gives tmux a command and calls back with
    its reply; `wake` is told that a pane may have changed."""

    def __init__(
        self,
        send: Callable[[Command, Callable[[], None]], None],
        is_watched: Callable[[str], bool],
        wake: Callable[[str], None],
    ) -> None:
        self._send, self._is_watched, self._wake = send, is_watched, wake
        self._paused: dict[str, object] = {}  # each pause is a thing of its own
        self._heard: dict[str, int] = {}
        self._to_pause: list[str] = []
        self._timer: asyncio.TimerHandle | None = None

    def is_paused(self, pane_id: str) -> bool:
        """What the pane writes is not told of."""
        return pane_id in self._paused

    def heard(self, pane_id: str, size: int) -> None:
        """A pane wrote something. Whether that is too much is judged at once, and told at the end of this step."""
        heard = self._heard[pane_id] = self._heard.get(pane_id, 0) + size
        if pane_id not in self._paused and (heard > FLOOD_BYTES or not self._is_watched(pane_id)):
            if not self._to_pause:
                asyncio.get_running_loop().call_soon(self._pause)
            self._to_pause.append(pane_id)
            self.was_paused(pane_id)

    def was_paused(self, pane_id: str) -> None:
        """The pane is paused, by us or by tmux, which found us too slow."""
        self._paused.setdefault(pane_id, object())
        if self._timer is None and self._is_watched(pane_id):
            self._timer = asyncio.get_running_loop().call_later(LISTEN_AFTER_SECONDS, self._listen_again)

    def looked_at(self, pane_id: str) -> bool:
        """A look at the pane is on its way; whether it has to resume it."""
        self._heard.pop(pane_id, None)
        return self._paused.pop(pane_id, None) is not None

    def clear(self) -> None:
        """Nothing is paused, and no timer is left: this is another connection, or none."""
        self._paused.clear()
        self._heard.clear()
        self._to_pause.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _pause(self) -> None:
        panes, self._to_pause = [one for one in self._to_pause if one in self._paused], []
        if panes:
            self._send(_command("pause", panes), _nothing)

    def _listen_again(self) -> None:
        self._timer = None
        self._pause()  # no pause that is still to be sent follows the resuming of what it paused
        asked = {pane_id: pause for pane_id, pause in self._paused.items() if self._is_watched(pane_id)}
        if asked:
            self._send(_command("continue", asked), lambda: self._resumed(asked))

    def _resumed(self, asked: dict[str, object]) -> None:
        for pane_id, pause in asked.items():
            if self._paused.get(pane_id) is pause:  # and was not looked at, or paused again, meanwhile
                del self._paused[pane_id]
                self._heard[pane_id] = FLOOD_BYTES
                self._wake(pane_id)


def _command(state: str, panes: Iterable[str]) -> Command:
    return ("refresh-client", *(word for pane_id in panes for word in ("-A", f"{pane_id}:{state}")))


def _nothing() -> None:
    """A pause needs no reply."""
