"""One presenter: whatever the log, every face gives the same messages, states and labels, and no partial text passes as
an answer. The faces are taken by the functions that the commands, the server and the client call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Final

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from interlock.cli.look.live_text import LiveText, TextOutlet
from interlock.cli.look.show import last_answer
from interlock.cli.tables import Line
from interlock.cli.top.layout.transcript import Reader
from interlock.client.machine.frames import take_frame
from interlock.client.machine.state import TaskState
from interlock.client.machine.transcript import merge_messages, take_messages
from interlock.lifecycle.turns import turn_states
from interlock.projections.present.presenter import Presenter
from interlock.projections.task.view import TaskView
from interlock.testing.scribe import Scribe
from interlock.testing.strategies import structs_of
from interlock.vocabulary.events.audit import ProviderUsage, WorkflowEvent, WorkflowEventKind
from interlock.vocabulary.events.conversation import AssistantMessage, MessageMetadata, SubagentEvent, UserMessage
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import StepId, SubagentId, WorkflowId
from interlock.vocabulary.states import Outcome, TurnState
from tests.parity.faces import Said, as_heading, headings, of_body, of_items, of_messages
from tests.projections.histories import CASES
from tests.projections.logs import LOGS
from tests.properties.test_task_view_properties import HISTORIES, PRESENTER, SESSION, Step, _event

EVERYTHING: Final = 10**9

CHILDREN: Final = st.builds(
    lambda fact, name: structs.replace(fact, subagent_id=SubagentId(name)),
    structs_of(SubagentEvent),
    st.sampled_from(["sub_1", "sub_2"]),
)
PLANS: Final = st.builds(
    lambda fact, name, step: structs.replace(fact, workflow_id=WorkflowId(name), step_id=StepId(step)),
    structs_of(WorkflowEvent),
    st.sampled_from(["wf_1", "wf_2"]),
    st.sampled_from(["a", "b"]),
)
MORE: Final = st.lists(
    st.tuples(st.integers(0, 40), st.builds(_event, CHILDREN | PLANS, st.sampled_from(["t1", "t2", None]), st.none())),
    max_size=6,
)


def _with_more(steps: Sequence[Step], more: Sequence[tuple[int, Event]]) -> list[Step]:
    """Children and plans put in anywhere, and what the log holds numbered anew."""
    told = list(steps)
    for at, event in more:
        told.insert(at % (len(told) + 1), event)
    numbers = count(1)
    return [
        one
        if isinstance(one, bool) or (one.seq is None and isinstance(one.data, PRESENTER))
        else structs.replace(one, seq=next(numbers))
        for one in told
    ]


def _of_session(log: Sequence[Event]) -> list[Step]:
    return [structs.replace(event, session_id=SESSION) for event in log]


ANY: Final = st.builds(_with_more, HISTORIES | LOGS.map(_of_session), MORE)


class Played:
    """A history as the server, a client in the room and a person before `logs -f` live it."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.log = [step for step in steps if isinstance(step, Event) and step.seq is not None]
        self.view, self.presenter = TaskView(SESSION), Presenter()
        self.items = [item for step in steps if isinstance(step, Event) for item in self.presenter.add(step)]
        self.state = TaskState(task_id=SESSION, tick=0)
        self.half: tuple[int, TaskState] = (0, self.state)
        for at, step in enumerate(steps):
            frames = self.view.set_supervised(step) if isinstance(step, bool) else self.view.add(step)
            for frame in frames:
                self.state, _ = take_frame(self.state, frame, 0.0)
            if at == len(steps) // 2:
                self.half = (self.view.version, self.state)

    def pages(self) -> list[Said]:
        """As HTTP and `logs --json` read them: by small pages, from the end."""
        found: list[Said] = []
        before: int | None = None
        while True:
            page, before = self.view.page(before=before, limit=3)
            wire = msgspec.json.decode(msgspec.json.encode(page))
            found = [*map(of_body, wire), *found]
            if before is None:
                return found

    def faces(self) -> Iterator[tuple[str, list[Said]]]:
        """Each face that gives messages."""
        whole = self.view.snapshot(limit=EVERYTHING)
        joined = take_messages(TaskState(task_id=SESSION), whole.messages, is_whole=True)
        version, state = self.half
        missed = self.view.snapshot(after_version=version, limit=EVERYTHING)
        yield "library", of_items(self.items)
        yield "HTTP pages, logs --json", self.pages()
        yield "snapshot of WebSocket and SSE", of_messages(joined.messages)
        yield "frames, folded by the client", of_messages(self.state.messages)
        yield (
            "what came since a version",
            of_messages(merge_messages(() if missed.is_whole else state.messages, missed.messages)),
        )

    def texts(self) -> Iterator[tuple[str, Sequence[Line]]]:
        """Each face for people."""
        messages = self.view.snapshot(limit=EVERYTHING).messages
        lines: list[Line] = []
        printer = LiveText(TextOutlet(lines.extend, lambda _: None, lambda _: None))
        for message in messages:
            printer.message(msgspec.to_builtins(message))
        yield "logs", lines
        yield "top", Reader().lines(messages, 400)


def check(played: Played) -> tuple[int, int]:
    """Every face says what the presenter says. How many faces, and how many messages."""
    (_, expected), *faces = played.faces()
    for name, said in faces:
        assert said == expected, name
    for name, lines in (texts := list(played.texts())):
        assert len(headings(lines)) == len(expected), name
    newest = last_answer([msgspec.to_builtins(one) for one in played.view.snapshot(limit=EVERYTHING).messages])
    answers = [one for one in expected if one.role == "answer"]
    assert (None if newest is None else of_body(newest)) == (answers[-1] if answers else None), "show"
    return 2 + len(faces) + len(texts), len(expected)


def check_laws(played: Played) -> None:
    """No face can be right where the one fold is wrong: what it may say of the log is said here again."""
    states = {record.turn_id: record.state for record in turn_states(played.log)}
    payloads = {event.seq: event.data for event in played.log}
    said = of_messages(played.view.snapshot(limit=EVERYTHING).messages)
    turns = {one.message_id: one.turn_id for one in played.view.snapshot(limit=EVERYTHING).messages}
    for one in said:
        source, turn_id = payloads.get(one.message_id), turns[one.message_id]
        if source is None:  # it stands in the place of a lost event, and says so
            assert turn_id is not None
            assert (one.role, one.status, one.error_kind) == ("end", "unknown", "log_damaged")
            assert states[turn_id] is TurnState.UNKNOWN
        if one.is_answer:
            assert isinstance(source, AssistantMessage)
            assert not source.metadata.partial
            assert turn_id is not None
            assert states[turn_id] is TurnState.COMPLETED
        elif one.role == "answer":
            assert one.label.startswith("partial: "), "partial text says so in words"
    children = {(e.data.subagent_id, e.data.attempt) for e in played.log if isinstance(e.data, SubagentEvent)}
    assert len([one for one in said if one.kind == "subagent"]) == len(children), "no child is left out"
    plans = [e.data for e in played.log if isinstance(e.data, WorkflowEvent)]
    whole = (WorkflowEventKind.WORKFLOW_STARTED, WorkflowEventKind.WORKFLOW_FINISHED)
    assert {one.item_id for one in said if one.kind == "workflow"} == {
        str(one.workflow_id) for one in plans if one.kind in whole
    }
    assert {one.item_id for one in said if one.kind == "step"} == {
        f"{one.workflow_id}/{one.step_id}" for one in plans if one.kind not in whole
    }


def check_texts(played: Played, is_told: Callable[[Said], bool]) -> None:
    """Beside each message stands its label, and beside partial text never nothing."""
    said = of_messages(played.view.snapshot(limit=EVERYTHING).messages)
    for name, lines in played.texts():
        for one, shown in zip(said, headings(lines), strict=True):
            if is_told(one):
                assert shown.bracket.startswith(one.label or as_heading(one).bracket), name
            if one.role == "answer" and not one.is_answer:
                assert "partial: " in shown.bracket, name


@given(ANY)
def test_every_face_says_the_same_of_any_log(steps: list[Step]) -> None:
    played = Played(steps)
    check(played)
    check_laws(played)
    check_texts(played, lambda one: one.role in ("answer", "commentary", "user"))


def _is_logged(step: Step) -> bool:
    return isinstance(step, Event) and step.seq is not None


@given(ANY, st.data())
def test_every_face_says_the_same_of_any_damaged_log(steps: list[Step], data: st.DataObject) -> None:
    """Whatever is lost: what is said of a turn is what the classifier says of what is left."""
    logged = [at for at, step in enumerate(steps) if _is_logged(step)]
    lost = data.draw(st.sets(st.sampled_from(logged), max_size=4)) if logged else set()
    played = Played([step for at, step in enumerate(steps) if at not in lost])
    check(played)
    check_laws(played)
    check_texts(played, lambda one: one.role in ("answer", "commentary", "user"))


def test_the_end_of_a_turn_that_lost_events_takes_the_place_of_no_event_that_is_read() -> None:
    """Two turns are in doubt by the same losses, and between these stands a workflow that is read."""
    scribe = Scribe(SESSION)
    scribe.write(UserMessage(text="one"), turn="t1")
    started = WorkflowEvent(workflow_id=WorkflowId("wf_1"), kind=WorkflowEventKind.WORKFLOW_STARTED)
    scribe.write(ProviderUsage(model="m"), started, ProviderUsage(model="m"))
    scribe.write(AssistantMessage(text="half", metadata=MessageMetadata(partial=True)), turn="t2")
    played = Played([event for event in scribe.events if event.seq not in (2, 4)])
    check(played)
    check_laws(played)
    said = of_messages(played.view.snapshot(limit=EVERYTHING).messages)
    assert [one.kind for one in said if one.message_id == 3] == ["workflow"]
    assert [one.message_id for one in said if one.error_kind == "log_damaged"] == [2, 4]


def test_every_face_says_unknown_wherever_an_event_of_a_history_of_the_contract_is_lost(
    record_property: Callable[[str, object], None],
) -> None:
    tried = unknown = 0
    for case in CASES.values():
        steps = _of_session(case.tell().events)
        for at in range(len(steps)):
            played = Played(steps[:at] + steps[at + 1 :])
            check(played)
            check_laws(played)
            said = of_messages(played.view.snapshot(limit=EVERYTHING).messages)
            states = [record.state for record in turn_states(played.log)]
            is_last_unknown = bool(states) and states[-1] is TurnState.UNKNOWN
            badge = played.view.summary().badge
            assert badge is not None
            assert not is_last_unknown or badge.outcome is Outcome.UNKNOWN
            ends = [one for one in said if one.error_kind == "log_damaged"]
            assert len(ends) == states.count(TurnState.UNKNOWN)
            tried, unknown = tried + 1, unknown + len(ends)
    assert unknown > len(CASES)
    record_property("explored", f"parity: {tried} damaged histories, {unknown} unknown turns")


def test_every_face_says_the_same_at_each_moment_of_each_history_of_the_contract(
    record_property: Callable[[str, object], None],
) -> None:
    moments, faces, messages = 0, 0, 0
    for case in CASES.values():
        events: list[Step] = [structs.replace(event, session_id=SESSION) for event in case.events]
        for end in range(1, len(events) + 1):
            played = Played(events[:end])
            faces, told = check(played)
            check_laws(played)
            check_texts(played, lambda _: False)
            moments, messages = moments + 1, messages + told
    assert moments > 150
    record_property(
        "explored", f"parity: {faces} faces by function, {len(CASES)} histories, {moments} moments, {messages} messages"
    )
