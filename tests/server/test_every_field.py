"""Every field is always sent: by HTTP, by sockets and as server-sent events. The lines of the log stay as they were."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import msgspec
import pytest
from msgspec import inspect
from websockets.asyncio.client import connect

from interlock.agents.observations import ApprovalAsked, TextArrived, ToolCalled, TurnEnded, TurnEnding
from interlock.server.http.app import create_routes
from interlock.server.http.openapi import openapi_document, operations
from interlock.vocabulary.actions import NextAction, NextActionKind
from interlock.vocabulary.events.codec import encode_event
from interlock.vocabulary.ids import CallId, SessionId
from interlock.vocabulary.run import TerminationReason
from interlock.vocabulary.wire.encoding import encode, fill
from interlock.vocabulary.wire.frames import QueueView
from interlock.vocabulary.wire.requests import Problem, ServerFrame
from tests.contract.harness import run
from tests.server.http_harness import OBSERVER, SETTINGS, House, house
from tools.wire_types import held_types

APP = create_routes(SETTINGS.max_request_bytes)
ANSWERS = [one.answer for one in operations(APP) if one.answer is not None]
SENT = [one for one in held_types([ServerFrame, Problem, *ANSWERS]) if issubclass(one, msgspec.Struct)]
PATHS = (
    "",
    "/turns",
    "/messages",
    "/queue",
    "/approvals",
    "/runtime-check",
    "/state",
    "/why",
    "/why/lines",
    "/diagnostics",
    "/spawns",
    "/usage",
)


PLAIN: dict[type, object] = {
    inspect.BoolType: False,
    inspect.IntType: 1,
    inspect.FloatType: 1,
    inspect.DateTimeType: "2026-01-01T00:00:00Z",
    inspect.NoneType: None,
}


def barely(info: Any) -> Any:  # noqa: ANN401 - any JSON
    """The shortest JSON that a type takes which still holds one of every struct in it."""
    match info:
        case inspect.StructType(cls=kind) if kind is TerminationReason:  # it has a rule beside its types
            return {"type": "stopped", "value": {"code": "timeout"}}
        case inspect.StructType() | inspect.DataclassType():
            given = {one.encode_name: barely(one.type) for one in info.fields if one.required or has_struct(one.type)}
            tag = getattr(info, "tag", None)
            values = list(given.values()) if getattr(info, "array_like", False) else given
            return (
                {info.tag_field: tag, **given} if tag is not None and isinstance(info, inspect.StructType) else values
            )
        case inspect.UnionType():
            return barely(next((one for one in info.types if has_struct(one)), info.types[0]))
        case inspect.VarTupleType():
            return [barely(info.item_type)] if has_struct(info.item_type) else []
        case inspect.DictType():
            return {}
        case inspect.EnumType():
            return next(iter(info.cls)).value
        case _:
            return PLAIN.get(type(info), "1")


def has_struct(info: Any) -> bool:  # noqa: ANN401 - any type of msgspec
    match info:
        case inspect.StructType() | inspect.DataclassType():
            return True
        case inspect.UnionType():
            return any(map(has_struct, info.types))
        case inspect.VarTupleType():
            return has_struct(info.item_type)
        case _:
            return False


def missing(value: Any, told: Any) -> list[str]:  # noqa: ANN401 - any struct, any JSON
    """The fields of a value, at any depth, that its JSON does not have."""
    if isinstance(value, tuple) and isinstance(told, list):
        return [one for pair in zip(value, told, strict=True) for one in missing(*pair)]
    if not isinstance(value, msgspec.Struct) or not isinstance(told, dict):
        return []
    found = [f"{type(value).__name__}.{name}" for name in value.__struct_encode_fields__ if name not in told]
    pairs = zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
    return found + [one for name, key in pairs if key in told for one in missing(getattr(value, name), told[key])]


@pytest.mark.parametrize("kind", SENT, ids=lambda kind: kind.__name__)
def test_a_struct_of_the_wire_is_sent_with_all_of_its_fields(kind: type[msgspec.Struct]) -> None:
    value = msgspec.convert(barely(inspect.type_info(kind)), kind)
    assert missing(value, json.loads(encode(value))) == []


def test_a_struct_of_the_log_is_sent_whole_and_written_down_as_ever() -> None:
    advice = NextAction(NextActionKind.DECIDE)
    assert msgspec.json.encode(advice) == b'{"kind":"decide"}'
    assert encode(advice) == b'{"kind":"decide","command":""}'
    assert fill(QueueView()) == QueueView()


async def failed_turn(server: House) -> SessionId:
    """A task that asked for something and failed, with half an answer."""
    task_id = await server.open(prompt="go")
    puppet = await server.prompted()
    puppet.say(
        TextArrived(text="let me"),
        ToolCalled(call_id=CallId("call_1"), name="write", args={}),
        ApprovalAsked(request_id="r1", question="may I?", call_id=CallId("call_1"), name="write"),
    )
    await server.shown(task_id, "PENDING_CONFIRMATION")
    return task_id


def test_what_is_true_by_default_is_in_every_answer_by_http() -> None:
    """Absent is falsy in JavaScript: a page would draw a queue that is open as closed."""

    async def story() -> None:
        async with house() as server:
            task_id = await failed_turn(server)
            queue = (await server.observer.get(f"/api/tasks/{task_id}/queue")).json()
            assert queue == {"waiting": [], "is_open": True, "is_paused": False, "gate_reason": "", "waits_for": ""}
            asked = (await server.observer.get("/api/approvals")).json()["items"][0]
            assert asked["is_answerable"] is True
            messages = (await server.observer.get(f"/api/tasks/{task_id}/messages")).json()["items"]
            assert [one["is_verified"] for one in messages] == [True] * len(messages)
            refused = (await server.observer.get("/api/tasks/none")).json()
            assert (refused["type"], refused["next_actions"], refused["retry_after_seconds"]) == (
                "about:blank",
                [],
                None,
            )
            at_the_door = (await server.stranger.get("/api/tasks")).json()
            assert at_the_door.keys() == refused.keys()

    run(story())


def test_every_answer_of_a_real_server_has_every_property_of_its_schema() -> None:
    document = json.loads(msgspec.json.encode(openapi_document(APP)))
    schemas = document["components"]["schemas"]
    bodies = {one["requestBody"]["content"]["application/json"]["schema"]["$ref"] for one in with_bodies(document)}
    names = {reference.rpartition("/")[2] for reference in bodies} | {"ReplyContract", "AskedWorktree"}
    for name, schema in schemas.items():
        if schema.get("type") == "object" and name not in names:
            assert set(schema["required"]) == set(schema["properties"]), name
            assert not [field for field, made in schema["properties"].items() if "default" in made], name

    async def story() -> None:
        async with house() as server:
            task_id = await failed_turn(server)
            server.driver.puppets[0].say(TurnEnded(ending=TurnEnding.ERROR, error_message="it broke"))
            await server.shown(task_id, "FAILED")
            for path in PATHS:
                answer = await server.observer.get(f"/api/tasks/{task_id}{path}")
                operation = document["paths"][f"/api/tasks/{{task_id}}{path}"]["get"]
                schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
                jsonschema.Draft202012Validator({**schema, "components": document["components"]}).validate(
                    answer.json()
                )

    run(story())


def with_bodies(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for item in document["paths"].values() for one in item.values() if "requestBody" in one]


def test_every_frame_of_a_socket_and_of_an_event_stream_has_all_of_its_fields() -> None:
    decoder = msgspec.json.Decoder[ServerFrame](ServerFrame)

    async def story() -> None:
        async with house() as server:
            task_id = await failed_turn(server)
            url = f"{server.url.replace('http', 'ws', 1)}/api/socket"
            async with connect(url, additional_headers={"Authorization": f"Bearer {OBSERVER}"}, proxy=None) as socket:
                await socket.send(json.dumps({"type": "task:join", "id": "a", "task_id": task_id}))
                await socket.send(json.dumps({"type": "ping", "id": "b"}))
                await socket.send(json.dumps({"type": "task:join", "id": "c", "task_id": "none"}))
                server.driver.puppets[0].say(TurnEnded(ending=TurnEnding.ERROR, error_message="it broke"))
                seen: set[str] = set()
                while not {"hello", "ack", "refused", "task:joined", "task:status"} <= seen:
                    text = await socket.recv()
                    frame = decoder.decode(text)
                    assert missing(frame, json.loads(text)) == []
                    seen.add(json.loads(text)["type"])
            events = f"/api/tasks/{task_id}/events"
            async with server.observer.stream("GET", events) as stream:
                async for line in stream.aiter_lines():
                    if line.startswith("data: "):
                        assert missing(decoder.decode(line[6:]), json.loads(line[6:])) == []
                        break

    run(story())


def test_the_lines_of_the_log_leave_default_values_out() -> None:
    async def story() -> None:
        async with house() as server:
            task_id = await failed_turn(server)
            events = (await server.log.read(task_id)).events
            assert events
            assert not any(b"null" in encode_event(event) for event in events)

    run(story())
