"""What routes have in common: what they are given, which task is meant, and pages by cursor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, TypeAlias, TypeVar, cast

from litestar import Response
from litestar.di import NamedDependency
from litestar.params import FromPath, HeaderParameter, QueryParameter, SkipValidation
from litestar.serialization import default_serializer
from litestar.types import Scope, Serializer
from msgspec import Struct

from interlock.projections.task.view import TaskView
from interlock.server.http.access import Caller
from interlock.server.http.problems import NotReady, Unfit, UnknownTask
from interlock.server.ledger import UsageLedger
from interlock.server.state import ServerState
from interlock.vocabulary.ids import SessionId, is_valid_id
from interlock.vocabulary.wire.encoding import encode

MAX_PAGE: Final = 500
DEFAULT_PAGE: Final = 100

Server: TypeAlias = NamedDependency[SkipValidation[ServerState]]
Books: TypeAlias = NamedDependency[SkipValidation[UsageLedger]]
Who: TypeAlias = NamedDependency[SkipValidation[str]]
TaskPath: TypeAlias = FromPath[str]
Limit: TypeAlias = Annotated[int, QueryParameter(ge=1, le=MAX_PAGE, description="How many to give at most.")]
After: TypeAlias = Annotated[
    str | None, QueryParameter(description="The `next` of the page before.", max_length=400, required=False)
]
Key: TypeAlias = Annotated[
    str | None,
    HeaderParameter(
        name="Idempotency-Key",
        max_length=130,
        required=False,
        description="The id of what this command is about. The same key with the same content is done once.",
    ),
]

ItemT = TypeVar("ItemT")


async def task_of(server: ServerState, task_id: str) -> TaskView:
    """The task that is meant. While the log is not read, nobody can say that there is none."""
    view = await server.hub.open(SessionId(task_id))
    if view is not None:
        return view
    if not server.hub.is_ready:
        raise NotReady("the server has not read all of its log yet")
    raise UnknownTask(task_id)


def caller_of(scope: Scope) -> Caller:
    """Who asks, as the door said."""
    return cast("Caller", scope["state"]["caller"])


def page_by_number(items: Sequence[ItemT], after: str | None, limit: int) -> tuple[tuple[ItemT, ...], str | None]:
    """A page of a list that only grows: the cursor is how many came before."""
    first = 0 if after is None else read_number(after)
    end = first + limit
    return tuple(items[first:end]), str(end) if end < len(items) else None


def read_number(cursor: str) -> int:
    """A cursor that is a number."""
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 16):
        raise Unfit("that is no cursor", remedy="use the `next` of a page")
    return int(cursor)


def read_key(key: str | None, named: str | None = None) -> str | None:
    """The id that a command bears: its key, or what its body says. Quotes around a key, as the standard has it, go."""
    spelled = None if key is None else key.strip().removeprefix('"').removesuffix('"')
    if spelled is not None and not is_valid_id(spelled):
        raise Unfit("that is no key", remedy="use up to 128 letters, digits and . _ : -")
    if spelled is not None and named not in (None, "", spelled):
        raise Unfit("the key and the body name different ids", remedy="leave one of them out")
    return spelled or named or None


# How routes answer: structs with every field, as sockets send them.

T = TypeVar("T")


class WireResponse(Response[T]):
    """A response whose structs leave nothing out."""

    def render(self, content: Any, media_type: str, enc_hook: Serializer = default_serializer) -> bytes:  # noqa: ANN401
        """The body."""
        return encode(content) if isinstance(content, Struct) else super().render(content, media_type, enc_hook)
