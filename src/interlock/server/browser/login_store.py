"""Browsers that are logged in: what their cookies stand for, kept so that a restart logs nobody out.

Laws:
1. A cookie is 256 random bits that only its browser has. What is kept is its digest, in a file that is nobody else's.
2. A login ends 30 days after it was last used, or at once when it is revoked: then its connections are told.
3. A login that could not be written down was not made. One whose end could not be written down has ended here, and
   whoever ended it is told that it failed: it may be back after a restart.
4. The name of the cookie bears the server's id: cookies know no ports, and two servers must not take each other's.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Self

import msgspec

from interlock.log.private_file import read_private_file
from interlock.server.http.problems import NotFound, RequestRefusal
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.wire.requests import AccessRole

LOGIN_FILE: Final = "logins.json"
LOGIN_DAYS: Final = 30
MAX_LOGINS: Final = 100
MAX_NAME: Final = 60
_LIFE: Final = timedelta(days=LOGIN_DAYS)
_NOTE_AFTER: Final = timedelta(hours=1)
_RENEW_AFTER: Final = timedelta(days=1)
_BYTES: Final = 32
_MAX_FILE_BYTES: Final = 256 * 1024
_SECURE_NAME: Final = "__Host-interlock"


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """One browser. `digest` is that of its cookie, in hex; `renewed_at`: when the cookie was last sent to it."""

    login_id: str
    role: AccessRole
    device: str
    created_at: datetime
    seen_at: datetime
    renewed_at: datetime
    digest: str

    @property
    def who(self) -> str:
        """How the record names it."""
        return f"{self.role.value}@{self.device}"


class LoginFile(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of them."""

    server_id: str
    logins: tuple[Login, ...]


class LoginStore:
    """The logins of one server. Without a file they last as long as the server."""

    def __init__(self, path: Path | None = None, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._path = path
        self._clock = clock
        kept = None if path is None else _read(path)
        self._server_id = secrets.token_hex(6) if kept is None else kept.server_id
        self._logins = {} if kept is None else {one.digest: one for one in kept.logins}
        self._on_end: dict[str, list[Callable[[], None]]] = {}

    @classmethod
    def of_home(cls, home: Path | None) -> Self:
        """Those of a home. `UsageError` for a file that others could have read or written."""
        return cls(None if home is None else home / LOGIN_FILE)

    def cookie_name(self, *, is_secure: bool) -> str:
        """What the cookie is called, on https or on plain http."""
        return _SECURE_NAME if is_secure else f"interlock-{self._server_id}"

    def set_cookie(self, value: str, *, is_secure: bool) -> str:
        """The header that gives a cookie to its browser; with a blank value, the one that takes it away."""
        seconds = LOGIN_DAYS * 86_400 if value else 0
        secure = "; Secure" if is_secure else ""
        name = self.cookie_name(is_secure=is_secure)
        return f"{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"

    def logins(self) -> tuple[Login, ...]:
        """Those that have not ended, the one that was used last first."""
        now = self._clock()
        alive = [one for one in self._logins.values() if one.seen_at + _LIFE > now]
        return tuple(sorted(alive, key=lambda one: (one.seen_at, one.login_id), reverse=True))

    def begin(self, role: AccessRole, device: str) -> tuple[Login, str]:
        """A new login and its cookie."""
        alive, now, value = self.logins(), self._clock(), secrets.token_urlsafe(_BYTES)
        if len(alive) >= MAX_LOGINS:
            raise RequestRefusal(f"{MAX_LOGINS} browsers are logged in", remedy="revoke one: `interlock logins revoke`")
        made = Login(
            login_id=f"log_{secrets.token_hex(6)}",
            role=role,
            device=device,
            created_at=now,
            seen_at=now,
            renewed_at=now,
            digest=_digest(value),
        )
        self._keep({one.digest: one for one in (*alive, made)})
        return made, value

    def find(self, values: Sequence[str]) -> Login | None:
        """The login of a cookie. Of several only one may be a login: other ports can set cookies of the same name."""
        now = self._clock()
        known = {digest: self._logins[digest] for digest in map(_digest, values) if digest in self._logins}
        alive = [one for one in known.values() if one.seen_at + _LIFE > now]
        if len(alive) != 1:
            return None
        return self._note(alive[0], now)

    def _note(self, login: Login, now: datetime) -> Login:
        """Note that it was used: now and then, for each note is a write."""
        if now - login.seen_at < _NOTE_AFTER:
            return login
        used = msgspec.structs.replace(login, seen_at=now)
        try:
            self._keep({**self._logins, login.digest: used})
        except UsageError:  # a full disk is no reason to lock a person out: it is noted the next time
            return login
        return used

    def renewal(self, login: Login, values: Sequence[str], *, is_secure: bool) -> str:
        """The header that gives its browser the cookie for another 30 days; blank while that is not due."""
        if login.seen_at - login.renewed_at < _RENEW_AFTER:
            return ""
        self._logins[login.digest] = msgspec.structs.replace(login, renewed_at=login.seen_at)
        return next(self.set_cookie(one, is_secure=is_secure) for one in values if _digest(one) == login.digest)

    def revoke(self, login_id: str) -> Login:
        """End a login, and tell its connections. `NotFound` where there is none."""
        found = next((one for one in self._logins.values() if one.login_id == login_id), None)
        if found is None:
            raise NotFound(f"there is no login {login_id}", remedy="list them: `interlock logins ls`")
        self._logins = {digest: one for digest, one in self._logins.items() if one is not found}
        for tell in self._on_end.pop(login_id, []):
            tell()
        self._keep(self._logins)  # where that fails, it has ended here, and is told that it may be back after a restart
        return found

    def is_alive(self, login: Login) -> bool:
        """Whether a login has not been revoked."""
        return login.digest in self._logins

    @contextmanager
    def watching(self, login: Login | None, on_end: Callable[[], None]) -> Iterator[None]:
        """For the block, be told when a login is revoked; at once if it was before."""
        if login is None:
            yield
            return
        if not self.is_alive(login):
            on_end()
        told = self._on_end.setdefault(login.login_id, [])
        told.append(on_end)
        try:
            yield
        finally:
            told.remove(on_end)
            if not told and self._on_end.get(login.login_id) is told:
                del self._on_end[login.login_id]

    def _keep(self, logins: dict[str, Login]) -> None:
        """Law 3: first the file, then what holds."""
        if self._path is not None:
            _write(self._path, LoginFile(server_id=self._server_id, logins=tuple(logins.values())))
        self._logins = logins


def _digest(value: str) -> str:
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()


def _read(path: Path) -> LoginFile | None:
    try:
        return msgspec.json.decode(read_private_file(path, max_bytes=_MAX_FILE_BYTES), type=LoginFile)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        # Without the cause's words: they may repeat what is in the file.
        raise UsageError(
            f"{path} does not hold logins", remedy="remove it: every browser then logs in again"
        ) from error


def _write(path: Path, kept: LoginFile) -> None:
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(msgspec.json.encode(kept))
                stream.flush()
                os.fsync(stream.fileno())
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}", remedy="free some space, and try again"
        ) from error
