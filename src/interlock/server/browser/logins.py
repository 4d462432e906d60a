"""Logging in from a browser: one-time tickets, cookies, and the list of browsers that are logged in."""

from __future__ import annotations

import logging
import unicodedata
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

from litestar import Request, Response, delete, get, post
from litestar.params import FromPath, JSONBody
from msgspec import Meta, Struct

from interlock.server.browser.login_store import MAX_NAME, Login
from interlock.server.browser.tickets import MAX_TICKET_SECONDS, TICKET_SECONDS
from interlock.server.routes.common import Server, caller_of
from interlock.vocabulary.wire.logins import LoginLine, LoginPage, LoginTicket
from interlock.vocabulary.wire.requests import AccessRole

_logger: Final = logging.getLogger("interlock.server")
_UNNAMED: Final = "browser"

_Name = Annotated[str, Meta(max_length=MAX_NAME)]


class NewTicket(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the login may do, how the record names its browser (blank: as that browser says), and how long the ticket
    is good."""

    role: AccessRole
    name: _Name = ""
    seconds: Annotated[float, Meta(ge=1, le=MAX_TICKET_SECONDS)] = TICKET_SECONDS


class LogIn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A ticket, and what the browser is."""

    ticket: Annotated[str, Meta(min_length=1, max_length=100)]
    device: _Name = ""


@post("/login/tickets", status_code=201)
async def create_ticket(server: Server, request: Request[Any, Any, Any], data: JSONBody[NewTicket]) -> LoginTicket:
    """Make a one-time link by which a browser logs in. It is shown once, here, and kept nowhere."""
    login = caller_of(request.scope).login
    ticket = server.tickets.issue(
        data.role, shown_name(data.name), data.seconds, issued_by="" if login is None else login.login_id
    )
    scheme, host = caller_of(request.scope).scheme, request.headers["host"]
    return LoginTicket(
        ticket=ticket,
        url=f"{scheme}://{host}/login#t={ticket}",
        expires_at=datetime.now(UTC) + timedelta(seconds=data.seconds),
    )


@post("/login", status_code=204)
async def log_in(server: Server, request: Request[Any, Any, Any], data: JSONBody[LogIn]) -> Response[None]:
    """Log a browser in by a ticket: the answer sets its cookie. It needs no token; it needs what a page of this server
    sends: its `Origin`, and `X-Interlock: 1`."""
    peer = request.client.host if request.client else "local"
    ticket = server.tickets.redeem(data.ticket, peer)
    login, value = server.logins.begin(ticket.role, ticket.name or shown_name(data.device) or _UNNAMED)
    _logger.info("a browser logged in: %s as %s, from %s (%s)", login.device, login.role, peer, login.login_id)
    is_secure = caller_of(request.scope).scheme == "https"
    return Response(None, status_code=204, headers={"Set-Cookie": server.logins.set_cookie(value, is_secure=is_secure)})


@get("/logins")
async def list_logins(server: Server, request: Request[Any, Any, Any]) -> LoginPage:
    """The browsers that are logged in, the one that was used last first."""
    own = caller_of(request.scope).login
    return LoginPage(items=tuple(_line(one, own) for one in server.logins.logins()), next=None)


@delete("/logins/{login_id:str}", status_code=204)
async def revoke_login(server: Server, request: Request[Any, Any, Any], login_id: FromPath[str]) -> Response[None]:
    """Log a browser out, at once: its sockets end with 4001. An observer may do so with its own login only."""
    caller = caller_of(request.scope)
    is_own = caller.login is not None and caller.login.login_id == login_id
    server.tickets.drop_of(login_id)
    found = server.logins.revoke(login_id)
    _logger.info("logged out: %s (%s), by %s", found.device, login_id, caller.who)
    gone = server.logins.set_cookie("", is_secure=caller.scheme == "https")
    return Response(None, status_code=204, headers={"Set-Cookie": gone} if is_own else {})


def shown_name(given: str) -> str:
    """A name as it may stand on a line of a terminal: of signs that are seen, and plain spaces."""
    seen = "".join(sign if unicodedata.category(sign)[0] not in "CZ" else " " for sign in given)
    return " ".join(seen.split())[:MAX_NAME]


def _line(login: Login, own: Login | None) -> LoginLine:
    return LoginLine(
        login_id=login.login_id,
        role=login.role,
        device=login.device,
        created_at=login.created_at,
        seen_at=login.seen_at,
        is_this=own is not None and own.login_id == login.login_id,
    )


ROUTES = (create_ticket, log_in, list_logins, revoke_login)
