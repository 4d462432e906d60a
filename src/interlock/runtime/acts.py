"""What a conductor is told, and what it tells its shell to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from interlock.agents.observations import Observation
from interlock.agents.port import Capabilities, Decision, ProcessIdentity, Prompt, StopReport
from interlock.vocabulary.audit import DeliveryStage
from interlock.vocabulary.events import Event
from interlock.vocabulary.ids import PromptId, SpawnId, TurnId
from interlock.vocabulary.registry import Json, Payload
from interlock.vocabulary.states import ExitReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Accept a prompt for the agent."""

    prompt_id: PromptId
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EditPrompt:
    """Change a prompt that waits."""

    prompt_id: PromptId
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovePrompt:
    """Take back a prompt that waits."""

    prompt_id: PromptId


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """End the open turn. `turn_id`, where it is known, keeps a late cancel away from a newer turn."""

    turn_id: TurnId | None = None
    decided_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Decide an approval, or answer a dialog. `option` is the text of one of the offered ones."""

    approval_id: str
    is_allowed: bool = True
    option: str = ""
    text: str = ""
    data: Json = None
    decision_id: str = ""
    decided_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetGate:
    """Stop or go on dispatching queued prompts."""

    is_open: bool
    reason: str = ""
    decided_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Have the agent running, also while there is nothing to send."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """End the agent. An open turn ends as interrupted. `is_closing`: so that nothing is started here any more."""

    reason: ExitReason = ExitReason.STOPPED
    decided_by: str = ""
    is_closing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Leave the agent running, and do nothing about it any more."""


Command: TypeAlias = Send | EditPrompt | RemovePrompt | Cancel | Answer | SetGate | Start | Stop | Release


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
    """How giving a prompt to the agent went. `stage` is `not_delivered` or `unknown` where it failed."""

    prompt_id: PromptId
    stage: DeliveryStage
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """How giving a decision to the agent went; blank: it was given. `is_unknown`: it may have been, all the same."""

    request_id: str
    problem: str = ""
    is_unknown: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted:
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
class TimerFired:
    """Time passed; see `Conductor.deadline`."""


News: TypeAlias = (
    AgentStarted | AgentNotStarted | Observed | Submitted | Decided | Interrupted | Stopped | Attended | TimerFired
)


@dataclass(frozen=True, slots=True)
class Append:
    """Write these events, all or none, durably, before anything that follows."""

    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Publish:
    """Show this live. It is never logged."""

    data: Payload
    turn_id: TurnId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpawnAgent:
    """Start the agent; the answer is `AgentStarted` or `AgentNotStarted`."""

    spawn_id: SpawnId
    resume: str = ""


@dataclass(frozen=True, slots=True)
class SubmitPrompt:
    """Give the agent a prompt; the answer is `Submitted`."""

    prompt: Prompt


@dataclass(frozen=True, slots=True)
class InterruptAgent:
    """Ask the agent to end its turn; the answer is `Interrupted`."""


@dataclass(frozen=True, slots=True)
class DecideForAgent:
    """Give the agent a decision; the answer is `Decided`."""

    decision: Decision


@dataclass(frozen=True, slots=True)
class AskAttended:
    """Ask whether a person is at the agent's terminal; the answer is `Attended`."""


@dataclass(frozen=True, slots=True)
class StopAgent:
    """End the agent with everything it started; the answer is `Stopped`, and `Exited` is observed before it. One that
    is being started is not started: the answer is `AgentNotStarted`, or `AgentStarted` where that came too late."""


@dataclass(frozen=True, slots=True)
class Confirm:
    """The command that was given is done, as far as it is up to us. `result` is what its giver asked for."""

    result: Json = None


@dataclass(frozen=True, slots=True)
class Refuse:
    """The command that was given cannot be done, and changed nothing."""

    message: str
    remedy: str = ""


Act: TypeAlias = (
    Append
    | Publish
    | SpawnAgent
    | SubmitPrompt
    | InterruptAgent
    | DecideForAgent
    | AskAttended
    | StopAgent
    | Confirm
    | Refuse
)
