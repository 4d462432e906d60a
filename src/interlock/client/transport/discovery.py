"""Finding the server of a home folder: its address in `server.json`, its tokens in `tokens.json`.

Law: a file that somebody else could have read or written is not used. A token from it is no secret, and an address from
it may be a trap for the token.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from interlock.client.transport.sockets import base_url
from interlock.log.paths import default_home
from interlock.log.private_file import folder_key, read_private_file
from interlock.vocabulary.errors import Unreachable, UsageError
from interlock.vocabulary.wire.requests import AccessRole

SERVER_FILE: Final = "server.json"
TOKEN_FILE: Final = "tokens.json"
_MAX_FILE_BYTES: Final = 64 * 1024


class _ServerFile(msgspec.Struct, frozen=True):
    url: str
    folder: str = ""


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


def fixed_address(url: str, token: str) -> Address:
    found = FoundServer(base_url(url), checked_token(token))
    return Address(lambda: found)


def home_address(home: Path | None = None, *, role: AccessRole = AccessRole.OPERATOR) -> Address:
    """The server of a home, wherever it listens at the moment."""
    return Address(lambda: find_server(home, role=role))


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
        raise Unreachable(f"no server runs in {folder}; start one with `interlock up --home {folder}`") from missing
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
