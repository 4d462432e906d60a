"""The file that holds a server's tokens: made at the first start, and read by nobody but its owner."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final

import msgspec

from interlock.log.private_file import read_private_file
from interlock.vocabulary.errors import UsageError

TOKEN_FILE: Final = "tokens.json"
_BYTES: Final = 32
_MAX_FILE_BYTES: Final = 4_096

# As it stands in a header, and among the subprotocols of a socket.
_Token = Annotated[str, msgspec.Meta(min_length=32, max_length=200, pattern=r"^[A-Za-z0-9_-]+$")]


class TokenFile(msgspec.Struct, frozen=True, kw_only=True):
    """One token a role."""

    operator: _Token
    observer: _Token


def load_or_create_tokens(home: Path) -> TokenFile:
    """Read the file, or make it. `UsageError` where others may have read or written it: a token must be secret."""
    path = home / TOKEN_FILE
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.is_symlink() and not path.exists():
            _create(path)
        return _read(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be used: {error.strerror}", remedy="fix it, or choose another home") from error


def _read(path: Path) -> TokenFile:
    spelled = read_private_file(path, max_bytes=_MAX_FILE_BYTES)
    try:
        tokens = msgspec.json.decode(spelled, type=TokenFile)
    except msgspec.MsgspecError as error:
        # Without the cause's words: they may repeat what is in the file.
        raise UsageError(f"{path} does not hold tokens", remedy="remove it to have new ones made") from error
    if tokens.operator == tokens.observer:
        raise UsageError(f"{path} gives both roles one token", remedy="remove it to have new ones made")
    return tokens


def _create(path: Path) -> None:
    """It appears whole, or not at all; whoever is first makes it."""
    made = TokenFile(operator=secrets.token_urlsafe(_BYTES), observer=secrets.token_urlsafe(_BYTES))
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(msgspec.json.format(msgspec.json.encode(made), indent=2) + b"\n")
            stream.flush()
            os.fsync(stream.fileno())
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()
