"""`docs/reference/http.md`: every route, from the application itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from interlock.server.http.app import create_routes
from interlock.server.http.http_protocol import MAX_HEAD_BYTES, MAX_HEADERS
from interlock.server.http.openapi import Operation, openapi_document, operations, problem_statuses
from interlock.server.http.problems import statuses
from interlock.server.routes.common import DEFAULT_PAGE, MAX_PAGE
from interlock.server.settings import ServerSettings
from interlock.vocabulary.wire.requests import Problem
from tools.markdown import page, table
from tools.wire_types import VALUES, held_types, link, sections

LIMITS: Final[Mapping[str, str]] = {
    "heartbeat_seconds": "how often a socket and a stream of events beat",
    "command_seconds": "how long a command may take before the answer is `deadline`; also how long a body may take",
    "hello_seconds": "how long the head of a request, or the handshake of a socket, may take",
    "outbox_frames": "frames that wait for one client; beyond it the client falls behind",
    "outbox_bytes": "bytes that wait for one client, likewise",
    "max_request_bytes": "the largest body, and the largest frame from a client",
    "max_rooms": "rooms a connection",
    "max_connections": "sockets and streams of events at once",
    "requests_per_second": "requests that a caller may make in the long run: by role and address, and again by socket",
    "request_burst": "requests that a caller may make at once",
    "closing_seconds": "how long the server may take to end",
    "hurried_seconds": "how long the end of the server may take after a second signal",
}
"""What each limit of a server bounds. A limit without words here is a mistake, and stops the build."""
_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
_PLACES: Final = frozenset({"host", "port", "allowed_hosts", "allowed_origins"})

_ABOUT: Final = """\
The API of a server ([how to run one](../how-to/run-a-server.md)). A server that runs gives the same as OpenAPI 3.1 at
`/api/openapi.json`, and as a page at `/docs`; neither needs a token. Everything that happens is told by
[the socket](websocket.md). A server sends every field, also one that has its default; in a request, fields with a
default may be left out."""
_TOKENS: Final = """\
## Who may ask

Send `Authorization: Bearer TOKEN`. The tokens are in `tokens.json` of the server's home. An *observer* looks, an
*operator* looks and acts. A token is never read from a URL. A request whose `Host` is none of the server's names gets
421, one whose `Origin` is another site's gets 403; both are checked before the token."""
_PAGES: Final = f"""\
## Pages

A list is an object with `items` and `next`. Where `next` is not null, give it as `after` (for messages: `before`) to
get what follows. `limit` is {DEFAULT_PAGE} unless it is given, and {MAX_PAGE} at most."""
_KEYS: Final = """\
## Commands that may be repeated

Every command takes `Idempotency-Key`, the id of what it is about: the task that is opened, the prompt that is sent, the
decision that is made. The same key with the same content is done once and answered as before, also after a restart of
the server; with other content it is refused as `key_reused`. `start`, `stop`, `delete`, `edit_prompt`, `remove_prompt`
and `set_gate` say what shall be, so that to repeat them changes nothing: there the key is read and not needed. A cancel
should name its turn. With a key and no turn, the repeat gets the first answer for as long as the server lives.

A command that is not done in time is answered with 504, code `deadline`, and goes on. Repeat it with the same key."""


def http_page() -> str:
    """The whole page."""
    settings = ServerSettings()
    app = create_routes(settings.max_request_bytes)
    # Within a path the routes come in an order that differs between processes.
    served = sorted(operations(app), key=lambda one: (one.path, _METHODS.index(one.method)))
    paths: Any = openapi_document(app)["paths"]
    roots = [kind for one in served for kind in (one.body, one.answer) if kind is not None]
    types = held_types([Problem, *roots])
    always = frozenset.intersection(*(problem_statuses(one) for one in served))
    return page(
        "HTTP",
        _ABOUT,
        _TOKENS,
        _PAGES,
        _KEYS,
        _problems(always),
        "## Operations",
        table(("Operation", "Request", "Role", "What it does"), (_row(one, paths) for one in served)),
        *(_operation(one, paths[one.path][one.method.lower()], always) for one in served),
        "## Types",
        VALUES,
        sections(types, types),
        _limits(settings),
    )


def role_of(operation: Operation) -> str:
    """Who may ask for it, by the server's own table."""
    return "anybody" if operation.role is None else operation.role.value


def _row(operation: Operation, paths: Any) -> tuple[str, ...]:  # noqa: ANN401 - a document of JSON
    name = operation.handler.handler_name
    said = paths[operation.path][operation.method.lower()]["summary"]
    return f"[{name}](#{name})", f"`{operation.method} {operation.path}`", role_of(operation), said


def _operation(operation: Operation, described: Any, always: frozenset[int]) -> str:  # noqa: ANN401 - a document of JSON
    parameters = [
        (f"`{one['name']}`", one["in"], _schema_words(one["schema"]), one.get("description", ""))
        for one in described["parameters"]
        if one["in"] != "path" and one["name"] != "Idempotency-Key"
    ]
    return "\n\n".join(
        part
        for part in (
            f"### {operation.handler.handler_name}",
            f"`{operation.method} {operation.path}`, {role_of(operation)}",
            described["description"],
            table(("Parameter", "In", "Type", "What"), parameters) if parameters else "",
            _exchange(operation, described, always),
        )
        if part
    )


def _exchange(operation: Operation, described: Any, always: frozenset[int]) -> str:  # noqa: ANN401 - a document of JSON
    """What goes in and what comes back, in a line or two."""
    good = {status: one for status, one in described["responses"].items() if status < "300"}
    answers = [f"{status} with {_answer_words(operation, one)}" for status, one in good.items()]
    own = sorted(problem_statuses(operation) - always)
    body = "" if operation.body is None else f"Body: {link(operation.body)}. "
    problems = f" Further problems: {', '.join(map(str, own))}." if own else ""
    return f"{body}Answer: {' or '.join(answers)}.{problems}"


def _answer_words(operation: Operation, answer: Any) -> str:  # noqa: ANN401 - a document of JSON
    if operation.answer is not None:
        return link(operation.answer)
    return " or ".join(f"`{media}`" for media in answer.get("content", {})) or "no body"


def _schema_words(schema: Mapping[str, Any]) -> str:
    """The type of a parameter. They are few and simple; what is new stops the build."""
    if "$ref" in schema:
        return f"a value of `{schema['$ref'].rpartition('/')[2]}`"
    bounds = {
        "minimum": "from {}",
        "maximum": "to {}",
        "maxLength": "up to {} characters",
        "default": "{} if not given",
    }
    unknown = schema.keys() - bounds.keys() - {"type"}
    if unknown:
        raise TypeError(f"tools/http_page.py cannot put {sorted(unknown)} into words")
    words = " ".join(bounds[name].format(schema[name]) for name in bounds if name in schema and name != "default")
    rest = f", {bounds['default'].format(schema['default'])}" if "default" in schema else ""
    return f"{schema['type']} {words}".strip() + rest


def _problems(always: frozenset[int]) -> str:
    rows = [(str(status), f"`{kind.code}`", kind.title) for status, kinds in statuses().items() for kind in kinds]
    return "\n\n".join(
        (
            "## Problems",
            f"What goes wrong is `application/problem+json`: a {link(Problem)}, with a `code` for programs, a `remedy`"
            " for people, and for 429, 503 and 504 when to come back. 503 and 504 mean that nothing is known, not that"
            f" there is nothing. Any request may get {', '.join(map(str, sorted(always)))}; 404 (`no_route`) and 405"
            " are for requests that fit no operation. Bodies are JSON: one with another `Content-Type` gets 415.",
            table(("Status", "Code", "Meaning"), rows),
        )
    )


def _limits(settings: ServerSettings) -> str:
    names = [field.name for field in fields(ServerSettings) if field.name not in _PLACES]
    rows = [(f"`{name}`", f"{getattr(settings, name):,}", LIMITS[name]) for name in names]
    own = (
        ("head of a request", f"{MAX_HEAD_BYTES:,} bytes, {MAX_HEADERS} lines", "more is answered with 400"),
        ("`limit` of a page", str(MAX_PAGE), "more is answered with 400"),
    )
    return "\n\n".join(
        (
            "## Bounds",
            "Fields of `ServerSettings` with their defaults, and two that are fixed. `GET /api/server` tells those that"
            " a client may want to know.",
            table(("Bound", "Default", "What it bounds"), (*rows, *own)),
        )
    )
