"""What a session wants done: appends, what is shown live, and calls to the agent. The shell does them in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from interlock.agents.port import Decision, Prompt
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.registry import Json, Payload
from interlock.vocabulary.ids import SpawnId, TurnId


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


Effect: TypeAlias = (
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
