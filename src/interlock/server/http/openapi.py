"""The OpenAPI document, made from the routes themselves and from the structs that they take and give.

Laws:
1. Every route that is served is in the document, and nothing else.
2. Every status that a route may answer is in it, the problems too: `problem_statuses` says which, and tests hold it.
3. Schemas are those by which the server itself encodes and decodes.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from types import NoneType
from typing import Any, Final, TypeAlias, cast, get_args

import msgspec
from litestar import Litestar, Request, Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.params import BodyKwarg, HeaderParameter, ParameterKwarg, PathParameter, QueryParameter
from litestar.response import Stream
from litestar.routes import HTTPRoute
from litestar.typing import FieldDefinition

from interlock.server.http.access import LOGIN_PATH, OPEN_PATHS, AccessRequest, needed_role
from interlock.server.http.docs_page import render_page
from interlock.server.http.frames_schema import frames_schema
from interlock.server.http.problems import PROBLEM_TYPE, statuses
from interlock.server.settings import server_version
from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.wire.requests import AccessRole, Problem
from interlock.vocabulary.wire.schema import require_every_field, spell_out_tuples

Document: TypeAlias = dict[str, Json]
_REF: Final = "#/components/schemas/{name}"
_READING: Final = frozenset({"GET", "HEAD"})
_GIVEN: Final = (PathParameter, QueryParameter, HeaderParameter)
_BOUNDS: Final = (("ge", "minimum"), ("le", "maximum"), ("min_length", "minLength"), ("max_length", "maxLength"))
_ALWAYS: Final = frozenset({403, 421, 429, 500, 503})
_OF_COMMANDS: Final = frozenset({409, 422, 502, 504})
_CURSORS: Final = frozenset({"after", "at", "before", "last_event_id"})
_ROLES: Final = (
    "A token of the server's home. Each operation names the role that it needs: `observer` looks, `operator` looks and "
    "acts. An operator's token does for both."
)
# What was opened by the same key before is told with another status than what is new.
_ALSO: Final = {
    ("POST", "/api/tasks"): (200,),
    ("POST", "/api/tasks/{task_id}/children"): (200,),
    ("POST", "/api/workflows"): (200,),
}
TAGS: Final = {
    "tasks": "List, open, look at, start, stop and archive tasks.",
    "prompts": "Send prompts, look at the queue, cancel turns.",
    "approvals": "Questions that wait for a person, and their answers.",
    "archive": "Sessions moved into files beside the log and back, and room given back to the disk.",
    "changes": "What turns changed, file by file, and the review of it.",
    "insight": "Why a turn ended as it did, checks of the log, processes, usage, the log itself.",
    "screens": "What the terminal of an agent shows.",
    "children": "Children of a task: begin, list and end them.",
    "workflows": "Runs of plans: begin, look at, decide and stop them.",
    "search": "Find messages by their words.",
    "worktrees": "The git worktree of a task: its merge and its end.",
    "logins": "Log a browser in by a one-time link; list and revoke logins.",
    "live": "Follow a task as it happens.",
    "server": "The server itself: health, limits, agents, pool, figures.",
    "openapi": "This document.",
}
"""What each group of operations is for: a group is a module of routes."""
_ABOUT: Final = (
    "Interlock runs and watches AI coding agents, and never claims more than it can prove. Send a token as "
    "`Authorization: Bearer TOKEN`: an observer's reads, an operator's acts as well. Lists come in pages: give the "
    "`next` of one as the cursor of the following one. Commands may be repeated with the same `Idempotency-Key`. What "
    "goes wrong is told as a problem (RFC 9457) with its remedy. `GET /api/socket` is a WebSocket for everything that "
    "happens; a browser offers the subprotocols `interlock.v1` and `interlock.token.TOKEN`. The pages of this server "
    "log in by a one-time link and hold a cookie instead: what they ask to be done bears their own `Origin`, "
    "`Content-Type: application/json` and `X-Interlock: 1`."
)


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path."""

    method: str
    path: str
    handler: HTTPRouteHandler

    @property
    def parameters(self) -> dict[str, FieldDefinition]:
        found = self.handler.parsed_fn_signature.parameters
        return {name: one for name, one in found.items() if isinstance(one.kwarg_definition, _GIVEN)}

    @property
    def tag(self) -> str:
        """The group that it is listed in. One without a name in `TAGS` stops the build."""
        found = self.handler.fn.__module__.rpartition(".")[2]
        if found not in TAGS:
            raise ContractError(f"no tag is described for the routes of {found}")
        return found

    @property
    def role(self) -> AccessRole | None:
        """Whose token is needed; None where none is."""
        asked = AccessRequest(
            is_socket=False, method=self.method, path=self.path, scheme="http", headers=(), peer="local"
        )
        return None if self.path in OPEN_PATHS else needed_role(asked)

    @property
    def body(self) -> type | None:
        """The type of the body; None where it takes none."""
        found = self.handler.parsed_fn_signature.parameters.values()
        return next((one.annotation for one in found if isinstance(one.kwarg_definition, BodyKwarg)), None)

    @property
    def answer(self) -> type | None:
        """The struct that is answered; None where it is text, or nothing."""
        given = self.handler.parsed_fn_signature.return_type.annotation
        inner = get_args(given)
        answered = inner[0] if inner else given
        return answered if isinstance(answered, type) and issubclass(answered, msgspec.Struct) else None


@get("/api/openapi.json", media_type="application/json")
async def get_openapi(request: Request[Any, Any, Any]) -> Response[bytes]:
    """This document."""
    return Response(msgspec.json.encode(_document(request.app)), media_type="application/json")


@get("/api/frames.schema.json", media_type="application/json")
async def get_frames_schema(request: Request[Any, Any, Any]) -> Response[bytes]:
    """The JSON Schema of the frames of the socket, of what is asked by it, and of what each request is answered."""
    if "frames" not in request.app.state:
        request.app.state["frames"] = msgspec.json.encode(frames_schema())
    return Response(request.app.state["frames"], media_type="application/json")


@get("/docs", media_type="text/html")
async def get_docs(request: Request[Any, Any, Any]) -> Response[str]:
    """A page to read this document by. It loads nothing from anywhere."""
    return Response(render_page(_document(request.app)), media_type="text/html")


ROUTES: Final = (get_openapi, get_frames_schema, get_docs)


def _document(app: Litestar) -> Document:
    """It does not change while the server lives."""
    if "document" not in app.state:
        app.state["document"] = openapi_document(app)
    return cast("Document", app.state["document"])


def operations(app: Litestar) -> Iterator[Operation]:
    """Every operation that is served over HTTP, by path and method."""
    served = (
        Operation(method, route.path_format, handler)
        for route in app.routes
        if isinstance(route, HTTPRoute)
        for handler in route.route_handlers
        for method in handler.http_methods - {"OPTIONS"}
    )
    yield from sorted(served, key=lambda one: (one.path, one.method))


def openapi_document(app: Litestar) -> Document:
    """The document of an application."""
    served = list(operations(app))
    types: dict[Any, None] = {Problem: None}
    for one in served:
        kinds = (one.body, one.answer, *(_given(field) for field in one.parameters.values()))
        types.update({kind: None for kind in kinds if kind is not None})
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    spell_out_tuples(components)
    refs = dict(zip(types, schemas, strict=True))
    answers = [one.answer for one in served if one.answer is not None]
    require_every_field(components, [refs[kind] for kind in (Problem, *answers)])
    paths: dict[str, dict[str, Json]] = {}
    for one in served:
        paths.setdefault(one.path, {})[one.method.lower()] = _described(one, refs)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Interlock", "version": server_version(), "description": _ABOUT},
        "servers": [{"url": "/", "description": "The server that this document comes from"}],
        "tags": [{"name": name, "description": told} for name, told in TAGS.items()],
        "paths": cast("Json", paths),
        "components": {
            "schemas": dict(sorted(components.items())),
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer", "description": _ROLES}},
        },
    }


def problem_statuses(operation: Operation) -> frozenset[int]:
    """Every status that a problem of this operation may have."""
    names = operation.parameters.keys()
    found = set(_ALWAYS)
    found |= {400} if names or operation.body is not None else set()
    found |= {401} if operation.path not in OPEN_PATHS or operation.path == LOGIN_PATH else set()
    found |= {404} if "{" in operation.path else set()
    found |= {422} if names & _CURSORS else set()
    found |= {413, 415} if operation.body is not None else set()
    found |= _OF_COMMANDS if operation.method not in _READING else set()
    return frozenset(found)


def _described(operation: Operation, refs: dict[Any, dict[str, Json]]) -> Json:
    told = inspect.getdoc(operation.handler.fn) or ""
    found: dict[str, Json] = {
        "operationId": operation.handler.handler_name,
        "summary": told.partition(". ")[0].rstrip("."),
        "description": told,
        "tags": [operation.tag],
        "parameters": [_parameter(name, field, refs) for name, field in operation.parameters.items()],
        "responses": _responses(operation, refs),
        "security": [] if operation.role is None else [{"bearer": [operation.role.value]}],
    }
    if operation.body is not None:
        needs_fields = any(field.required for field in msgspec.structs.fields(operation.body))
        content: Json = {"application/json": {"schema": refs[operation.body]}}
        found["requestBody"] = {"required": needs_fields, "content": content}
    return found


def _given(field: FieldDefinition) -> type:
    """The type of a parameter. One that is not given is absent, and never null."""
    kinds = [kind for kind in get_args(field.annotation) if kind is not NoneType]
    return cast("type", kinds[0] if kinds else field.annotation)


def _parameter(name: str, field: FieldDefinition, refs: dict[Any, dict[str, Json]]) -> Json:
    kwarg = cast("ParameterKwarg", field.kwarg_definition)
    place = kwarg.param_type.value
    schema = dict(refs[_given(field)])
    bounds: dict[str, Json] = {word: getattr(kwarg, ours) for ours, word in _BOUNDS}
    schema.update({word: bound for word, bound in bounds.items() if bound is not None})
    if field.has_default and field.default not in (None, ""):
        schema["default"] = field.default
    found: dict[str, Json] = {"name": kwarg.name or name, "in": place, "required": place == "path", "schema": schema}
    return {**found, "description": kwarg.description} if kwarg.description else found


def _responses(operation: Operation, refs: dict[Any, dict[str, Json]]) -> Json:
    status = operation.handler.status_code
    good = (status, *_ALSO.get((operation.method, operation.path), ()))
    found: dict[str, Json] = {str(one): _success(operation, one, refs) for one in good}
    kinds = statuses()
    for one in sorted(problem_statuses(operation)):
        told = "; ".join(f"{kind.title} ({kind.code})" for kind in kinds[one])
        found[str(one)] = {"description": told, "content": {PROBLEM_TYPE: {"schema": refs[Problem]}}}
    return found


def _success(operation: Operation, status: int, refs: dict[Any, dict[str, Json]]) -> Json:
    told: dict[str, Json] = {"description": HTTPStatus(status).phrase}
    given = operation.handler.parsed_fn_signature.return_type.annotation
    if operation.answer is not None:
        return {**told, "content": {"application/json": {"schema": refs[operation.answer]}}}
    if given is None or given is NoneType:
        return told
    media_type = str(operation.handler.media_type or "application/json")
    is_text = given is Stream or media_type != "application/json"
    return {**told, "content": {media_type: {"schema": {"type": "string"} if is_text else {"type": "object"}}}}
