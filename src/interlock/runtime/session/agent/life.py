"""The agent's life, as its session sees it: asked for, started, ready, busy, stopping, gone.

Laws:
1. One agent a session: a process is asked for only while none runs, starts or is being stopped.
2. `ready` is the agent's own word, or what its terminal shows. An agent that fell silent is taken for ready only after
   a wait, and one that was started for a single prompt never is again.
3. A turn that we closed ourselves leaves the agent winding down until it says, or shows, that it stopped.
4. The way from a request to stop to a kill has two rungs, each with a deadline: ask, ask again, stop the process. A
   forced request asks once. Whether the last step may be taken is decided by the session: a person's request that was
   not forced ends there.
5. A lost channel claims nothing: what was known of the agent is kept, and counts again once it is heard.
6. `stopping` is left only by the end of the process, and with a process all that was known of it ends: the next one
   starts with an open channel, an empty composer and on no rung.
7. Background work that a turn left behind holds back a prompt for `settle_seconds`, and no longer, whether the agent
   told of it or its screen shows it. What was waited for holds back nothing until the agent was seen without any.
8. While a person's draft stands in the composer the agent takes no prompt. A composer that was cleared is free only
   after a moment: a draft that was submitted leaves it empty before the work that it began shows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import ClassVar, Final, TypeAlias, assert_never

from interlock.agents.port import Capabilities
from interlock.lifecycle.table import Edge, Machine, from_each
from interlock.monitor.arbitration.agent_status import Standing
from interlock.runtime.deadlines import earliest
from interlock.runtime.policy import RunPolicy
from interlock.vocabulary.ids import SpawnId
from interlock.vocabulary.states import Activity, Attention, ExitReason

# The work that a submitted draft began shows within a fraction of this.
_COMPOSER_SETTLES_SECONDS: Final = 1.0


class AgentStage(StrEnum):
    """Where the agent's process stands, and whether it takes a prompt."""

    ABSENT = "absent"
    BACKING_OFF = "backing_off"
    SPAWNING = "spawning"
    ABORTING = "aborting"
    STARTING = "starting"
    READY = "ready"
    BUSY = "busy"
    SILENT = "silent"
    WINDING_DOWN = "winding_down"
    SPENT = "spent"
    STOPPING = "stopping"


class AgentChannel(StrEnum):
    """Whether the agent can be heard."""

    OPEN = "open"
    LOST = "lost"


class StopRung(StrEnum):
    """How far we are in making the agent end its turn. `asked_last`: the next deadline stops the process."""

    NONE = "none"
    ASKED = "asked"
    ASKED_LAST = "asked_last"


class Composer(StrEnum):
    """Whether a person's draft stands in the composer. `clearing`: it is gone, since a moment ago."""

    FREE = "free"
    TAKEN = "taken"
    CLEARING = "clearing"


# Inputs


@dataclass(frozen=True, slots=True)
class SpawnRequested:
    """We ask for a process."""

    on: ClassVar[str] = "spawn_requested"
    spawn_id: SpawnId


@dataclass(frozen=True, slots=True)
class RestartPlanned:
    """We will ask for a process at this time."""

    on: ClassVar[str] = "restart_planned"
    at_seconds: float


@dataclass(frozen=True, slots=True)
class Started:
    """A process runs. An adopted one was not asked for by us."""

    on: ClassVar[str] = "started"
    spawn_id: SpawnId
    capabilities: Capabilities
    is_adopted: bool = False


@dataclass(frozen=True, slots=True)
class SpawnFailed:
    """No process came of our request."""

    on: ClassVar[str] = "spawn_failed"
    spawn_id: SpawnId


@dataclass(frozen=True, slots=True)
class ReadySeen:
    """The agent said that it takes a prompt."""

    on: ClassVar[str] = "ready_seen"


@dataclass(frozen=True, slots=True)
class RestSeen:
    """The agent's terminal shows that it is at rest."""

    on: ClassVar[str] = "rest_seen"


@dataclass(frozen=True, slots=True)
class TurnBegan:
    """The agent was given a prompt, or began something by itself."""

    on: ClassVar[str] = "turn_began"
    is_prompted: bool


@dataclass(frozen=True, slots=True)
class TurnReported:
    """The agent is done with its prompt, by its own word or, if not `is_told`, by its silence alone."""

    on: ClassVar[str] = "turn_reported"
    is_told: bool


@dataclass(frozen=True, slots=True)
class TurnClosed:
    """We wrote the end of the turn. `is_at_rest`: the agent is known to do nothing any more."""

    on: ClassVar[str] = "turn_closed"
    is_at_rest: bool


@dataclass(frozen=True, slots=True)
class InterruptRequested:
    """We want the agent to end its turn. `is_forced`: and its process, if it does not."""

    on: ClassVar[str] = "interrupt_requested"
    is_forced: bool = False


@dataclass(frozen=True, slots=True)
class InterruptWithdrawn:
    """We do not want it any more: the request never reached the agent."""

    on: ClassVar[str] = "interrupt_withdrawn"


@dataclass(frozen=True, slots=True)
class InterruptAnswered:
    """How asking the agent went; blank: it was asked."""

    on: ClassVar[str] = "interrupt_answered"
    problem: str = ""


@dataclass(frozen=True, slots=True)
class StopRequested:
    """We stop the process, for this reason."""

    on: ClassVar[str] = "stop_requested"
    reason: ExitReason


@dataclass(frozen=True, slots=True)
class ChildrenSeen:
    """The background work that is open now."""

    on: ClassVar[str] = "children_seen"
    open: frozenset[str]


@dataclass(frozen=True, slots=True)
class StandingShown:
    """What the agent's terminal amounts to now."""

    on: ClassVar[str] = "standing_shown"
    standing: Standing


@dataclass(frozen=True, slots=True)
class ChannelBroke:
    """We cannot hear the agent any more."""

    on: ClassVar[str] = "channel_broke"


@dataclass(frozen=True, slots=True)
class Heard:
    """The agent did something that only an agent on an open channel can."""

    on: ClassVar[str] = "heard"


@dataclass(frozen=True, slots=True)
class DraftAppeared:
    """A draft that we did not type stands in the composer."""

    on: ClassVar[str] = "draft_appeared"


@dataclass(frozen=True, slots=True)
class DraftGone:
    """The composer is empty again, or holds what we typed."""

    on: ClassVar[str] = "draft_gone"


@dataclass(frozen=True, slots=True)
class CountdownRestarted:
    """The idle countdown begins anew."""

    on: ClassVar[str] = "countdown_restarted"


@dataclass(frozen=True, slots=True)
class AgentDeadlinePassed:
    """The time came for whichever deadline is due."""

    on: ClassVar[str] = "deadline_passed"


@dataclass(frozen=True, slots=True)
class AgentExited:
    """The process ended."""

    on: ClassVar[str] = "exited"


StageInput: TypeAlias = (
    SpawnRequested
    | RestartPlanned
    | Started
    | SpawnFailed
    | ReadySeen
    | RestSeen
    | TurnBegan
    | TurnReported
    | TurnClosed
    | StopRequested
    | AgentExited
)
LifeInput: TypeAlias = (
    StageInput
    | InterruptRequested
    | InterruptWithdrawn
    | InterruptAnswered
    | ChildrenSeen
    | StandingShown
    | ChannelBroke
    | Heard
    | DraftAppeared
    | DraftGone
    | CountdownRestarted
    | AgentDeadlinePassed
)


class LifeOutput(StrEnum):
    """What the session must do, or write down, because of a step."""

    INTERRUPT = "interrupt"
    STOP = "stop"
    LADDER_ENDED = "ladder_ended"
    RESTART_DUE = "restart_due"
    CHILDREN_FORGOTTEN = "children_forgotten"


# The state


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLife:
    """One session's agent. Deadlines are in the seconds of `Instant`. `interrupts`: how often the open turn's agent was
    asked to stop; `was_interrupted`: at least one of these requests reached it. `is_forced`: its process may be ended
    for it."""

    stage: AgentStage = AgentStage.ABSENT
    channel: AgentChannel = AgentChannel.OPEN
    rung: StopRung = StopRung.NONE
    composer: Composer = Composer.FREE
    spawn_id: SpawnId | None = None
    capabilities: Capabilities = field(default_factory=Capabilities)
    started_seconds: float = 0.0
    is_adopted: bool = False
    had_prompt: bool = False
    stop_reason: ExitReason | None = None
    children: frozenset[str] = frozenset()
    standing: Standing | None = None
    has_waited_for_children: bool = False
    free_since_seconds: float | None = None
    interrupts: int = 0
    was_interrupted: bool = False
    is_forced: bool = False
    interrupt_problem: str = ""
    restart_at_seconds: float | None = None
    presume_ready_at_seconds: float | None = None
    settle_by_seconds: float | None = None
    rung_due_seconds: float | None = None
    composer_free_at_seconds: float | None = None

    @property
    def deadline(self) -> float | None:
        """The next of its deadlines."""
        return earliest(
            self.rung_due_seconds,
            self.restart_at_seconds,
            self.settle_by_seconds,
            self.presume_ready_at_seconds,
            self.composer_free_at_seconds,
        )

    @property
    def is_running(self) -> bool:
        """Whether there is a process."""
        return self.stage in RUNNING

    @property
    def is_used_up(self) -> bool:
        """Whether this process takes no further prompt, whatever it does."""
        return self.capabilities.is_one_shot and self.had_prompt

    @property
    def is_lost(self) -> bool:
        return self.channel is AgentChannel.LOST

    @property
    def is_ready(self) -> bool:
        return self.stage is AgentStage.READY

    @property
    def is_seen_at_rest(self) -> bool:
        """Quiet, and nothing is asked. An error that a turn left on the screen asks for nothing, and background work
        counts no more once it was waited for."""
        shown = self.standing
        if shown is None or self.is_lost or shown.attention not in (Attention.NONE, Attention.ERROR):
            return False
        is_settled = shown.activity is Activity.SETTLING and self.has_waited_for_children
        return shown.activity is Activity.QUIET or is_settled

    @property
    def can_take_prompt(self) -> bool:
        return self._is_free and self.composer is Composer.FREE

    @property
    def is_kept_by_draft(self) -> bool:
        """Whether it would take a prompt, but for a person's draft."""
        return self._is_free and self.composer is Composer.TAKEN

    @property
    def _is_free(self) -> bool:
        is_free = self.is_ready and not self.is_lost and not self.children
        return is_free and (self.standing is None or self.is_seen_at_rest)


RUNNING: Final = (
    AgentStage.STARTING,
    AgentStage.READY,
    AgentStage.BUSY,
    AgentStage.SILENT,
    AgentStage.WINDING_DOWN,
    AgentStage.SPENT,
    AgentStage.STOPPING,
)
_UNSTOPPED: Final = tuple(stage for stage in RUNNING if stage is not AgentStage.STOPPING)
_GONE: Final = (AgentStage.ABSENT, AgentStage.BACKING_OFF)


@dataclass(frozen=True, slots=True)
class AgentFacts:
    """What guards may ask."""

    life: AgentLife
    input: LifeInput


def is_expected(facts: AgentFacts) -> bool:
    given = facts.input
    return isinstance(given, Started) and (given.is_adopted or given.spawn_id == facts.life.spawn_id)


def is_adopted(facts: AgentFacts) -> bool:
    return isinstance(facts.input, Started) and facts.input.is_adopted


def is_of_this_spawn(facts: AgentFacts) -> bool:
    return isinstance(facts.input, SpawnFailed) and facts.input.spawn_id == facts.life.spawn_id


def takes_no_further_prompt(facts: AgentFacts) -> bool:
    return facts.life.is_used_up


def was_told(facts: AgentFacts) -> bool:
    return isinstance(facts.input, TurnReported) and facts.input.is_told


def is_at_rest(facts: AgentFacts) -> bool:
    return isinstance(facts.input, TurnClosed) and facts.input.is_at_rest


def is_at_rest_and_used_up(facts: AgentFacts) -> bool:
    return is_at_rest(facts) and facts.life.is_used_up


def is_forced(facts: AgentFacts) -> bool:
    return facts.life.is_forced


def can_interrupt(facts: AgentFacts) -> bool:
    return facts.life.capabilities.can_interrupt


def stays(stages: tuple[AgentStage, ...], on: str) -> tuple[Edge[AgentStage, AgentFacts], ...]:
    """A command that is legal and moves nothing."""
    return tuple(Edge(stage, on, stage) for stage in stages)


_S: Final = AgentStage
_WORKED: Final = (_S.STARTING, _S.READY, _S.BUSY, _S.SILENT, _S.WINDING_DOWN)
_UNMOVED_BY_A_CLOSE: Final[tuple[AgentStage, ...]] = tuple(stage for stage in _S if stage not in (_S.BUSY, _S.SILENT))
PRESUMED_READY, RESTART_DUE = "presumed_ready", "restart_due"

LIFE_TRANSITIONS: Final[tuple[Edge[AgentStage, AgentFacts], ...]] = (
    *from_each(_GONE, SpawnRequested.on, _S.SPAWNING),
    Edge(_S.ABSENT, RestartPlanned.on, _S.BACKING_OFF),
    *from_each(_GONE, Started.on, _S.STARTING, is_adopted),
    *from_each((_S.SPAWNING, _S.ABORTING), Started.on, _S.STARTING, is_expected),
    *from_each((_S.SPAWNING, _S.ABORTING), SpawnFailed.on, _S.ABSENT, is_of_this_spawn),
    Edge(_S.WINDING_DOWN, ReadySeen.on, _S.SPENT, takes_no_further_prompt),
    *from_each((_S.STARTING, _S.SILENT, _S.WINDING_DOWN), ReadySeen.on, _S.READY),
    Edge(_S.WINDING_DOWN, RestSeen.on, _S.SPENT, takes_no_further_prompt),
    Edge(_S.WINDING_DOWN, RestSeen.on, _S.READY),
    *from_each((_S.STARTING, _S.READY, _S.SILENT), TurnBegan.on, _S.BUSY),
    *from_each((_S.BUSY, _S.WINDING_DOWN), TurnReported.on, _S.SPENT, takes_no_further_prompt),
    *from_each(_WORKED, TurnReported.on, _S.READY, was_told),
    *from_each(_WORKED, TurnReported.on, _S.SILENT),
    Edge(_S.BUSY, TurnClosed.on, _S.SPENT, is_at_rest_and_used_up),
    Edge(_S.BUSY, TurnClosed.on, _S.READY, is_at_rest),
    Edge(_S.SILENT, TurnClosed.on, _S.SILENT, is_at_rest),
    *from_each((_S.BUSY, _S.SILENT), TurnClosed.on, _S.WINDING_DOWN),
    *stays(_UNMOVED_BY_A_CLOSE, TurnClosed.on),
    Edge(_S.SILENT, PRESUMED_READY, _S.READY),
    Edge(_S.BACKING_OFF, RESTART_DUE, _S.ABSENT),
    Edge(_S.BACKING_OFF, StopRequested.on, _S.ABSENT),
    Edge(_S.SPAWNING, StopRequested.on, _S.ABORTING),
    *from_each(_UNSTOPPED, StopRequested.on, _S.STOPPING),
    *stays((_S.ABSENT, _S.ABORTING, _S.STOPPING), StopRequested.on),
    *from_each(RUNNING, AgentExited.on, _S.ABSENT),
)

LIFE: Final[Machine[AgentStage, AgentFacts]] = Machine(
    name="agent",
    title="The agent of a session: from the request for its process to its end",
    states=AgentStage,
    initial=AgentStage.ABSENT,
    edges=LIFE_TRANSITIONS,
    laws=__doc__,
    commands=frozenset({SpawnRequested.on, RestartPlanned.on, TurnBegan.on, TurnClosed.on, StopRequested.on}),
    observations=frozenset(
        {
            Started.on,
            SpawnFailed.on,
            ReadySeen.on,
            RestSeen.on,
            TurnReported.on,
            PRESUMED_READY,
            RESTART_DUE,
            AgentExited.on,
        }
    ),
)

CHANNEL: Final[Machine[AgentChannel, AgentFacts]] = Machine(
    name="agent.channel",
    title="Whether the agent of a session can be heard",
    states=AgentChannel,
    initial=AgentChannel.OPEN,
    edges=(
        Edge(AgentChannel.OPEN, ChannelBroke.on, AgentChannel.LOST),
        Edge(AgentChannel.LOST, Heard.on, AgentChannel.OPEN),
        Edge(AgentChannel.LOST, StandingShown.on, AgentChannel.OPEN),
    ),
    laws=__doc__,
    observations=frozenset({ChannelBroke.on, Heard.on, StandingShown.on}),
)

COMPOSER_SETTLED: Final = "composer_settled"

COMPOSER: Final[Machine[Composer, AgentFacts]] = Machine(
    name="agent.composer",
    title="Whether a person's draft stands in the composer of a session's agent",
    states=Composer,
    initial=Composer.FREE,
    edges=(
        *from_each((Composer.FREE, Composer.CLEARING), DraftAppeared.on, Composer.TAKEN),
        Edge(Composer.TAKEN, DraftGone.on, Composer.CLEARING),
        Edge(Composer.CLEARING, COMPOSER_SETTLED, Composer.FREE),
    ),
    laws=__doc__,
    observations=frozenset({DraftAppeared.on, DraftGone.on, COMPOSER_SETTLED}),
)

RUNG_DUE: Final = "rung_due"
SPENT_AT_REST: Final = "spent_at_rest"
RESTED: Final = "rested"

LADDER: Final[Machine[StopRung, AgentFacts]] = Machine(
    name="agent.ladder",
    title="How the agent of a session is made to end a turn",
    states=StopRung,
    initial=StopRung.NONE,
    edges=(
        Edge(StopRung.NONE, InterruptRequested.on, StopRung.ASKED, can_interrupt),
        Edge(StopRung.NONE, InterruptRequested.on, StopRung.ASKED_LAST),
        Edge(StopRung.ASKED, InterruptRequested.on, StopRung.ASKED),
        Edge(StopRung.ASKED_LAST, InterruptRequested.on, StopRung.ASKED_LAST),
        *from_each(StopRung, SPENT_AT_REST, StopRung.ASKED_LAST),
        Edge(StopRung.ASKED, RUNG_DUE, StopRung.NONE, is_forced),
        Edge(StopRung.ASKED, RUNG_DUE, StopRung.ASKED_LAST),
        Edge(StopRung.ASKED_LAST, RUNG_DUE, StopRung.NONE),
        *from_each(StopRung, RESTED, StopRung.NONE),
        *from_each(StopRung, InterruptWithdrawn.on, StopRung.NONE),
        *from_each(StopRung, StopRequested.on, StopRung.NONE),
    ),
    laws=__doc__,
    commands=frozenset({InterruptRequested.on, InterruptWithdrawn.on, StopRequested.on}),
    observations=frozenset({RUNG_DUE, SPENT_AT_REST, RESTED}),
)

MACHINES: Final = (LIFE, CHANNEL, COMPOSER, LADDER)


# The step


def step(life: AgentLife, given: LifeInput, now: float, policy: RunPolicy) -> tuple[AgentLife, tuple[LifeOutput, ...]]:
    """Move every region that knows the input. Commands that the table refuses raise `ContractError`."""
    match given:
        case AgentDeadlinePassed():
            return _fire(life, now, policy)
        case ChildrenSeen(open=children):
            settle_by = now + policy.settle_seconds if children else None
            return replace(life, children=children, settle_by_seconds=settle_by), ()
        case CountdownRestarted():
            return replace(life, free_since_seconds=now), ()
        case InterruptAnswered(problem=problem):
            return replace(life, interrupt_problem=problem, was_interrupted=life.was_interrupted or not problem), ()
        case Heard() | ChannelBroke():
            return _heard(life, given), ()
        case DraftAppeared() | DraftGone():
            return _compose(life, given, now), ()
        case StandingShown(standing=standing):
            return _settle(replace(_heard(life, given), standing=standing), standing.activity, now, policy), ()
        case InterruptRequested():
            life = replace(life, is_forced=life.is_forced or given.is_forced)
            return _climb(life, given.on, given, now, policy)
        case InterruptWithdrawn():
            life = replace(life, interrupts=0, was_interrupted=False, is_forced=False)
            return _climb(life, given.on, given, now, policy)
        case _:
            return _live(life, given, now, policy)


def _heard(life: AgentLife, given: Heard | ChannelBroke | StandingShown) -> AgentLife:
    channel = CHANNEL.next_state(life.channel, given.on, AgentFacts(life, given))
    return life if channel is life.channel else replace(life, channel=channel)


def _settle(life: AgentLife, shown: Activity, now: float, policy: RunPolicy) -> AgentLife:
    """Law 7, for work that the screen shows."""
    if shown is Activity.SETTLING and not life.has_waited_for_children:
        by = now + policy.settle_seconds if life.settle_by_seconds is None else life.settle_by_seconds
        return replace(life, settle_by_seconds=by)
    if shown is Activity.QUIET and not life.children:
        return replace(life, settle_by_seconds=None, has_waited_for_children=False)
    return life


def _compose(life: AgentLife, given: DraftAppeared | DraftGone, now: float) -> AgentLife:
    composer = COMPOSER.next_state(life.composer, given.on, AgentFacts(life, given))
    if composer is life.composer:
        return life
    free_at = now + _COMPOSER_SETTLES_SECONDS if composer is Composer.CLEARING else None
    return replace(life, composer=composer, composer_free_at_seconds=free_at)


def _live(
    life: AgentLife, given: StageInput, now: float, policy: RunPolicy
) -> tuple[AgentLife, tuple[LifeOutput, ...]]:
    before, stage = life, LIFE.next_state(life.stage, given.on, AgentFacts(life, given))
    if not LIFE.edges_for(before.stage, given.on):
        return before, ()  # an observation that means nothing here
    life = replace(life, stage=stage)
    match given:
        case SpawnRequested(spawn_id=spawn_id):
            return AgentLife(stage=stage, spawn_id=spawn_id), ()
        case RestartPlanned(at_seconds=at):
            return replace(life, restart_at_seconds=at), ()
        case Started():
            return _begin(before, life, given, now), ()
        case SpawnFailed():
            return (AgentLife(stage=stage), ()) if before.stage is not stage else (before, ())
        case AgentExited():
            return AgentLife(stage=stage), ()
        case StopRequested():
            return _stop(before, life, given, now, policy)
        case TurnBegan() | ReadySeen() | RestSeen() | TurnReported() | TurnClosed():
            return _work(before, life, given, now, policy)
        case unreachable:
            assert_never(unreachable)


def _work(
    before: AgentLife,
    life: AgentLife,
    given: TurnBegan | ReadySeen | RestSeen | TurnReported | TurnClosed,
    now: float,
    policy: RunPolicy,
) -> tuple[AgentLife, tuple[LifeOutput, ...]]:
    is_silent = life.stage is AgentStage.SILENT
    match given:
        case TurnBegan(is_prompted=is_prompted):
            life = replace(life, had_prompt=life.had_prompt or is_prompted, presume_ready_at_seconds=None)
            return replace(life, interrupts=0, was_interrupted=False, is_forced=False, interrupt_problem=""), ()
        case ReadySeen() | RestSeen():
            life = life if is_silent else replace(life, presume_ready_at_seconds=None)
            return _rest(life, now, policy) if before.stage is AgentStage.WINDING_DOWN else (life, ())
        case TurnReported():
            presume = now + policy.interrupt_seconds if is_silent else None
            life = replace(life, presume_ready_at_seconds=presume)
            is_of_a_turn = before.stage in (AgentStage.BUSY, AgentStage.STOPPING)  # else nobody will close one
            return (life, ()) if is_of_a_turn else _rest(life, now, policy)
        case TurnClosed():
            return _close(before, life, now, policy)
        case unreachable:
            assert_never(unreachable)


def _begin(before: AgentLife, life: AgentLife, given: Started, now: float) -> AgentLife:
    if life.stage is not AgentStage.STARTING or before.is_running:
        return before
    return AgentLife(
        stage=life.stage,
        spawn_id=given.spawn_id,
        capabilities=given.capabilities,
        started_seconds=now,
        is_adopted=given.is_adopted,
        stop_reason=before.stop_reason,
    )


def _stop(
    before: AgentLife, life: AgentLife, given: StopRequested, now: float, policy: RunPolicy
) -> tuple[AgentLife, tuple[LifeOutput, ...]]:
    life, _ = _climb(life, given.on, given, now, policy)
    life = replace(life, restart_at_seconds=None, presume_ready_at_seconds=None)
    if before.stage in _GONE:
        return life, ()
    return replace(life, stop_reason=given.reason), (LifeOutput.STOP,)


def _close(
    before: AgentLife, life: AgentLife, now: float, policy: RunPolicy
) -> tuple[AgentLife, tuple[LifeOutput, ...]]:
    if not before.is_running or before.stage is AgentStage.STOPPING:
        return life, ()
    life = replace(life, free_since_seconds=now)
    if life.stage is AgentStage.WINDING_DOWN:
        life = replace(life, presume_ready_at_seconds=None)
        return _climb(life, InterruptRequested.on, InterruptRequested(), now, policy)
    return _rest(life, now, policy)


def _rest(life: AgentLife, now: float, policy: RunPolicy) -> tuple[AgentLife, tuple[LifeOutput, ...]]:
    """The agent has nothing to do any more. One that was for one prompt only has to end now, or is ended."""
    return _climb(life, SPENT_AT_REST if life.is_used_up else RESTED, RestSeen(), now, policy)


def _climb(
    life: AgentLife, on: str, given: LifeInput, now: float, policy: RunPolicy
) -> tuple[AgentLife, tuple[LifeOutput, ...]]:
    """Move on the ladder. Each rung that is reached has a deadline; one without another way is due at once."""
    rung = LADDER.next_state(life.rung, on, AgentFacts(life, given))
    if on == InterruptRequested.on and life.rung is not StopRung.NONE:
        return life, ()  # it is being asked already
    life = replace(life, rung=rung, rung_due_seconds=None)
    if rung is StopRung.NONE:
        return life, (LifeOutput.LADDER_ENDED,) if on == RUNG_DUE else ()
    if on == SPENT_AT_REST:
        return replace(life, rung_due_seconds=now + policy.interrupt_seconds), ()
    if on == InterruptRequested.on and rung is StopRung.ASKED_LAST:
        return replace(life, rung_due_seconds=now), ()
    due = now + policy.interrupt_seconds
    return replace(life, rung_due_seconds=due, interrupts=life.interrupts + 1), (LifeOutput.INTERRUPT,)


def _fire(life: AgentLife, now: float, policy: RunPolicy) -> tuple[AgentLife, tuple[LifeOutput, ...]]:
    given, outputs = AgentDeadlinePassed(), list[LifeOutput]()
    if life.rung_due_seconds is not None and life.rung_due_seconds <= now:
        life, more = _climb(life, RUNG_DUE, given, now, policy)
        outputs += more
    if life.restart_at_seconds is not None and life.restart_at_seconds <= now:
        stage = LIFE.next_state(life.stage, RESTART_DUE, AgentFacts(life, given))
        life = replace(life, stage=stage, restart_at_seconds=None)
        outputs.append(LifeOutput.RESTART_DUE)
    if life.settle_by_seconds is not None and life.settle_by_seconds <= now:
        life = replace(life, children=frozenset(), settle_by_seconds=None, has_waited_for_children=True)
        outputs.append(LifeOutput.CHILDREN_FORGOTTEN)
    if life.presume_ready_at_seconds is not None and life.presume_ready_at_seconds <= now:
        stage = LIFE.next_state(life.stage, PRESUMED_READY, AgentFacts(life, given))
        life = replace(life, stage=stage, presume_ready_at_seconds=None)
    if life.composer_free_at_seconds is not None and life.composer_free_at_seconds <= now:
        composer = COMPOSER.next_state(life.composer, COMPOSER_SETTLED, AgentFacts(life, given))
        life = replace(life, composer=composer, composer_free_at_seconds=None)
    return life, tuple(outputs)
