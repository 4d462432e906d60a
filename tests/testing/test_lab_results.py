"""How the lab counts: prompts by what the model was given, ends by the log, each held against the other."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec

from interlock.lifecycle.turn import Basis
from interlock.lifecycle.turns import TurnRecord
from interlock.testing.lab.filming import WallClock
from interlock.testing.lab.recipes import CODEX
from interlock.testing.lab.results import (
    FAILED,
    INTERRUPTED,
    LabEnds,
    LabReading,
    ScenarioResult,
    SentPrompt,
    Tally,
    count_ends,
    due_end,
    is_altered,
    is_given_up,
    times_delivered,
)
from interlock.testing.lab.run import end_delays
from interlock.testing.lab.table import row, total_row
from interlock.testing.scripted_model import Received, RequestKind, RequestOutcome
from interlock.vocabulary.events.audit import DeliveryReceipt, DeliveryStage, RunState
from interlock.vocabulary.events.conversation import UserMessage
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import EventId, PromptId, RunId, SessionId, TurnId
from interlock.vocabulary.run import ReasonType, RunStatus, TerminationReason
from interlock.vocabulary.states import TurnState

SESSION = SessionId("ses_lab")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def prompt(number: int, ends: frozenset[TurnState] | None = frozenset({TurnState.COMPLETED})) -> SentPrompt:
    return SentPrompt(PromptId(f"prm_{number}"), "short", f"token{number}", ends)


def request(
    *told: str, kind: RequestKind = RequestKind.MAIN, outcome: RequestOutcome = RequestOutcome.ANSWERED
) -> Received:
    return Received(0, kind, "/v1/messages", " ".join(told).encode(), prompt=told[-1], outcome=outcome)


def begun(number: int) -> Event:
    said = UserMessage(text="", prompt_id=PromptId(f"prm_{number}"))
    return Event(
        id=EventId(f"evt_{number}"), session_id=SESSION, seq=number, ts=NOW, turn_id=TurnId(f"trn_{number}"), data=said
    )


def ended(**states: TurnState) -> dict[TurnId, TurnRecord]:
    basis = next(iter(Basis))
    return {
        TurnId(name): TurnRecord(session_id=SESSION, turn_id=TurnId(name), state=state, basis=basis)
        for name, state in states.items()
    }


def test_a_prompt_is_delivered_once_doubled_or_lost_by_the_words_that_the_model_was_given() -> None:
    requests = (request("token0"), request("token0", "token1", "token1"), request("token2", kind=RequestKind.SIDE))
    assert [times_delivered(prompt(number), requests) for number in range(3)] == [1, 2, 0]


def test_a_prompt_that_arrives_behind_the_rest_of_a_draft_is_altered() -> None:
    clean = prompt(0).text
    assert not is_altered(prompt(0), [request(clean), request(f"<reminder>\n {clean} \n")])
    assert is_altered(prompt(0), [request(clean), request(f"half a thought{clean}")])
    assert not is_altered(prompt(0), [request(f"half a thought{clean}", kind=RequestKind.SIDE)])
    assert not is_altered(prompt(0), [request(f"{clean}{prompt(1).text}")])


def test_an_end_is_due_for_each_prompt_that_arrived_and_has_to_be_of_the_right_kind() -> None:
    prompts = [prompt(0), prompt(1, INTERRUPTED), prompt(2)]
    requests = (request("token0"), request("token0", "token1"), request("token0", "token1", "token2"))
    turns = ended(trn_0=TurnState.COMPLETED, trn_1=TurnState.COMPLETED, trn_2=TurnState.RUNNING)
    found = count_ends(prompts, requests, [begun(0), begun(1), begun(2)], turns)
    assert found == LabEnds(due=3, reported=2, right=1, fabricated=0, false_deliveries=0)


def test_a_completion_of_a_prompt_that_never_arrived_is_told_apart_from_an_honest_failure() -> None:
    turns = ended(trn_0=TurnState.COMPLETED, trn_1=TurnState.FAILED)
    found = count_ends([prompt(0), prompt(1)], (), [begun(0), begun(1)], turns)
    assert found == LabEnds(due=0, reported=0, right=0, fabricated=0, false_deliveries=1)


def test_a_prompt_that_never_arrived_is_lost_once_it_was_typed_or_given_up_and_waits_before() -> None:
    def receipt(stage: DeliveryStage) -> Event:
        told = DeliveryReceipt(prompt_id=PromptId("prm_0"), stage=stage)
        return Event(id=EventId("evt_r"), session_id=SESSION, seq=9, ts=NOW, data=told)

    assert not is_given_up(prompt(0), [begun(0), receipt(DeliveryStage.QUEUED)], ended(trn_0=TurnState.RUNNING))
    assert is_given_up(prompt(0), [begun(0), receipt(DeliveryStage.TYPED)], ended(trn_0=TurnState.RUNNING))
    assert is_given_up(prompt(0), [begun(0)], ended(trn_0=TurnState.FAILED))


def test_a_completion_that_no_prompt_began_is_fabricated() -> None:
    turns = ended(trn_0=TurnState.COMPLETED, trn_9=TurnState.COMPLETED, trn_8=TurnState.RUNNING)
    assert count_ends([prompt(0)], (request("token0"),), [begun(0)], turns).fabricated == 1


def test_a_turn_that_the_cli_began_by_itself_is_none_that_was_made_up() -> None:
    turns = ended(trn_0=TurnState.COMPLETED, trn_9=TurnState.COMPLETED)
    asked = (request("token0"), request("<task-notification>"))
    assert count_ends([prompt(0)], asked, [begun(0)], turns, own_turns=1).fabricated == 0
    twice = {**turns, **ended(trn_8=TurnState.COMPLETED)}
    assert count_ends([prompt(0)], asked, [begun(0)], twice, own_turns=1).fabricated == 1


def test_arguments_go_only_to_versions_that_know_them() -> None:
    assert CODEX.arguments_at("0.166.0") == ("--no-daemon",)
    assert CODEX.arguments_at("0.144.5") == ()


def test_where_the_scenario_does_not_know_the_last_answer_of_the_model_decides() -> None:
    once = prompt(0, None)
    cut, answered = request("token0", outcome=RequestOutcome.CUT), request("token0")
    assert due_end(once, (cut,)) == FAILED
    assert due_end(once, (cut, answered)) == {TurnState.COMPLETED}


def a_result(**changes: object) -> ScenarioResult:
    made = ScenarioResult(cli="claude", version="2.1.0", scenario="stream", profile="0", prompts=2, delivered=2)
    return msgspec.structs.replace(made, **changes)


def test_each_thing_that_was_not_right_is_said_the_worst_first() -> None:
    assert a_result().problems == []
    found = a_result(delivered=0, lost=2, false_deliveries=1, interrupts=2, interrupted=0, killed=1, trouble="late")
    assert found.problems == [
        "1 lost but called completed",
        "1 lost (said to be unknown)",
        "1 killed instead of interrupted",
        "1 interrupts without effect",
        "late",
    ]
    assert a_result(checks={"it is stalled": False, "it ran": True}).problems == ["not so: it is stalled"]
    assert a_result(end_delays_seconds=(0.3, -5.0)).problems == []
    assert a_result(end_delays_seconds=(0.3, -5.1, -55.0)).problems == ["2 ends said before the model's last word"]


def test_the_row_of_a_cli_sums_its_scenarios() -> None:
    reading = LabReading(frames={"idle": (9, 10), "working": (10, 10)})
    results = [
        a_result(reading=reading, ends=2, ends_right=2, ends_reported=2),
        a_result(delivered=1, lost=1, lost_and_said=("failed",)),
    ]
    assert row(results[1])[-1] == "1 lost (said to be failed)"
    cells = total_row(results)
    assert (cells[1], cells[2], cells[4], cells[7], cells[11]) == ("all", "3/4", "1", "2/2", "95.0%")
    assert cells[-1] == "1 of 2 ok"


def test_an_end_is_as_late_as_the_monotonic_clock_says_although_the_wall_clock_was_set() -> None:
    """Seen on a machine that was held for some seconds: an end before the model's last word, which was none."""
    first, second = prompt(1), prompt(2)
    first.over_at, second.over_at = 1001.0, 1011.0
    clock, wall = WallClock(), NOW.timestamp()
    for at, ahead in ((1000.0, 0.0), (1002.5, 0.0), (1010.0, 3.8), (1020.0, 3.8)):
        clock.look(at, wall + at - 1000 + ahead)

    def over(number: int, seconds: float) -> Event:
        done = RunState(run_id=RunId("run"), status=RunStatus.DONE, reason=TerminationReason(ReasonType.NATURAL_END))
        return msgspec.structs.replace(begun(number), ts=NOW + timedelta(seconds=seconds), data=done)

    events = (begun(1), over(1, 2.2), begun(2), over(2, 12.5 + 3.8))
    assert end_delays(Tally(prompts=[first, second]), events, clock) == (1.2, 1.5)
