"""Finding the server of a home folder: its address in `server.json`, its tokens in `tokens.json`.

Laws:
1. A file that somebody else could have read or written is not used. A token from it is no secret, and an address from
   it may be a trap for the token.
2. Where the process that wrote the address is gone, its port may be somebody else's by now: nobody is asked.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import urlsplit, urlunsplit

import msgspec

from interlock.client.transport.process_check import is_alive
from interlock.log.paths import default_home
from interlock.log.private_file import folder_key, read_private_file
from interlock.log.starting_file import not_there
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.wire.requests import AccessRole

SERVER_FILE: Final = "server.json"
TOKEN_FILE: Final = "tokens.json"
_MAX_FILE_BYTES: Final = 64 * 1024
_SCHEMES: Final = ("http", "https")


class _ServerFile(msgspec.Struct, frozen=True):
    url: str
    folder: str = ""
    pid: int = 0
    started: str = ""
    boot_id: str = ""


class _TokenFile(msgspec.Struct, frozen=True):
    operator: str
    observer: str


FileT = TypeVar("FileT", _ServerFile, _TokenFile)


@dataclass(frozen=True, slots=True)
class FoundServer:
    """Where a server is, and what opens it. The token does not show when this is printed."""

    url: str
    token: str = field(repr=False)


class Address:
    """Where a server is to be found, also after it was started again elsewhere: then it is looked for once more."""

    def __init__(self, locate: Callable[[], FoundServer]) -> None:
        self._locate = locate
        self._found: FoundServer | None = None

    @property
    def found(self) -> FoundServer:
        """Where it was last found. `Unreachable` if it is nowhere."""
        if self._found is None:
            self._found = self._locate()
        return self._found

    def look_again(self) -> None:
        """It does not answer there: the next who asks is told where it is now."""
        self._found = None


def base_url(url: str) -> str:
    """The address of a server, without a slash at its end."""
    parts = urlsplit(url)
    if parts.query or parts.fragment:  # not repeated: people put tokens there
        raise UsageError("an address with a query in it", remedy="give the token as `token`")
    if parts.scheme not in _SCHEMES or not parts.netloc:
        raise UsageError(f"{url!r} is not the address of a server", remedy="give one as http://127.0.0.1:PORT")
    if parts.username is not None or parts.password is not None:
        raise UsageError("an address with a password in it", remedy="give the token as `token`")
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))


def fixed_address(url: str, token: str) -> Address:
    found = FoundServer(base_url(url), checked_token(token))
    return Address(lambda: found)


def home_address(home: Path | None = None, *, role: AccessRole = AccessRole.OPERATOR) -> Address:
    """The server of a home, wherever it listens at the moment."""
    return Address(lambda: find_server(home, role=role))


def server_address(home: str | Path | None, url: str, token: str, role: AccessRole) -> Address:
    """The server at a URL, or of a home. `Unreachable`, with what to do, where no server runs in that home."""
    if url:
        return fixed_address(url, token)
    address = home_address(None if home is None else Path(home), role=role)
    _ = address.found  # say now that there is none
    return address


def checked_token(token: str) -> str:
    """The token as it stands in a header, or `UsageError`."""
    if not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError("that cannot be a token", remedy="give it as it stands in the server's `tokens.json`")
    return token


def find_server(home: Path | None = None, *, role: AccessRole = AccessRole.OPERATOR) -> FoundServer:
    """The server of a home (by default `INTERLOCK_HOME`, or the XDG state folder). `Unreachable` if none runs there."""
    folder = default_home(os.environ) if home is None else home
    try:
        server = _read(folder / SERVER_FILE, _ServerFile)
        if server.folder not in ("", folder_key(folder)):
            raise FileNotFoundError  # it came here with a copy of a home, and tells of the server of the original
    except FileNotFoundError as missing:
        none = f"no server runs in {folder}; start one with `interlock up --home {folder}`"
        raise not_there(folder, none) from missing
    if server.pid != 0 and not is_alive(server.pid, server.started, server.boot_id):  # 0: it names none
        gone = f"the server of {folder} is gone: it ended without a word"
        raise not_there(folder, f"{gone}; start it again with `interlock up --home {folder}`")
    try:
        tokens = _read(folder / TOKEN_FILE, _TokenFile)
    except FileNotFoundError as missing:
        raise UsageError(
            f"there are no tokens in {folder}", remedy="start its server again: it makes them"
        ) from missing
    token = tokens.operator if role is AccessRole.OPERATOR else tokens.observer
    return FoundServer(base_url(server.url), checked_token(token))


def _read(path: Path, kind: type[FileT]) -> FileT:
    spelled = read_private_file(path, max_bytes=_MAX_FILE_BYTES)
    try:
        return msgspec.json.decode(spelled, type=kind)
    except msgspec.MsgspecError:
        # Without the cause: its words may repeat what is in the file.
        raise UsageError(f"{path} cannot be understood", remedy="start the server again: it writes it anew") from None
