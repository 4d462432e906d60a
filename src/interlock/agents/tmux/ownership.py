"""Whose pane it is: the mark of the home and of the process that owns it, in the tmux option `@interlock_owner`.

Laws:
1. The mark is set in the same tmux sequence that makes the pane, and changed only from the mark that was looked at.
2. A pane with the mark of another home is neither typed into nor closed, and its agent is not adopted and not stopped.
   So is one of this home while another living process holds it: there is one writer a home.
3. A pane without a mark is nobody's: a person's own, or one of an older version. Adopting it marks it.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Final

from interlock.agents.tmux.server import Absent, TmuxServer
from interlock.log.home_identity import HomeStanding, NotOurs
from interlock.log.lease import process_start
from interlock.vocabulary.errors import Unreachable

OWNER_OPTION: Final = "@interlock_owner"
_UNFIT: Final = re.compile(r"[^A-Za-z0-9]")


@dataclass(frozen=True, slots=True)
class PaneOwner:
    """A home, and the process that holds its lease."""

    home_id: str
    pid: int
    started: str

    @property
    def mark(self) -> str:
        return f"{self.home_id}/{self.pid}.{self.started}"

    @property
    def lives_elsewhere(self) -> bool:
        """Whether the process is another one than ours, and there."""
        if self.pid in (0, os.getpid()):
            return False
        try:
            return (started := process_start(self.pid)) is not None and _spelled(started) == self.started
        except Unreachable:
            return True


def owner_here(home_id: str) -> PaneOwner:
    """The mark of what this process starts or adopts."""
    return PaneOwner(home_id, os.getpid(), _spelled(process_start(os.getpid())))


def read_mark(mark: str) -> PaneOwner:
    """Who a mark names. One that we did not write names an owner that is not us."""
    home_id, _, holder = mark.partition("/")
    pid, _, started = holder.partition(".")
    return PaneOwner(home_id, int(pid) if pid.isdecimal() else 0, started)


def refuse_foreign(pane_id: str, mark: str, home: HomeStanding) -> None:
    """Law 2. `NotOurs` says whose it is."""
    if not mark:
        return
    owner = read_mark(mark)
    if owner.home_id not in home.owned:
        raise NotOurs(f"pane {pane_id} belongs to another home ({owner.home_id})")
    if owner.lives_elsewhere:
        raise NotOurs(f"pane {pane_id} is held by process {owner.pid} of this home")


async def claim_pane(server: TmuxServer, pane_id: str, found: str, owner: PaneOwner) -> None:
    """Mark a pane as ours, if it still bears the mark that was found. `NotOurs` if somebody was faster, `Absent` if the
    pane is gone."""
    mark_it = f'set-option -p -t {pane_id} {OWNER_OPTION} "{owner.mark}"'
    is_as_found = f"#{{==:#{{{OWNER_OPTION}}},{found}}}"
    told = await server.run(
        ("if-shell", "-F", "-t", pane_id, is_as_found, mark_it),
        ("display-message", "-p", "-t", pane_id, f"#{{pane_id}} #{{{OWNER_OPTION}}}"),
    )
    found_pane, _, mark = told.strip().partition(" ")
    if found_pane != pane_id:
        raise Absent(f"pane {pane_id} is gone")
    if mark != owner.mark:
        raise NotOurs(f"pane {pane_id} was taken by another owner ({mark or 'none is named'})")


def _spelled(started: str | None) -> str:
    return "" if started is None else _UNFIT.sub("-", started)
