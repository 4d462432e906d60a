"""Where one task stands, as a client knows it, and what follows from that.

Laws:
1. `status` is the last word that a server said, never a guess. `is_verified` tells whether it is known to hold now.
2. `version` is the highest that was heard of; `room_version` the highest that the room said; the transcript is complete
   up to `synced_version`. The last lags by one while frames flow: more frames of the same version may follow, until the
   status of that version comes, which is last. A message that changes later at the same version comes with a resume.
3. `tick` is None outside the room. Inside, what is shown is what the room said up to that tick.
4. What is doubtful has a deadline: `is_unstable` without `deadline` does not exist.
5. The whole is a value: two states with the same fields are the same state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from interlock.client.machine.growing_text import GrowingText
from interlock.client.machine.inputs import CheckReason
from interlock.client.machine.probe import IDLE_PROBE, Probe
from interlock.lifecycle.envelope import run_lifecycle_from_state
from interlock.lifecycle.run import RunLifecycleState
from interlock.lifecycle.task_status import (
    RuntimePhase,
    StatusClass,
    TaskFacts,
    TaskFlags,
    classify,
    runtime_phase,
    task_flags,
)
from interlock.vocabulary.ending_words import BROKE_OFF, STILL_WRITTEN
from interlock.vocabulary.events.audit import DeliveryStage
from interlock.vocabulary.events.presenter import Status
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.evidence import Moment
from interlock.vocabulary.ids import PromptId, SessionId, StreamId, TurnId
from interlock.vocabulary.states import TaskStatus
from interlock.vocabulary.wire.approval import Approval, ApprovalState
from interlock.vocabulary.wire.badge import Badge
from interlock.vocabulary.wire.frames import Message, MessageStatus, QueueView, Role, TaskFrame, TaskSnapshot

_EMPTY_QUEUE: Final = QueueView()
_NO_WORDS: Final = GrowingText()


class SyncState(StrEnum):
    """Our side of the room. `error`: the server refused, and asking again is for a person."""

    IDLE = "idle"
    WAITING_SOCKET = "waiting_socket"
    JOINING = "joining"
    JOINED = "joined"
    ERROR = "error"
    CLOSED = "closed"


SYNC_MOVES: Final[Mapping[SyncState, frozenset[SyncState]]] = {
    SyncState.CLOSED: frozenset({SyncState.IDLE}),
    SyncState.IDLE: frozenset(SyncState) - {SyncState.IDLE, SyncState.JOINED},
    SyncState.WAITING_SOCKET: frozenset({SyncState.IDLE, SyncState.JOINING, SyncState.ERROR, SyncState.CLOSED}),
    SyncState.JOINING: frozenset({SyncState.IDLE, SyncState.JOINED, SyncState.ERROR, SyncState.CLOSED}),
    SyncState.JOINED: frozenset({SyncState.IDLE, SyncState.JOINING, SyncState.ERROR, SyncState.CLOSED}),
    SyncState.ERROR: frozenset({SyncState.IDLE, SyncState.WAITING_SOCKET, SyncState.JOINING, SyncState.CLOSED}),
}
"""Where one input may lead; every input may also leave it as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalStream:
    """The live text. `last_chunk_at` is of our own clock, `started_at` of the server's; neither decides anything."""

    stream_id: StreamId
    started_at: Moment
    turn_id: TurnId | None = None
    words: GrowingText = _NO_WORDS
    last_chunk_at: float | None = None

    @property
    def text(self) -> str:
        return str(self.words)

    @property
    def cursor(self) -> int:
        """How much of it is here, in code points."""
        return self.words.length


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckInFlight:
    """A check that was asked for. `saw_*`: what happened meanwhile, of which its answer may know nothing.

    `is_repeat`: asked because the answer before was not believed; that is done once, and then it is for the probe.
    """

    generation: int
    reason: CheckReason
    deadline_at: float
    is_repeat: bool = False
    saw_stream: bool = False
    saw_status: bool = False
    saw_send: bool = False
    saw_stop: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinInFlight:
    """A join that was asked for, from which version and tick on (None: from nothing).

    `has_cursor`: of a stream only the rest was asked for. `is_outrun`: a check knew of text meanwhile that its answer
    may be too old to have.
    """

    generation: int
    deadline_at: float
    after_version: int | None = None
    has_cursor: bool = False
    is_outrun: bool = False
    from_tick: int | None = None
    saw_send: bool = False
    saw_stop: bool = False


@dataclass(frozen=True, slots=True)
class Receipt:
    """How far a prompt got."""

    prompt_id: PromptId
    stage: DeliveryStage


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """What must be equal on both sides once everything has arrived."""

    version: int
    status: str | None
    turn_id: TurnId | None
    stream: tuple[StreamId, int, str] | None
    messages: tuple[tuple[int, int, MessageStatus, str], ...]
    approvals: tuple[str, ...]
    queue: QueueView
    document: Json = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskState:
    """A task, as far as it is known here.

    `status_version`: where the last word on the status came from. `past_turns` and `ended_streams` are the fence
    against what is late. `interrupted` are copies of live text that broke off, until their messages come; they are no
    part of the log and have no place in it. `lost_tick`: frames up to it were not sent to us. `doubted_version`: the
    last one whose status could not follow from ours, for which a check was asked. `awaiting_after`: a prompt of ours
    was accepted when this was the version. `queued_here`: messages that this client holds back.
    """

    task_id: SessionId
    sync: SyncState = SyncState.CLOSED
    is_connected: bool = False
    is_reachable: bool = False

    status: str | None = None
    version: int = 0
    status_version: int = 0
    turn_id: TurnId | None = None
    status_updated_at: Moment | None = None
    is_verified: bool = False
    server_confirmed_no_stream: bool = False

    tick: int | None = None
    lost_tick: int = 0
    room_version: int = 0
    synced_version: int = 0
    stream: LocalStream | None = None
    ended_streams: tuple[StreamId, ...] = ()
    past_turns: tuple[TurnId, ...] = ()
    messages: tuple[Message, ...] = ()
    interrupted: tuple[Message, ...] = ()
    history_before: int | None = None
    # What an agent asks for may be any JSON, which has no hash; it still counts when two states are compared.
    approvals: tuple[Approval, ...] = field(default=(), hash=False)
    queue: QueueView = _EMPTY_QUEUE
    agent: Status | None = None
    badge: Badge | None = None
    document: Json = field(default_factory=dict, hash=False)
    receipts: tuple[Receipt, ...] = ()

    is_stopping: bool = False
    is_stop_taken: bool = False
    awaiting_after: int | None = None
    queued_here: int = 0

    check: CheckInFlight | None = None
    follow_up: CheckReason | None = None
    joining: JoinInFlight | None = None
    early: tuple[TaskFrame, ...] = field(default=(), hash=False)
    probe: Probe = IDLE_PROBE
    generation: int = 0
    last_reason: CheckReason | None = None
    doubted_version: int = 0
    problem: str = ""
    anomalies: int = 0

    @property
    def is_open(self) -> bool:
        return self.sync is not SyncState.CLOSED

    @property
    def awaiting_send(self) -> bool:
        """A prompt of ours was accepted, and nothing newer than that was heard."""
        return self.awaiting_after is not None and self.version <= self.awaiting_after

    @property
    def run(self) -> RunLifecycleState | None:
        """The run in the state document; None before the first one."""
        return run_lifecycle_from_state(self.document)

    @property
    def flags(self) -> TaskFlags:
        """What a person may do. A task with a prompt on its way is not known to be free."""
        return task_flags(
            TaskFacts(
                status=self.status,
                has_stream=self.stream is not None,
                joined_room=self.tick is not None,
                is_reachable=self.is_reachable,
                is_verified=self.is_verified and not self.awaiting_send,
                server_confirmed_no_stream=self.server_confirmed_no_stream,
            )
        )

    @property
    def phase(self) -> RuntimePhase:
        """What to show. A resume inside the room is not worth a word."""
        if self.sync is SyncState.ERROR:
            return RuntimePhase.ERROR
        if self.tick is None and self.sync in (SyncState.WAITING_SOCKET, SyncState.JOINING):
            return RuntimePhase.SYNCING
        return runtime_phase(self.status, has_stream=self.stream is not None)

    @property
    def connection(self) -> str:
        """Whether the server can be reached at all, by whatever way."""
        return "connected" if self.is_reachable else "disconnected"

    @property
    def transcript(self) -> tuple[Message, ...]:
        """Everything to show, in order: messages, text that broke off, text that grows."""
        live = () if self.stream is None else (local_message(self.stream, MessageStatus.STREAMING),)
        return (*self.messages, *self.interrupted, *live)

    @property
    def has_hole(self) -> bool:
        """Something that the room said did not reach us."""
        return self.tick is not None and (bool(self.early) or self.lost_tick > self.tick)

    @property
    def needs_room(self) -> bool:
        """What is known to be there is not all here, or what goes on would not be heard.

        A task at rest is no reason to ask for a socket. With one there, its room is kept: somebody may begin a turn.
        """
        if self.status == TaskStatus.DELETE:
            return False
        if self.tick is not None:
            return self.has_hole or self.version > self.room_version
        is_live = classify(self.status) in (StatusClass.ACTIVE, StatusClass.WAITING)
        was_in_room = self.is_connected and self.synced_version > 0
        return is_live or was_in_room or self.version > self.synced_version

    @property
    def is_blocked_here(self) -> bool:
        """A message waits here, and no stream shows why."""
        return self.queued_here > 0 and self.stream is None and self.flags.blocks_queued_dispatch

    @property
    def is_unstable(self) -> bool:
        """Whether what is shown may be wrong, so that somebody has to look again."""
        if self.sync in (SyncState.CLOSED, SyncState.ERROR):
            return False
        lacks_stream = classify(self.status) is StatusClass.ACTIVE and self.stream is None
        return (
            not self.is_verified
            or (lacks_stream and not self.server_confirmed_no_stream)
            or self.is_stopping
            or self.awaiting_send
            or self.is_blocked_here
            or self.needs_room
            or (self.stream is not None and classify(self.status) is StatusClass.TERMINAL)
        )

    @property
    def deadline(self) -> float | None:
        """When `TimerFired` is due."""
        waits = (
            None if self.check is None else self.check.deadline_at,
            None if self.joining is None else self.joining.deadline_at,
            self.probe.due_at,
        )
        return min((wait for wait in waits if wait is not None), default=None)

    def digest(self) -> Digest:
        """What to hold against the server's. What only this client knows is left out."""
        live = self.stream
        return Digest(
            version=self.version,
            status=self.status,
            turn_id=self.turn_id,
            stream=None if live is None else (live.stream_id, live.cursor, live.text),
            messages=_essence(self.messages),
            approvals=_open_ids(self.approvals),
            queue=self.queue,
            document=self.document,
        )


def digest_of(snapshot: TaskSnapshot) -> Digest:
    """The digest of a server that gave this whole snapshot."""
    live = snapshot.stream
    return Digest(
        version=snapshot.version,
        status=snapshot.task_status,
        turn_id=snapshot.turn_id,
        stream=None if live is None else (live.stream_id, live.cursor, live.text),
        messages=_essence(snapshot.messages),
        approvals=_open_ids(snapshot.approvals),
        queue=snapshot.queue,
        document=snapshot.document,
    )


def local_message(stream: LocalStream, status: MessageStatus) -> Message:
    """Live text as a message. It has no place in the log, so its id is 0."""
    return Message(
        message_id=0,
        version=0,
        role=Role.ANSWER,
        status=status,
        text=stream.text,
        at=stream.started_at,
        turn_id=stream.turn_id,
        stream_id=stream.stream_id,
        label=STILL_WRITTEN if status is MessageStatus.STREAMING else BROKE_OFF,
    )


def _essence(messages: tuple[Message, ...]) -> tuple[tuple[int, int, MessageStatus, str], ...]:
    ordered = sorted(messages, key=lambda message: message.message_id)
    return tuple((one.message_id, one.version, one.status, one.text) for one in ordered)


def _open_ids(approvals: tuple[Approval, ...]) -> tuple[str, ...]:
    return tuple(sorted(one.approval_id for one in approvals if one.state is ApprovalState.OPEN))
