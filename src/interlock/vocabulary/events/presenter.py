"""Event types that are shown live and never logged."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from interlock.vocabulary.events.conversation import Count
from interlock.vocabulary.events.registry import Audience, Payload, declare
from interlock.vocabulary.evidence import Evidence, Moment
from interlock.vocabulary.ids import StreamId
from interlock.vocabulary.states import Activity, AgentState, Attention, Lifecycle


@declare("text_delta", Audience.PRESENTER)
class TextDelta(Payload, frozen=True, kw_only=True):
    """More answer text. `offset` counts the code points before it."""

    stream_id: StreamId
    offset: Count
    text: str


@declare("reasoning_delta", Audience.PRESENTER)
class ReasoningDelta(Payload, frozen=True, kw_only=True):
    """More reasoning text."""

    stream_id: StreamId
    offset: Count
    text: str


@declare("status", Audience.PRESENTER)
class Status(Payload, frozen=True, kw_only=True, omit_defaults=False):
    """What a person should see now: both axes, with proof. `idle_at`: when an agent that is not used is stopped.

    `substate` and `lifecycle` are those of its process; None: not known. `tool` is the tool that it runs, and runs
    longest where it runs several, `tool_since` when that was called; both only with the substate `running_tool`.
    """

    activity: Activity
    attention: Attention = Attention.NONE
    evidence: tuple[Evidence, ...] = ()
    idle_at: Moment | None = None
    substate: AgentState | None = None
    tool: str = ""
    tool_since: Moment | None = None
    lifecycle: Lifecycle | None = None


class PlanEntryStatus(StrEnum):
    """How far one entry of a plan is."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"


class PlanEntry(Struct, frozen=True, kw_only=True):
    """One line of the agent's plan."""

    text: str
    status: PlanEntryStatus


@declare("plan", Audience.PRESENTER)
class Plan(Payload, frozen=True, kw_only=True):
    """The agent's whole plan, each time it changes."""

    entries: tuple[PlanEntry, ...]


class PressureTier(StrEnum):
    """How full the model's context is. `unknown` where the window is not known."""

    UNKNOWN = "unknown"
    NONE = "none"
    ADVISORY = "advisory"
    WARNING = "warning"
    CRITICAL = "critical"


@declare("context_pressure", Audience.PRESENTER)
class ContextPressure(Payload, frozen=True, kw_only=True):
    """How close the conversation is to the model's limit."""

    tier: PressureTier
    used_tokens: Count | None = None
    window_tokens: Count | None = None


@declare("screen_update", Audience.PRESENTER)
class ScreenUpdate(Payload, frozen=True, kw_only=True):
    """What a terminal shows now, as plain rows."""

    rows: tuple[str, ...]
    title: str = ""
