"""What a session is told: commands of its users, and what happened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from interlock.agents.observations import Observation
from interlock.agents.port import Capabilities, ProcessIdentity, StopReport
from interlock.vocabulary.events.audit import DeliveryStage, ReplyContract
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import PromptId, SpawnId, TurnId
from interlock.vocabulary.states import ExitReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Accept a prompt for the agent. `text` holds the instruction of its reply contract already."""

    prompt_id: PromptId
    text: str
    reply: ReplyContract | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EditQueuedPrompt:
    """Edit a queued prompt."""

    prompt_id: PromptId
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovePrompt:
    """Remove a queued prompt."""

    prompt_id: PromptId


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelTurnInput:
    """End the open turn. `turn_id`, where it is known, keeps a late cancel away from a newer turn. `is_forced`: end the
    process of an agent whose turn goes on all the same; otherwise the cancel is taken back then."""

    turn_id: TurnId | None = None
    decided_by: str = ""
    is_forced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerQuestion:
    """Decide an approval, or answer a dialog. The verdict is always named; `option` is the text of one of the offered
    ones, and must not contradict it. `from_spawn` names the agent in whose process tree it was given, if any."""

    approval_id: str
    is_allowed: bool
    option: str = ""
    text: str = ""
    data: Json = None
    decision_id: str = ""
    decided_by: str = ""
    from_spawn: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetGate:
    """Stop or go on dispatching queued prompts."""

    is_open: bool
    reason: str = ""
    decided_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartAgentInput:
    """Have the agent running, also while there is nothing to send."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopAgentInput:
    """End the agent. An open turn ends as interrupted. `is_closing`: so that nothing is started here any more."""

    reason: ExitReason = ExitReason.STOPPED
    decided_by: str = ""
    is_closing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Leave the agent running, and do nothing about it any more."""


Command: TypeAlias = (
    Send
    | EditQueuedPrompt
    | RemovePrompt
    | CancelTurnInput
    | AnswerQuestion
    | SetGate
    | StartAgentInput
    | StopAgentInput
    | Release
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStarted:
    """A spawn, or an adoption, succeeded."""

    spawn_id: SpawnId
    capabilities: Capabilities
    argv: tuple[str, ...] = ()
    process: ProcessIdentity | None = None
    where: Json = None
    is_adopted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentNotStarted:
    """No process came of a spawn. `is_hopeless`: trying again as it is would fail the same way."""

    spawn_id: SpawnId
    message: str
    is_hopeless: bool = False
    is_stale_resume: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The agent of a spawn said or showed something."""

    spawn_id: SpawnId
    seen: Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """How giving a prompt to the agent went. `stage` is `not_delivered` or `unknown` where it failed.
    `waits_for`: what kept it out, and ends without us; blank where nothing of the kind did."""

    prompt_id: PromptId
    stage: DeliveryStage
    message: str = ""
    waits_for: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """How giving a decision to the agent went; blank: it was given. `is_unknown`: it may have been, all the same."""

    request_id: str
    problem: str = ""
    is_unknown: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptOutcome:
    """How asking the agent to stop went; blank: it was asked."""

    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """The stop ladder is done."""

    spawn_id: SpawnId
    report: StopReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Attended:
    """Whether a person is at the terminal of the agent."""

    spawn_id: SpawnId
    is_attended: bool


@dataclass(frozen=True, slots=True)
class SessionTimerFired:
    """Time passed; see `SessionMachine.deadline`."""


News: TypeAlias = (  # what comes most often first: they are told apart in this order
    Observed
    | AgentStarted
    | AgentNotStarted
    | Submitted
    | Decided
    | InterruptOutcome
    | Stopped
    | Attended
    | SessionTimerFired
)
