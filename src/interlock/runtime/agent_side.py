"""What is known of the agent that runs now: nothing of it is in the log, all of it is forgotten with its process."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from interlock.agents.observations import TurnEnded
from interlock.agents.port import Capabilities
from interlock.lifecycle.process import ProcessState
from interlock.monitor.standing import Standing
from interlock.runtime.talk import Talk
from interlock.vocabulary.evidence import Evidence, EvidenceSource
from interlock.vocabulary.ids import SpawnId, StreamId
from interlock.vocabulary.presenter import Status
from interlock.vocabulary.states import Activity, Attention, ExitReason

TRACES_KEPT = 64


@dataclass(slots=True)
class AgentSide:
    """One spawn. `is_winding_down`: we ended its turn ourselves, and it has not said that it stopped. `is_spent`: it
    takes one prompt and had it. `presumed_ready_at`: it fell silent, and if it is not seen to end until then, it goes
    on."""

    spawn_id: SpawnId
    capabilities: Capabilities
    started_seconds: float
    process: ProcessState
    free_since: float | None = None
    is_adopted: bool = False
    is_ready: bool = False
    is_lost: bool = False
    is_winding_down: bool = False
    is_spent: bool = False
    presumed_ready_at: float | None = None
    stopping: ExitReason | None = None
    children: frozenset[str] = frozenset()
    settle_by_seconds: float | None = None
    standing: Standing | None = None
    traces: deque[str] = field(default_factory=lambda: deque(maxlen=TRACES_KEPT))

    @property
    def can_take_prompt(self) -> bool:
        is_free = not (self.is_winding_down or self.is_lost or self.stopping or self.children)
        return self.is_ready and is_free and (self.standing is None or self.is_seen_at_rest)

    @property
    def is_seen_at_rest(self) -> bool:
        """Quiet, and nobody is asked for anything: an error that a turn left on the screen asks for nothing."""
        seen = self.standing
        is_quiet = seen is not None and not self.is_lost and seen.activity is Activity.QUIET
        return is_quiet and seen is not None and seen.attention in (Attention.NONE, Attention.ERROR)


@dataclass(slots=True)
class OpenTurn:
    """The open turn, as far as it is not in the log. `is_taken_up`: another runtime began it, and died."""

    talk: Talk
    began_seconds: float
    deadline: float | None
    start_by: float | None
    last_sign: float
    thoughts: StreamId
    thought_offset: int = 0
    is_stalled: bool = False
    is_taken_up: bool = False
    submits: int = 0
    resubmit_at: float | None = None
    cancel_asked: bool = False
    was_asking: bool = False  # a question was open when we stopped the agent: nobody answered it
    silent: TurnEnded | None = None  # it fell silent; until `silent_by` the end of its process may say more
    silent_by: float | None = None
    interrupt_problem: str | None = None  # how the last request to stop went; blank: the agent got it
    open_tools: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Push:
    """How we get an agent to end its turn: it is asked, asked again, and then stopped. Each rung has a deadline."""

    due_seconds: float
    rung: int = 0


def status_of(
    agent: AgentSide | None, turn: OpenTurn | None, attention: Attention, *, is_spawning: bool, problem: str
) -> Status:
    """What a person should see now, with the rule that says so."""
    activity, rule = _activity(agent, turn, is_spawning=is_spawning)
    seen = None if agent is None else agent.standing
    evidence: tuple[Evidence, ...] = (Evidence(source=EvidenceSource.LOG, rule=rule),)
    if agent is not None and not agent.is_lost:
        if seen is not None and seen.evidence:
            evidence = seen.evidence
        elif seen is None:
            evidence = (Evidence(source=EvidenceSource.NATIVE_STATUS, rule=rule),)
    if attention is Attention.NONE and seen is not None:
        attention = seen.attention
    if attention is Attention.NONE and problem:
        attention, evidence = Attention.ERROR, (Evidence(source=EvidenceSource.LOG, rule="problem", where=problem),)
    return Status(activity=activity, attention=attention, evidence=evidence)


def _activity(agent: AgentSide | None, turn: OpenTurn | None, *, is_spawning: bool) -> tuple[Activity, str]:
    if agent is None:
        return (Activity.STARTING, "spawn.asked") if is_spawning else (Activity.GONE, "no_process")
    if agent.is_lost:
        return Activity.UNKNOWN, "channel_lost"
    if agent.standing is not None:
        is_settling = agent.standing.activity is Activity.QUIET and turn is None and bool(agent.children)
        return (Activity.SETTLING, "stream.children_open") if is_settling else (agent.standing.activity, "terminal")
    if turn is not None:
        return (Activity.STALLED, "stream.silent") if turn.is_stalled else (Activity.WORKING, "stream.turn_open")
    if agent.is_winding_down:
        return Activity.WORKING, "stream.winding_down"
    if agent.children:
        return Activity.SETTLING, "stream.children_open"
    return (Activity.QUIET, "stream.ready") if agent.is_ready else (Activity.STARTING, "stream.not_ready")
