"""The badge: all that a board says of one session. `projections/badge.py` makes it, and nothing else does."""

from __future__ import annotations

from msgspec import Struct

from interlock.vocabulary.events.conversation import Count
from interlock.vocabulary.evidence import Evidence, Moment
from interlock.vocabulary.states import Activity, AgentState, Attention, Outcome


class Badge(Struct, frozen=True, kw_only=True):
    """What a session does, whether it needs a person, and how its last turn ended.

    `substate` is said only while it works: what it works at, with the `tool` that it runs and `tool_since`. `outcome`
    is None while a turn is open or a prompt waits, and where an open turn has no owner; `unknown`: events are lost.
    `attention` without `needs_person`: it was answered, and has yet to go on. `since`: when this began; of an ended
    turn, when it ended.
    `rank`: the order of a board, the lowest first. `crashes`: how often its process died and was to be started again
    in the last hour. `is_over`: nobody runs it and nothing is left to do. `until`: when the badge changes by itself.
    """

    activity: Activity
    substate: AgentState | None
    tool: str
    tool_since: Moment | None
    attention: Attention
    needs_person: bool
    outcome: Outcome | None
    since: Moment | None
    rank: int
    crashes: Count
    is_over: bool
    until: Moment | None
    evidence: tuple[Evidence, ...]
