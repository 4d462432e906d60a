"""Process: whether an agent's process lives (lifecycle), and what a living one is doing (substate).

Laws:
1. Every event is legal in every state: unknown, late and reordered ones are never refused. So is every mark.
2. An event, and `mark_spawning`, bring `last_active` up to now. It never goes back, even if the clock does.
3. Any event of a living process means working; `done` and `error` end the turn: both axes idle, no tool in flight.
4. `killed` is left only by `mark_spawning`; until then a late event bumps `last_active` and changes nothing else.
   A killed process does nothing: its substate is idle and no tool is in flight.
5. A `tool_result` closes the tool that it names and no other; while any is still in flight, the agent runs a tool.
   Results and uses without an id are paired by count, apart from those with one.
6. `mark_idle` touches the substate alone, `mark_killed` never touches `last_active`, and `mark_spawning` starts afresh:
   a new process is not doing what the old one did.
7. What is relayed from a child is a sign of life and no more: a child's `done` does not end its parent's turn.
8. One deadline for the countdown and for the killer: it runs while no turn is open, whatever the lifecycle says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from msgspec import Struct, structs

from interlock.lifecycle.table import Edge, Machine, from_each
from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.states import AgentState, Lifecycle


class AgentEventType(StrEnum):
    """What an agent's output may say. Any other word is read as `unknown`."""

    SESSION_START = "session_start"
    THINKING = "thinking"
    TEXT_DELTA = "text_delta"
    TOOL_USE = "tool_use"
    TOOL_RESULT = "tool_result"
    DONE = "done"
    ERROR = "error"
    WARNING = "warning"
    TRACE = "trace"
    UNKNOWN = "unknown"

    @classmethod
    def _missing_(cls, value: object) -> AgentEventType:
        return cls.UNKNOWN


class AgentEvent(Struct, frozen=True, omit_defaults=True):
    """One event of an agent's output, in the words common to all agents.

    `error` is fatal for the turn, `warning` is not; `trace` was not recognised and is kept for whoever looks closer.
    `tool_input` is JSON as the agent wrote it, `raw` the verbatim line, `sub_agent` the label of a relayed child.
    """

    type: AgentEventType
    text: str = ""
    tool_name: str = ""
    tool_input: str = ""
    tool_use_id: str = ""
    is_error: bool = False
    session_id: str = ""
    error_msg: str = ""
    raw: str = ""
    sub_agent: str = ""

    def __post_init__(self) -> None:
        # A decoder has done this already; a parser that builds the event from a foreign word has not.
        structs.force_setattr(self, "type", AgentEventType(self.type))


class Mark(StrEnum):
    """The commands: what we know of a process because we did it, or saw it exit."""

    IDLE = "mark_idle"
    KILLED = "mark_killed"
    SPAWNING = "mark_spawning"


ProcessInput: TypeAlias = AgentEvent | Mark


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessState:
    """Both axes, the time of the last sign of life in seconds, and the tools in flight: by id, or counted."""

    last_active: float
    lifecycle: Lifecycle = Lifecycle.SPAWNING
    substate: AgentState = AgentState.IDLE
    tools: frozenset[str] = frozenset()
    unnamed_tools: int = 0

    def __post_init__(self) -> None:
        is_busy = self.substate is not AgentState.IDLE or self.tools or self.unnamed_tools
        if self.lifecycle is Lifecycle.KILLED and is_busy:
            raise ContractError(f"a killed process cannot be {self.substate.value} with {self.tools} in flight")


@dataclass(frozen=True, slots=True)
class LifecycleChanged:
    """The lifecycle moved. An input that leaves it where it is gives no such output."""

    before: Lifecycle
    after: Lifecycle


@dataclass(frozen=True, slots=True)
class Facts:
    """What guards may ask: the lifecycle, and the tools in flight once the input has opened or closed its own."""

    lifecycle: Lifecycle
    tools: frozenset[str]
    unnamed_tools: int


def process_lives(facts: Facts) -> bool:
    return facts.lifecycle is not Lifecycle.KILLED


def tools_are_open(facts: Facts) -> bool:
    return bool(facts.tools) or facts.unnamed_tools > 0


def no_tool_is_open(facts: Facts) -> bool:
    return not tools_are_open(facts)


_TURN_ENDS: Final = (AgentEventType.DONE, AgentEventType.ERROR)
_SIGNS_OF_WORK: Final = tuple(event for event in AgentEventType if event not in _TURN_ENDS)
_LIVING: Final = (Lifecycle.SPAWNING, Lifecycle.WORKING, Lifecycle.IDLE)
_BUSY: Final = (AgentState.THINKING, AgentState.RUNNING_TOOL, AgentState.RESPONDING)


def _leads_to(on: AgentEventType, target: AgentState) -> tuple[Edge[AgentState, Facts], ...]:
    """Only the edge from idle asks whether the process lives: a killed one has no other substate (law 4)."""
    others = (state for state in _BUSY if state is not target)
    return (Edge(AgentState.IDLE, on, target, process_lives), *from_each(others, on, target))


LIFECYCLE_TRANSITIONS: Final[tuple[Edge[Lifecycle, Facts], ...]] = (
    *(Edge(Lifecycle.SPAWNING, on, Lifecycle.WORKING) for on in _SIGNS_OF_WORK),
    *(Edge(Lifecycle.IDLE, on, Lifecycle.WORKING) for on in _SIGNS_OF_WORK),
    *(Edge(Lifecycle.SPAWNING, on, Lifecycle.IDLE) for on in _TURN_ENDS),
    *(Edge(Lifecycle.WORKING, on, Lifecycle.IDLE) for on in _TURN_ENDS),
    *from_each(Lifecycle, Mark.KILLED, Lifecycle.KILLED),
    *from_each(_LIVING, Mark.SPAWNING, Lifecycle.SPAWNING),
    Edge(Lifecycle.KILLED, Mark.SPAWNING, Lifecycle.SPAWNING, reopens=True),
    *(Edge(state, Mark.IDLE, state) for state in Lifecycle),
)

SUBSTATE_TRANSITIONS: Final[tuple[Edge[AgentState, Facts], ...]] = (
    *_leads_to(AgentEventType.THINKING, AgentState.THINKING),
    *_leads_to(AgentEventType.TOOL_USE, AgentState.RUNNING_TOOL),
    *_leads_to(AgentEventType.TEXT_DELTA, AgentState.RESPONDING),
    *from_each(
        (AgentState.IDLE, AgentState.THINKING, AgentState.RESPONDING),
        AgentEventType.TOOL_RESULT,
        AgentState.RUNNING_TOOL,
        tools_are_open,
    ),
    Edge(AgentState.IDLE, AgentEventType.TOOL_RESULT, AgentState.RESPONDING, process_lives),
    Edge(AgentState.THINKING, AgentEventType.TOOL_RESULT, AgentState.RESPONDING),
    Edge(AgentState.RUNNING_TOOL, AgentEventType.TOOL_RESULT, AgentState.RESPONDING, no_tool_is_open),
    *from_each(_BUSY, AgentEventType.DONE, AgentState.IDLE),
    *from_each(_BUSY, AgentEventType.ERROR, AgentState.IDLE),
    *from_each(AgentState, Mark.IDLE, AgentState.IDLE),
    *from_each(AgentState, Mark.KILLED, AgentState.IDLE),
    *from_each(AgentState, Mark.SPAWNING, AgentState.IDLE),
)

LIFECYCLE: Final[Machine[Lifecycle, Facts]] = Machine(
    name="process.lifecycle",
    title="Whether an agent's process lives, and in what shape",
    states=Lifecycle,
    initial=Lifecycle.SPAWNING,
    edges=LIFECYCLE_TRANSITIONS,
    laws=__doc__,
    commands=frozenset(Mark),
    observations=frozenset(AgentEventType),
    terminal=frozenset({Lifecycle.KILLED}),
)

SUBSTATE: Final[Machine[AgentState, Facts]] = Machine(
    name="process.substate",
    title="What a living agent is doing",
    states=AgentState,
    initial=AgentState.IDLE,
    edges=SUBSTATE_TRANSITIONS,
    laws=__doc__,
    commands=frozenset(Mark),
    observations=frozenset(AgentEventType),
)

MACHINES: Final = (LIFECYCLE, SUBSTATE)


def step(state: ProcessState, input: ProcessInput, now: float) -> tuple[ProcessState, tuple[LifecycleChanged, ...]]:
    """Apply one event or mark. Never refuses; the output says whether the lifecycle changed."""
    on = input if isinstance(input, Mark) else AgentEventType.TRACE if input.sub_agent else input.type
    tools, unnamed_tools = _tools_after(state, input)
    facts = Facts(state.lifecycle, tools, unnamed_tools)
    is_sign_of_life = not isinstance(input, Mark) or input is Mark.SPAWNING
    following = ProcessState(
        last_active=max(state.last_active, now) if is_sign_of_life else state.last_active,
        lifecycle=LIFECYCLE.next_state(state.lifecycle, on, facts),
        substate=SUBSTATE.next_state(state.substate, on, facts),
        tools=tools,
        unnamed_tools=unnamed_tools,
    )
    if following.lifecycle is state.lifecycle:
        return following, ()
    return following, (LifecycleChanged(state.lifecycle, following.lifecycle),)


def _tools_after(state: ProcessState, input: ProcessInput) -> tuple[frozenset[str], int]:
    """The tools in flight after `input`: their ids, and the number of those without one."""
    tools, unnamed = state.tools, state.unnamed_tools
    if isinstance(input, Mark):
        # `mark_idle` says what to show. It proves nothing about tools, so what was in flight still is.
        return (tools, unnamed) if input is Mark.IDLE else (frozenset(), 0)
    if input.sub_agent:
        return tools, unnamed
    tool_id = input.tool_use_id
    match input.type:
        case AgentEventType.TOOL_USE if state.lifecycle is not Lifecycle.KILLED:
            return (tools | {tool_id}, unnamed) if tool_id else (tools, unnamed + 1)
        case AgentEventType.TOOL_RESULT:
            return (tools - {tool_id}, unnamed) if tool_id else (tools, max(0, unnamed - 1))
        case AgentEventType.DONE | AgentEventType.ERROR:
            return frozenset(), 0
        case _:
            return tools, unnamed


def idle_deadline(state: ProcessState, idle_timeout_seconds: float | None, *, turn_open: bool) -> float | None:
    """When an unused process is to be killed: the killer and every countdown ask here.

    None: never, as things stand. A turn is open, the process is gone, or the timeout is off (None, not above zero, or
    not finite).
    """
    if turn_open or state.lifecycle is Lifecycle.KILLED or idle_timeout_seconds is None:
        return None
    if not (math.isfinite(idle_timeout_seconds) and idle_timeout_seconds > 0):
        return None
    return state.last_active + idle_timeout_seconds


def idle_remaining_seconds(
    state: ProcessState, idle_timeout_seconds: float | None, now: float, *, turn_open: bool
) -> int | None:
    """The countdown in whole seconds, rounded up: zero exactly when the deadline is due, None when there is none."""
    deadline = idle_deadline(state, idle_timeout_seconds, turn_open=turn_open)
    return None if deadline is None else max(0, math.ceil(deadline - now))
