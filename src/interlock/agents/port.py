"""The driver port: one way to start an agent, to hear it and to tell it things, whatever kind of agent it is.

Laws:
1. `spawn` either gives a handle of a living process, or raises and leaves nothing behind.
2. Every process that a driver starts carries `INTERLOCK_SPAWN_ID` in its environment and leads a process group.
3. Observations come in order, and `Exited` is the last one. Nothing that an agent prints ends the stream before it.
4. A command that was not carried out says so: `NotDelivered` where that is certain, `DeliveryUnknown` where it is not.
5. What a driver cannot do is in its capabilities; nothing downstream guesses.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from interlock.agents.observations import Observation
from interlock.screen.snapshot import Snapshot
from interlock.vocabulary.errors import PeerFault
from interlock.vocabulary.events.audit import DeliveryStage, EndedProcess, ReplyContract
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import PromptId, SpawnId, TurnId
from interlock.vocabulary.states import DriverKind


class NotDelivered(PeerFault):
    """A command did not reach the agent, and it is certain that it had no effect. It may be given again."""


class KeptOut(NotDelivered):
    """A prompt was not typed, because of something that ends without us: a person's draft in the composer, a turn that
    the agent began by itself, a dialog. It waits until that is over, which `waits_for` names."""

    def __init__(self, waits_for: str) -> None:
        super().__init__(f"nothing was typed: {waits_for}")
        self.waits_for = waits_for


class DeliveryUnknown(PeerFault):
    """A command may have reached the agent, or not. It must not be given again in silence."""


class AnswerNotTaken(DeliveryUnknown):
    """An answer was given, and what it answered is still asked, in the same words."""


class StaleResume(PeerFault):
    """The agent knows no session by the id that it was to resume. Without that id a spawn may succeed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a driver can do.

    `owns_text`: the whole answer reaches us, so that a missing one is a failure. `needs_history`: the agent remembers
    nothing itself, and each prompt brings the conversation so far. `outlives_runtime`: the process goes on when we die,
    and can be adopted. `is_one_shot`: the process takes one prompt and ends. `is_foreign`: somebody else started it,
    and only a person's own command ends it. `is_read_only`: it is watched, and told nothing.
    """

    reports_approvals: bool = False
    streams_text: bool = False
    reports_usage: bool = False
    reports_thoughts: bool = False
    owns_text: bool = True
    can_interrupt: bool = True
    can_resume: bool = False
    needs_history: bool = False
    outlives_runtime: bool = False
    is_one_shot: bool = False
    is_foreign: bool = False
    is_read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSpec:
    """What to start. `argv` is the program with the user's own arguments; the driver adds what its mode needs.

    `environment` is added to (and overrides) what the driver lets through of ours. `resume` is the agent's own session
    id. `options` are the driver's own, each documented by it; a driver refuses one that it does not know. `forgotten`
    are variables that the agent was opened with, and whose values nobody knows any more: it is not started without.
    """

    agent: str
    driver: str
    argv: tuple[str, ...] = ()
    cwd: str = "."
    environment: Mapping[str, str] = field(default_factory=dict)
    model: str = ""
    resume: str = ""
    options: Mapping[str, Json] = field(default_factory=dict)
    forgotten: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process and no other: numbers are used again, a pid with its start time is not."""

    pid: int
    start_time: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What to submit. `history` is the conversation before it, for drivers that need it. `reply`: the form that its
    answer must have, for drivers that watch for the end of it; the text says so to the agent."""

    prompt_id: PromptId
    turn_id: TurnId
    text: str
    history: Sequence[Json] = ()
    reply: ReplyContract | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The answer to an `ApprovalAsked`. `option_id` or `option_label` where one of its options was chosen; `text` is
    what a person wrote (an answer, or why not); `data` is whatever else the question's schema asks for."""

    request_id: str
    is_allowed: bool
    option_id: str = ""
    option_label: str = ""
    text: str = ""
    data: Json = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReport:
    """What a stop ended, and what it could not end."""

    ended: tuple[EndedProcess, ...] = ()
    survivors: tuple[EndedProcess, ...] = ()


class AgentHandle(Protocol):
    """One living agent. Commands may be given from any task; one task reads the observations."""

    @property
    def spawn_id(self) -> SpawnId: ...

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def argv(self) -> tuple[str, ...]:
        """What was really started, whole: the log masks it."""
        ...

    @property
    def process(self) -> ProcessIdentity | None:
        """The agent's own process; None where there is none (a model API)."""
        ...

    @property
    def where(self) -> Json:
        """How to find the agent again after our death; None where it does not outlive us."""
        ...

    def observations(self) -> AsyncIterator[Observation]:
        """Everything from the start of the process, to be read by one task, once."""
        ...

    async def submit(self, prompt: Prompt) -> DeliveryStage:
        """Give the agent a prompt, and return how far it is known to have got (further news: `PromptReached`)."""
        ...

    async def interrupt(self) -> None:
        """Ask the agent to end its turn and stay. That it did shows as `TurnEnded`, or does not show."""
        ...

    async def decide(self, decision: Decision) -> None:
        """Answer a question. That the agent took it shows as `ApprovalGone`, or by what it does next."""
        ...

    async def stop(self) -> StopReport:
        """End the agent and everything that it started: the stop ladder, then the census. Safe to call twice."""
        ...

    async def release(self) -> None:
        """Let go of an agent that outlives us, and leave it running. For any other kind this is `stop`."""
        ...


@runtime_checkable
class HasTerminal(Protocol):
    """An agent at whose terminal a person may be."""

    async def is_attended(self) -> bool:
        """Whether a person is there. `Unreachable` where that cannot be told."""
        ...


@runtime_checkable
class GivesUpClaim(Protocol):
    """An agent that bears the mark of its home."""

    async def disown(self) -> None:
        """Take the mark off one that somebody else started; any other keeps it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenSeen:
    """What an agent's terminal showed when it was last looked at, by the monotonic clock. `problem`: why nobody sees it
    now; while that is blank, it shows this still."""

    snapshot: Snapshot
    captured_at_seconds: float
    problem: str = ""


@runtime_checkable
class ShowsScreen(Protocol):
    """An agent whose terminal is watched."""

    @property
    def screen(self) -> ScreenSeen | None:
        """The last look at it; None before the first one."""
        ...


class Driver(Protocol):
    """One way to run one kind of agent."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> DriverKind: ...

    @property
    def capabilities(self) -> Capabilities: ...

    async def spawn(self, spec: AgentSpec, spawn_id: SpawnId) -> AgentHandle:
        """Start an agent. `UsageError` for a spec that cannot work, `PeerFault` for a program that did not start."""
        ...


class Adopter(Protocol):
    """A driver whose agents outlive us, and who finds them again."""

    async def adopt(self, spec: AgentSpec, spawn_id: SpawnId, where: Json) -> AgentHandle:
        """Take up a living agent. `PeerFault` if that very process is gone, `Unreachable` where nobody can tell."""
        ...
