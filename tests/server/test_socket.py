"""The socket: every request answered, in order where order matters, within its limits; frames as the schema says."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import jsonschema
import msgspec
import pytest
from msgspec import structs

from interlock.agents.observations import ApprovalAsked, TextArrived, ToolCalled, TurnEnded, TurnEnding
from interlock.runtime.runtime import Runtime
from interlock.server.live.hub import SERVICE_RESTART, Hub
from interlock.server.live.outbox import TRY_AGAIN_LATER
from interlock.server.live.socket import BAD_PAYLOAD, MAX_COMMANDS, POLICY
from interlock.server.live.socket_protocol import TOO_BIG
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import ReplyContract
from interlock.vocabulary.ids import CallId, SessionId
from interlock.vocabulary.states import TaskStatus
from interlock.vocabulary.wire.frames import ApprovalOpened, ChatChunk, ChatDone, ChatMessage, Push, TaskStatusChanged
from interlock.vocabulary.wire.requests import (
    AccessRole,
    Ack,
    BoardJoined,
    BoardTask,
    ChatSend,
    Hello,
    Refused,
    Request,
    ServerClosing,
    ServerFrame,
    TaskBehind,
    TaskJoined,
)
from tests.contract.harness import run
from tests.held_time import clock, run_with_jumps
from tests.server.socket_harness import BEAT_SECONDS, QUICK, Bench, Client, Known, apply, digest, serving, soon, whole


def done(text: str = "done") -> TurnEnded:
    return TurnEnded(ending=TurnEnding.NATURAL, text=text)


def test_it_begins_with_hello() -> None:
    async def story() -> None:
        async with serving() as bench, bench.client(AccessRole.OBSERVER) as client:
            hello = await client.read()
            assert isinstance(hello, Hello)
            assert (hello.protocol, hello.role) == (1, AccessRole.OBSERVER)
            assert hello.heartbeat_seconds == QUICK.heartbeat_seconds
            assert hello.max_frame_bytes == QUICK.max_request_bytes
            assert bench.hub.connections == 1

    run(story())


def test_a_turn_from_prompt_to_answer_and_the_client_is_where_the_server_is() -> None:
    async def story() -> None:
        async with serving() as bench, bench.client() as client:
            task_id = await bench.open_task()
            joined = await client.ask("task:join", task_id=task_id)
            known = Known(joined.snapshot, joined.snapshot.version, joined.snapshot.tick)
            sent = await client.ask("chat:send", task_id=task_id, text="hello", prompt_id="prm_1")
            assert isinstance(sent, Ack)
            puppet = await soon(lambda: next((one for one in bench.driver.puppets if one.prompts), None))
            puppet.say(TextArrived(text="hi "), TextArrived(text="there"), done("hi there"))
            await client.until(
                lambda one: isinstance(one, TaskStatusChanged) and one.task_status is TaskStatus.COMPLETED
            )
            await soon(lambda: bench.hub.is_ready)
            ping = await client.send("ping")
            await client.until(lambda one: getattr(one, "id", "") == ping)
            for frame in client.seen:
                if isinstance(frame, Push) and frame.tick > known.tick:
                    assert frame.tick == known.tick + 1
                    apply(known, frame)
            assert digest(known.snapshot) == digest(whole(bench.hub.views[task_id]))
            kinds = {type(one) for one in client.seen}
            assert {Hello, TaskJoined, Ack, ChatChunk, ChatDone, ChatMessage, TaskStatusChanged} <= kinds

    run(story())


def test_a_reply_contract_is_taken_by_the_socket_and_one_that_cannot_be_is_refused() -> None:
    async def story() -> None:
        async with serving() as bench, bench.client() as client:
            task_id = await bench.open_task()
            asked = {"task_id": task_id, "text": "go", "prompt_id": "prm_1"}
            for _ in range(2):
                assert isinstance(await client.ask("chat:send", **asked, reply={"sentinel": "w"}), Ack)
            other = await client.ask("chat:send", **asked)
            assert (other.problem.status, other.problem.code) == (409, "key_reused")
            puppet = await soon(lambda: next((one for one in bench.driver.puppets if one.prompts), None))
            given = puppet.prompts[0]
            assert given.reply == ReplyContract(sentinel="w")
            assert given.text.startswith("go\n\n")
            for wrong in ({}, {"sentinel": "a b"}, {"sentinel": "w", "json_schema": {}}, {"word": "w"}):
                refused = await client.ask("chat:send", task_id=task_id, text="go", reply=wrong)
                assert refused.problem.status in (400, 422), refused

    run(story())


def test_real_frames_and_requests_fit_their_schemas() -> None:
    (frame_ref, request_ref), definitions = msgspec.json.schema_components(
        [ServerFrame, Request], ref_template="#/$defs/{name}"
    )
    frames = jsonschema.Draft202012Validator({**frame_ref, "$defs": definitions})
    requests = jsonschema.Draft202012Validator({**request_ref, "$defs": definitions})

    async def story() -> list[str]:
        async with serving() as bench, bench.client() as client:
            sent: list[str] = []
            send = client.raw.send

            async def kept(text: str) -> None:
                sent.append(text)
                await send(text)

            client.raw.send = kept  # type: ignore[method-assign, assignment]
            task_id = await bench.open_task()
            await client.ask("board:join")
            await client.ask("task:join", task_id=task_id)
            await client.ask("task:join", task_id="ses_none")
            await client.ask("chat:send", task_id=task_id, text="one")
            await client.ask("queue:gate", task_id=task_id, is_open=False, reason="hold")
            await client.ask("chat:send", task_id=task_id, text="two", prompt_id="prm_2")
            await client.ask("queue:edit", task_id=task_id, prompt_id="prm_2", text="three")
            await client.ask("queue:remove", task_id=task_id, prompt_id="prm_2")
            puppet = await soon(lambda: next((one for one in bench.driver.puppets if one.prompts), None))
            call_id = CallId("call_1")
            puppet.say(
                TextArrived(text="let me"),
                ToolCalled(call_id=call_id, name="write", args={"path": "a"}),
                ApprovalAsked(request_id="r1", question="may I?", call_id=call_id, name="write"),
            )
            asked = await client.until(lambda one: isinstance(one, ApprovalOpened))
            approval_id = asked.approval.approval_id
            decided = await client.ask("approval:decide", task_id=task_id, approval_id=approval_id, is_allowed=True)
            assert isinstance(decided, Ack)
            await client.ask("chat:cancel", task_id=task_id)
            puppet.say(TurnEnded(ending=TurnEnding.INTERRUPTED))
            await client.until(
                lambda one: isinstance(one, TaskStatusChanged) and one.task_status is TaskStatus.CANCELLED
            )
            await client.ask("task:resume", task_id=task_id, version=1)
            await client.ask("task:leave", task_id=task_id)
            await client.ask("board:leave")
            await client.ask("ping")
            await bench.hub.close("enough")
            await client.closed()
            for text in sent:
                requests.validate(json.loads(text))
            return client.texts

    texts = run(story())
    told = [json.loads(text) for text in texts]
    for frame in told:
        frames.validate(frame)
    kinds = {frame["type"] for frame in told}
    wanted = {"hello", "ack", "refused", "task:joined", "board:joined", "board:task", "task:status", "queue:changed"}
    wanted |= {"chat:message", "chat:chunk", "chat:start", "chat:receipt", "approval:opened", "approval:decided"}
    wanted |= {"server:closing", "agent:status", "chat:done"}
    assert wanted <= kinds
    with pytest.raises(jsonschema.ValidationError):  # a check that can fail
        frames.validate({**told[0], "protocol": "one"})


def test_what_is_no_request_is_refused_by_its_id_and_the_connection_goes_on() -> None:
    async def story() -> None:
        async with serving() as bench, bench.client() as client:
            task_id = await bench.open_task()
            cases = [
                ("not json", ""),
                ("[1, 2]", ""),
                ('{"type": "task:join"}', ""),
                ('{"type": "no:such", "id": "a"}', "a"),
                ('{"type": "ping", "id": "b", "extra": 1}', "b"),
                ('{"type": "task:join", "id": "c", "task_id": 7}', "c"),
                ('{"type": "task:join", "id": "d", "task_id": "../../etc"}', "d"),
                ('{"type": "task:resume", "id": "e", "task_id": "ses_1", "version": -1}', "e"),
                ('{"type": "ping", "id": "' + "x" * 65 + '"}', ""),
                ('{"type": "approval:decide", "id": "f", "data": ' + "[" * 5_000 + "]" * 5_000 + "}", ""),
                ('{"type": "ping", "id": "\\ud800"}', ""),
            ]
            for text, request_id in cases:
                await client.raw.send(text)
                refused = await client.until(lambda one: isinstance(one, Refused))
                assert (refused.id, refused.problem.status, refused.problem.code) == (request_id, 400, "bad_request")
                assert "Traceback" not in refused.problem.detail
                assert isinstance(await client.ask("ping"), Ack), "it takes up where it was"
            assert isinstance(await client.ask("task:join", task_id=task_id), TaskJoined)

    run(story())


def test_three_bad_messages_in_a_row_end_the_connection_and_two_do_not() -> None:
    async def story() -> None:
        async with serving() as bench, bench.client() as client, bench.client() as other:
            for _ in range(3):
                await client.raw.send("nonsense")
                await client.raw.send("nonsense")
                assert isinstance(await client.ask("ping"), Ack)
            for _ in range(3):
                await client.raw.send("nonsense")
            assert (await client.closed())[0] == BAD_PAYLOAD
            assert sum(isinstance(one, Refused) for one in client.seen) == 9, "each is answered, the last too"
            assert isinstance(await other.ask("ping"), Ack)

    run(story())


def test_a_binary_message_is_refused() -> None:
    async def story() -> None:
        async with serving() as bench, bench.client() as client:
            await client.raw.send(b'{"type":"ping","id":"a"}')
            refused = await client.until(lambda one: isinstance(one, Refused))
            assert refused.problem.status == 400
            assert "text" in refused.problem.detail

    run(story())


def test_an_observer_looks_and_does_nothing() -> None:
    async def story() -> None:
        async with serving() as bench, bench.client(AccessRole.OBSERVER) as client:
            task_id = await bench.open_task()
            commands: list[tuple[str, dict[str, Any]]] = [
                ("chat:send", {"text": "x"}),
                ("chat:cancel", {}),
                ("queue:edit", {"prompt_id": "p", "text": "x"}),
                ("queue:remove", {"prompt_id": "p"}),
                ("queue:gate", {"is_open": False}),
                ("approval:decide", {"approval_id": "a", "is_allowed": True}),
            ]
            for kind, fields in commands:
                refused = await client.ask(kind, task_id=task_id, **fields)
                assert isinstance(refused, Refused)
                assert (refused.problem.status, refused.problem.code) == (403, "forbidden")
            assert bench.hub.views[task_id].version == 1
            assert isinstance(await client.ask("task:join", task_id=task_id), TaskJoined)
            assert isinstance(await client.ask("task:resume", task_id=task_id, version=0), TaskJoined)
            assert isinstance(await client.ask("board:join"), BoardJoined)
            for kind in ("board:leave", "ping"):
                assert isinstance(await client.ask(kind), Ack)
            assert isinstance(await client.ask("task:leave", task_id=task_id), Ack)

    run(story())


def test_a_decision_without_a_verdict_is_no_request_and_nothing_is_logged() -> None:
    async def story() -> None:
        async with serving() as bench, bench.client() as client:
            task_id = await bench.open_task()
            puppet = await bench.at_work(task_id)
            puppet.say(ApprovalAsked(request_id="r1", question="may I?"))
            await client.ask("task:join", task_id=task_id)
            await soon(lambda: bench.hub.views[task_id].approvals.open)
            approval_id = bench.hub.views[task_id].approvals.open[0].approval_id
            version = bench.hub.views[task_id].version
            for more in ({}, {"text": "yes"}, {"option": "Yes"}, {"is_allowed": None}):
                refused = await client.ask("approval:decide", task_id=task_id, approval_id=approval_id, **more)
                assert isinstance(refused, Refused)
                assert 400 <= refused.problem.status < 500
                assert isinstance(await client.ask("ping"), Ack)
            assert bench.hub.views[task_id].version == version
            assert puppet.decisions == []

    run(story())


def test_an_unknown_task_is_a_404() -> None:
    async def story() -> None:
        async with serving() as bench, bench.client() as client:
            refused = await client.ask("task:join", task_id="ses_none")
            assert isinstance(refused, Refused)
            assert (refused.problem.status, refused.problem.code) == (404, "unknown_task")
            assert bench.hub.connections == 1

    run(story())


def test_who_left_a_room_hears_nothing_of_it() -> None:
    async def story() -> None:
        async with serving() as bench, bench.client() as client:
            task_id = await bench.open_task()
            await client.ask("task:join", task_id=task_id)
            await client.ask("task:leave", task_id=task_id)
            before = len(client.seen)
            await bench.runtime.send(task_id, "hello")
            await soon(lambda: bench.hub.views[task_id].version > 1)
            await client.ask("ping")
            assert len(client.seen) == before + 1

    run(story())


def test_the_board_tells_of_a_task_that_is_opened() -> None:
    async def story() -> None:
        async with serving() as bench, bench.client() as client:
            board = await client.ask("board:join")
            assert board.tasks == ()
            task_id = await bench.open_task()
            line = await client.until(lambda one: isinstance(one, BoardTask))
            assert (line.task.task_id, line.tick) == (task_id, board.tick + 1)

    run(story())


class Slow:
    """Commands that take as long as a test wants, and say in which order they were begun."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}
        self.running = 0

    def __call__(self, runtime: Runtime, hub: Hub) -> Slow:
        return self

    async def perform(self, request: ChatSend, *, decided_by: str, connection: object) -> dict[str, str]:
        self.begun.append(request.id)
        self.running += 1
        try:
            gate = self.gates.get(request.id)
            if gate is not None:
                await gate.wait()
            if request.id.startswith("bad"):
                raise UsageError("that cannot be", remedy="do something else")
            if request.id.startswith("bug"):
                raise RuntimeError("secret words")
            return {"by": decided_by}
        finally:
            self.running -= 1


def test_commands_on_one_task_are_done_in_order_and_nothing_else_waits_for_them() -> None:
    async def story() -> None:
        slow = Slow()
        slow.gates["first"] = asyncio.Event()
        async with serving(commands=slow) as bench, bench.client() as client:
            task_id = await bench.open_task()
            await client.send("chat:cancel", id="first", task_id=task_id)
            await client.send("chat:send", id="second", task_id=task_id, text="x")
            await client.send("chat:send", id="bad third", task_id=task_id, text="x")
            await soon(lambda: slow.begun)
            assert isinstance(await client.ask("ping"), Ack)
            assert isinstance(await client.ask("task:join", task_id=task_id), TaskJoined)
            other = await client.ask("chat:send", id="other", task_id="ses_other", text="x")
            assert isinstance(other, Ack)
            assert slow.begun == ["first", "other"]
            slow.gates["first"].set()
            refused = await client.until(lambda one: getattr(one, "id", "") == "bad third")
            answered = [one.id for one in client.seen if isinstance(one, Ack | Refused)]
            assert answered[-3:] == ["first", "second", "bad third"]
            assert (refused.problem.status, refused.problem.remedy) == (409, "do something else")
            assert Ack(id="first", result={"by": "operator@test"}) in client.seen

    run(story())


def test_an_error_that_nobody_foresaw_is_told_without_its_words() -> None:
    async def story() -> None:
        async with serving(commands=Slow()) as bench, bench.client() as client:
            refused = await client.ask("chat:send", id="bug", task_id="ses_1", text="x")
            assert refused.problem.status == 500
            assert "secret" not in refused.problem.detail
            assert isinstance(await client.ask("ping"), Ack)
            assert bench.hub.connections == 1

    run(story())


def test_a_command_has_a_deadline_and_one_that_waits_behind_it_was_not_begun() -> None:
    async def story() -> None:
        slow = Slow()
        slow.gates["first"] = asyncio.Event()
        async with (
            serving(replace(QUICK, command_seconds=30.0), commands=slow) as bench,
            bench.client() as client,
        ):
            await client.send("chat:send", id="first", task_id="ses_1", text="x")
            await client.send("chat:send", id="second", task_id="ses_1", text="x")
            await client.ask("ping")  # both have been taken in
            await soon(lambda: slow.begun)
            clock().advance(30.0)
            first = await client.until(lambda one: getattr(one, "id", "") == "first")
            second = await client.until(lambda one: getattr(one, "id", "") == "second")
            for refused in (first, second):
                assert (refused.problem.status, refused.problem.code) == (504, "deadline")
            assert "not begun" in second.problem.detail
            assert slow.begun == ["first"]
            assert slow.running == 0
            assert bench.hub.connections == 1

    run_with_jumps(story())


def test_too_many_commands_at_once_are_refused() -> None:
    async def story() -> None:
        slow = Slow()
        slow.gates["q1"] = asyncio.Event()
        async with serving(commands=slow) as bench, bench.client() as client:
            for _ in range(MAX_COMMANDS + 1):
                await client.send("chat:send", task_id="ses_1", text="x")
            refused = await client.until(lambda one: isinstance(one, Refused))
            assert (refused.id, refused.problem.status) == (f"q{MAX_COMMANDS + 1}", 429)
            slow.gates["q1"].set()
            await client.until(lambda one: getattr(one, "id", "") == f"q{MAX_COMMANDS}")
            assert isinstance(await client.ask("chat:send", task_id="ses_1", text="x"), Ack)
            assert bench.hub.connections == 1

    run(story())


def test_when_a_client_goes_nothing_of_it_is_left() -> None:
    async def story() -> None:
        slow = Slow()
        slow.gates["first"] = asyncio.Event()
        async with serving(replace(QUICK, command_seconds=60.0), commands=slow) as bench:
            before = len(asyncio.all_tasks())
            task_id = await bench.open_task()
            tasks = len(asyncio.all_tasks())
            async with bench.client() as client:
                await client.ask("task:join", task_id=task_id)
                await client.send("chat:send", id="first", task_id=task_id, text="x")
                await soon(lambda: slow.running)
            await soon(lambda: not bench.hub.connections and not slow.running)
            await soon(lambda: len(asyncio.all_tasks()) <= tasks)
            assert not bench.hub.rooms._members
            assert not bench.hub.rooms._joined
            assert before <= tasks

    run(story())


def test_haste_is_refused_and_forgiven() -> None:
    async def story() -> None:
        settings = replace(QUICK, requests_per_second=1 / 60, request_burst=5)
        async with serving(settings) as bench, bench.client() as client:
            for _ in range(8):
                await client.send("ping")
            refused = await client.until(lambda one: isinstance(one, Refused))
            assert (refused.problem.status, refused.problem.code) == (429, "too_many")
            assert refused.id == "q6"
            assert 0 < refused.problem.retry_after_seconds <= 60
            await client.until(lambda one: getattr(one, "id", "") == "q8")
            clock().advance(refused.problem.retry_after_seconds)
            assert isinstance(await client.ask("ping"), Ack)
            assert isinstance(await client.ask("ping"), Refused), "one was earned, and no more"
            assert bench.hub.connections == 1

    run_with_jumps(story())


def test_haste_without_end_ends_the_connection() -> None:
    async def story() -> None:
        settings = replace(QUICK, requests_per_second=0.001, request_burst=5)
        async with serving(settings) as bench, bench.client() as client, bench.client() as other:
            await other.read()
            for _ in range(11):
                await client.send("ping")
            assert (await client.closed())[0] == POLICY
            assert sum(isinstance(one, Refused) for one in client.seen) == 6
            assert isinstance(await other.ask("ping"), Ack)
            assert bench.hub.connections == 1

    run(story())


def test_rooms_are_limited_and_one_is_not_counted_twice() -> None:
    async def story() -> None:
        async with serving(replace(QUICK, max_rooms=2)) as bench, bench.client() as client:
            one, two, three = [await bench.open_task() for _ in range(3)]
            for task_id in (one, two, one, two):
                assert isinstance(await client.ask("task:join", task_id=task_id), TaskJoined)
            refused = await client.ask("task:join", task_id=three)
            assert refused.problem.status == 429
            assert (await client.ask("board:join")).problem.status == 429
            await client.ask("task:leave", task_id=one)
            assert isinstance(await client.ask("task:join", task_id=three), TaskJoined)

    run(story())


def test_connections_are_limited() -> None:
    async def story() -> None:
        async with serving(replace(QUICK, max_connections=2)) as bench:
            async with bench.client() as one, bench.client() as two:
                await one.read()
                await two.read()
                async with bench.client() as three:
                    assert await three.closed() == (TRY_AGAIN_LATER, "too many connections")
                    assert not three.seen
                assert isinstance(await one.ask("ping"), Ack)
            await soon(lambda: not bench.hub.connections)
            async with bench.client() as again:
                assert isinstance(await again.read(), Hello)

    run(story())


def test_a_request_that_is_too_large_ends_the_connection() -> None:
    async def story() -> None:
        async with serving(replace(QUICK, max_request_bytes=1_000)) as bench, bench.client() as client:
            assert isinstance(await client.ask("ping", id="x" * 60), Ack)
            await client.raw.send("x" * 1_001)
            assert (await client.closed())[0] == TOO_BIG
            await soon(lambda: not bench.hub.connections)

    run(story())


def test_our_own_measure_of_a_request_counts_bytes() -> None:
    """Also where whoever runs the socket lets more through."""

    async def story() -> None:
        limits = replace(QUICK, max_request_bytes=1_000)
        async with serving(limits, uvicorn_options={"ws_max_size": 10**6}) as bench, bench.client() as client:
            await client.raw.send("\u00e9" * 501)
            assert (await client.closed())[0] == TOO_BIG
            await soon(lambda: not bench.hub.connections)

    run(story())


def test_a_client_that_says_nothing_but_answers_pings_stays() -> None:
    """A hidden page: its browser answers pings, and its timers may run once a minute."""

    async def story() -> None:
        async with serving(replace(QUICK, heartbeat_seconds=BEAT_SECONDS)) as bench, bench.client() as hidden:
            reading = asyncio.create_task(hidden.closed())
            async with bench.client() as well:
                for _ in range(5 * 4):
                    clock().advance(BEAT_SECONDS / 4)
                    assert isinstance(await well.ask("ping"), Ack)
                    await (await hidden.raw.ping())  # what we ask it, it is read, and answers what it was asked before
            assert not reading.done()
            assert bench.hub.connections >= 1
            reading.cancel()

    run_with_jumps(story())


def test_a_server_that_stood_still_has_not_listened_and_lets_nobody_go() -> None:
    """As after a machine has slept, and its clients with it."""

    async def story() -> None:
        async with serving(replace(QUICK, heartbeat_seconds=BEAT_SECONDS)) as bench, bench.client() as client:
            await client.ask("ping")
            clock().advance(6 * BEAT_SECONDS)
            for _ in range(20):  # the client is as late as the server
                await asyncio.sleep(0)
            assert isinstance(await client.ask("ping"), Ack)
            assert bench.hub.connections == 1

    run_with_jumps(story())


def test_a_server_that_closes_says_so_first() -> None:
    async def story() -> None:
        async with serving() as bench, bench.client() as client:
            await client.ask("ping")
            await bench.hub.close("a new version")
            code, reason = await client.closed()
            assert (code, reason) == (1012, "a new version")
            assert isinstance(client.seen[-1], ServerClosing)
            async with bench.client() as late:
                assert (await late.closed())[0] == SERVICE_RESTART

    run(story())


async def chatter(bench: Bench, count: int, text: str) -> None:
    puppet = bench.driver.latest
    for number in range(count):
        puppet.say(TextArrived(text=text))
        if number % 100 == 0:
            await asyncio.sleep(0)


def test_a_slow_client_falls_behind_and_ends_where_the_server_is_while_others_miss_nothing() -> None:
    async def story() -> None:
        settings = replace(QUICK, outbox_frames=20, heartbeat_seconds=10.0)
        async with (
            serving(settings) as bench,
            bench.client(max_queue=1) as slow,
            bench.client() as quick,
        ):
            task_id = await bench.open_task()
            await bench.at_work(task_id)
            known: dict[Client, Known] = {}
            for client in (slow, quick):
                snapshot = (await client.ask("task:join", task_id=task_id)).snapshot
                known[client] = Known(snapshot, snapshot.version, snapshot.tick)
            reading = asyncio.create_task(_follow(quick, known[quick]))
            text = "y" * 20_000  # the slow one does not read: soon no buffer of the system takes any more
            await chatter(bench, 600, text)
            view = bench.hub.views[task_id]
            await soon(lambda: bench.hub.rooms.times_behind)
            bench.driver.latest.say(done("y"))
            await soon(lambda: view.status is TaskStatus.COMPLETED)
            await asyncio.wait_for(_resume_until(slow, known[slow], task_id), 100)
            assert digest(known[slow].snapshot) == digest(whole(view))
            assert any(isinstance(one, TaskBehind) for one in slow.seen)
            await soon(lambda: known[quick].snapshot.task_status is TaskStatus.COMPLETED or None)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            assert digest(known[quick].snapshot) == digest(whole(view))

    run(story(), timeout_seconds=200)


async def _follow(client: Client, known: Known) -> None:
    while True:
        frame = await client.read()
        client.seen.clear()
        if isinstance(frame, TaskBehind):
            await client.send("task:resume", task_id=frame.task_id, version=known.synced)
            known.is_behind = True
        elif isinstance(frame, TaskJoined):
            stand(known, frame)
        elif isinstance(frame, Push) and frame.tick > known.tick and not known.is_behind:
            assert frame.tick == known.tick + 1
            apply(known, frame)


async def _resume_until(client: Client, known: Known, task_id: SessionId) -> None:
    while known.snapshot.task_status is not TaskStatus.COMPLETED:
        frame = await client.read()
        if isinstance(frame, TaskBehind):
            await client.send("task:resume", task_id=task_id, version=0)
            known.is_behind = True
        elif isinstance(frame, TaskJoined):
            stand(known, frame)
        elif isinstance(frame, Push) and frame.tick > known.tick and not known.is_behind:
            apply(known, frame)


def stand(known: Known, frame: TaskJoined) -> None:
    messages = {one.message_id: one for one in known.snapshot.messages} if not frame.snapshot.is_whole else {}
    messages |= {one.message_id: one for one in frame.snapshot.messages}
    known.snapshot = structs.replace(frame.snapshot, messages=tuple(messages[key] for key in sorted(messages)))
    known.synced, known.tick, known.is_behind = frame.snapshot.version, frame.snapshot.tick, False
