"""How routes answer: structs with every field, as sockets send them."""

from __future__ import annotations

from typing import Any, TypeVar

from litestar import Response
from litestar.serialization import default_serializer
from litestar.types import Serializer
from msgspec import Struct

from interlock.vocabulary.wire.encoding import encode

T = TypeVar("T")


class WireResponse(Response[T]):
    """A response whose structs leave nothing out."""

    def render(self, content: Any, media_type: str, enc_hook: Serializer = default_serializer) -> bytes:  # noqa: ANN401
        """The body."""
        return encode(content) if isinstance(content, Struct) else super().render(content, media_type, enc_hook)
