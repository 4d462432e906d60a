"""What an agent says or shows, in the words common to every driver.

A driver translates and does not judge: what it cannot read is `Traced`, what surprises it is `Warned`. Observations of
one agent come in the order in which the agent made them. `sub_agent` names the child whose output is relayed; such an
observation is a sign of life of the parent and nothing more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from interlock.lifecycle.process import AgentEvent, AgentEventType
from interlock.monitor.arbitration.agent_status import Standing
from interlock.vocabulary.events.audit import DeliveryStage, SurfaceEvent
from interlock.vocabulary.events.audit import UsageScope as UsageScope
from interlock.vocabulary.events.conversation import CompactionTrigger, ToolError
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.evidence import EvidenceSource
from interlock.vocabulary.ids import TurnId
from interlock.vocabulary.states import Activity, Attention

TRACE_MAX_CHARACTERS: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionNamed:
    """The agent named its own session. Told once a spawn, and again only if the name changes."""

    native_session_id: str
    model: str = ""
    version: str = ""
    transcript_path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BecameReady:
    """The agent takes a prompt now. A driver without such a sign says it once it is started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptReached:
    """How far the prompt that was submitted last is known to have got."""

    stage: DeliveryStage


@dataclass(frozen=True, slots=True, kw_only=True)
class TextArrived:
    """More text of the message that is being written."""

    text: str
    message_id: str = ""
    sub_agent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextVoided:
    """The attempt that wrote the current message is dead, and the agent tries again: none of its text counts."""

    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageEnded:
    """A message is whole. `text` is all of it, also where it came in pieces before."""

    text: str
    message_id: str = ""
    model: str = ""
    sub_agent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThoughtArrived:
    """More reasoning text."""

    text: str
    sub_agent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningKept:
    """An opaque reasoning item that the same model wants to see again."""

    item: Json
    model: str
    dialect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCalled:
    """The agent asked for a tool, or is running one. The same id again while it is open is a repeat."""

    call_id: str
    name: str
    args: Json = None
    sub_agent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReturned:
    """A tool call has its result."""

    call_id: str
    output: Json = None
    error: ToolError | None = None
    sub_agent: str = ""


class OptionKind(StrEnum):
    """What choosing an option means, where the agent says so."""

    ALLOW_ONCE = "allow_once"
    ALLOW_ALWAYS = "allow_always"
    REJECT_ONCE = "reject_once"
    REJECT_ALWAYS = "reject_always"
    CHOICE = "choice"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalOption:
    """One of the answers that an agent offers. `id` is the agent's own word for it, `label` what a person reads."""

    label: str
    id: str = ""
    kind: OptionKind = OptionKind.CHOICE


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalAsked:
    """The agent waits for a decision. `call_id` names the tool call it is about; blank: it is about none that is known.

    `request_id` is the driver's own, unique within the spawn; `decide` answers by it. `problem`: why it is asked again.
    """

    request_id: str
    call_id: str = ""
    name: str = ""
    args: Json = None
    attention: Attention = Attention.APPROVAL
    question: str = ""
    options: tuple[ApprovalOption, ...] = ()
    response_schema: Json = None
    sub_agent: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalGone:
    """The question is not open any more. `is_answered`: the agent acted on an answer; else it took it back."""

    request_id: str
    is_answered: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReported:
    """What was used. A figure that was not reported is None, never zero."""

    scope: UsageScope
    model: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextFilled:
    """How full the model's context is."""

    used_tokens: int | None = None
    window_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryCompacted:
    """The conversation before the open turn was replaced by this summary, to make room. Told before it is used."""

    summary: str
    strategy: str
    trigger: CompactionTrigger
    limitations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryBegun:
    """The agent tries a model call again. The turn goes on; text of the dead attempt is voided by `TextVoided`."""

    message: str
    attempt: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildrenChanged:
    """The background work that is open now (agents, shells), by the agent's own names. All of it, each time."""

    open: frozenset[str]


class TurnEnding(StrEnum):
    """How the agent itself says that a turn ended. `silent`: it stopped without a word (the stream just ended)."""

    NATURAL = "natural"
    ERROR = "error"
    INTERRUPTED = "interrupted"
    STOPPED = "stopped"
    SILENT = "silent"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnded:
    """The agent is done with the prompt. `text`: the whole answer, where the agent repeats it; None where it does not.

    `stop_code` belongs to `stopped`: which limit it was (`max_rounds`, `token_budget`, ...). `turn_id`: whose prompt it
    was, where the driver can tell that from the next one; blank for a turn that we did not begin, None where unknown.
    `surface`: what the screen showed then, and what the end rests on, where a terminal was read.
    """

    ending: TurnEnding
    turn_id: TurnId | None = None
    text: str | None = None
    error_kind: str = ""
    error_message: str = ""
    stop_code: str = ""
    details: Json = None
    surface: SurfaceEvent | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingSeen:
    """What a watched terminal amounts to, on an edge of either axis. `rows` are those that decided, at most 2 KB."""

    standing: Standing
    rows: str = ""
    frame_sha256: str = ""
    profile: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposerSeen:
    """Whether a draft that we did not type stands in the composer of a terminal. Told on edges; before the first one
    there is none. The draft itself is not told."""

    has_draft: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenLeft:
    """What the terminal of an agent showed last. Told once, right before its end."""

    rows: str
    columns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Progressed:
    """A terminal, or a file of its agent, shows that the agent got on with its turn. Told about once a second."""

    source: EvidenceSource
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsSeen:
    """The tools that the agent is proven to run now, by id and name. All of them, each time.

    It says what a working agent works at. It is not the record of a call, which `ToolCalled` is.
    """

    open: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned:
    """Something surprising, which does not end the turn. It becomes an anomaly in the log."""

    kind: str
    message: str = ""
    details: Json = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """A line that the driver does not know, cut to `TRACE_MAX_CHARACTERS`. It is a sign of life."""

    raw: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelLost:
    """We cannot see the agent any more, and do not know whether it lives. Nothing is claimed about it from here on."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Exited:
    """The process ended: always the last observation of a handle. `code` None and `signal` None: nobody saw how."""

    code: int | None = None
    signal: int | None = None
    stderr_tail: str = ""
    is_oom: bool = False
    is_stale_resume: bool = False


Observation: TypeAlias = (
    SessionNamed
    | BecameReady
    | PromptReached
    | TextArrived
    | TextVoided
    | MessageEnded
    | ThoughtArrived
    | ReasoningKept
    | ToolCalled
    | ToolReturned
    | ApprovalAsked
    | ApprovalGone
    | UsageReported
    | ContextFilled
    | HistoryCompacted
    | RetryBegun
    | ChildrenChanged
    | TurnEnded
    | StandingSeen
    | ComposerSeen
    | ScreenLeft
    | Progressed
    | ToolsSeen
    | Warned
    | Traced
    | ChannelLost
    | Exited
)


# What a watched terminal proves of its process: that it works, not at what; or that it is at rest.
_STANDING_EVENTS: Final[Mapping[Activity, AgentEvent]] = {
    Activity.WORKING: AgentEvent(AgentEventType.UNKNOWN),
    Activity.SETTLING: AgentEvent(AgentEventType.DONE),
    Activity.QUIET: AgentEvent(AgentEventType.DONE),
}


def traced(raw: str | bytes) -> Traced:
    """Keep the beginning of what could not be read."""
    text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw
    return Traced(raw=text[:TRACE_MAX_CHARACTERS])


def agent_event(seen: Observation) -> AgentEvent | None:
    """The observation in the words of the process machine; None for what says nothing of what the agent does.

    That it is ready, or seen at rest, is what `done` means to that machine: no tool is in flight, and nothing is
    worked on. Figures and the ledger of its background work say neither.
    """
    kind = AgentEventType
    match seen:
        case TextArrived(text=text, sub_agent=child):
            return AgentEvent(kind.TEXT_DELTA, text=text, sub_agent=child)
        case ChannelLost() | Exited() | UsageReported() | ContextFilled() | ChildrenChanged() | ApprovalGone():
            return None
        case Progressed() | ToolsSeen() | ComposerSeen() | ScreenLeft():
            return None
        case StandingSeen(standing=standing):
            return _STANDING_EVENTS.get(standing.activity)
        case BecameReady():
            return AgentEvent(kind.DONE)
        case SessionNamed(native_session_id=name):
            return AgentEvent(kind.SESSION_START, session_id=name)
        case TurnEnded(ending=ending, error_message=message):
            is_good = ending in (TurnEnding.NATURAL, TurnEnding.INTERRUPTED)
            return AgentEvent(kind.DONE) if is_good else AgentEvent(kind.ERROR, error_msg=message)
        case Warned(message=message) | RetryBegun(message=message):
            return AgentEvent(kind.WARNING, text=message)
        case Traced(raw=raw):
            return AgentEvent(kind.TRACE, raw=raw)
        case _:
            return _work_event(seen)


def _work_event(seen: Observation) -> AgentEvent:
    kind = AgentEventType
    match seen:
        case ThoughtArrived(text=text, sub_agent=child):
            return AgentEvent(kind.THINKING, text=text, sub_agent=child)
        case MessageEnded(text=text, sub_agent=child):
            return AgentEvent(kind.TEXT_DELTA, text=text, sub_agent=child)
        case ToolCalled(call_id=call_id, name=name, sub_agent=child):
            return AgentEvent(kind.TOOL_USE, tool_name=name, tool_use_id=call_id, sub_agent=child)
        case ToolReturned(call_id=call_id, error=error, sub_agent=child):
            return AgentEvent(kind.TOOL_RESULT, tool_use_id=call_id, is_error=error is not None, sub_agent=child)
        case _:
            return AgentEvent(kind.UNKNOWN)
