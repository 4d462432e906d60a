"""Published events, logged and live, folded to frames. See the laws of `task_view`.

Frames of one event come in this order: messages, the stream, approvals and how they change what is seen of the agent,
queue and receipts, the state document, status.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from msgspec import structs

from interlock.lifecycle.queue import SendQueue
from interlock.lifecycle.task_status import SessionFacts, task_status
from interlock.lifecycle.turn import Finding, TurnFacts, lose_owner
from interlock.lifecycle.turns import LOG_DAMAGED, TurnFold
from interlock.projections.approvals import ApprovalFold
from interlock.projections.present.display import Item
from interlock.projections.present.presenter import Presenter
from interlock.projections.spawns import SpawnLog
from interlock.projections.task.live_frames import UNSTAMPED, live_frames
from interlock.projections.task.message_store import MessageStore
from interlock.projections.task.questions import AgentStatusFold, TaskQuestions
from interlock.projections.task.run_document import RunDocument, fold_run_event
from interlock.projections.task.summary import NEWEST_TURNS, RestFold, TaskLine, TaskTally, child_counts, with_facts
from interlock.projections.task.workflow import WorkflowFold
from interlock.projections.task.worktree import after
from interlock.projections.turn_evidence import REFUSALS
from interlock.projections.usage import Usage, UsageFold
from interlock.projections.workspace import ChangeFold
from interlock.vocabulary.events.audit import (
    AgentSession,
    Anomaly,
    DeliveryReceipt,
    DeliveryStage,
    DialogOpened,
    LastScreen,
    PermissionDecision,
    ProcessEvent,
    ProcessEventKind,
    ProviderUsage,
    QueueEvent,
    QueueEventKind,
    QueueGate,
    SessionDeleted,
    SessionFork,
    SessionOpened,
    SessionRenamed,
    SessionSeen,
    ToolCallSuspended,
    UsageScope,
    WorkflowEvent,
)
from interlock.vocabulary.events.conversation import SubagentEvent, UserMessage
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.presenter import ReasoningDelta, Status, TextDelta
from interlock.vocabulary.evidence import Moment
from interlock.vocabulary.ids import IMPORTED_TURN_PREFIX, PromptId, SessionId, SubagentId, TurnId
from interlock.vocabulary.states import Activity, Attention, SubagentState, TaskStatus, TurnState
from interlock.vocabulary.wire.badge import Badge
from interlock.vocabulary.wire.frames import (
    AgentStatusChanged,
    ChatChunk,
    ChatMessage,
    ChatReceipt,
    ChatStart,
    ChatThought,
    QueueChanged,
    QueueItem,
    QueueView,
    StatePatched,
    TaskBadgeChanged,
    TaskFrame,
    TaskStatusChanged,
    TaskSummary,
    WorkflowCounts,
)
from interlock.vocabulary.wire.worktree import TaskWorktree

_TEXT: Final = (ChatStart, ChatChunk, ChatThought)
_CRASHES_KEPT: Final = 32
_Shown = tuple[TaskStatus | None, Activity | None, Attention | None]
_Reading = tuple[TaskStatus | None, TurnId | None]


class TaskFold:
    """All that is known of one task, and how each event changes it."""

    def __init__(self, task_id: SessionId) -> None:
        self.task_id = task_id
        self.version = 0
        self.tick = 0
        self.turn_id: TurnId | None = None
        self.status: TaskStatus | None = None
        self.status_updated_at: Moment | None = None
        self.opened: SessionOpened | None = None
        self.is_supervised = True
        self.turns = TurnFold()
        self.approvals = ApprovalFold()
        self.queue = SendQueue()
        self._presenter = Presenter(self.turns)
        self._messages = MessageStore()
        self._questions = TaskQuestions(task_id, self.approvals)
        self._queue_view = QueueView()
        self._seen = AgentStatusFold()
        self._agent: Status | None = None
        self._document = RunDocument()
        self._is_deleted = False
        self._on_its_way: PromptId | None = None
        self._turns_of_prompts: dict[PromptId, TurnId] = {}
        self._log_reading: _Reading = (None, None)
        self._log_read_at: Moment | None = None
        self._opened_at: Moment | None = None
        self._last_at: Moment | None = None
        self._since: Moment | None = None
        self._shown: _Shown = (None, None, None)
        self._heard_at: Moment | None = None
        self._crashed_at: tuple[Moment, ...] = ()
        self._seen_turn_id: TurnId | None = None
        self.last_screen: LastScreen | None = None
        self.last_screen_at: Moment | None = None
        self._title = ""
        self._model = ""
        self._parent_id: SessionId | None = None
        self._worktree: TaskWorktree | None = None
        # Whether a person started its agent; None: it has had none.
        self._is_adopted: bool | None = None
        self._context_tokens: int | None = None
        self._badge: Badge | None = None
        self._rest = RestFold()
        self.usage = UsageFold()
        self.spawns = SpawnLog()
        self._decided_by_rule = 0
        self._children: dict[SubagentId, SubagentState] = {}
        self._workflows = WorkflowFold()
        self._changes = ChangeFold()
        self._log_since: Moment | None = None

    def add(self, event: Event) -> tuple[TaskFrame, ...]:
        """Fold one event: with a `seq` it is in the log, without one it is shown live and kept nowhere."""
        if event.session_id != self.task_id:
            return ()
        if event.seq is None:
            self._heard_at = event.ts
            return self._tell(self._hear(event), event.ts)
        if event.seq <= self.version:
            return ()
        self._rest.add(event, is_next=event.seq == self.version + 1)
        self.usage.add(event)
        self.spawns.add(event)
        self._worktree = after(self._worktree, event.data)
        self._decided_by_rule += isinstance(event.data, PermissionDecision)
        if isinstance(event.data, SubagentEvent):
            self._children[event.data.subagent_id] = event.data.status
        elif isinstance(event.data, WorkflowEvent):
            self._workflows.add(event.data)
        self._changes.add(event.data)
        self.version, self._last_at, self._heard_at = event.seq, event.ts, event.ts
        return self._tell(self._fold(event), event.ts)

    def lose(self, first_seq: int | None, last_seq: int | None) -> tuple[TaskFrame, ...]:
        """Take note of events that cannot be read, after every event that can. None: nobody knows where it ends."""
        if first_seq is not None and (last_seq or first_seq) <= self.version:
            return ()
        self._rest.is_sound = False
        self.version = max(self.version, last_seq or first_seq or 0)
        return self._tell(self._lose(first_seq, last_seq), self._last_at)

    def set_supervised(self, is_supervised: bool) -> tuple[TaskFrame, ...]:
        """Say whether somebody runs the session. Without an owner an open turn is read as abandoned."""
        if is_supervised is self.is_supervised:
            return ()
        self.is_supervised = is_supervised
        return self._tell(self._change_owner(), self._last_at)

    @property
    def changes_at(self) -> Moment | None:
        """When the badge changes by itself."""
        return None if self._badge is None else self._badge.until

    def refresh(self, now: Moment) -> tuple[TaskFrame, ...]:
        """Tell the badge where it changed by itself since something was last heard."""
        badge, known = self.summary(now).badge, self._badge
        if badge is None or known is None or _gist(badge) == _gist(known):
            return ()
        self._badge, self._heard_at, self._shown = badge, now, self._shown_by(badge)
        return self._stamp([self._badge_changed(badge)])

    # What every event has in common

    def _tell(self, frames: Iterable[TaskFrame], at: Moment | None) -> tuple[TaskFrame, ...]:
        crashed_at, read = self._crashed_at, self._log_reading[0]
        told = list(frames)
        if _known(read) is not _known(self._log_reading[0]):
            self._log_since = at
        if self._crashed_at is not crashed_at or not all(isinstance(frame, _TEXT) for frame in told):
            self._tell_badge(told, at)
        return self._stamp(told)

    def _stamp(self, told: list[TaskFrame]) -> tuple[TaskFrame, ...]:
        stamped = []
        for frame in told:
            self.tick += 1
            stamped.append(structs.replace(frame, version=self.version, tick=self.tick))
        return tuple(stamped)

    def _tell_badge(self, told: list[TaskFrame], at: Moment | None) -> None:
        """Put the badge on the frames that bear one. Where it changed and none does, it has a frame of its own."""
        badge, known = self.summary().badge, self._badge
        shown = self._shown_by(badge)
        if shown != self._shown:
            self._shown, self._since = shown, at
            badge = self.summary().badge  # the badge says since when
        self._badge = badge
        bearers = [place for place, one in enumerate(told) if isinstance(one, TaskStatusChanged | AgentStatusChanged)]
        for place in bearers:
            told[place] = structs.replace(told[place], badge=badge)
        if not bearers and badge is not None and (known is None or _gist(badge) != _gist(known)):
            told.append(self._badge_changed(badge))

    def _badge_changed(self, badge: Badge) -> TaskBadgeChanged:
        return TaskBadgeChanged(
            task_id=self.task_id, version=UNSTAMPED, tick=UNSTAMPED, turn_id=self.turn_id, badge=badge
        )

    def summary(self, now: Moment | None = None) -> TaskSummary:
        """One line of a board, with its badge at that time; without a time, when something was last heard."""
        bare = TaskSummary(
            task_id=self.task_id,
            version=self.version,
            task_status=self.status,
            turn_id=self.turn_id,
            status_updated_at=self.status_updated_at,
            is_supervised=self.is_supervised,
            live=self._agent,
            since=self._since,
            opened_at=self._opened_at,
            last_at=self._last_at,
            crashed_at=self._crashed_at,
            seen_turn_id=self._seen_turn_id,
            title=self._title,
            model=self._model,
            parent_id=self._parent_id,
            is_adopted=bool(self._is_adopted),
            worktree=self._worktree,
            context_tokens=self._context_tokens,
            decided_by_rule=self._decided_by_rule,
            children=child_counts(self._children.values()),
            workflow=self.workflow,
            branch=self._changes.branch,
            changes=self._changes.counts,
            cost_usd=self.usage.total.cost_usd,
        )
        return with_facts(
            bare,
            opened=self.opened,
            turn=self._current_turn,
            turn_state=self._turn_state,
            asked=self._questions.open,
            queue=self._queue_view,
            now=now or self._heard_at,
        )

    @property
    def badge(self) -> Badge | None:
        """The badge that was told last."""
        return self._badge

    @property
    def workflow(self) -> WorkflowCounts | None:
        """How the workflow in its log stands; None: there is none."""
        return self._workflows.shown

    def _shown_by(self, badge: Badge | None) -> _Shown:
        """What `since` is the beginning of. Of an agent of which nothing is heard, the status alone is told."""
        if self._agent is None or badge is None:
            return _known(self.status), None, None
        return _known(self.status), badge.activity, badge.attention

    @property
    def is_damaged(self) -> bool:
        """Whether an event of it is lost, as far as it was read."""
        return not self._rest.is_sound

    # At rest

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing of it is open, waits or is lost: a runtime that took it up would find nothing to do."""
        rest, newest = self._rest, self._newest
        last = None if rest.turn_id is None else self.turns.turns.get((self.task_id, rest.turn_id))
        is_over = all(turn is None or turn.is_over for turn in (newest, last)) and self._is_newest_known
        is_idle = self.queue.head is None and not self.queue.waiting and self._on_its_way is None
        is_live = self._presenter.live(self.task_id) is not None
        return self.version > 0 and rest.is_at_rest and is_over and is_idle and not is_live and not self._questions.any

    def line(self) -> TaskLine:
        """What a list shows of it, as the log alone says it."""
        bare = structs.replace(self.summary(), is_supervised=True, live=None, since=self._log_since, badge=None)
        return TaskLine(summary=bare, opened=self.opened, tally=self.tally(), newest_turns=self.newest_turns)

    @property
    def newest_turns(self) -> tuple[tuple[TurnId, Usage], ...]:
        """The newest turns in their order, and what they used, as far as lists tell them."""
        newest = list(islice(reversed(self.turns.turns), NEWEST_TURNS))
        return tuple((turn_id, self.usage.of_turn(turn_id)) for _, turn_id in reversed(newest))

    def tally(self) -> TaskTally:
        """Its share in figures over all tasks."""
        spawns = self.spawns.rows()
        ended = Counter(row.reason.value if row.reason else row.standing.value for row in spawns if row.is_over)
        return TaskTally(
            turns=Counter(turn.state for turn in self.turns.turns.values()),
            spawns_ended=ended,
            spawns_not_ended=sum(not row.is_over for row in spawns),
            usage=self.usage.total,
        )

    # Live events

    def _hear(self, event: Event) -> Iterator[TaskFrame]:
        match event.data:
            case TextDelta() | ReasoningDelta() as delta:
                for item in self._presenter.hear(event, delta):
                    yield from live_frames(self.task_id, item)
            case Status() as status if self.is_supervised:
                self._seen.see(status)
                yield from self._show_agent(event.turn_id)
            case _:
                pass  # plans, pressure and screens have no frame; what belongs into the log and is not in it is no fact

    def _show_agent(self, turn_id: TurnId | None) -> Iterator[TaskFrame]:
        """Tell what the agent is seen to do, with what the log adds to it, if that is news."""
        shown = self._seen.told(is_asked=bool(self._questions.open))
        if shown is not None and shown != self._agent:
            self._agent = shown
            yield self._agent_changed(shown, turn_id)

    def _agent_changed(self, status: Status, turn_id: TurnId | None) -> AgentStatusChanged:
        return AgentStatusChanged(
            task_id=self.task_id, version=UNSTAMPED, tick=UNSTAMPED, turn_id=turn_id, status=status
        )

    # Logged events

    def _fold(self, event: Event) -> Iterator[TaskFrame]:
        before, known = self._newest, len(self.turns.findings)
        turn = self.turns.add(event)
        findings = self.turns.findings[known:]
        if findings:
            yield from self._doubt(findings, event.ts)
        if any(finding.kind in REFUSALS for finding in findings):
            yield from self._settle_status(event.ts)
            return
        yield from self._draw(self._presenter.draw(event, turn))
        if turn is None:
            self._fold_aside(event)
        else:
            self._note_turn(event, turn, before)
        yield from self._fold_questions(event, turn)
        yield from self._fold_queue(event)
        if turn is None or turn is self._newest:
            yield from self._fold_document(event)
        yield from self._settle_status(event.ts)

    def _lose(self, first_seq: int | None, last_seq: int | None) -> Iterator[TaskFrame]:
        known = len(self.turns.findings)
        self.turns.lose(self.task_id, first_seq, last_seq)
        yield from self._doubt(self.turns.findings[known:], self._last_at)
        yield from self._settle_status(self._last_at)

    def _doubt(self, findings: list[Finding], at: Moment | None) -> Iterator[TaskFrame]:
        """Tell which turns are not known any more, because events are lost."""
        yield from self._draw(self._presenter.doubt(self.task_id, findings, at))

    def _draw(self, items: Iterable[Item]) -> Iterator[TaskFrame]:
        """What the presenter drew, as frames, in the order in which it drew it."""
        for item in items:
            for message in self._messages.take((item,), self.version):
                yield ChatMessage(
                    task_id=self.task_id, version=UNSTAMPED, tick=UNSTAMPED, turn_id=message.turn_id, message=message
                )
            yield from live_frames(self.task_id, item)

    def _fold_aside(self, event: Event) -> None:
        """What decides about no turn."""
        match event.data:
            case SessionOpened() as opened:
                self.opened, self._opened_at = opened, self._opened_at or event.ts
            case SessionDeleted():
                self._is_deleted = True
            case SessionSeen(turn_id=turn_id):
                self._seen_turn_id = turn_id
            case LastScreen() as screen:
                self.last_screen, self.last_screen_at = screen, event.ts
            case SessionRenamed(title=title):
                self._title = title
            case SessionFork(parent_session_id=parent_id):
                self._parent_id = parent_id
            case AgentSession(model=model) if model:
                self._model = model
            case ProviderUsage(scope=UsageScope.CALL, input_tokens=tokens) if tokens is not None:
                self._context_tokens = tokens
            case ProcessEvent(kind=kind):
                self._fold_process(kind, event.ts)
            case _:
                pass

    def _fold_process(self, kind: ProcessEventKind, at: Moment) -> None:
        match kind:
            case ProcessEventKind.SPAWNED:
                self._is_adopted = False
            case ProcessEventKind.ADOPTED if self._is_adopted is None:
                self._is_adopted = True  # one of ours is adopted by the next server, after it was spawned
            case ProcessEventKind.RESTART_DUE | ProcessEventKind.RESTARTS_EXHAUSTED:
                self._crashed_at = (*self._crashed_at, at)[-_CRASHES_KEPT:]
            case _:
                pass

    def _note_turn(self, event: Event, turn: TurnFacts, before: TurnFacts | None) -> None:
        """Which prompt a turn began with. `before`: the turn that was the newest one."""
        if isinstance(event.data, UserMessage) and event.data.prompt_id is not None:
            self._turns_of_prompts.setdefault(event.data.prompt_id, turn.turn_id)
        if turn is self._newest and (before is None or before.turn_id != turn.turn_id):
            self._on_its_way = None

    def _fold_questions(self, event: Event, turn: TurnFacts | None) -> Iterator[TaskFrame]:
        for frame in self._ask(event, turn):
            self._seen.hear(frame, event.ts)
            yield frame
        self._seen.doubt(event)
        if turn is not None and turn.is_over:
            self._seen.end_turn()
        yield from self._show_agent(event.turn_id)

    def _ask(self, event: Event, turn: TurnFacts | None) -> Iterator[TaskFrame]:
        of = self._turn_of(event)
        is_question = isinstance(event.data, ToolCallSuspended | DialogOpened)
        if not is_question or of is None or not _is_fenced(of, event):
            yield from self._questions.add(event)
        if turn is not None and turn.is_over:
            yield from self._questions.end_turn(event, turn.turn_id)
        if isinstance(event.data, Anomaly) and event.data.kind == LOG_DAMAGED and event.turn_id is not None:
            yield from self._questions.end_turn(event, event.turn_id)  # recovery found that no server runs it
        if self._is_deleted:
            yield from self._questions.end_session(event)

    def _fold_queue(self, event: Event) -> Iterator[TaskFrame]:
        self.queue.add(event.data)
        match event.data:
            case QueueEvent() | QueueGate():
                self._note_dispatch(event)
                yield from self._show_queue(event)
            case DeliveryReceipt(prompt_id=prompt_id, stage=stage):
                if stage is DeliveryStage.NOT_DELIVERED and prompt_id == self._on_its_way:
                    self._on_its_way = None
                yield from self._show_queue(event)
                prompt = self.queue.prompts.get(prompt_id)
                if prompt is None or prompt.stage is stage:  # a receipt never goes back
                    yield ChatReceipt(
                        task_id=self.task_id,
                        version=UNSTAMPED,
                        tick=UNSTAMPED,
                        turn_id=event.turn_id,
                        prompt_id=prompt_id,
                        stage=stage,
                    )
            case _:
                pass

    def _note_dispatch(self, event: Event) -> None:
        """A prompt that left the queue waits on, until the turn that it is for has begun: that is in the same append,
        and in between the task is neither idle nor what its last turn came to."""
        data = event.data
        if isinstance(data, QueueEvent) and data.kind is QueueEventKind.DISPATCHED and self._turn_of(event) is None:
            was_waiting = any(item.prompt_id == data.prompt_id for item in self._queue_view.waiting)
            self._on_its_way = data.prompt_id if was_waiting else self._on_its_way

    def _show_queue(self, event: Event) -> Iterator[TaskFrame]:
        waiting = tuple(QueueItem(prompt_id=one.prompt_id, text=one.text) for one in self.queue.waiting)
        queue = self.queue
        view = QueueView(
            waiting=waiting,
            is_open=queue.is_open,
            gate_reason=queue.gate_reason,
            waits_for=queue.waits_for,
            is_paused=queue.is_paused,
        )
        if view != self._queue_view:
            self._queue_view = view
            yield QueueChanged(
                task_id=self.task_id, version=UNSTAMPED, tick=UNSTAMPED, turn_id=event.turn_id, queue=view
            )

    def _fold_document(self, event: Event) -> Iterator[TaskFrame]:
        """What a run's event changes in the state document. What the reducer refuses is for `diagnose` to say."""
        self._document, patches, _ = fold_run_event(self._document, event)
        for patch in patches:
            yield StatePatched(
                task_id=self.task_id,
                version=UNSTAMPED,
                tick=UNSTAMPED,
                turn_id=event.turn_id,
                ops=patch.patch().ops,
                source=patch.source,
            )

    # Turns, and the status

    @property
    def _newest(self) -> TurnFacts | None:
        """The turn that began last."""
        return next(reversed(self.turns.turns.values()), None)

    @property
    def _is_newest_known(self) -> bool:
        """Whether no newer turn may be among events that are lost."""
        return self.turns.lost_since(self.task_id) is None

    @property
    def _current_turn(self) -> TurnFacts | None:
        """The newest turn, if the task speaks of one."""
        return None if self.turn_id is None else self.turns.turns.get((self.task_id, self.turn_id))

    @property
    def _turn_state(self) -> TurnState | None:
        """How that turn stands."""
        turn = self._current_turn
        if turn is None and not self._is_newest_known:
            return TurnState.UNKNOWN
        return None if turn is None else turn.state

    def turn_of_prompt(self, prompt_id: PromptId) -> TurnFacts | None:
        """The turn that began with a prompt, as it stands now."""
        turn = self.turns.turns.get((self.task_id, self._turns_of_prompts.get(prompt_id, TurnId(""))))
        return turn if turn is None or self.is_supervised else lose_owner(turn)

    def _turn_of(self, event: Event) -> TurnFacts | None:
        """The turn of an event, also of one that decides about none. In an imported log it is the newest."""
        newest = self._newest
        if event.turn_id is not None:
            return self.turns.turns.get((self.task_id, event.turn_id))
        return newest if newest is not None and newest.turn_id.startswith(IMPORTED_TURN_PREFIX) else None

    def _change_owner(self) -> Iterator[TaskFrame]:
        yield from self._draw(self._presenter.set_supervised(self.task_id, self.is_supervised))
        if not self.is_supervised and self._agent is not None:
            self._seen.forget()
            self._agent = None
            yield self._agent_changed(Status(activity=Activity.UNKNOWN), None)
        yield from self._questions.set_answerable(self.is_supervised)
        yield from self._settle_status(self._log_read_at)

    def _settle_status(self, at: Moment | None) -> Iterator[TaskFrame]:
        """Read the status. `at` is when the log said what it says now, if that is news."""
        reading = self._read(is_owned=True)
        if reading != self._log_reading:
            self._log_reading, self._log_read_at = reading, at
        told = reading if self.is_supervised else self._read(is_owned=False)
        if told == (self.status, self.turn_id):
            return
        self.status, self.turn_id = told
        # That nobody lives is not in the log: it does not say since when.
        self.status_updated_at = self._log_read_at if told == reading else None
        yield TaskStatusChanged(
            task_id=self.task_id,
            version=UNSTAMPED,
            tick=UNSTAMPED,
            turn_id=self.turn_id,
            task_status=self.status,
            status_updated_at=self.status_updated_at,
        )

    def _read(self, *, is_owned: bool) -> _Reading:
        turn = self._newest
        if not self._is_newest_known and (turn is None or turn.is_terminal):
            # A newer turn may be lost: which one is the newest is not known, and so is no state of it.
            facts = SessionFacts(turn=TurnState.UNKNOWN, is_deleted=self._is_deleted)
            return task_status(facts), None
        if turn is not None and not is_owned:
            turn = lose_owner(turn)
        is_open = turn is not None and not turn.is_terminal
        facts = SessionFacts(
            turn=None if turn is None else turn.state,
            prompt_accepted=self.queue.head is not None or self._on_its_way is not None,
            is_blocked=self._questions.is_blocking(None if turn is None else turn.turn_id),
            cancel_requested=is_open and turn is not None and turn.cancel_requested,
            is_deleted=self._is_deleted,
        )
        status = task_status(facts)
        # A prompt that waits is for a turn that has no id yet.
        return status, None if turn is None or status is TaskStatus.PENDING else turn.turn_id


def _known(status: TaskStatus | None) -> TaskStatus | None:
    """Since when a turn is not known is not known either."""
    return None if status is TaskStatus.UNKNOWN else status


def _gist(badge: Badge) -> tuple[object, ...]:
    """What is worth a frame of its own."""
    return badge.activity, badge.attention, badge.needs_person, badge.outcome, badge.crashes, badge.group, badge.is_seen


def _is_fenced(turn: TurnFacts, event: Event) -> bool:
    """Whether the turn is over, or another spawn's: as the classifier fences, for what it is not asked about."""
    is_foreign = None not in (event.spawn_id, turn.spawn_id) and event.spawn_id != turn.spawn_id
    return turn.is_over or is_foreign
