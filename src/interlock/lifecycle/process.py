"""Process: whether an agent's process lives (lifecycle), and what a living one is doing (substate).

Laws:
1. Every event is legal in every state: unknown, late and reordered ones are never refused. So is every mark.
2. An event, and `mark_spawning`, bring `last_active` up to now. It never goes back, even if the clock does.
3. Any event of a living process means working; `done` and `error` end the turn: both axes idle, no tool in flight.
4. `killed` is left only by `mark_spawning`; until then a late event bumps `last_active` and changes nothing else.
   A killed process does nothing: its substate is idle and no tool is in flight.
5. A `tool_result` with an id ends the tool of that id and no other. One without an id ends the oldest tool without an
   id; where every open tool has one, it ends the oldest. While any is still in flight, the agent runs a tool.
6. `mark_idle` touches the substate alone, `mark_killed` never touches `last_active`, and `mark_spawning` starts afresh:
   a new process is not doing what the old one did.
7. What is relayed from a child is a sign of life and no more: a child's `done` does not end its parent's turn, and
   nothing that a child says has a parent at work that is done.
8. The tool that an agent is said to run is the one that runs longest, since it was called. Called twice is called once.
9. A step costs the same, however many tools are in flight.
10. One deadline for the countdown and for the killer: it runs while no turn is open, whatever the lifecycle says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct, structs

from interlock.lifecycle.open_tools import NO_TOOLS, OpenTool, OpenTools
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
        if type(self.type) is not AgentEventType:
            structs.force_setattr(self, "type", AgentEventType(self.type))


class Mark(StrEnum):
    """The commands: what we know of a process because we did it, or saw it exit."""

    IDLE = "mark_idle"
    KILLED = "mark_killed"
    SPAWNING = "mark_spawning"


ProcessInput: TypeAlias = AgentEvent | Mark
RELAYED: Final = "relayed"
"""The input that anything relayed from a child is: no table has an edge for it (law 7)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessState:
    """Both axes, the time of the last sign of life in seconds, and the tools in flight: those with an id, and those
    without (`unnamed`)."""

    last_active: float
    lifecycle: Lifecycle = Lifecycle.SPAWNING
    substate: AgentState = AgentState.IDLE
    tools: OpenTools = NO_TOOLS
    unnamed: OpenTools = NO_TOOLS

    def __post_init__(self) -> None:
        if self.lifecycle is Lifecycle.KILLED and (self.substate is not AgentState.IDLE or self.open_tools):
            raise ContractError(f"a killed process cannot be {self.substate.value} with {self.open_tools} in flight")

    @property
    def open_tools(self) -> int:
        """How many tools are in flight."""
        return self.tools.total + self.unnamed.total

    @property
    def running_tool(self) -> OpenTool | None:
        """The tool that the agent runs, since when; None where it does something else."""
        if self.substate is not AgentState.RUNNING_TOOL:
            return None
        return min((one for one in (self.tools.oldest, self.unnamed.oldest) if one is not None), default=None)


@dataclass(frozen=True, slots=True)
class LifecycleChanged:
    """The lifecycle moved. An input that leaves it where it is gives no such output."""

    before: Lifecycle
    after: Lifecycle


class ProcessFacts(NamedTuple):
    """What guards may ask: the lifecycle, and how many tools are in flight once the input has opened or closed its
    own."""

    lifecycle: Lifecycle
    open_tools: int


def process_lives(facts: ProcessFacts) -> bool:
    return facts.lifecycle is not Lifecycle.KILLED


def tools_are_open(facts: ProcessFacts) -> bool:
    return facts.open_tools > 0


def no_tool_is_open(facts: ProcessFacts) -> bool:
    return not tools_are_open(facts)


_TURN_ENDS: Final = (AgentEventType.DONE, AgentEventType.ERROR)
_SIGNS_OF_WORK: Final = tuple(event for event in AgentEventType if event not in _TURN_ENDS)
_LIVING: Final = (Lifecycle.SPAWNING, Lifecycle.WORKING, Lifecycle.IDLE)
_BUSY: Final = (AgentState.THINKING, AgentState.RUNNING_TOOL, AgentState.RESPONDING)


def _leads_to(on: AgentEventType, target: AgentState) -> tuple[Edge[AgentState, ProcessFacts], ...]:
    """Only the edge from idle asks whether the process lives: a killed one has no other substate (law 4)."""
    others = (state for state in _BUSY if state is not target)
    return (Edge(AgentState.IDLE, on, target, process_lives), *from_each(others, on, target))


LIFECYCLE_TRANSITIONS: Final[tuple[Edge[Lifecycle, ProcessFacts], ...]] = (
    *(Edge(Lifecycle.SPAWNING, on, Lifecycle.WORKING) for on in _SIGNS_OF_WORK),
    *(Edge(Lifecycle.IDLE, on, Lifecycle.WORKING) for on in _SIGNS_OF_WORK),
    *(Edge(Lifecycle.SPAWNING, on, Lifecycle.IDLE) for on in _TURN_ENDS),
    *(Edge(Lifecycle.WORKING, on, Lifecycle.IDLE) for on in _TURN_ENDS),
    *from_each(Lifecycle, Mark.KILLED, Lifecycle.KILLED),
    *from_each(_LIVING, Mark.SPAWNING, Lifecycle.SPAWNING),
    Edge(Lifecycle.KILLED, Mark.SPAWNING, Lifecycle.SPAWNING, reopens=True),
    *(Edge(state, Mark.IDLE, state) for state in Lifecycle),
)

SUBSTATE_TRANSITIONS: Final[tuple[Edge[AgentState, ProcessFacts], ...]] = (
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

LIFECYCLE: Final[Machine[Lifecycle, ProcessFacts]] = Machine(
    name="process.lifecycle",
    title="Whether an agent's process lives, and in what shape",
    states=Lifecycle,
    initial=Lifecycle.SPAWNING,
    edges=LIFECYCLE_TRANSITIONS,
    laws=__doc__,
    commands=frozenset(Mark),
    observations=frozenset((*AgentEventType, RELAYED)),
    terminal=frozenset({Lifecycle.KILLED}),
)

SUBSTATE: Final[Machine[AgentState, ProcessFacts]] = Machine(
    name="process.substate",
    title="What a living agent is doing",
    states=AgentState,
    initial=AgentState.IDLE,
    edges=SUBSTATE_TRANSITIONS,
    laws=__doc__,
    commands=frozenset(Mark),
    observations=frozenset((*AgentEventType, RELAYED)),
)

MACHINES: Final = (LIFECYCLE, SUBSTATE)


def step(state: ProcessState, input: ProcessInput, now: float) -> tuple[ProcessState, tuple[LifecycleChanged, ...]]:
    """Apply one event or mark. Never refuses; the output says whether the lifecycle changed."""
    on = input if isinstance(input, Mark) else RELAYED if input.sub_agent else input.type
    is_sign_of_life = not isinstance(input, Mark) or input is Mark.SPAWNING
    last_active = max(state.last_active, now) if is_sign_of_life else state.last_active
    tools, unnamed = _tools_after(state, input, last_active)
    facts = ProcessFacts(state.lifecycle, tools.total + unnamed.total)
    following = ProcessState(
        last_active=last_active,
        lifecycle=LIFECYCLE.next_state(state.lifecycle, on, facts),
        substate=SUBSTATE.next_state(state.substate, on, facts),
        tools=tools,
        unnamed=unnamed,
    )
    if following.lifecycle is state.lifecycle:
        return following, ()
    return following, (LifecycleChanged(state.lifecycle, following.lifecycle),)


def heard(state: ProcessState, now: float) -> ProcessState:
    """A sign of life that changes nothing else, such as one more piece of text (law 2)."""
    return ProcessState(
        last_active=max(state.last_active, now),
        lifecycle=state.lifecycle,
        substate=state.substate,
        tools=state.tools,
        unnamed=state.unnamed,
    )


def _tools_after(state: ProcessState, input: ProcessInput, at: float) -> tuple[OpenTools, OpenTools]:
    """The tools in flight after `input`: those with an id, and those without."""
    tools, unnamed = state.tools, state.unnamed
    if isinstance(input, Mark):
        # `mark_idle` says what to show. It proves nothing about tools, so what was in flight still is.
        return (tools, unnamed) if input is Mark.IDLE else (NO_TOOLS, NO_TOOLS)
    if input.sub_agent:
        return tools, unnamed
    match input.type:
        case AgentEventType.TOOL_USE if state.lifecycle is not Lifecycle.KILLED:
            tool = OpenTool(at, input.tool_name, input.tool_use_id)
            return (tools.opened(tool), unnamed) if tool.id else (tools, unnamed.opened(tool))
        case AgentEventType.TOOL_RESULT:
            return _without_returned(tools, unnamed, input.tool_use_id)
        case AgentEventType.DONE | AgentEventType.ERROR:
            return NO_TOOLS, NO_TOOLS
        case _:
            return tools, unnamed


def _without_returned(tools: OpenTools, unnamed: OpenTools, tool_id: str) -> tuple[OpenTools, OpenTools]:
    """Law 5."""
    if not tool_id and unnamed.oldest is not None:
        return tools, unnamed.closed(unnamed.oldest)
    returned = tools.get(tool_id) if tool_id else tools.oldest
    return (tools if returned is None else tools.closed(returned)), unnamed


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
