"""The badge: all that a board says of one session. `projections/badge.py` makes it, and nothing else does."""

from __future__ import annotations

from msgspec import Struct

from interlock.vocabulary.events.conversation import Count
from interlock.vocabulary.evidence import Evidence, Moment
from interlock.vocabulary.states import Activity, AgentState, Attention, BoardGroup, Outcome


class Badge(Struct, frozen=True, kw_only=True):
    """What a session does, whether it needs a person, and how its last turn ended.

    `substate` is said only while it works: what it works at, with the `tool` that it runs and `tool_since`. `outcome`
    is None while a turn is open or a prompt waits, where an open turn has no owner, and of an adopted agent without a
    turn of ours; `unknown`: events are lost.
    `attention` without `needs_person`: it was answered, and has yet to go on. `since`: when this began; of an ended
    turn, when it ended.
    `group`: where it stands on a board. `is_seen`: somebody has looked at how the last turn ended, on any device; true
    where nothing is to be seen. `needs_person`: something is asked, an error is shown, a limit or a failure holds the
    queue back, or a turn failed and nobody has looked yet.
    `rank`: the order of a board, the lowest first. `crashes`: how often its process died and was to be started again
    in the last hour. `is_over`: no server runs it and nothing is left to do. `until`: when the badge changes by itself.
    """

    activity: Activity
    substate: AgentState | None
    tool: str
    tool_since: Moment | None
    attention: Attention
    needs_person: bool
    outcome: Outcome | None
    is_seen: bool
    group: BoardGroup
    since: Moment | None
    rank: int
    crashes: Count
    is_over: bool
    until: Moment | None
    evidence: tuple[Evidence, ...]

    @property
    def is_blocked(self) -> bool:
        """Whether it cannot go on without a person. A failed turn that nobody has seen blocks nothing."""
        return self.needs_person and self.attention is not Attention.NONE
