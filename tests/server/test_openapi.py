"""The OpenAPI document: true of every route, readable by a person offline, and held by hostile requests."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

import jsonschema
import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from schemathesis import checks
from schemathesis.core.result import Ok

from interlock.server.http.app import create_app, create_routes
from interlock.server.http.docs_page import DOCS_POLICY
from interlock.server.http.openapi import openapi_document, operations, problem_statuses
from interlock.server.http.problems import statuses
from tests.contract.harness import run
from tests.server import test_auth_matrix as matrix
from tests.server.http_harness import OPERATOR, SETTINGS, house

# A stream has no end; its tests are elsewhere.
ENDLESS: Final = "/api/tasks/{task_id}/events"
CHECKS: Final = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]
KNOWN: Final = {
    "login_id": "log_1",
    "message_id": "1",
    "task_id": "ses_a",
    "turn_id": "trn_a",
    "prompt_id": "prm_a",
    "approval_id": "apr_a",
    "subagent_id": "sub_a",
    "workflow_id": "wf_a",
    "step_id": "a",
}
AnyCase: TypeAlias = schemathesis.Case[Any]
MODES: Final = tuple(schemathesis.GenerationMode)


def document() -> dict[str, Any]:
    made: dict[str, Any] = msgspec.json.decode(
        msgspec.json.encode(openapi_document(create_routes(SETTINGS.max_request_bytes)))
    )
    return made


def test_the_document_is_what_is_served_and_names_each_operation_once() -> None:
    async def story() -> None:
        async with house() as server:
            served = (await server.stranger.get("/api/openapi.json")).json()
            assert served == document()
            app = create_app(server.state).app
            named = {f"{method.upper()} {path}" for path, item in served["paths"].items() for method in item}
            assert named == {f"{one.method} {one.path}" for one in operations(app)}

    run(story())
    ids = [one["operationId"] for item in document()["paths"].values() for one in item.values()]
    assert len(set(ids)) == len(ids)


def test_every_operation_is_described_with_every_status_of_its_problems() -> None:
    described = document()["paths"]
    for one in operations(create_routes(SETTINGS.max_request_bytes)):
        operation = described[one.path][one.method.lower()]
        assert operation["description"], one.path
        wanted = {str(status) for status in problem_statuses(one)}
        given_ = {status for status, answer in operation["responses"].items() if "problem" in str(answer)}
        assert given_ == wanted
        assert problem_statuses(one) <= statuses().keys()


def test_every_reference_leads_somewhere_and_every_schema_is_one() -> None:
    made = document()
    schemas = made["components"]["schemas"]
    referred = set(re.findall(r'"#/components/schemas/(\w+)"', msgspec.json.encode(made).decode()))
    assert referred <= schemas.keys()
    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)
    assert schemas["OpenTask"]["additionalProperties"] is False
    needed = {
        one["operationId"]: one["requestBody"]["required"]
        for item in made["paths"].values()
        for one in item.values()
        if "requestBody" in one
    }
    assert (needed["open_task"], needed["send_prompt"], needed["cancel_turn"]) == (True, True, False)
    assert schemas["RuntimeCheck"]["required"] == [
        "task_id",
        "task_status",
        "version",
        "turn_id",
        "status_updated_at",
        "active_stream",
        "tick",
    ]


def test_every_operation_has_a_tag_that_is_described_and_the_role_that_the_server_asks_for() -> None:
    made = document()
    assert made["servers"] == [{"url": "/", "description": made["servers"][0]["description"]}]
    tags = {one["name"] for one in made["tags"] if one["description"]}
    roles = {**dict.fromkeys(matrix.OBSERVERS, "observer"), **dict.fromkeys(matrix.OPERATORS, "operator")}
    used = set()
    for path, item in made["paths"].items():
        for method, one in item.items():
            role = roles.get(f"{method.upper()} {path}")
            assert one["security"] == ([] if role is None else [{"bearer": [role]}]), path
            assert len(one["tags"]) == 1
            used |= set(one["tags"])
    assert used == tags


def test_no_schema_is_a_bare_boolean_which_generators_cannot_read() -> None:
    made = document()
    assert '"items":false' not in msgspec.json.encode(made).decode()
    schemas = made["components"]["schemas"]
    cursor = schemas["TaskScreen"]["properties"]["cursor"]["anyOf"][0]
    assert (cursor["items"], cursor["minItems"], cursor["maxItems"]) == ({"type": "integer"}, 2, 2)
    paint = jsonschema.Draft202012Validator(schemas["Paint"])
    paint.validate([0, 0, 5, "1"])
    for wrong in ([0, 0, 5], [0, 0, 5, "1", 2], ["0", 0, 5, "1"]):
        with pytest.raises(jsonschema.ValidationError):
            paint.validate(wrong)


def test_the_schema_of_the_frames_is_served_and_is_the_one_of_the_documentation() -> None:
    async def story() -> dict[str, Any]:
        async with house() as server:
            found: dict[str, Any] = (await server.stranger.get("/api/frames.schema.json")).json()
            return found

    served = run(story())
    assert served == msgspec.json.decode((Path(__file__).parents[2] / "docs/reference/frames.schema.json").read_bytes())
    jsonschema.Draft202012Validator(served).validate({"type": "ping", "id": "1"})
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(served).validate({"type": "ping"})


def test_the_page_is_whole_and_loads_nothing() -> None:
    async def story() -> str:
        async with house() as server:
            answer = await server.stranger.get("/docs")
            assert answer.headers["content-type"] == "text/html; charset=utf-8"
            assert answer.headers["content-security-policy"] == DOCS_POLICY
            return answer.text

    page = run(story())
    made = document()
    for path, item in made["paths"].items():
        assert path in page
        assert all(one["operationId"] in page for one in item.values())
    assert all(f'id="schema-{name}"' in page for name in made["components"]["schemas"])
    assert not re.findall(r"<(script|link|img|iframe|object)|\son\w+=|\ssrc=|@import|url\(", page)
    assert all(link.startswith(("#", "/api/openapi.json")) for link in re.findall(r'href="([^"]*)"', page))
    anchors = set(re.findall(r'id="([^"]*)"', page))
    assert {link[1:] for link in re.findall(r'href="(#[^"]*)"', page)} <= anchors


class _Thread:
    """A server in a loop of its own, for a client that does not wait."""

    def __init__(self) -> None:
        self.url: Future[str] = Future()
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))
        self._thread.start()

    async def _serve(self) -> None:
        try:
            async with house() as server:
                await server.open(KNOWN["task_id"])
                self.url.set_result(server.url)
                await self._over.wait()
        except BaseException as error:
            if not self.url.done():
                self.url.set_exception(error)
            raise

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(timeout=100)
        self._loop.close()


@contextmanager
def threaded() -> Iterator[str]:
    thread = _Thread()
    try:
        yield thread.url.result(timeout=100)
    finally:
        thread.close()


def attack(examples: int) -> int:
    """Ask every operation for what its schema allows and for what it does not; give how many answers were judged."""
    made = document()
    judged = 0
    with threaded() as url:
        for found in schemathesis.openapi.from_dict(made).get_all_operations():
            assert isinstance(found, Ok)
            operation = found.ok()
            if operation.path != ENDLESS:
                for mode in MODES:
                    judged += _attack(operation, mode, url, examples)
    return judged


def _attack(operation: Any, mode: schemathesis.GenerationMode, url: str, examples: int) -> int:  # noqa: ANN401
    names = re.findall(r"{(\w+)}", operation.path)
    judged = 0
    # Negative data needs a place for it: where nothing is given, nothing can be wrong.
    has_input = bool(operation.body) or any(one.name not in names for one in operation.iter_parameters())
    if mode.is_negative and not has_input:
        return 0

    def strategy(is_known: bool) -> st.SearchStrategy[AnyCase]:
        made: st.SearchStrategy[AnyCase] = operation.as_strategy(
            generation_mode=mode,
            path_parameters={name: KNOWN[name] if is_known else f"{name}_none" for name in names} or None,
        )
        return made

    @seed(20260101)
    @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(case=st.one_of(strategy(True), strategy(True), strategy(False)))
    def hold(case: AnyCase) -> None:
        nonlocal judged
        judged += 1
        answer = case.call(base_url=url, headers={"Authorization": f"Bearer {OPERATOR}"}, timeout=100)
        case.validate_response(answer, checks=CHECKS)

    hold()
    return judged


def test_hostile_requests_get_what_the_document_says() -> None:
    assert attack(2) > 80


@pytest.mark.deep
@pytest.mark.timeout(1200)
def test_many_hostile_requests_get_what_the_document_says() -> None:
    assert attack(60) > 2_000
