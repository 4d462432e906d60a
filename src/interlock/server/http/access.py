"""Who may ask: names, origins, tokens, roles and rates. Decisions only; the application carries them out.

Laws:
1. A name that is not ours (`Host`) is not answered, so that no page can rebind its own name to this server.
2. A page (`Origin`) asks only where it came from this server, or is allowed by name.
3. A token is in `Authorization`, or for a browser's socket among its subprotocols. It is never in a URL.
4. Looking needs an observer, anything else an operator. Only what `OPEN_PATHS` names needs nobody.
5. Whoever asks too fast is told when to come back. Strangers use up no rate but their own.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self
from urllib.parse import SplitResult, urlsplit

from interlock.server.http.problems import Forbidden, TooMany, Unauthenticated, WrongHost, WrongOrigin
from interlock.server.settings import ServerSettings
from interlock.server.token_file import load_or_create_tokens
from interlock.vocabulary.wire.requests import AccessRole

OPEN_PATHS: Final = frozenset({"/health", "/docs", "/api/openapi.json"})
SUBPROTOCOL: Final = "interlock.v1"
TOKEN_SUBPROTOCOL: Final = "interlock.token."
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_WILDCARDS: Final = frozenset({"", "0.0.0.0", "::"})
_DEFAULT_PORTS: Final[Mapping[str, int]] = {"http": 80, "https": 443}
_MAX_BUCKETS: Final = 4_096


class Tokens:
    """The tokens of one server, each with its role. They show only where somebody asks for them by name."""

    def __init__(self, operator: str, observer: str) -> None:
        self.operator = operator
        self.observer = observer
        self._digests = ((_digest(operator), AccessRole.OPERATOR), (_digest(observer), AccessRole.OBSERVER))

    @classmethod
    def load_or_create(cls, home: Path) -> Self:
        """Those of a home; made at the first start. `UsageError` for a file that others could have read or written."""
        found = load_or_create_tokens(home)
        return cls(found.operator, found.observer)

    def role_of(self, given: str) -> AccessRole | None:
        """What a token may do; None if it is nobody's. It takes the same time whichever it is, and if it is none."""
        role, digest = None, _digest(given)
        for known, its_role in self._digests:
            if hmac.compare_digest(known, digest):
                role = its_role
        return role


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks: what they may do (None: a stranger at an open door), and how the record names them."""

    role: AccessRole | None
    who: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRequest:
    """The head of one request, or of one upgrade to a socket. Names of headers are in lower case."""

    is_socket: bool
    method: str
    path: str
    scheme: str
    headers: Sequence[tuple[str, str]]
    peer: str
    subprotocols: Sequence[str] = ()

    def values(self, name: str) -> list[str]:
        return [value for header, value in self.headers if header == name]


class Entrance:
    """The door of one server. `admit` says who asks, or raises a refusal."""

    def __init__(self, tokens: Tokens, settings: ServerSettings, clock: Callable[[], float]) -> None:
        self._tokens = tokens
        self._origins = frozenset(settings.allowed_origins)
        own = () if settings.host in _WILDCARDS else (settings.host.lower(),)
        self._names = _LOOPBACK_NAMES | {name.lower() for name in settings.allowed_hosts} | set(own)
        self._buckets = Buckets(settings.requests_per_second, settings.request_burst, clock)

    def admit(self, asked: AccessRequest) -> Caller:
        """Host, origin, rate, token, role: in this order, so that nobody learns more than they may."""
        host = self._check_host(asked)
        self._check_origin(asked, host)
        token = given_token(asked)
        role = None if token is None else self._tokens.role_of(token)
        wait_seconds = self._buckets.take((role, asked.peer))
        if wait_seconds > 0:
            raise TooMany("you ask too fast", retry_after_seconds=wait_seconds)
        if asked.path not in OPEN_PATHS or asked.is_socket:
            check_role(needed_role(asked), role, has_token=token is not None)
        return Caller(role=role, who=f"{role.value if role else 'stranger'}@{asked.peer}")

    def _check_host(self, asked: AccessRequest) -> SplitResult:
        given = asked.values("host")
        parts = _split(f"//{given[0]}") if len(given) == 1 else None
        name = _name(parts)
        is_ours = name in self._names or (len(given) == 1 and given[0].lower() in self._names)
        if parts is None or not is_ours:
            raise WrongHost(
                "this server does not answer to that name",
                remedy="ask for localhost, or allow the name when the server is started",
            )
        return parts

    def _check_origin(self, asked: AccessRequest, host: SplitResult) -> None:
        given = asked.values("origin")
        if not given or (len(given) == 1 and given[0] in self._origins):
            return
        if len(given) > 1 or not _is_same_origin(given[0], host, asked.scheme):
            remedy = "open the page from this server, or allow its origin when the server is started"
            raise WrongOrigin("a page of another origin asks", remedy=remedy)


def needed_role(asked: AccessRequest) -> AccessRole:
    """The table of law 4."""
    is_reading = asked.is_socket or asked.method in _READING
    return AccessRole.OBSERVER if is_reading else AccessRole.OPERATOR


def check_role(needed: AccessRole, role: AccessRole | None, *, has_token: bool) -> None:
    """Refuse whoever is nobody, or not enough."""
    if role is None:
        what = "that token is not known here" if has_token else "no token was given"
        raise Unauthenticated(what, remedy="send `Authorization: Bearer TOKEN`, with a token of the server's home")
    if needed is AccessRole.OPERATOR and role is not AccessRole.OPERATOR:
        raise Forbidden("an observer only looks", remedy="use the operator's token")


def given_token(asked: AccessRequest) -> str | None:
    """The token of a request. Two of them are none."""
    given = asked.values("authorization")
    if given:
        scheme, _, token = given[0].partition(" ")
        return token.strip() if len(given) == 1 and scheme.lower() == "bearer" else ""
    named = [one.removeprefix(TOKEN_SUBPROTOCOL) for one in asked.subprotocols if one.startswith(TOKEN_SUBPROTOCOL)]
    if not asked.is_socket or not named:
        return None
    return named[0] if len(named) == 1 else ""


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        _ = parts.port  # it is read, and refused, only now
    except ValueError:
        return None
    is_plain = parts.hostname and parts.username is None and not (parts.path or parts.query or parts.fragment)
    return parts if is_plain else None


def _name(parts: SplitResult | None) -> str:
    return "" if parts is None else (parts.hostname or "")


def _is_same_origin(origin: str, host: SplitResult, scheme: str) -> bool:
    parts = _split(origin)
    scheme = {"ws": "http", "wss": "https"}.get(scheme, scheme)
    if parts is None or parts.scheme != scheme or scheme not in _DEFAULT_PORTS:
        return False
    default = _DEFAULT_PORTS[scheme]
    return (parts.hostname, parts.port or default) == (host.hostname, host.port or default)


@dataclass(slots=True)
class _Bucket:
    left: float
    at_seconds: float


class Buckets:
    """A token bucket for each key. A key that was not heard of for long is forgotten: its bucket is full again."""

    def __init__(self, per_second: float, burst: int, clock: Callable[[], float]) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._clock = clock
        self._buckets: dict[object, _Bucket] = {}

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, key: object) -> float:
        """Take one; 0 if there was one, else the seconds until there is."""
        now = self._clock()
        bucket = self._buckets.pop(key, None) or _Bucket(self._burst, now)
        self._buckets[key] = bucket  # the last one used is the last one in order
        while len(self._buckets) > _MAX_BUCKETS:
            del self._buckets[next(iter(self._buckets))]
        bucket.left = min(self._burst, bucket.left + (now - bucket.at_seconds) * self._per_second)
        bucket.at_seconds = now
        if bucket.left < 1.0:
            return (1.0 - bucket.left) / self._per_second
        bucket.left -= 1.0
        return 0.0
