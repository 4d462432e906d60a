"""Who may ask: names, origins, tokens, roles and rates. Decisions only; the application carries them out.

Laws:
1. A name that is not ours (`Host`) is not answered, so that no page can rebind its own name to this server.
2. A page (`Origin`) asks only where it came from this server, or is allowed by name.
3. A token is in `Authorization`, or for a browser's socket among its subprotocols. It is never in a URL.
4. Looking needs an observer, anything else an operator. Only what `OPEN_PATHS` names, and the page, needs nobody.
5. Whoever asks too fast is told when to come back. Strangers use up no rate but their own.
6. A page of an allowed origin may read what it asks for by a token. Nothing of ours is ever shown to it by a cookie.
7. A cookie counts only in what a page of this very origin sends: another port of localhost sends it along, too. So does
   a login. A cookie and a token together are refused.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self
from urllib.parse import SplitResult, urlsplit

from interlock.server.browser.login_store import Login, LoginStore
from interlock.server.browser.pages import is_web_path
from interlock.server.http.problems import (
    Forbidden,
    ForgedRequest,
    TooMany,
    TwoCredentials,
    Unauthenticated,
    WrongHost,
    WrongOrigin,
)
from interlock.server.settings import ServerSettings
from interlock.server.token_file import load_or_create_tokens
from interlock.vocabulary.wire.requests import AccessRole

LOGIN_PATH: Final = "/api/login"
OPEN_PATHS: Final = frozenset({"/health", "/docs", "/api/openapi.json", "/api/frames.schema.json", LOGIN_PATH})
SUBPROTOCOL: Final = "interlock.v1"
TOKEN_SUBPROTOCOL: Final = "interlock.token."
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_LOGINS: Final = "/api/logins/"
_PAGE_METHODS: Final = frozenset({"GET", "HEAD"})
_PAGE_REMEDY: Final = "a page of this server sends Origin, Content-Type: application/json and X-Interlock: 1"
_EXPOSED: Final = (("access-control-expose-headers", "retry-after"),)
PREFLIGHT: Final = (
    ("access-control-allow-methods", "GET, POST, PUT, PATCH, DELETE"),
    ("access-control-allow-headers", "authorization, content-type, idempotency-key, last-event-id"),
    ("access-control-max-age", "600"),
)
_MAX_COOKIES: Final = 8
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
    """Who asks: what they may do (None: a stranger at an open door), and how the record names them. `login`: the
    browser whose cookie it is; `scheme`: as its address bar has it, http or https; `set_cookie`: the header that gives
    it its cookie again, where it is time."""

    role: AccessRole | None
    who: str
    login: Login | None = None
    scheme: str = "http"
    set_cookie: str = ""


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

    def __init__(
        self, tokens: Tokens, settings: ServerSettings, clock: Callable[[], float], logins: LoginStore | None = None
    ) -> None:
        self._tokens = tokens
        self._logins = LoginStore() if logins is None else logins
        self._origins = frozenset(settings.allowed_origins)
        own = () if settings.host in _WILDCARDS else (settings.host.lower(),)
        self._names = _LOOPBACK_NAMES | {name.lower() for name in settings.allowed_hosts} | set(own)
        self._buckets = Buckets(settings.requests_per_second, settings.request_burst, clock)

    def admit(self, asked: AccessRequest) -> Caller:
        """Host, origin, forgery, rate, token or cookie, role: in this order, so that nobody learns more than they
        may."""
        host = self._check_host(asked)
        self._check_origin(asked, host)
        scheme = self._scheme(asked, host)
        token, cookies = given_token(asked), self._cookies(asked, scheme)
        if cookies or (asked.path == LOGIN_PATH and asked.method not in _READING):
            _check_page(asked, host, scheme)
        if cookies and token is not None:
            raise TwoCredentials("a cookie and a token were given", remedy="send one of them")
        login = self._logins.find(cookies) if cookies else None
        role = login.role if login is not None else None if token is None else self._tokens.role_of(token)
        wait_seconds = self._buckets.take((role, asked.peer))
        if wait_seconds > 0:
            raise TooMany("you ask too fast", retry_after_seconds=wait_seconds)
        if asked.is_socket or not _is_open(asked):
            if cookies and login is None:
                raise Unauthenticated("that login is over", remedy="log in again: `interlock open` gives a link")
            is_own = login is not None and asked.path == _LOGINS + login.login_id  # an observer may log itself out
            check_role(AccessRole.OBSERVER if is_own else needed_role(asked), role, has_token=token is not None)
        who = f"{role.value if role else 'stranger'}@{asked.peer}" if login is None else login.who
        renewed = (
            ""
            if login is None or asked.is_socket
            else self._logins.renewal(login, cookies, is_secure=scheme == "https")
        )
        return Caller(role=role, who=who, login=login, scheme=scheme, set_cookie=renewed)

    def cors_of(self, asked: AccessRequest) -> list[tuple[str, str]]:
        """The headers that let a page of an allowed origin read the answer: by its token, and never by a cookie."""
        given = asked.values("origin")
        if not self._origins or asked.is_socket:
            return []
        if len(given) != 1 or given[0] not in self._origins:
            return [("vary", "Origin")]
        return [("vary", "Origin"), ("access-control-allow-origin", given[0]), *_EXPOSED]

    def is_preflight(self, asked: AccessRequest) -> bool:
        """Whether a browser asks, for a page of an allowed origin, what that page may send. It has no token yet."""
        given = asked.values("origin")
        is_asking = asked.method == "OPTIONS" and bool(asked.values("access-control-request-method"))
        if not is_asking or len(given) != 1 or given[0] not in self._origins:
            return False
        self._check_host(asked)
        return True

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

    def _scheme(self, asked: AccessRequest, host: SplitResult) -> str:
        """How the caller came here: by https where its name is allowed as such an origin: a proxy speaks it."""
        is_proxied = any(one.startswith("https:") and _is_same_origin(one, host, "https") for one in self._origins)
        return "https" if is_proxied else {"ws": "http", "wss": "https"}.get(asked.scheme, asked.scheme)

    def _cookies(self, asked: AccessRequest, scheme: str) -> list[str]:
        """The values of our cookie. More than one may be given: other ports of a name can set cookies of it."""
        name = self._logins.cookie_name(is_secure=scheme == "https")
        given = (one.strip().partition("=") for line in asked.values("cookie") for one in line.split(";"))
        return [value for key, _, value in given if key == name][:_MAX_COOKIES]


def _is_open(asked: AccessRequest) -> bool:
    return asked.path in OPEN_PATHS or (asked.method in _PAGE_METHODS and is_web_path(asked.path))


def _check_page(asked: AccessRequest, host: SplitResult, scheme: str) -> None:
    """Law 7. `Sec-Fetch-Site` is the browser's own word, and old ones do not send it; `X-Interlock` is a header that no
    form can send, and no page of another origin without our leave."""
    origin, site = asked.values("origin"), asked.values("sec-fetch-site")
    is_own = len(origin) == 1 and _is_same_origin(origin[0], host, scheme)
    if asked.is_socket or asked.method not in _READING:
        wrong = "" if is_own else "it names no `Origin` of this server"
        wrong = wrong or ("" if asked.is_socket else _wrong_write(asked, site))
    else:
        is_api = asked.path.startswith(("/api/", "/metrics"))
        wrong = (
            "a page of another origin asks" if is_api and site and site != ["same-origin"] and site != ["none"] else ""
        )
        wrong = wrong or ("it names an `Origin` that is not this server" if origin and not is_own else "")
    if wrong:
        raise ForgedRequest(f"this is not what a page of this server sends: {wrong}", remedy=_PAGE_REMEDY)


def _wrong_write(asked: AccessRequest, site: list[str]) -> str:
    if site and site != ["same-origin"]:
        return "`Sec-Fetch-Site` is not same-origin"
    kinds = [one.partition(";")[0].strip().lower() for one in asked.values("content-type")]
    if kinds != ["application/json"]:
        return "`Content-Type` is not application/json"
    return "" if asked.values("x-interlock") == ["1"] else "`X-Interlock: 1` is missing"


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
