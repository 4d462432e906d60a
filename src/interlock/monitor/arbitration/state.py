"""What arbitration is given, what it keeps, and what it says."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeAlias

from msgspec import Struct

from interlock.monitor.arbitration.agent_status import Standing, StatusBasis
from interlock.monitor.arbitration.claims import Claim
from interlock.monitor.arbitration.ladder import Axis, Ladders, Pair
from interlock.monitor.observation import ObservationTimerFired
from interlock.monitor.policy import DEFAULT_POLICY, MonitorPolicy
from interlock.vocabulary.events.audit import Anomaly
from interlock.vocabulary.evidence import EvidenceSource
from interlock.vocabulary.ids import SpawnId
from interlock.vocabulary.states import Activity


@dataclass(frozen=True, slots=True)
class ProcessSpawned:
    """A new process. Tell it before its channels open. What was known of the old one is void."""

    on: ClassVar[str] = "process_spawned"
    spawn_id: SpawnId | None = None


@dataclass(frozen=True, slots=True)
class ProcessExited:
    """The process is proven to be gone. One of another spawn than the present is late, and changes nothing."""

    on: ClassVar[str] = "process_exited"
    exit_code: int | None = None
    signal: int | None = None
    spawn_id: SpawnId | None = None
    where: str = ""


@dataclass(frozen=True, slots=True)
class ChannelOpened:
    """A source pushes from now on. For title and screen: a capture is renewed for as long as nothing new is pushed."""

    on: ClassVar[str] = "channel_opened"
    rung: EvidenceSource


@dataclass(frozen=True, slots=True)
class ChannelClosed:
    """A source is gone: a connection was lost, a file was removed. `is_final`: it will not come back, so that what it
    showed last counts no more, also of a capture."""

    on: ClassVar[str] = "channel_closed"
    rung: EvidenceSource
    is_final: bool = False


@dataclass(frozen=True, slots=True)
class TurnSubmitted:
    """We submitted a prompt."""

    on: ClassVar[str] = "turn_submitted"


ArbitrationInput: TypeAlias = (
    Claim | ProcessSpawned | ProcessExited | ChannelOpened | ChannelClosed | TurnSubmitted | ObservationTimerFired
)


@dataclass(frozen=True, slots=True)
class StandingChanged:
    """An axis changed its value. A change of evidence alone is none."""

    before: Standing
    after: Standing


Output: TypeAlias = StandingChanged | Anomaly


class BlockedNews(NamedTuple):
    """A dialog, as last told of, until it is known to be gone. `activity` is the one from before it."""

    claim: Claim
    seen_at_seconds: float
    activity: Activity
    was_on_screen: bool
    is_fresh: bool = True


class Dispute(NamedTuple):
    """Two rungs in contradiction. It has lasted since `since_seconds`; `stance` is that of the higher one."""

    axis: Axis
    higher: EvidenceSource
    lower: EvidenceSource
    since_seconds: float
    stance: bool
    is_recorded: bool = False


class Contrary(NamedTuple):
    """A stance of hooks that the screen contradicts: for how long they held it, all times together.

    `doubt` is the contradiction that made it too long, where the hooks had taken the stance back before; it ends at
    `doubt_until`.
    """

    axis: Axis
    stance: bool
    held_seconds: float
    is_outlasted: bool = False
    doubt: Pair | None = None
    doubt_until: float = -math.inf


class Arbitration(Struct, frozen=True):
    """All that is known of one agent. `standing` is the verdict at `at_seconds`; it holds until `deadline`.

    `children` holds the open ones by the rung that told of them, `ledgers` the rungs that tell of children at all.
    `activity_before`, `block_before` and `disputes_before` stood at the end of the instant before this one, `settled`
    are the ladders as they will be when this one is over: the verdict is drawn from these, so that the order of inputs
    at one instant does not matter. `block_sighted` was on the screen at this instant. `remarks` are the surprises that
    were recorded in this life of the process. `contrary`: the stances of hooks that the screen contradicts, until it
    does so no more; `contrary_before` stood at the end of the instant before this one.
    """

    policy: MonitorPolicy = DEFAULT_POLICY
    at_seconds: float = -math.inf
    spawn_id: SpawnId | None = None
    spawned_at_seconds: float = -math.inf
    submitted_at_seconds: float = -math.inf
    edge_at_seconds: float = -math.inf
    exited: StatusBasis | None = None
    channels: frozenset[EvidenceSource] = frozenset()
    ladders: Ladders = Ladders()
    settled: Ladders = Ladders()
    children: frozenset[tuple[EvidenceSource, str]] = frozenset()
    ledgers: frozenset[EvidenceSource] = frozenset()
    block: BlockedNews | None = None
    disputes: tuple[Dispute, ...] = ()
    remarks: frozenset[str] = frozenset()
    activity_before: Activity = Activity.UNKNOWN
    block_before: BlockedNews | None = None
    block_sighted: BlockedNews | None = None
    disputes_before: tuple[Dispute, ...] = ()
    contrary: tuple[Contrary, ...] = ()
    contrary_before: tuple[Contrary, ...] = ()
    standing: Standing = Standing()
    deadline: float | None = None
