"""The application of one server: its routes, and the door in front of them.

Laws:
1. Nothing reaches a route, nor learns whether there is one, before the door let it in.
2. Every answer bears the headers that keep browsers honest, and every refusal is a problem.
3. What was shown at the door (tokens, cookies) goes no further.
4. The page and its files are answered at the door, out of a map: no route, and no disk, is asked for them.
5. What is being answered to a login ends with the login.
"""

from __future__ import annotations

import time
from collections.abc import Callable, MutableMapping, Sequence
from functools import cache
from typing import Any, Final, TypeAlias, cast

import msgspec
from litestar import Litestar, Request, Router
from litestar.di import Provide
from litestar.exceptions import InternalServerException, ValidationException
from litestar.params import BodyKwarg
from litestar.plugins import PluginProtocol
from litestar.plugins.core import MsgspecDIPlugin
from litestar.types import Message, Receive, Scope, Send

from interlock.server.browser import logins
from interlock.server.browser.pages import WebPages, answer_of, built_pages, is_web_path
from interlock.server.changes import TaskChanges
from interlock.server.http import openapi
from interlock.server.http.access import PREFLIGHT, SUBPROTOCOL, AccessRequest, Caller, Entrance
from interlock.server.http.docs_page import DOCS_POLICY
from interlock.server.http.problems import (
    PROBLEM_TYPE,
    BrokenOff,
    NotFound,
    Unauthenticated,
    WrongMediaType,
    problem_of,
)
from interlock.server.http.short_way import send_json, short_answer
from interlock.server.ledger import UsageLedger
from interlock.server.routes import (
    approvals,
    archive,
    changes,
    children,
    insight,
    live,
    prompts,
    screens,
    search,
    server,
    tasks,
    workflows,
    worktrees,
)
from interlock.server.routes.common import WireResponse
from interlock.server.state import ServerState
from interlock.vocabulary.errors import InterlockError
from interlock.vocabulary.wire.encoding import encode
from interlock.vocabulary.wire.requests import Problem

# Bodies of requests, decoded strictly: a string is no number, and what is not known is refused, as the schema says.


class StrictRequest(Request[Any, Any, Any]):
    """Litestar would read the body as anything, and then be lenient about it."""

    async def body(self) -> bytes:
        """No body is an empty object: where nothing in it is needed, that will do."""
        try:
            return await super().body() or b"{}"
        except InternalServerException:  # litestar's word for a client that hung up; nobody reads the answer
            raise BrokenOff("the connection ended before the body did", remedy="send it again") from None

    async def json(self) -> Any:  # noqa: ANN401 - what it is, the route says
        """The body as the route wants it."""
        body = await self.body()
        self._check_login()
        _check_media_type(self.headers.get("content-type"))
        try:
            return msgspec.json.decode(body, type=self._wanted())
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise ValidationException(detail=str(error)) from error
        except RecursionError as error:
            raise ValidationException(detail="the body is nested too deeply") from error

    def _check_login(self) -> None:
        """The door looked when the head came; the body may have come much later."""
        login = cast("Caller", self.scope["state"]["caller"]).login
        if login is not None and not _server(cast("Scope", self.scope)).logins.is_alive(login):
            raise Unauthenticated("that login is over", remedy="log in again: `interlock open` gives a link")

    def _wanted(self) -> Any:  # noqa: ANN401 - a type
        fields = self.scope["route_handler"].parsed_fn_signature.parameters.values()
        return next((one.annotation for one in fields if isinstance(one.kwarg_definition, BodyKwarg)), Any)


def _check_media_type(given: str | None) -> None:
    """Refuse a body that says to be something else than JSON. One that does not say what it is, is taken for JSON."""
    kind = (given or "").partition(";")[0].strip().lower()
    if kind and kind != "application/json":
        raise WrongMediaType(f"the body is {kind}", remedy="send JSON, with `Content-Type: application/json`")


class _Routes(Litestar):
    """Litestar would import pydantic and attrs wherever they are installed: a third of the start, for types that no
    route has."""

    @staticmethod
    def _get_default_plugins(plugins: list[PluginProtocol]) -> list[PluginProtocol]:
        return [*plugins, MsgspecDIPlugin()]


class _Prefix(Router):
    """Routes below one path, for one application: litestar would copy all of them deeply."""

    def __deepcopy__(self, memo: dict[int, Any]) -> _Prefix:
        return self


_Head: TypeAlias = MutableMapping[str, Any]
_API: Final = (
    *tasks.ROUTES,
    *prompts.ROUTES,
    *approvals.ROUTES,
    *changes.ROUTES,
    *insight.ROUTES,
    *screens.ROUTES,
    *live.ROUTES,
    *archive.ROUTES,
    *search.ROUTES,
    *worktrees.ROUTES,
    *children.ROUTES,
    *workflows.ROUTES,
    *logins.ROUTES,
)
_POLICY: Final = "default-src 'none'; frame-ancestors 'none'"
_SECRET: Final = frozenset({b"authorization", b"cookie", b"sec-websocket-protocol"})
_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


def create_app(state: ServerState, *, clock: Callable[[], float] = time.monotonic) -> Door:
    """The whole application. Its parts are started and stopped by whoever made them."""
    routes = create_routes(state.settings.max_request_bytes)
    return Door(routes, state, Entrance(state.tokens, state.settings, clock, state.logins))


@cache
def create_routes(max_body_bytes: int) -> Litestar:
    """The routes, without the door and for any server: whose they are, the door says with each request."""
    return _Routes(
        [_Prefix("/api", route_handlers=_API), *server.ROUTES, *openapi.ROUTES],
        dependencies={
            "server": Provide(_server, sync_to_thread=False),
            "ledger": Provide(_ledger, sync_to_thread=False),
            "changes": Provide(_changes, sync_to_thread=False),
            "who": Provide(_who, sync_to_thread=False),
        },
        exception_handlers={Exception: _to_problem},
        request_max_body_size=max_body_bytes,
        request_class=StrictRequest,
        response_class=WireResponse,
        openapi_config=None,
        logging_config=None,
        debug=False,
    )


def _server(scope: Scope) -> ServerState:
    return cast("ServerState", scope["state"]["server"])


def _ledger(scope: Scope) -> UsageLedger:
    return cast("UsageLedger", scope["state"]["ledger"])


def _changes(scope: Scope) -> TaskChanges:
    return cast("TaskChanges", scope["state"]["changes"])


def _who(scope: Scope) -> str:
    return cast("str", scope["user"])


def _to_problem(request: Request[Any, Any, Any], error: Exception) -> WireResponse[Problem]:
    hide = _server(cast("Scope", request.scope)).runtime.redactor.diagnostic
    problem = problem_of(error, instance=request.scope["path"], hide=hide)
    headers = dict(_more_headers(problem))
    return WireResponse(problem, status_code=problem.status, media_type=PROBLEM_TYPE, headers=headers)


def _more_headers(problem: Problem) -> list[tuple[str, str]]:
    headers = []
    if problem.retry_after_seconds is not None:
        headers.append(("Retry-After", str(max(1, round(problem.retry_after_seconds + 0.5)))))
    if problem.status == 401:
        headers.append(("WWW-Authenticate", "Bearer"))
    return headers


class Door:
    """In front of everything: whoever is not let in gets a problem, and everyone else a name."""

    def __init__(self, app: Litestar, state: ServerState, entrance: Entrance) -> None:
        self.app = app
        self._state = state
        self._within = {"server": state, "ledger": UsageLedger(state.log), "changes": TaskChanges(state.log)}
        self._entrance = entrance
        self._pages = built_pages()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        head = cast("_Head", scope)
        asked = _asked(head)
        guarded = _with_headers(send, scope["path"], self._entrance.cors_of(asked))
        try:
            if self._entrance.is_preflight(asked):
                await _send_preflight(guarded)
                return
            caller = self._entrance.admit(asked)
        except InterlockError as error:
            await _refuse(head, guarded, problem_of(error, instance=scope["path"]))
            return
        if caller.set_cookie and head["type"] == "http":
            guarded = _with_cookie(guarded, caller.set_cookie)
        if is_web_path(scope["path"]) and head.get("method") in ("GET", "HEAD"):
            await _send_page(self._pages, asked, guarded)
            return
        body = short_answer(head, self._state)
        if body is not None:
            await send_json(guarded, body)
            return
        _take_in(head, caller)
        head["state"] = {**head.get("state", {}), **self._within, "caller": caller}
        await self.app(scope, receive, guarded)


def _asked(head: _Head) -> AccessRequest:
    client, is_socket = head.get("client"), head["type"] == "websocket"
    return AccessRequest(
        is_socket=is_socket,
        method="GET" if is_socket else head["method"].upper(),
        path=head["path"],
        scheme=head["scheme"],
        headers=[(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in head["headers"]],
        peer=client[0] if client else "local",
        subprotocols=head["subprotocols"] if is_socket else (),
    )


def _take_in(head: _Head, caller: Caller) -> None:
    """From here on there are names and roles, and no tokens."""
    head["user"], head["auth"] = caller.who, caller.role
    head["headers"] = [(name, value) for name, value in head["headers"] if name.lower() not in _SECRET]
    if head["type"] == "websocket":
        head["subprotocols"] = [SUBPROTOCOL] if SUBPROTOCOL in head["subprotocols"] else []


def _with_headers(send: Send, path: str, more: Sequence[tuple[str, str]]) -> Send:
    policy = DOCS_POLICY if path == "/docs" else _POLICY
    added = [*_HEADERS, (b"content-security-policy", policy.encode())]
    always = [(name.encode(), value.encode("latin-1")) for name, value in more]

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = {name.lower() for name, _ in message["headers"]}
            rest = [(name, value) for name, value in added if name not in given]
            message["headers"] = [*message["headers"], *rest, *always]
        await send(message)

    return sending


def _with_cookie(send: Send, cookie: str) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start" and not any(
            name == b"set-cookie" for name, _ in message["headers"]
        ):
            message["headers"] = [*message["headers"], (b"set-cookie", cookie.encode())]
        await send(message)

    return sending


async def _send_preflight(send: Send) -> None:
    headers = [(name.encode(), value.encode()) for name, value in PREFLIGHT]
    start: Any = {"type": "http.response.start", "status": 204, "headers": headers}
    end: Any = {"type": "http.response.body", "body": b"", "more_body": False}
    await send(start)
    await send(end)


async def _send_page(pages: WebPages, asked: AccessRequest, send: Send) -> None:
    """The page, or one of its files."""
    found = pages.find(asked.path)
    if found is None:
        missing = NotFound("this build of the page has no such file", remedy="reload the page: a new one may be here")
        await _refuse({"type": "http"}, send, problem_of(missing, instance=asked.path))
        return
    accepts, known = ",".join(asked.values("accept-encoding")), ",".join(asked.values("if-none-match"))
    answer = answer_of(found, accepts=accepts, known=known)
    start: Any = {"type": "http.response.start", "status": answer.status, "headers": answer.headers}
    body = b"" if asked.method == "HEAD" else answer.body
    end: Any = {"type": "http.response.body", "body": body, "more_body": False}
    await send(start)
    await send(end)


async def _refuse(head: _Head, send: Send, problem: Problem) -> None:
    """Before a socket is accepted a refusal is an HTTP answer, too."""
    kind = "http" if head["type"] == "http" else "websocket.http"
    body = encode(problem)
    headers = [
        (b"content-type", PROBLEM_TYPE.encode()),
        (b"content-length", str(len(body)).encode()),
        *((name.lower().encode(), value.encode()) for name, value in _more_headers(problem)),
    ]
    start: Any = {"type": f"{kind}.response.start", "status": problem.status, "headers": headers}
    end: Any = {"type": f"{kind}.response.body", "body": body, "more_body": False}
    await send(start)
    await send(end)
