"""Browsers that log in: the one-time ticket, and the list of them."""

from __future__ import annotations

from msgspec import Struct

from interlock.vocabulary.evidence import Moment
from interlock.vocabulary.wire.requests import AccessRole


class LoginTicket(Struct, frozen=True, kw_only=True):
    """A ticket that a browser may use once, until `expires_at`; `url` is the link that holds it, in its fragment."""

    ticket: str
    url: str
    expires_at: Moment


class LoginLine(Struct, frozen=True, kw_only=True):
    """A browser that is logged in. `is_this`: it is the one that asks."""

    login_id: str
    role: AccessRole
    device: str
    created_at: Moment
    seen_at: Moment
    is_this: bool


class LoginPage(Struct, frozen=True, kw_only=True):
    """Every browser that is logged in."""

    items: tuple[LoginLine, ...]
    next: str | None = None
