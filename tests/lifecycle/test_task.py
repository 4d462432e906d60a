"""The task's laws: in scenes, walked exhaustively, beside the projection, and against a bad network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.lifecycle.task import (
    MACHINE,
    STOP_LADDER,
    DeadlinePassed,
    Deleted,
    RequestCancel,
    Rung,
    StopLadder,
    StopLevel,
    TaskEvent,
    TaskEventType,
    TaskInput,
    TaskOutput,
    TaskStage,
    TaskState,
    TurnEnded,
    TurnSettled,
    step,
)
from interlock.lifecycle.task_status import SessionFacts, task_status
from interlock.testing.explore import Exploration, check_table, explore, labelled_by
from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.ids import TurnId
from interlock.vocabulary.states import TURN_TERMINAL, TaskStatus, TurnState

T1, T2, T3 = TurnId("t1"), TurnId("t2"), TurnId("t3")
OPEN = frozenset({TaskStage.PENDING, TaskStage.RUNNING, TaskStage.PENDING_CONFIRMATION, TaskStage.CANCELLING})
ENDED = frozenset({TaskStage.COMPLETED, TaskStage.FAILED, TaskStage.CANCELLED})
TURN_ENDS = sorted(TURN_TERMINAL)


# --- the machine, in scenes --------------------------------------------------------------------------------------


def seen(type: str, version: int, turn_id: TurnId = T1) -> TaskEvent:
    return TaskEvent(TaskEventType(type), version, turn_id)


def run(*inputs: TaskInput, state: TaskState | None = None, now: float = 0.0) -> tuple[TaskState, list[TaskOutput]]:
    state = state or TaskState()
    outputs: list[TaskOutput] = []
    for one in inputs:
        state, more = step(state, one, now)
        outputs += more
    return state, outputs


PENDING = run(seen("prompt_accepted", 1))[0]
RUNNING = run(seen("turn_started", 2), state=PENDING)[0]
WAITING = run(seen("turn_waiting", 3), state=RUNNING)[0]
CANCELLING = run(RequestCancel(4, T1), state=RUNNING)[0]


def test_a_task_begins_without_a_status() -> None:
    assert TaskState().status is None
    assert {stage.value for stage in TaskStage} == {"none", *(status.value for status in TaskStatus)}


@pytest.mark.parametrize("before", [PENDING, RUNNING, WAITING])
@pytest.mark.parametrize("turn", TURN_ENDS)
@pytest.mark.parametrize("early", [False, True])
def test_without_a_cancel_the_turn_alone_says_how_the_task_ended(
    before: TaskState, turn: TurnState, early: bool
) -> None:
    state, outputs = run(TurnEnded(9, T1, turn, early), state=before)
    assert state.status == task_status(SessionFacts(turn=turn))
    assert outputs == [TurnSettled(T1, turn, cancel_requested=False)]


CANCEL_ENDS = [
    (TurnState.COMPLETED, True, "COMPLETED", TurnState.COMPLETED),
    (TurnState.COMPLETED, False, "CANCELLED", TurnState.INTERRUPTED),
    *((TurnState.INTERRUPTED, early, "CANCELLED", TurnState.INTERRUPTED) for early in (True, False)),
    *((TurnState.FAILED, early, "FAILED", TurnState.FAILED) for early in (True, False)),
    *((TurnState.PARTIAL_FAILED, early, "FAILED", TurnState.PARTIAL_FAILED) for early in (True, False)),
    *((TurnState.TIMED_OUT, early, "FAILED", TurnState.TIMED_OUT) for early in (True, False)),
]


@pytest.mark.parametrize("is_confirmed", [False, True])
@pytest.mark.parametrize(("turn", "early", "status", "settled"), CANCEL_ENDS)
def test_while_cancelling_only_a_clean_end_before_the_interrupt_is_completed(
    turn: TurnState, early: bool, status: str, settled: TurnState, is_confirmed: bool
) -> None:
    before = run(seen("interrupt_confirmed", 5), state=CANCELLING)[0] if is_confirmed else CANCELLING
    state, outputs = run(TurnEnded(9, T1, turn, early), state=before)
    assert (state.status, state.turn, state.cancel_requested) == (status, settled, True)
    assert outputs == [TurnSettled(T1, settled, cancel_requested=True)]


def test_a_cancel_interrupts_and_asking_again_changes_nothing() -> None:
    state, outputs = run(RequestCancel(4, T1), RequestCancel(4, T1), RequestCancel(7, T1), state=RUNNING)
    assert state == replace(CANCELLING, version=7)
    assert outputs == [StopLadder(T1, StopLevel.INTERRUPT, 10.0)]


@pytest.mark.parametrize(
    ("state", "command"),
    [
        (TaskState(), RequestCancel(9, T1)),
        (RUNNING, RequestCancel(9, T2)),
        (RUNNING, RequestCancel(RUNNING.version, T1)),
        (CANCELLING, RequestCancel(9, T2)),
        (run(TurnEnded(5, T1, TurnState.COMPLETED), state=RUNNING)[0], RequestCancel(9, T1)),
        (run(Deleted(5), state=RUNNING)[0], RequestCancel(9, T1)),
    ],
)
def test_a_cancel_of_nothing_of_another_turn_or_of_an_older_log_is_refused(
    state: TaskState, command: RequestCancel
) -> None:
    with pytest.raises(ContractError):
        step(state, command, 0.0)


@pytest.mark.parametrize(
    ("before", "meanwhile", "after"),
    [
        (PENDING, (), "PENDING"),
        (RUNNING, (), "RUNNING"),
        (WAITING, (), "PENDING_CONFIRMATION"),
        (PENDING, ("turn_started",), "RUNNING"),
        (RUNNING, ("turn_waiting",), "PENDING_CONFIRMATION"),
        (WAITING, ("turn_resumed",), "RUNNING"),
        (WAITING, ("turn_started",), "PENDING_CONFIRMATION"),
    ],
)
def test_a_failed_delivery_goes_back_to_what_the_turn_shows_by_then(
    before: TaskState, meanwhile: tuple[str, ...], after: str
) -> None:
    asked = run(RequestCancel(4, T1), *(seen(type, 5) for type in meanwhile), state=before)[0]
    state, outputs = run(seen("cancel_delivery_failed", 6), state=asked)
    assert asked.status is TaskStatus.CANCELLING
    assert (state.status, state.cancel_requested, state.deadline_at, outputs) == (after, False, None, [])


def test_a_failed_delivery_does_not_undo_a_stop_that_got_through() -> None:
    confirmed = run(seen("interrupt_confirmed", 5), state=CANCELLING)[0]
    climbed = run(DeadlinePassed(), state=CANCELLING, now=10.0)[0]
    for state in (confirmed, climbed):
        assert run(seen("cancel_delivery_failed", 6), state=state)[0] == replace(state, version=6)


def test_time_alone_climbs_the_ladder_and_gives_up_unproven() -> None:
    state, levels = CANCELLING, list[TaskOutput]()
    while state.deadline_at is not None:
        state, outputs = step(state, DeadlinePassed(), state.deadline_at)
        levels += outputs
    assert levels == [
        StopLadder(T1, StopLevel.TERMINATE, 15.0),
        StopLadder(T1, StopLevel.KILL, 20.0),
        TurnSettled(T1, TurnState.FAILED, cancel_requested=True, is_proven=False),
    ]
    assert (state.status, state.turn) == (TaskStatus.FAILED, TurnState.FAILED)


def test_a_late_timer_still_gives_each_rung_its_whole_wait() -> None:
    state, outputs = step(CANCELLING, DeadlinePassed(), 1000.0)
    assert outputs == (StopLadder(T1, StopLevel.TERMINATE, 1005.0),)
    assert step(state, DeadlinePassed(), 1004.9) == (state, ())


def test_a_driver_may_bring_its_own_ladder() -> None:
    state, outputs = run(RequestCancel(4, T1, (Rung(StopLevel.KILL, 1.0),)), state=RUNNING)
    assert outputs == [StopLadder(T1, StopLevel.KILL, 1.0)]
    assert step(state, DeadlinePassed(), 1.0)[0].status is TaskStatus.FAILED


def test_a_ladder_without_an_end_cannot_be_built() -> None:
    for seconds in (0.0, -1.0, inf, nan):
        with pytest.raises(ContractError):
            Rung(StopLevel.KILL, seconds)
    with pytest.raises(ContractError):
        RequestCancel(1, T1, ())
    assert [rung.level for rung in STOP_LADDER] == list(StopLevel)


@pytest.mark.parametrize("turn", [turn for turn in TurnState if not turn.is_terminal])
def test_a_turn_ends_in_a_terminal_state_only(turn: TurnState) -> None:
    with pytest.raises(ContractError):
        TurnEnded(1, T1, turn)


def test_a_prompt_accepted_during_a_turn_waits_for_its_end() -> None:
    state, _ = run(seen("prompt_accepted", 5, T2), seen("prompt_accepted", 6, T3), state=RUNNING)
    assert (state.status, state.turn_id) == (TaskStatus.RUNNING, T1)
    state, outputs = run(TurnEnded(7, T1, TurnState.COMPLETED), state=state)
    assert (state.status, state.turn_id, state.prompts) == (TaskStatus.PENDING, T2, (T3,))
    assert outputs == [TurnSettled(T1, TurnState.COMPLETED, cancel_requested=False)]
    state, _ = run(TurnEnded(8, T3, TurnState.INTERRUPTED), TurnEnded(9, T2, TurnState.FAILED), state=state)
    assert (state.status, state.prompts) == (TaskStatus.FAILED, ())


def test_a_prompt_that_is_passed_over_still_waits() -> None:
    state, _ = run(seen("turn_started", 5, T2), TurnEnded(6, T2, TurnState.COMPLETED), state=PENDING)
    assert (state.status, state.turn_id) == (TaskStatus.PENDING, T1)


# --- the machine, walked -----------------------------------------------------------------------------------------


def inputs_at(version: int, turns: Sequence[TurnId]) -> Iterator[TaskInput]:
    for turn_id in turns:
        yield from (TaskEvent(type, version, turn_id) for type in TaskEventType)
        yield from (TurnEnded(version, turn_id, turn, early) for turn in TURN_ENDS for early in (False, True))
        yield RequestCancel(version, turn_id)
    yield Deleted(version)


def timely(state: TaskState, one: TaskInput) -> TaskState:
    """Step with the timer on time: it fires when due, and all else comes before."""
    now = state.deadline_at if isinstance(one, DeadlinePassed) and state.deadline_at is not None else 0.0
    return step(state, one, now)[0]


def body(state: TaskState) -> TaskState:
    """A state without its version."""
    return replace(state, version=0)


def is_fresh(before: TaskState, one: TaskInput) -> bool:
    return isinstance(one, DeadlinePassed) or one.version > before.version


def names(one: TaskInput) -> TurnId | None:
    return None if isinstance(one, Deleted | DeadlinePassed) else one.turn_id


def opens(before: TaskState, one: TaskInput) -> bool:
    """Whether an input brings a turn that the task has not had."""
    if not isinstance(one, TaskEvent) or one.turn_id == before.turn_id or one.turn_id in before.past_turns:
        return False
    return one.type in (TaskEventType.PROMPT_ACCEPTED, TaskEventType.TURN_STARTED)


def stale_changes_nothing(before: TaskState, one: TaskInput, after: TaskState) -> bool:
    return is_fresh(before, one) or after == before


def versions_only_rise(before: TaskState, one: TaskInput, after: TaskState) -> bool:
    if isinstance(one, DeadlinePassed):
        return after.version == before.version
    return after.version == max(before.version, one.version)


def terminal_is_final(before: TaskState, one: TaskInput, after: TaskState) -> bool:
    if before.stage not in ENDED or isinstance(one, Deleted):
        return True
    return opens(before, one) or (after.stage, after.turn_id, after.turn) == (before.stage, before.turn_id, before.turn)


def delete_is_final(before: TaskState, one: TaskInput, after: TaskState) -> bool:
    return before.stage is not TaskStage.DELETE or body(after) == body(before)


def late_is_fenced(before: TaskState, one: TaskInput, after: TaskState) -> bool:
    """What names another turn may bring it or queue it; it never touches the turn that the task has."""
    if names(one) in (None, before.turn_id) or opens(before, one):
        return True
    same = replace(after, version=before.version, prompts=before.prompts, past_turns=before.past_turns)
    return same == before and set(after.prompts) <= set(before.prompts)


def past_turns_stay_past(before: TaskState, one: TaskInput, after: TaskState) -> bool:
    return before.past_turns <= after.past_turns and (
        names(one) not in before.past_turns or body(after) == body(before)
    )


def streams_never_decide(before: TaskState, one: TaskInput, after: TaskState) -> bool:
    is_stream = isinstance(one, TaskEvent) and one.type is TaskEventType.STREAM_ENDED
    return not is_stream or body(after) == body(before)


def cancelling_is_left_by_an_end(before: TaskState, one: TaskInput, after: TaskState) -> bool:
    if before.stage is not TaskStage.CANCELLING or after.stage is TaskStage.CANCELLING:
        return True
    undone = isinstance(one, TaskEvent) and one.type is TaskEventType.CANCEL_DELIVERY_FAILED
    return undone or isinstance(one, TurnEnded | Deleted | DeadlinePassed) or opens(before, one)


def the_newest_is_not_contradicted(before: TaskState, one: TaskInput, after: TaskState) -> bool:
    """Whatever was seen before: the state does not deny what the highest version just said of the task's turn."""
    if not is_fresh(before, one) or after.stage is TaskStage.DELETE:
        return True
    match one:
        case Deleted():
            return False
        case TurnEnded(turn_id=turn_id):
            return turn_id != after.turn_id or after.stage in ENDED
        case TaskEvent(type=TaskEventType.TURN_STARTED, turn_id=turn_id):
            return turn_id in after.past_turns or (turn_id == after.turn_id and after.stage is not TaskStage.PENDING)
        case TaskEvent(type=TaskEventType.TURN_WAITING, turn_id=turn_id):
            return turn_id != after.turn_id or after.stage not in (TaskStage.PENDING, TaskStage.RUNNING)
        case TaskEvent(type=TaskEventType.TURN_RESUMED, turn_id=turn_id):
            return turn_id != after.turn_id or after.stage not in (TaskStage.PENDING, TaskStage.PENDING_CONFIRMATION)
        case TaskEvent(type=TaskEventType.PROMPT_ACCEPTED, turn_id=turn_id):
            return turn_id in (after.turn_id, *after.prompts) or turn_id in after.past_turns
        case _:
            return True


STEP_LAWS = {
    law.__name__: law
    for law in (
        stale_changes_nothing,
        versions_only_rise,
        terminal_is_final,
        delete_is_final,
        late_is_fenced,
        past_turns_stay_past,
        streams_never_decide,
        cancelling_is_left_by_an_end,
        the_newest_is_not_contradicted,
    )
}
STATE_LAWS: Mapping[str, Callable[[TaskState], bool]] = {
    "a deadline runs exactly while cancelling": lambda s: (
        (s.deadline_at is not None) == (s.stage is TaskStage.CANCELLING)
    ),
    "an open turn has a cancel recorded exactly while cancelling": lambda s: (
        s.stage not in OPEN or s.cancel_requested == (s.stage is TaskStage.CANCELLING)
    ),
    "no prompt waits behind a task that is over": lambda s: s.stage in OPEN or not s.prompts,
    "a turn is in one place": lambda s: (
        len({s.turn_id, *s.prompts} | s.past_turns) == 1 + len(s.prompts) + len(s.past_turns)
    ),
}


@cache
def walk(last_version: int = 5) -> Exploration[TaskState, TaskInput]:
    """Two turns, versions from 0 on: at each state every input that is older, of the same age, next, or after a gap."""

    def inputs(state: TaskState) -> Iterator[TaskInput]:
        yield DeadlinePassed()
        for version in (state.version - 1, state.version, state.version + 1, state.version + 2):
            if 0 <= version <= last_version:
                yield from inputs_at(version, (T1, T2))

    return explore(
        start=[TaskState()],
        inputs=inputs,
        step=timely,
        label=labelled_by("stage"),
        named=lambda one: str(one.type),
        state_laws=STATE_LAWS,
        step_laws=STEP_LAWS,
    )


def test_every_state_and_edge_is_walked_and_every_law_holds(record_property: Callable[[str, object], None]) -> None:
    found = walk()
    record_property("explored", found.summary("task"))
    check_table(found, MACHINE)


@pytest.mark.deep
def test_every_law_holds_on_longer_ways(record_property: Callable[[str, object], None]) -> None:
    record_property("explored", walk(8).summary("task, longer ways"))


def test_a_cancel_is_refused_exactly_where_the_flag_says_so() -> None:
    accepted = {source for source, name, _ in walk().edges if name == RequestCancel.type}
    refused = {stage for stage, name in walk().refused if name == RequestCancel.type}
    assert accepted == {"PENDING", "RUNNING", "PENDING_CONFIRMATION", "CANCELLING"}
    assert refused | accepted == {stage.value for stage in TaskStage}


def test_cancelling_is_always_left_by_time_alone() -> None:
    for state in walk().parents:
        for _ in STOP_LADDER:
            state = timely(state, DeadlinePassed())
        assert state.stage is not TaskStage.CANCELLING


def test_a_due_deadline_comes_before_the_observation() -> None:
    cancelling = [state for state in walk().parents if state.deadline_at is not None]
    assert cancelling
    for state in cancelling:
        due = state.deadline_at or 0.0
        waited, first = step(state, DeadlinePassed(), due)
        for one in inputs_at(state.version + 1, (T1, T2)):
            try:
                following, second = step(waited, one, due)
            except ContractError:
                with pytest.raises(ContractError):
                    step(state, one, due)
            else:
                assert step(state, one, due) == (following, first + second)


# --- the machine beside the projection ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ledger:
    """The facts of a session, turn by turn and without a table: what the projection is asked with.

    `cancel`: the turn that is to be stopped, the rung reached, and whether the agent confirmed.
    """

    turns: tuple[tuple[TurnId, TurnState | None], ...] = ()
    latest: TurnId | None = None
    cancel: tuple[TurnId, int, bool] | None = None
    is_deleted: bool = False

    def state_of(self, turn_id: TurnId | None) -> TurnState | None:
        return dict[TurnId | None, TurnState | None](self.turns).get(turn_id)

    def facts(self) -> SessionFacts:
        return SessionFacts(
            turn=self.state_of(self.latest),
            prompt_accepted=None in dict(self.turns).values(),
            cancel_requested=self.cancel is not None,
            is_deleted=self.is_deleted,
        )

    @property
    def current(self) -> TurnId | None:
        """The open turn, or the first prompt that waits, or the last turn."""
        if self.state_of(self.latest) in (TurnState.RUNNING, TurnState.WAITING):
            return self.latest
        return next((turn_id for turn_id, turn in self.turns if turn is None), self.latest)

    def is_over(self, turn_id: TurnId) -> bool:
        """It ended, or was open when another one started."""
        turn = self.state_of(turn_id)
        return turn is not None and (turn.is_terminal or turn_id != self.latest)

    def put(self, turn_id: TurnId, turn: TurnState | None, *, is_latest: bool) -> Ledger:
        """Write a turn's state. How a turn ended that is not the latest matters to nobody, so it is not kept."""
        latest = turn_id if is_latest else self.latest
        turns = [(one, state) for one, state in self.turns if one != turn_id]
        position = [one for one, _ in self.turns].index(turn_id) if turn_id in dict(self.turns) else len(turns)
        turns.insert(position, (turn_id, turn))
        over = TurnState.FAILED
        kept = [(one, state if one == latest or state is None else over) for one, state in turns]
        return replace(self, turns=tuple(kept), latest=latest)


def fold(ledger: Ledger, one: TaskInput) -> Ledger:
    """The same history as the machine sees, one fact at a time."""
    if ledger.is_deleted:
        return ledger
    match one:
        case Deleted():
            return replace(ledger, is_deleted=True, cancel=None)
        case RequestCancel(turn_id=turn_id):
            return replace(ledger, cancel=ledger.cancel or (turn_id, 1, False))
        case DeadlinePassed() if ledger.cancel is not None:
            turn_id, rung, is_confirmed = ledger.cancel
            if rung < len(STOP_LADDER):
                return replace(ledger, cancel=(turn_id, rung + 1, is_confirmed))
            return replace(ledger.put(turn_id, TurnState.FAILED, is_latest=True), cancel=None)
        case TaskEvent(type=type, turn_id=turn_id) if not ledger.is_over(turn_id):
            return fold_event(ledger, type, turn_id, is_current=turn_id == ledger.current)
        case TurnEnded(turn_id=turn_id, turn=turn) if not ledger.is_over(turn_id):
            if turn_id != ledger.current:
                return ledger.put(turn_id, turn, is_latest=False)
            is_clean = turn is TurnState.COMPLETED
            if ledger.cancel is not None and is_clean and not one.reported_before_interrupt_confirmed:
                turn = TurnState.INTERRUPTED
            return replace(ledger.put(turn_id, turn, is_latest=True), cancel=None)
        case _:
            return ledger


def fold_event(ledger: Ledger, type: TaskEventType, turn_id: TurnId, *, is_current: bool) -> Ledger:
    match type:
        case TaskEventType.PROMPT_ACCEPTED if turn_id not in dict(ledger.turns):
            return ledger.put(turn_id, None, is_latest=False)
        case TaskEventType.TURN_STARTED if not is_current:
            if ledger.cancel is not None:  # what was to be stopped is over, even a prompt that never began
                ledger = ledger.put(ledger.cancel[0], TurnState.INTERRUPTED, is_latest=False)
            return replace(ledger.put(turn_id, TurnState.RUNNING, is_latest=True), cancel=None)
        case TaskEventType.TURN_STARTED if ledger.state_of(turn_id) is None:
            return ledger.put(turn_id, TurnState.RUNNING, is_latest=True)
        case TaskEventType.TURN_RESUMED if is_current:
            return ledger.put(turn_id, TurnState.RUNNING, is_latest=True)
        case TaskEventType.TURN_WAITING if is_current:
            return ledger.put(turn_id, TurnState.WAITING, is_latest=True)
        case TaskEventType.INTERRUPT_CONFIRMED if is_current and ledger.cancel is not None:
            return replace(ledger, cancel=(*ledger.cancel[:2], True))
        case TaskEventType.CANCEL_DELIVERY_FAILED if ledger.cancel == (turn_id, 1, False):
            return replace(ledger, cancel=None)
        case _:
            return ledger


@dataclass(frozen=True, slots=True)
class Both:
    """The machine and the ledger side by side. The version is kept at 0: only whether an input is newer matters."""

    machine: TaskState = field(default=TaskState(version=0))
    ledger: Ledger = Ledger()


@pytest.mark.parametrize("turns", [(T1, T2), pytest.param((T1, T2, T3), marks=pytest.mark.deep)])
def test_the_machine_and_the_projection_of_the_facts_agree_in_every_reachable_state(
    turns: tuple[TurnId, ...], record_property: Callable[[str, object], None]
) -> None:
    def both(state: Both, one: TaskInput) -> Both:
        return Both(body(timely(state.machine, one)), fold(state.ledger, one))

    given = [DeadlinePassed(), *inputs_at(1, turns)]
    found = explore(
        start=[Both()],
        inputs=lambda state: given,
        step=both,
        label=lambda state: state.machine.stage.value,
        named=lambda one: str(one.type),
        state_laws={
            "status": lambda state: state.machine.status == task_status(state.ledger.facts()),
            "turn": lambda state: state.ledger.is_deleted or state.machine.turn_id == state.ledger.current,
        },
    )
    record_property("explored", found.summary("task x projection"))
    assert found.reached() == {stage.value for stage in TaskStage}


# --- a bad network -----------------------------------------------------------------------------------------------


@st.composite
def histories(draw: st.DrawFn) -> list[TaskInput]:
    """A log: any inputs of three turns, at rising versions."""
    kinds = draw(st.lists(st.sampled_from(list(inputs_at(0, (T1, T2, T3)))), max_size=24))
    gaps = draw(st.lists(st.integers(1, 3), min_size=len(kinds), max_size=len(kinds)))
    versions = [sum(gaps[: index + 1]) for index in range(len(kinds))]
    return [at(one, version) for one, version in zip(kinds, versions, strict=True)]


def at(one: TaskInput, version: int) -> TaskInput:
    return one if isinstance(one, DeadlinePassed) else replace(one, version=version)


def deliver(inputs: Iterable[TaskInput], state: TaskState | None = None) -> tuple[TaskState, list[TaskInput]]:
    """Feed a machine, and say which inputs it took: those that raised its version."""
    state, taken = state or TaskState(), []
    for one in inputs:
        try:
            following, _ = step(state, one, 0.0)
        except ContractError:
            continue
        for name, law in STEP_LAWS.items():
            assert law(state, one, following), name
        if following.version > state.version:
            taken.append(one)
        state = following
    return state, taken


@given(data=st.data(), history=histories())
def test_a_shuffled_doubled_and_torn_delivery_is_the_ordered_run_of_what_it_took(
    data: st.DataObject, history: list[TaskInput]
) -> None:
    delivery = data.draw(st.lists(st.sampled_from(history), max_size=40)) if history else []
    state, taken = deliver(delivery)
    assert deliver(one for one in history if one in taken)[0] == state
    assert [one for one in history if one in taken] == taken
    observed = [one.version for one in delivery if not isinstance(one, DeadlinePassed | RequestCancel)]
    assert state.version >= max(observed, default=-1)


@given(history=histories())
def test_the_same_log_twice_is_the_log_once(history: list[TaskInput]) -> None:
    once, _ = deliver(history)
    observations = [one for one in history if not isinstance(one, RequestCancel)]
    assert deliver(observations, once)[0] == once
    assert deliver(reversed(observations), once)[0] == once


@given(data=st.data(), history=histories())
def test_who_misses_all_before_a_turn_started_stands_where_the_others_stand(
    data: st.DataObject, history: list[TaskInput]
) -> None:
    """A start takes the task over: whatever was lost before it, the task is not held in an old turn."""
    newest, last = (
        TurnId("newest"),
        max((one.version for one in history if not isinstance(one, DeadlinePassed)), default=0),
    )
    kinds = data.draw(st.lists(st.sampled_from(list(inputs_at(0, (newest,)))), max_size=8))
    started = TaskEvent(TaskEventType.TURN_STARTED, last + 1, newest)
    suffix = [started, *(at(one, last + 2 + index) for index, one in enumerate(kinds))]
    late, _ = deliver(suffix)
    early, _ = deliver([*(one for one in history if not isinstance(one, Deleted)), *suffix])
    if early.turn_id == newest:
        assert replace(early, prompts=(), past_turns=frozenset()) == late
    else:  # the turn is over, and a prompt that was accepted before it is next
        assert late.stage in ENDED | {TaskStage.DELETE}
        assert (early.stage, newest in early.past_turns) in [(TaskStage.PENDING, True), (TaskStage.DELETE, True)]
