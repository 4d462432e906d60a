"""The reference of HTTP and the socket: whole, without a dead link, and true of a server that runs."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import dataclass, fields
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, get_args

import jsonschema
import msgspec
import pytest

from interlock.agents.observations import ApprovalAsked, TextArrived, ToolCalled
from interlock.client.machine.probe import PROBE
from interlock.client.machine.state import SYNC_MOVES, SyncState
from interlock.client.machine.task_machine import CHECK_SECONDS, JOIN_SECONDS
from interlock.server.http.app import create_routes
from interlock.server.http.frames_schema import RESULTS
from interlock.server.http.openapi import openapi_document, operations
from interlock.server.http.problems import statuses
from interlock.server.settings import ServerSettings
from interlock.vocabulary.ids import CallId
from interlock.vocabulary.wire.frames import ApprovalOpened
from interlock.vocabulary.wire.requests import AccessRole, Ack, Refused, Request, ServerFrame
from tests.contract.harness import run
from tests.docs import curl
from tests.docs.running import generated_pages
from tests.each_row import each_row
from tests.server import test_auth_matrix as matrix
from tests.server.socket_harness import serving, soon
from tools import client_page, http_page, socket_page, wire_types

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs/reference"
HTTP = (REFERENCE / "http.md").read_text(encoding="utf-8")
SOCKET = (REFERENCE / "websocket.md").read_text(encoding="utf-8")
CLIENT = (ROOT / "docs/machines/client.md").read_text(encoding="utf-8")
CONVERGING = (ROOT / "docs/explanation/clients-that-converge.md").read_text(encoding="utf-8")
SCHEMA = json.loads((REFERENCE / "frames.schema.json").read_text(encoding="utf-8"))
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])

ARGUMENTS: dict[str, dict[str, Any]] = {
    "task:join": {},
    "task:resume": {"version": 0},
    "task:seen": {},
    "task:leave": {},
    "board:join": {},
    "board:leave": {},
    "chat:send": {"text": "two", "prompt_id": "prm_2"},
    "queue:gate": {"is_open": False},
    "queue:edit": {"prompt_id": "prm_2", "text": "three"},
    "queue:remove": {"prompt_id": "prm_2"},
    "approval:decide": {"approval_id": "none", "is_allowed": True},
    "chat:cancel": {},
    "ping": {},
}
"""One of each request, in an order in which an operator can do them all."""


def anchors(page: str) -> list[str]:
    """What its headings can be linked by, as GitHub spells it."""
    heads: list[str] = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads]


@each_row("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_to_a_heading(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    dead = []
    for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", text):
        known = anchors((page.parent / target).read_text(encoding="utf-8") if target else text)
        if known.count(anchor) != 1:
            dead.append((target, anchor))
    assert dead == []


@pytest.mark.parametrize(
    "name",
    ["reference/http.md", "reference/websocket.md", "reference/frames.schema.json", "machines/client.md"],
)
def test_the_pages_are_current(name: str) -> None:
    made = generated_pages()[name]
    assert (ROOT / "docs" / name).read_text(encoding="utf-8") == made, "to mend it: make docs"


def test_every_operation_is_on_the_page_with_its_role() -> None:
    roles = {**dict.fromkeys(matrix.OPEN | matrix.PAGE, "anybody"), **dict.fromkeys(matrix.OBSERVERS, "observer")}
    roles |= dict.fromkeys(matrix.OPERATORS, "operator")
    rows = dict(re.findall(r"^\| \[\w+\]\(#\w+\) \| `([A-Z]+ [^`]+)` \| (\w+) \|", HTTP, re.MULTILINE))
    assert rows == roles
    for one in operations(create_routes(ServerSettings().max_request_bytes)):
        part = HTTP.partition(f"\n### {one.handler.handler_name}\n")[2].partition("\n##")[0]
        assert f"`{one.method} {one.path}`" in part
        assert all(kind is None or f"(#{kind.__name__.lower()})" in part for kind in (one.body, one.answer))
        shown = {name.replace("_", "-") for name in re.findall(r"^\| `([\w-]+)` \|", part.lower(), re.MULTILINE)}
        named = {str(field.kwarg_definition.name or name) for name, field in one.parameters.items()}  # type: ignore[union-attr]
        in_path = set(re.findall(r"{(\w+)}", one.path))
        assert shown == {name.lower().replace("_", "-") for name in named - in_path - {"Idempotency-Key"}}


def test_every_problem_and_limit_is_on_the_page() -> None:
    for status, kinds in statuses().items():
        assert all(f"| {status} | `{kind.code}` | {kind.title} |" in HTTP for kind in kinds)
    for field in fields(ServerSettings):
        is_place = field.name in ("host", "port", "allowed_hosts", "allowed_origins")
        assert (f"\n| `{field.name}` |" in HTTP.partition("## Bounds")[2]) is not is_place


def test_a_setting_without_words_stops_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    words = dict(http_page.LIMITS)
    del words["max_rooms"]
    monkeypatch.setattr(http_page, "LIMITS", words)
    with pytest.raises(KeyError, match="max_rooms"):
        http_page.http_page()


def test_every_frame_and_request_is_on_the_page_with_its_fields() -> None:
    for one in (*get_args(ServerFrame), *get_args(Request)):
        part = SOCKET.partition(f"\n### {socket_page.tag(one)}\n")[2].partition("\n##")[0]
        assert part, one
        assert all(f"\n| `{field.encode_name}` |" in part for field in msgspec.structs.fields(one))


def test_the_file_of_schemas_knows_good_from_bad() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    both = jsonschema.Draft202012Validator(SCHEMA)
    both.validate({"type": "ping", "id": "a"})
    both.validate({"type": "ack", "id": "a", "result": None})
    for wrong in ({"type": "ping"}, {"type": "ping", "id": ""}, {"type": "pong", "id": "a"}, {"type": "ack"}):
        with pytest.raises(jsonschema.ValidationError):
            both.validate(wrong)


def one_of(name: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": SCHEMA["$defs"]})


def test_a_real_server_keeps_to_the_page() -> None:
    """Every request, by both roles: who is let in, what answers it, what an ack brings. Every frame has its schema."""
    by_tag = {socket_page.tag(one): one for one in get_args(Request)}
    assert set(ARGUMENTS) == set(by_tag)

    async def story() -> list[str]:
        async with serving() as bench, bench.client() as client, bench.client(AccessRole.OBSERVER) as looker:
            task_id = await bench.open_task()
            await client.ask("task:join", task_id=task_id)
            puppet = await bench.at_work(task_id)
            call_id = CallId("call_1")
            puppet.say(
                TextArrived(text="let me"),
                ToolCalled(call_id=call_id, name="write", args={}),
                ApprovalAsked(request_id="r1", question="may I?", call_id=call_id, name="write"),
            )
            asked = await client.until(lambda one: isinstance(one, ApprovalOpened))
            for kind, given in ARGUMENTS.items():
                more = given if "task_id" not in by_tag[kind].__struct_fields__ else {**given, "task_id": task_id}
                if kind == "approval:decide":
                    more = {**more, "approval_id": asked.approval.approval_id}
                role = socket_page.role_of(by_tag[kind])
                seen = await looker.ask(kind, **more)
                assert isinstance(seen, Refused) is (role == "operator"), kind
                check_answer(by_tag[kind], await client.ask(kind, **more))
            check = bench.hub.views[task_id].check()
            one_of("RuntimeCheck").validate(msgspec.to_builtins(check))
            await soon(lambda: bench.hub.is_ready)
            return [*client.texts, *looker.texts]

    frames = one_of("ServerFrame")
    told = [json.loads(text) for text in run(story())]
    for frame in told:
        frames.validate(frame)
    assert {"hello", "ack", "refused", "task:joined", "board:joined", "approval:opened"} <= {
        one["type"] for one in told
    }


def check_answer(request: type, answer: object) -> None:
    """Whether an answer is what the page says."""
    wanted = socket_page.ANSWERS.get(request, Ack)
    assert type(answer) is wanted, (request, answer)
    if isinstance(answer, Ack):
        schema = SCHEMA["$defs"]["AckResults"]["properties"][socket_page.tag(request)]
        jsonschema.Draft202012Validator({**schema, "$defs": SCHEMA["$defs"]}).validate(answer.result)
        kind = RESULTS[request]
        if kind is None:
            assert answer.result is None
        else:
            given: msgspec.Struct = msgspec.convert(answer.result, kind)
            assert json.loads(msgspec.json.encode(given)) == answer.result


def test_the_result_of_every_ack_has_its_schema() -> None:
    results = SCHEMA["$defs"]["AckResults"]["properties"]
    assert results.keys() == {socket_page.tag(one) for one in RESULTS}
    assert results["chat:send"] == {"$ref": "#/$defs/PromptStanding"}
    one_of("Ack").validate({"type": "ack", "id": "a", "result": {"is_open": True}})
    for wrong in ({"type": "ack", "id": "a"}, {"type": "ack", "id": "a", "result": {"is_open": "yes"}}):
        with pytest.raises(jsonschema.ValidationError):
            one_of("Ack").validate(wrong)


def test_the_page_of_the_client_draws_every_move() -> None:
    drawn = set(re.findall(r"^    (\w+) --> (\w+)$", CLIENT, re.MULTILINE))
    assert drawn == {(source.value, target.value) for source, targets in SYNC_MOVES.items() for target in targets}
    assert f"[*] --> {SyncState.CLOSED}" in CLIENT
    assert set(client_page.STATES) == set(SyncState)


def test_the_explanation_is_true_of_the_code() -> None:
    assert CHECK_SECONDS == JOIN_SECONDS == 10
    assert "deadline of ten seconds" in CONVERGING
    assert (PROBE.grace_seconds, PROBE.cap_seconds) == (3, 30)
    assert "After three seconds it checks" in CONVERGING
    assert "up to thirty seconds" in CONVERGING
    letters = re.findall(r"^\| ([a-z]) \|.*\(../../vectors/weakness_([a-z]).json\) \|$", CONVERGING, re.MULTILINE)
    assert letters == [(letter, letter) for letter in "abcdefghij"]
    tests = (ROOT / "tests/client/test_weaknesses.py").read_text(encoding="utf-8")
    assert set(re.findall(r"^def test_([a-z])_", tests, re.MULTILINE)) == set("abcdefghij")
    files = re.findall(r"\(`(tests/[\w/.]+)`\)|, `(tests/\w+)`", CONVERGING)
    assert len(files) > 3
    assert all((ROOT / (one or other)).exists() for one, other in files)


class Leaf(msgspec.Struct):
    """The last one."""

    name: str


@dataclass
class Twig:
    """In between, and no struct."""

    leaf: Leaf
    size: int = 3


class Tree(msgspec.Struct):
    """Holds others in every way."""

    twigs: dict[str, Twig]
    parent: Tree | None = None
    leaves: tuple[Leaf, ...] = ()


def test_a_type_has_all_its_fields_with_links_and_defaults() -> None:
    assert wire_types.held_types([tuple[Tree, ...]]) == (Leaf, Tree, Twig)
    assert wire_types.held_types([Leaf | None]) == (Leaf,)
    assert wire_types.held_types([dict[str, Leaf]]) == (Leaf,)
    assert wire_types.held_types([str]) == ()
    assert list(wire_types.field_rows(Tree, {Leaf, Twig})) == [
        ("`twigs`", "map to [Twig](#twig)", "required"),
        ("`parent`", "Tree or null", "`null`"),
        ("`leaves`", "list of [Leaf](#leaf)", "`[]`"),
    ]
    assert list(wire_types.field_rows(Twig, ())) == [("`leaf`", "Leaf", "required"), ("`size`", "int", "`3`")]
    assert wire_types.section(Leaf, ()).startswith("### Leaf\n\nThe last one.\n\n| Field |")


def test_every_type_that_a_schema_names_has_its_section() -> None:
    """Held against the schemas, which msgspec makes by a way of its own."""
    document: Any = openapi_document(create_routes(ServerSettings().max_request_bytes))
    for page, schemas in ((HTTP, document["components"]["schemas"]), (SOCKET, SCHEMA["$defs"])):
        found = 0
        for name, schema in schemas.items():
            tags = schema.get("properties", {}).get("type", {}).get("enum", [name])
            if schema.get("type") == "object" and name not in ("RuntimeCheck", "ActiveStream", "AckResults"):
                assert f"\n### {tags[0]}\n" in page, name
                found += 1
        assert found > 20


class Echo(BaseHTTPRequestHandler):
    """Tells what it was asked."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.send_response(202)
        self.end_headers()
        self.wfile.write(f"{self.command} {self.path} {self.headers['X-Own']} {body}".encode())

    def log_message(self, *_: object) -> None:
        """Nothing: it would be noise."""


def test_our_own_curl_does_what_the_pages_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "auth").write_text("X-Own: yes\n", encoding="utf-8")
    (tmp_path / "body").write_text('{"a": 1}', encoding="utf-8")
    with HTTPServer(("127.0.0.1", 0), Echo) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/x"
        try:
            assert curl.main(["-s", "-H", "@auth", "-d", "@body", url]) == 0
            assert curl.main(["-sN", "-H", "X-Own: 2", "-d", "{}", "-o", "out", "-w", r"%{http_code}\n", url]) == 0
        finally:
            server.shutdown()
    shown = capfdbinary.readouterr().out
    assert b'POST /x yes {"a": 1}' in shown
    assert b"202\n" in shown
    assert (tmp_path / "out").read_text(encoding="utf-8") == "POST /x 2 {}"
