"""One child session: every path of its machine, its deadline, its attempts and its ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from interlock.lifecycle.children.subagent import (
    MACHINE,
    MAX_TIMEOUT_MS,
    ChildFailed,
    ChildFinished,
    ChildInterrupted,
    Command,
    Detach,
    Interrupt,
    Retry,
    SendInput,
    SetupFailed,
    StartChild,
    SubagentInput,
    SubagentRecord,
    SubagentTimerFired,
    queue_child,
    step,
)
from interlock.lifecycle.children.subagent_evidence import missing_evidence
from interlock.lifecycle.children.subagents import subagents_from
from interlock.testing.explore import check_table, explore, labelled_by
from interlock.vocabulary.actions import NextActionKind
from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.events.audit import Anomaly
from interlock.vocabulary.events.conversation import SubagentEvent
from interlock.vocabulary.ids import SessionId, SubagentId
from interlock.vocabulary.states import SubagentState
from tests.lifecycle.children import TIMEOUT_MS, after, at, queued, running, session

LAST_SECOND: Final = 4
LAST_ATTEMPT: Final = 3


@dataclass(frozen=True, slots=True)
class Walked:
    """A child at a time, and what the last input gave: facts, and how many anomalies."""

    child: SubagentRecord
    seconds: int = 0
    facts: tuple[SubagentEvent, ...] = ()
    anomalies: int = 0

    @property
    def status(self) -> SubagentState:
        return self.child.status


Move = tuple[SubagentInput, int]


def every_input(walked: Walked) -> Iterator[Move]:
    """Every input, now and a second later, with reports of this attempt, the one before and the one after."""
    attempt = walked.child.attempt
    given: list[SubagentInput] = [
        StartChild(session(attempt)),
        Interrupt("stop"),
        Detach("restart"),
        SubagentTimerFired(),
    ]
    if attempt < LAST_ATTEMPT:
        given += [Retry("websocket closed"), SendInput()]
    for number in (attempt - 1, attempt, attempt + 1):
        given += [
            SetupFailed(number, "no such agent"),
            ChildFinished(number, "an answer"),
            ChildFinished(number, " "),
            ChildFailed(number, "crashed"),
            ChildInterrupted(number),
        ]
    for waited in (0, 1):
        if walked.seconds + waited <= LAST_SECOND:
            yield from ((input, waited) for input in given)


def walk_step(walked: Walked, move: Move) -> Walked:
    input, waited = move
    seconds = walked.seconds + waited
    child, outputs = step(walked.child, input, at(seconds))
    facts = tuple(output for output in outputs if isinstance(output, SubagentEvent))
    return Walked(child, seconds, facts, len(outputs) - len(facts))


def is_due(walked: Walked) -> bool:
    return walked.child.deadline is not None and at(walked.seconds) >= walked.child.deadline


def moves_by_one_fact(before: Walked, _: Move, later: Walked) -> bool:
    return later.facts == (() if later.child == before.child else (later.child.fact,))


def reads_back(before: Walked, _: Move, later: Walked) -> bool:
    """Reading remembers one fact a child, so what holds for each two neighbours holds for the log."""
    first = subagents_from([before.child.fact])[before.child.id]
    reading = subagents_from([before.child.fact, *later.facts])[before.child.id]
    return reading.fact == later.child.fact and reading.anomalies == first.anomalies


def every_refusal_to_listen_is_noted(before: Walked, move: Move, later: Walked) -> bool:
    if isinstance(move[0], SubagentTimerFired):
        return later.anomalies == 0
    applied = later.child != before.child and later.status is not SubagentState.TIMED_OUT
    return later.anomalies == (0 if applied else 1)


STATE_LAWS: Final = {
    "an ended child carries what its state requires": lambda w: not missing_evidence(w.child.fact),
    "a deadline is set exactly while a child runs": lambda w: (w.status == "running") == (w.child.deadline is not None),
    "no due deadline is left once an input was taken": lambda w: not is_due(w),
    "a detached child is not for the model": lambda w: w.status != "detached" or not w.child.fact.model_visible,
}
STEP_LAWS: Final = {
    "a move is one fact, and the fact is the state": moves_by_one_fact,
    "a log of what was written reads back as the state": reads_back,
    "an input that was not applied is noted, and a timer never is": every_refusal_to_listen_is_noted,
    "attempts never go back": lambda before, _, later: before.child.attempt <= later.child.attempt,
    "an end is final but for new input": lambda before, move, later: (
        not before.child.is_terminal or before.child == later.child or isinstance(move[0], SendInput)
    ),
    "a due deadline comes before the input": lambda before, move, later: (
        before.child.deadline is None or at(later.seconds) < before.child.deadline or later.status == "timed_out"
    ),
    "a child starts with its whole time": lambda before, _, later: (
        later.status != "running" or before.status == "running" or later.child.started_at == at(later.seconds)
    ),
}


def test_the_walk_of_every_path_keeps_the_laws_and_is_the_table(record_property: Callable[[str, object], None]) -> None:
    found = explore(
        start=[Walked(queued())],
        inputs=every_input,
        step=walk_step,
        label=labelled_by("status"),
        named=lambda move: move[0].on,
        state_laws=STATE_LAWS,
        step_laws=STEP_LAWS,
    )
    check_table(found, MACHINE)
    assert found.stuck(lambda walked: walked.child.is_terminal) == []
    record_property("explored", found.summary("subagent"))


def test_every_running_child_can_be_left_by_the_clock_alone() -> None:
    timed_out, outputs = step(running(), SubagentTimerFired(), at(2))
    assert timed_out.status is SubagentState.TIMED_OUT
    assert outputs == (timed_out.fact,)
    assert (timed_out.fact.timeout_ms, timed_out.fact.elapsed_ms) == (TIMEOUT_MS, 2000)


def test_the_clock_runs_from_the_start_and_not_in_the_queue() -> None:
    late = after(queued(), StartChild(session(1)), 1000)
    assert late.deadline == at(1002)
    assert late.started_at == at(1000)
    assert after(late, SubagentTimerFired(), 1001.999) is late
    assert after(late, SubagentTimerFired(), 1002).status is SubagentState.TIMED_OUT


@pytest.mark.parametrize(
    "input",
    [
        ChildFinished(1, "a real answer, but late"),
        ChildFailed(1, "crashed"),
        ChildFailed(7, "of no attempt that we know"),
        Interrupt("stop"),
        Detach("restart"),
        Retry("again"),
        SendInput(),
    ],
)
def test_a_due_deadline_comes_first_and_says_what_it_overtook(input: SubagentInput) -> None:
    child, (fact, anomaly) = step(running(), input, at(5))
    assert child.status is SubagentState.TIMED_OUT
    assert fact == child.fact
    assert child.fact.elapsed_ms == 5000
    assert child.fact.next_actions[0].kind is NextActionKind.INSPECT_CHILD
    assert isinstance(anomaly, Anomaly)
    assert anomaly.kind == "overtaken_by_deadline"
    assert input.on in anomaly.message


def test_a_queued_child_is_closed_before_its_start_and_stays_closed() -> None:
    closed = after(queued(), Interrupt("not needed"), 1)
    assert (closed.status, closed.fact.reason) == (SubagentState.INTERRUPTED, "closed_before_start")
    assert closed.fact.summary == "not needed"
    with pytest.raises(ContractError, match="send_input"):
        step(closed, SendInput(), at(2))


def test_a_setup_that_failed_is_recorded_although_no_session_was_made() -> None:
    child, outputs = step(queued(), SetupFailed(1, "no such agent"), at(1))
    assert (child.status, child.fact.reason, child.fact.child_session_id) == ("failed", "setup_failed", None)
    assert child.fact.summary == "no such agent"
    assert child.fact.next_actions
    assert outputs == (child.fact,)


def test_a_child_that_says_nothing_did_not_complete() -> None:
    assert after(running(), ChildFinished(1, " \n"), 1).fact.reason == "empty_answer"
    assert after(running(), ChildFinished(1, "", {}), 1).status is SubagentState.FAILED
    only_checkpoint = after(running(), ChildFinished(1, "", {"status": "partial"}), 1)
    assert (only_checkpoint.status, only_checkpoint.fact.elapsed_ms) == (SubagentState.COMPLETED, 1000)


def test_a_retry_is_a_new_attempt_in_a_new_session_and_the_old_one_is_not_heard() -> None:
    retried = after(running(), Retry("websocket closed"), 1)
    assert (retried.status, retried.attempt, retried.fact.child_session_id) == (SubagentState.QUEUED, 2, None)
    second = after(retried, StartChild(session(2)), 10)
    for late in (ChildFinished(1, "an answer"), ChildFailed(1, "crashed"), ChildInterrupted(1)):
        kept, (anomaly,) = step(second, late, at(11))
        assert kept is second
        assert isinstance(anomaly, Anomaly)
        assert anomaly.kind == "late_child_report"
    assert after(second, ChildFinished(2, "an answer"), 11).fact.child_session_id == session(2)


@pytest.mark.parametrize(
    ("ends", "seconds"),
    [(ChildFinished(1, "done"), 1), (ChildFailed(1, "crashed"), 1), (SubagentTimerFired(), 2), (Interrupt("stop"), 1)],
)
def test_new_input_reopens_an_ended_child_in_its_session_with_its_whole_time(ends: SubagentInput, seconds: int) -> None:
    ended = after(running(), ends, seconds)
    again = after(ended, SendInput(), 50)
    assert (again.status, again.attempt, again.fact.child_session_id) == (SubagentState.RUNNING, 2, session(1))
    assert (again.fact.reason, again.fact.summary, again.deadline) == ("new_input", "", at(52))


def test_a_detached_child_has_no_way_back() -> None:
    detached = after(running(), Detach("the runtime restarts"), 1)
    assert detached.fact.next_actions[0].command == f"interlock debug turns {session(1)}"
    commands: tuple[Command, ...] = (StartChild(session(1)), SendInput(), Retry("x"), Interrupt("x"), Detach("x"))
    for command in commands:
        with pytest.raises(ContractError, match=command.on):
            step(detached, command, at(2))
    assert after(detached, ChildFinished(1, "late"), 2) is detached


@pytest.mark.parametrize("timeout_ms", [0, -1, MAX_TIMEOUT_MS + 1, 10**30])
def test_a_child_has_a_timeout_that_a_clock_can_hold(timeout_ms: int) -> None:
    with pytest.raises(ContractError, match="timeout"):
        queue_child(SubagentId("sub_1"), agent="a", task="t", timeout_ms=timeout_ms, model_visible=False)


@pytest.mark.parametrize("name", ["", "a b", "$(reboot)", "x;y", "../x"])
def test_an_id_that_a_shell_would_read_never_gets_into_a_command(name: str) -> None:
    with pytest.raises(ContractError, match="the session"):
        step(queued(), StartChild(SessionId(name)), at(0))
    with pytest.raises(ContractError, match="names nothing"):
        queued(name)


def test_a_record_is_never_made_of_a_fact_that_this_machine_does_not_write() -> None:
    fact = running().fact
    for change in ({"deadline_at": None}, {"child_session_id": None}, {"timeout_ms": None}, {"status": "completed"}):
        odd = structs.replace(fact, **change)
        status = SubagentState(odd.status)
        with pytest.raises(ContractError):
            SubagentRecord(structs.replace(odd, status=status))


def test_a_clock_that_goes_back_measures_nothing() -> None:
    assert after(running(started_at=100), ChildFinished(1, "done"), 50).fact.elapsed_ms == 0


REPORTS: Final = st.one_of(
    st.builds(SetupFailed, st.integers(), st.text()),
    st.builds(ChildFinished, st.integers(), st.text()),
    st.builds(ChildFailed, st.integers(), st.text(), st.text()),
    st.builds(ChildInterrupted, st.integers()),
    st.just(SubagentTimerFired()),
)


@given(st.sampled_from([queued(), running(), after(running(), ChildFinished(1, "x"), 1)]), st.lists(REPORTS))
def test_no_observation_is_ever_refused(child: SubagentRecord, reports: list[SubagentInput]) -> None:
    for seconds, report in enumerate(reports):
        child = after(child, report, seconds / 2)
    assert not missing_evidence(child.fact)
