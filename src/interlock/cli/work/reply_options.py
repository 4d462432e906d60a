"""`--reply-json`, `--reply-sentinel` and `--reply-word`: the form that an answer must have, for `send` and `run`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

from cyclopts import Parameter

from interlock.vocabulary.errors import UsageError

if TYPE_CHECKING:
    from interlock.cli.server.api import Body
    from interlock.monitor.observer.reply import Contract

_MAX_SCHEMA_BYTES: Final = 1024 * 1024

ReplyJsonOption: TypeAlias = Annotated[
    Path | None, Parameter(help="A file with a JSON Schema that the answer must fit.")
]
ReplySentinelFlag: TypeAlias = Annotated[
    bool, Parameter(negative="", help="Have the answer between two marked lines, and print what is there.")
]
ReplyWordOption: TypeAlias = Annotated[str, Parameter(help="The same, with a word of yours in the marks.")]


def read_reply(name: str, schema: Path | None, word: str, *, is_marked: bool, wait: bool) -> Body | None:
    """What the server is asked for; None for a prompt without a contract. `UsageError` before anything is sent.

    A sentinel without a word is made of the prompt's name: it is new each time.
    """
    if schema is None and not word and not is_marked:
        return None
    if not wait:
        raise UsageError("a reply is read from the answer", remedy="add --wait")
    if schema is not None and (word or is_marked):
        raise UsageError("there are two reply contracts", remedy="choose --reply-json or a sentinel")
    reply: Body = {"sentinel": word or name.replace(":", "-")[:80]}
    if schema is not None:
        reply = {"json_schema": _schema(schema)}
    contract_for(reply)
    return reply


def contract_for(reply: Body | None) -> Contract | None:
    """How to read the answer to a prompt with this contract."""
    if reply is None:
        return None
    from interlock.monitor.observer.reply import contract_of
    from interlock.vocabulary.events.audit import ReplyContract

    return contract_of(ReplyContract(**reply))


def _schema(path: Path) -> object:
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_SCHEMA_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", remedy="name a file with a JSON Schema") from error
    if len(raw) > _MAX_SCHEMA_BYTES:
        raise UsageError(f"{path} is larger than {_MAX_SCHEMA_BYTES} bytes", remedy="give a smaller schema")
    try:
        return json.loads(raw.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no JSON: {error}", remedy="give a JSON Schema") from error
