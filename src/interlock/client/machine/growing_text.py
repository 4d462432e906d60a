"""Text that grows at its end, as a value. Long answers come in many small pieces: to add one must not copy the rest.

Laws:
1. It never changes. What was made of it by adding shares its pieces, and each sees its own.
2. To add at the end costs what is added. Whoever reads pays for the joining, once.
3. Two of the same text are equal and have one hash, however they came to be.
"""

from __future__ import annotations


class GrowingText:
    """`length` is in code points. The text itself is `str()` of this."""

    __slots__ = ("_parts", "_whole", "length")

    def __init__(self, text: str = "", before: list[str] | None = None, length: int = 0) -> None:
        """`text`, put behind pieces of that length."""
        self._whole = text if before is None else None
        pieces = [] if before is None else before
        pieces.append(text)
        # Shared pieces, and how many of them are ours: one value, since states are read in other threads, too.
        self._parts = pieces, len(pieces)
        self.length = length + len(text)

    def put(self, offset: int, more: str) -> GrowingText | None:
        """The same with `more` at its place; what stood from there on is gone. None where that would leave a hole."""
        if offset > self.length:
            return None
        if offset < self.length:
            return GrowingText(str(self)[:offset] + more)
        if not more:
            return self
        pieces, count = self._parts
        if len(pieces) != count:  # somebody else went on from here already, and keeps what they have
            pieces = [str(self)]
        return GrowingText(more, pieces, self.length)

    def __str__(self) -> str:
        whole = self._whole
        if whole is None:
            pieces, count = self._parts
            whole = self._whole = "".join(pieces[:count])
            self._parts = [whole], 1  # what comes of this from now on begins with the whole
        return whole

    def __repr__(self) -> str:
        return f"GrowingText({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GrowingText):
            return NotImplemented
        return self is other or (self.length == other.length and str(self) == str(other))

    def __hash__(self) -> int:
        return hash(str(self))
