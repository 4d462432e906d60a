"""One presenter, by the real doors: a real server with the histories of the contract, asked over HTTP, WebSocket, SSE
and by the real commands. Every face gives the same messages, states and labels."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec
import pytest
from msgspec import structs

from interlock.cli.server.api import read_private
from interlock.cli.top.layout.transcript import Reader
from interlock.cli.wire.routes import task_path
from interlock.client.machine.frames import take_frame
from interlock.client.machine.state import TaskState
from interlock.client.machine.transcript import take_messages, take_piece
from interlock.client.transport.sockets import open_socket
from interlock.projections.present.presenter import Presenter
from interlock.testing.scribe import Scribe
from interlock.vocabulary.events.audit import DeliveryReceipt, DeliveryStage, RunState, TurnFailed
from interlock.vocabulary.events.conversation import AssistantMessage, MessageMetadata, ToolResult, UserMessage
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import PromptId, RunId, SessionId
from interlock.vocabulary.run import CANCELLED, RunStatus
from interlock.vocabulary.states import TurnState
from interlock.vocabulary.wire.frames import Message, TaskFrame, TaskSnapshot
from tests.any_route import any_route, first_snapshot
from tests.bodies import Body
from tests.cli.homes import make_home, run_many
from tests.cli.serving import Served, serving, until
from tests.cli.test_ending_words import REPEATED
from tests.parity.faces import Said, as_heading, as_printed, headings, of_body, of_items, of_messages, printed
from tests.projections.histories import CALL, CASES, PARTIAL, TIMEOUT, Story

ASK_AT_ONCE: Final = 16


def _old(kind: str, state: TurnState, reason: object) -> Story:
    """As older versions wrote it: the message of the end says no more than its kind."""
    story = Story()
    story.begin()
    story.tell(AssistantMessage(text=PARTIAL, metadata=MessageMetadata(partial=True, terminal_status=state)))
    details: Json = {"budget_seconds": 60.0, "elapsed_seconds": 61.5} if state is TurnState.TIMED_OUT else None
    story.tell(TurnFailed(terminal_status=state, error_kind=kind, error_message=kind, details=details))
    story.tell(RunState(run_id=RunId("run_t1"), status=RunStatus.DONE, reason=reason))  # type: ignore[arg-type]
    return story


def _undelivered() -> Story:
    story = Story()
    for name, stage in (("p1", DeliveryStage.NOT_DELIVERED), ("p2", DeliveryStage.UNKNOWN)):
        story.write(UserMessage(text=f"the prompt {name}", prompt_id=PromptId(name)), turn=name)
        story.write(DeliveryReceipt(prompt_id=PromptId(name), stage=stage), turn=name)
    return story


def _long_output() -> Story:
    story = Story()
    story.begin()
    story.tell(CALL, ToolResult(call_id=CALL.call_id, ok=True, output="x" * 5_000))
    return story


STORIES: Final[dict[str, Callable[[], Scribe]]] = {
    **{name: case.tell for name, case in CASES.items()},
    "old_timeout": lambda: _old("timeout", TurnState.TIMED_OUT, TIMEOUT),
    "old_interrupted": lambda: _old("interrupted", TurnState.INTERRUPTED, CANCELLED),
    "undelivered": _undelivered,
    "long_output": _long_output,
}


@dataclass(frozen=True, slots=True)
class House:
    """A server with every history, and what `logs`, `logs --json`, `show` and `show --json` print of each."""

    served: Served
    events: dict[str, list[Event]]
    prints: dict[str, str]

    def said(self, name: str) -> list[Said]:
        """What the library's fold says of a history."""
        presenter = Presenter()
        return of_items(item for event in self.events[name] for item in presenter.add(event))


def _named(name: str) -> Scribe:
    scribe = Scribe(f"ses_{name}")
    scribe.events.extend(structs.replace(event, session_id=scribe.session) for event in STORIES[name]().events)
    return scribe


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    scribes = {name: _named(name) for name in STORIES}
    written = make_home(tmp_path_factory.mktemp("home"), *scribes.values())
    with serving(tmp_path_factory.mktemp("parity")) as served:
        exported = served.folder / "sessions.ndjson"
        (done,) = run_many((f"log export --all --output {exported}",), written)
        assert done.code == 0, done.err
        served.stop()
        assert served.cli("log", "import", str(exported)).returncode == 0
        served.start()
        yield House(served, {name: one.events for name, one in scribes.items()}, _printed(served.home))


def _printed(home: Path) -> dict[str, str]:
    commands = [f"{what} ses_{name}{how}" for name in STORIES for what in ("logs", "show") for how in ("", " --json")]
    prints: dict[str, str] = {}
    left = iter(commands)
    while some := list(islice(left, ASK_AT_ONCE)):
        for done in run_many(some, home):
            assert done.code == 0, (done.command, done.err)
            prints[done.command] = done.out
    return prints


async def _joined(home: Path, task_ids: list[str]) -> list[TaskSnapshot]:
    server, tokens = read_private(home / "server.json"), read_private(home / "tokens.json")
    socket = await open_socket(str(server["url"]), str(tokens["observer"]), closing_seconds=2.0)
    snapshots: list[TaskSnapshot] = []
    try:
        for task_id in task_ids:
            await socket.send(json.dumps({"type": "task:join", "id": task_id, "task_id": task_id}))
            while (frame := json.loads(await socket.recv())).get("id") != task_id:
                pass
            snapshots.append(msgspec.convert(frame["snapshot"], TaskSnapshot))
    finally:
        await socket.close()
    return snapshots


@pytest.fixture(scope="module")
def by_socket(house: House) -> dict[str, tuple[Message, ...]]:
    """What a client that joins by WebSocket knows of each history."""

    async def join() -> list[TaskSnapshot]:
        async with asyncio.timeout(100):
            return await _joined(house.served.home, [f"ses_{name}" for name in STORIES])

    states = (
        take_messages(TaskState(task_id=one.task_id), one.messages, is_whole=one.is_whole)
        for one in asyncio.run(join())
    )
    return dict(zip(STORIES, (state.messages for state in states), strict=True))


def _faces(house: House, name: str, joined: tuple[Message, ...]) -> Iterator[tuple[str, list[Said]]]:
    """Each door that gives messages."""
    api, task_id = house.served.api, f"ses_{name}"
    pages: list[Said] = []
    before: str | None = None
    while True:
        page = api.get(any_route(f"{task_path(task_id)}/messages"), before=before, limit=2)
        pages = [*map(of_body, page["items"]), *pages]
        before = page["next"]
        if before is None:
            break
    yield "HTTP pages", pages
    yield "SSE", [of_body(one) for one in first_snapshot(api, task_id)["messages"]]
    yield "WebSocket, in the client", of_messages(joined)
    yield "logs --json", [of_body(json.loads(line)) for line in house.prints[f"logs {task_id} --json"].splitlines()]


def _advice(house: House, name: str) -> dict[int, list[str]]:
    """The commands below each message in `logs`: only ends and what was set to work have any."""
    lines = house.prints[f"logs ses_{name}"].split("\n")
    found: dict[int, list[str]] = {}
    number = -1
    for line in lines:
        number += bool(line) and not line.startswith((" ", "next: "))
        if line.startswith("next: "):
            found.setdefault(number, []).append(line.removeprefix("next: "))
    return found


@pytest.mark.parametrize("name", STORIES)
def test_every_door_gives_the_same_messages(
    house: House, by_socket: dict[str, tuple[Message, ...]], name: str, record_property: Callable[[str, object], None]
) -> None:
    expected = house.said(name)
    assert expected
    faces = list(_faces(house, name, by_socket[name]))
    for door, said in faces:
        assert said == expected, door
    if name == next(reversed(STORIES)):
        record_property("explored", f"parity: {len(faces) + 5} faces by their doors, {len(STORIES)} histories")


@pytest.mark.parametrize("name", STORIES)
def test_what_people_read_has_the_same_states_and_labels(
    house: House, by_socket: dict[str, tuple[Message, ...]], name: str
) -> None:
    expected = house.said(name)
    advice = _advice(house, name)
    logs = printed(house.prints[f"logs ses_{name}"])
    assert logs == [as_printed(one, advice.get(at, ())) for at, one in enumerate(expected)]
    top = headings(Reader().lines(by_socket[name], 400))
    assert [(one.heading, one.bracket) for one in top] == [
        (one.heading, one.bracket) for one in map(as_heading, expected)
    ]
    answers = [one for one in expected if one.role == "answer"]
    shown = json.loads(house.prints[f"show ses_{name} --json"])["answer"]
    assert (None if shown is None else of_body(shown)) == (answers[-1] if answers else None)
    seen = [one for one in printed(house.prints[f"show ses_{name}"]) if one.heading == "agent"]
    words = [as_printed(one) for one in answers]
    assert seen == words[-1:]


@pytest.mark.parametrize("name", STORIES)
def test_partial_text_passes_as_an_answer_at_no_door(
    house: House, by_socket: dict[str, tuple[Message, ...]], name: str
) -> None:
    """Said without the presenter: the text that the log marks as partial, or that no completed turn bears."""
    allowed = set(CASES[name].answers) if name in CASES else set()
    for door, said in _faces(house, name, by_socket[name]):
        assert {one.text for one in said if one.is_answer} == allowed, door
    for command in ("logs", "show"):
        for one in printed(house.prints[f"{command} ses_{name}"]):
            words = "\n".join(line.strip() for line in one.body)
            if one.heading == "agent" and words not in allowed:
                assert one.bracket.startswith("partial: "), command


@pytest.mark.parametrize("name", ["timed_out", "old_timeout", "interrupted", "old_interrupted"])
def test_an_end_says_its_budget_and_what_to_do_and_no_state_twice(
    house: House, by_socket: dict[str, tuple[Message, ...]], name: str
) -> None:
    for door, said in _faces(house, name, by_socket[name]):
        (end,) = [one for one in said if one.role == "end"]
        assert end.actions, door
        if "time" in name:
            assert end.text == "no end within its budget of 60 s; it took 61.5 s", door
    logs, show = house.prints[f"logs ses_{name}"], house.prints[f"show ses_{name}"]
    if "time" in name:
        assert "budget of 60 s" in logs
        assert "budget of 60 s" in show
        assert "next: interlock config show run.turn_budget_seconds" in logs
    assert f"next: interlock send ses_{name} -" in logs
    told = "".join(text for line in Reader().lines(by_socket[name], 400) for text, _ in line)
    assert [words for words in REPEATED for text in (logs, show, told) if words in text] == []


def test_children_and_workflows_are_read_as_what_they_are(house: House) -> None:
    child = house.prints["logs ses_child_timed_out"]
    assert "subagent reviewer" in child
    assert "[failed: timed out]\n  review\n" in child
    plan = house.prints["logs ses_workflow_partial"]
    assert "workflow wf_1" in plan
    assert "[waiting: held: a step before it left no checkpoint]" in plan
    assert "[failed: not delivered" not in plan
    lost = house.prints["logs ses_undelivered"]
    assert "[not delivered to the agent]\n  the prompt p1\n" in lost
    assert "[it is unknown whether the agent received this]\n  the prompt p2\n" in lost
    cut = house.prints["logs ses_long_output"]
    assert "    [3,200 characters left out]\n" in cut
    assert len(cut) < 2_500


def test_frames_as_they_come_say_what_is_read_afterwards(house: House) -> None:
    """A turn that is lived: the frames of SSE, folded by the client, stand where the pages stand."""
    served = house.served
    task_id = served.open(title="Lived")
    with served.following("logs", "-f", "--json", task_id) as following:
        following.says("task:joined")
        for prompt in ('say first; call Bash {"command": "ls"} -> a file; say half; fail broken', "say whole"):
            served.send(task_id, prompt)
        served.shows(task_id, status="COMPLETED")
        state = until(lambda: _caught_up(served, task_id, following.stdout), "the frames are all there")
    pages = [of_body(one) for one in served.api.get(any_route(f"{task_path(task_id)}/messages"), limit=200)["items"]]
    assert of_messages(state.messages) == pages
    assert [one.text for one in pages if one.is_answer] == ["whole"]
    assert [one.detail for one in pages if one.kind == "tool"] == ["a file"]


def test_live_text_in_mid_stream_is_the_same_at_every_door(house: House) -> None:
    """A turn that stands still in the middle of its text, by a gate of the agent."""
    served = house.served
    task_id = served.open("say half of it; gate live_parity; say the rest", title="Live")
    with served.following("logs", "-f", task_id) as following:
        printed_live = following.says("\nagent  [partial: still being written]\n  half of it")
        check = served.api.get(any_route(f"{task_path(task_id)}/runtime-check"))["active_stream"]
        (snapshot,) = asyncio.run(_joined(served.home, [task_id]))
        by_sse = first_snapshot(served.api, task_id)
        shown = served.json("show", task_id)
        assert snapshot.stream is not None
        client = take_piece(TaskState(task_id=snapshot.task_id), snapshot.stream, 0.0)
        (live,) = client.transcript
        assert (live.text, live.label) == ("half of it", "partial: still being written")
        assert (by_sse["stream"]["text"], by_sse["stream"]["stream_id"]) == (live.text, live.stream_id)
        assert (check["stream_id"], check["cursor"]) == (live.stream_id, len(live.text))
        assert (shown["stream"]["stream_id"], shown["answer"]) == (live.stream_id, None)
        assert "text is being written: 10 characters so far" in served.cli("show", task_id).stdout
        assert [(one.heading, one.bracket) for one in headings(Reader().lines(client.transcript, 400))] == [
            ("agent", "partial: still being written")
        ]
        for page in (served.api.get(any_route(f"{task_path(task_id)}/messages"))["items"], by_sse["messages"]):
            assert [one["role"] for one in page] == ["user"], "no live text is a message"
        assert "[answer]" not in printed_live
        served.gates.open("live_parity")
        following.says("[answer]")
    answer = served.json("show", task_id)["answer"]
    assert (answer["status"], answer["stream_id"]) == ("completed", live.stream_id)


def _on_the_wire(told: Body) -> Body:
    """What `logs -f --json` printed, in the words of the wire."""
    return {"task_id" if name == "session_id" else name: value for name, value in told.items()}


def _caught_up(served: Served, task_id: str, written: str) -> TaskState | None:
    first, *rest = (_on_the_wire(json.loads(line)) for line in written.splitlines() if line.endswith("}"))
    status = {"task_status": None, "status_updated_at": None}
    snapshot = msgspec.convert(_on_the_wire(first["snapshot"]) | status, TaskSnapshot)
    state = take_messages(TaskState(task_id=SessionId(task_id), tick=snapshot.tick), snapshot.messages, is_whole=True)
    for raw in rest:
        if str(raw.get("type", "")).partition(":")[0] in ("chat", "approval", "queue", "state"):
            state, _ = take_frame(state, msgspec.convert(raw, TaskFrame), 0.0)
    ended = served.api.get(any_route(f"{task_path(task_id)}/runtime-check"))["version"]
    newest = max((one.version for one in state.messages), default=0)
    listed = served.api.get(any_route(f"{task_path(task_id)}/messages"), limit=200)["items"]
    is_there = newest == max((one["version"] for one in listed), default=0)
    return state if is_there and ended else None
