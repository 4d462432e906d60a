"""One fold of live text: at each moment, in mid-stream too, every face shows the same text with the same label, and no
partial text passes as an answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final

import pytest
from hypothesis import given
from msgspec import structs

from interlock.testing.scribe import EPOCH
from interlock.vocabulary.events.audit import RunState, SessionDeleted, StreamCheckpoint, TurnStarted
from interlock.vocabulary.events.conversation import AssistantMessage, MessageMetadata, ToolResult
from interlock.vocabulary.events.envelope import Event, new_event
from interlock.vocabulary.events.presenter import TextDelta
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.ids import EventId, RunId, SpawnId, StreamId, TurnId
from interlock.vocabulary.run import CANCELLED, NATURAL_END, RunStatus
from interlock.vocabulary.states import DriverKind
from tests.parity.live_faces import Lived, blocks_of, check_laws, check_moment
from tests.projections.histories import CALL, CASES, NETWORK, TIMEOUT, Story
from tests.properties.test_task_view_properties import HISTORIES, SESSION, Step


class Telling(Story):
    """A story with live text between its events."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[Step] = []
        self._taken = 0

    def log(self, *payloads: Payload, spawn: str | None = None) -> None:
        self.write(*payloads, turn="t1", spawn=spawn)
        self.catch_up()

    def catch_up(self) -> None:
        self.steps += self.events[self._taken :]
        self._taken = len(self.events)

    def live(self, text: str, offset: int, stream: str = "st1", *, turn: str = "t1", spawn: str | None = None) -> None:
        self.catch_up()
        self.steps.append(
            new_event(
                TextDelta(stream_id=StreamId(stream), offset=offset, text=text),
                id=EventId("evt_live"),
                session_id=self.session,
                ts=EPOCH + timedelta(days=1),
                turn_id=TurnId(turn),
                spawn_id=None if spawn is None else SpawnId(spawn),
            )
        )

    def say(self, *pieces: str, stream: str = "st1") -> None:
        offset = 0
        for piece in pieces:
            self.live(piece, offset, stream)
            offset += len(piece)


def kept(text: str, stream: str | None = "st1", *, intermediate: bool = False) -> AssistantMessage:
    named = None if stream is None else StreamId(stream)
    return AssistantMessage(text=text, metadata=MessageMetadata(stream_id=named, intermediate=intermediate))


def checkpoint(text: str, stream: str = "st1", attempt: int = 1) -> StreamCheckpoint:
    return StreamCheckpoint(stream_id=StreamId(stream), offset=len(text), text=text, attempt=attempt)


DONE: Final = RunState(run_id=RunId("run_t1"), status=RunStatus.DONE, reason=NATURAL_END)


def split(told: Telling) -> None:
    told.say("The ", "answer ", "", "is ", "42.")
    told.end(NATURAL_END, text="The answer is 42.", stream_id=StreamId("st1"))


def without_a_checkpoint_a_gap(told: Telling) -> None:
    told.say("The ")
    told.live("is 42.", 11)
    told.live("Really.", 17)
    told.end(NATURAL_END, text="The answer is 42.Really.", stream_id=StreamId("st1"))


def gap_and_checkpoint(told: Telling) -> None:
    told.live("answer", 4)
    told.log(checkpoint("The answer"))
    told.live(" is 42.", 10)
    told.end(NATURAL_END, text="The answer is 42.", stream_id=StreamId("st1"))


def retried_in_another_stream(told: Telling) -> None:
    told.say("Dead ", "words")
    told.say("It is ", "alive", stream="st2")
    told.live(" and more of the dead", 10, "st1")
    told.end(NATURAL_END, text="It is alive", stream_id=StreamId("st2"))


def retried_in_the_same_stream(told: Telling) -> None:
    told.say("The answer is 41.")
    told.live("It is 42.", 0)
    told.live("", 5)
    told.live(" 43.", 5)
    told.end(NATURAL_END, text="It is 43.", stream_id=StreamId("st1"))


def voided_by_a_checkpoint(told: Telling) -> None:
    told.say("Dead words")
    told.log(checkpoint("Dead words"), checkpoint("", "st2", 2))
    told.say("Alive", stream="st2")
    told.end(NETWORK, text="Alive", stream_id=StreamId("st2"), error_kind="network")


def voided_and_never_again(told: Telling) -> None:
    told.say("Dead words")
    told.log(checkpoint("", "st1", 2))
    told.end(NETWORK, error_kind="network")


def interrupted(told: Telling) -> None:
    told.say("Half ", "an answer")
    told.end(CANCELLED, text="Half an answer", stream_id=StreamId("st1"))


def timed_out_with_nothing_kept(told: Telling) -> None:
    told.say("Half ", "an answer")
    told.end(TIMEOUT, budget_seconds=1.0, elapsed_seconds=2.0)


def late_text_of_an_ended_turn(told: Telling) -> None:
    told.say("Whole")
    told.end(NATURAL_END, text="Whole", stream_id=StreamId("st1"))
    told.live(" late", 5)
    told.live("late", 0, "st2")


def late_text_of_a_replaced_spawn(told: Telling) -> None:
    told.log(TurnStarted(driver=DriverKind.STREAM), spawn="s1")
    told.live("of the first", 0, spawn="s1")
    told.log(TurnStarted(driver=DriverKind.STREAM), spawn="s2")
    told.live(" late", 12, spawn="s1")
    told.live("of the second", 0, "st2", spawn="s2")
    told.live("late", 0, "st3", spawn="s1")
    told.log(kept("of the second", "st2"), DONE, spawn="s2")


def a_tool_between_two_texts(told: Telling) -> None:
    told.say("Let me look.")
    told.log(kept("Let me look.", intermediate=True), CALL)
    told.live(" late", 12)
    told.log(ToolResult(call_id=CALL.call_id, ok=True, output="a file"))
    told.say("It is ", "there.", stream="st2")
    told.end(NATURAL_END, text="It is there.", stream_id=StreamId("st2"))


def a_held_answer_that_was_none(told: Telling) -> None:
    told.say("Let me look.")
    told.log(kept("Let me look."))
    told.live(" late", 12)
    told.log(CALL)
    told.say("And", stream="st2")
    told.end(CANCELLED, text="And", stream_id=StreamId("st2"))


def a_message_that_names_no_stream(told: Telling) -> None:
    told.say("Let me look.")
    told.log(kept("Let me look.", None, intermediate=True))
    told.say("Whole", stream="st2")
    told.log(kept("Whole", None), DONE)


def a_message_without_words(told: Telling) -> None:
    told.say("Half")
    told.log(kept(" ", intermediate=True))
    told.say("Other", stream="st2")
    told.log(kept(" ", "st2"), DONE)


def the_message_of_another_stream(told: Telling) -> None:
    told.say("Half", stream="st2")
    told.log(kept("words", "st9", intermediate=True))
    told.end(NATURAL_END, text="Other words", stream_id=StreamId("st8"))


def overtaken(told: Telling) -> None:
    told.say("Half")
    told.begin("t2")
    told.live(" late", 4)
    told.live("Of the next", 0, "st2", turn="t2")
    told.catch_up()


def nobody_runs_it(told: Telling) -> None:
    told.say("Half")
    told.steps.append(False)
    told.live(" unheard", 4)
    told.log(checkpoint("Half unheard"))
    told.steps.append(True)
    told.live(" still unheard", 12)
    told.log(checkpoint("Half unheard, and more"))


def deleted(told: Telling) -> None:
    told.say("Half")
    told.write(SessionDeleted())
    told.live(" late", 4)


TOLD: Final[dict[str, Callable[[Telling], None]]] = {
    one.__name__: one
    for one in (
        split,
        without_a_checkpoint_a_gap,
        gap_and_checkpoint,
        retried_in_another_stream,
        retried_in_the_same_stream,
        voided_by_a_checkpoint,
        voided_and_never_again,
        interrupted,
        timed_out_with_nothing_kept,
        late_text_of_an_ended_turn,
        late_text_of_a_replaced_spawn,
        a_tool_between_two_texts,
        a_held_answer_that_was_none,
        a_message_that_names_no_stream,
        a_message_without_words,
        the_message_of_another_stream,
        overtaken,
        nobody_runs_it,
        deleted,
    )
}


def steps_of(name: str) -> list[Step]:
    told = Telling()
    told.begin()
    TOLD[name](told)
    told.catch_up()
    return [step if isinstance(step, bool) else structs.replace(step, session_id=SESSION) for step in told.steps]


def live(steps: Sequence[Step]) -> Lived:
    """Live it, and look at every face after each step."""
    lived = Lived(SESSION)
    for at, step in enumerate(steps):
        lived.take(step)
        if at == len(steps) // 2:
            lived.leave()
        check_moment(lived)
        check_laws(lived)
    return lived


@pytest.mark.parametrize("name", TOLD)
def test_every_face_shows_the_same_live_text_at_each_moment(name: str) -> None:
    live(steps_of(name))


def test_live_text_at_each_moment_of_each_history_of_the_contract(
    record_property: Callable[[str, object], None],
) -> None:
    moments = sum(len(steps_of(name)) for name in TOLD)
    for case in CASES.values():
        events = [structs.replace(event, session_id=SESSION) for event in case.events]
        live(events)
        moments += len(events)
    record_property("explored", f"parity of live text: 7 faces, {len(TOLD) + len(CASES)} histories, {moments} moments")


def _own_streams(steps: Sequence[Step]) -> list[Step]:
    """A stream is of one turn: its name is never that of another turn's."""
    return [step if isinstance(step, bool) else _own(step) for step in steps]


def _own(event: Event) -> Event:
    match event.data:
        case TextDelta(stream_id=stream_id) | StreamCheckpoint(stream_id=stream_id) as data:
            named = StreamId(f"{stream_id}_{event.turn_id}")
            return structs.replace(event, data=structs.replace(data, stream_id=named))
        case AssistantMessage(metadata=MessageMetadata(stream_id=str() as stream_id) as metadata) as message:
            named = StreamId(f"{stream_id}_{event.turn_id}")
            renamed = structs.replace(metadata, stream_id=named)
            return structs.replace(event, data=structs.replace(message, metadata=renamed))
        case _:
            return event


@given(HISTORIES.map(_own_streams))
def test_every_face_shows_the_same_live_text_at_each_moment_of_any_history(steps: list[Step]) -> None:
    live(steps)


# What the histories come to, said by hand: the faces could all be wrong together


@pytest.mark.parametrize(
    ("name", "ended"),
    [
        ("split", [("The answer is 42.", "answer")]),
        ("without_a_checkpoint_a_gap", [("The ", "partial: broke off: some of the live text did not arrive")]),
        (
            "retried_in_another_stream",
            [("Dead words", "void: another attempt takes its place"), ("It is alive", "answer")],
        ),
        ("interrupted", [("Half an answer", "partial: the turn did not complete")]),
        ("a_tool_between_two_texts", [("Let me look.", "agent, at work"), ("It is there.", "answer")]),
        ("a_message_without_words", [("Half", "partial: broke off"), ("Other", "partial: broke off: empty_answer")]),
        ("overtaken", [("Half", "partial: broke off: another turn began")]),
        ("nobody_runs_it", [("Half", "partial: broke off: no server runs this session any more")]),
        ("deleted", [("Half", "partial: broke off: cancelled")]),
    ],
)
def test_what_became_of_live_text_is_said_in_words(name: str, ended: list[tuple[str, str]]) -> None:
    assert blocks_of(live(steps_of(name)).paper.text).ended == ended


def test_of_a_process_that_was_replaced_nothing_more_is_shown() -> None:
    lived = live(steps_of("late_text_of_a_replaced_spawn"))
    assert "late" not in lived.paper.text
    assert [one.text for one in lived.expected.broken] == ["of the first"]


def test_of_an_attempt_that_died_nothing_stands_among_the_living() -> None:
    ended = blocks_of(live(steps_of("retried_in_the_same_stream")).paper.text).ended
    void = "void: this attempt was withdrawn"
    assert ended == [("The answer is 41.", void), ("It is 42.", void), ("It is 43.", "answer")]
