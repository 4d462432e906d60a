"""Text that grows at its end, as a value: long answers come in many small pieces, and to add one must not copy the rest.

Laws:
1. It never changes. What was made of it by adding shares its pieces, and each sees its own.
2. To add at the end costs what is added. Whoever reads pays for the joining, once.
3. Two of the same text are equal and have one hash, however they came to be.
"""

from __future__ import annotations

from typing import Self


class GrowingText:
    """`length` is in code points. The text itself is `str()` of this."""

    __slots__ = ("_count", "_pieces", "_whole", "length")

    def __init__(self, text: str = "") -> None:
        self._whole: str | None = text
        self._pieces = [text]
        self._count = 1
        self.length = len(text)

    def put(self, offset: int, more: str) -> Self | None:
        """The same with `more` at its place; what stood from there on is gone. None where that would leave a hole."""
        if offset > self.length:
            return None
        if offset < self.length:
            return type(self)(str(self)[:offset] + more)
        return self._add(more) if more else self

    def _add(self, more: str) -> Self:
        pieces, count = self._pieces, self._count
        if len(pieces) != count:  # somebody else went on from here: they keep what they have
            pieces, count = [str(self)], 1
        pieces.append(more)
        grown = type(self)()
        grown._whole, grown._pieces, grown._count = None, pieces, count + 1
        grown.length = self.length + len(more)
        return grown

    def __str__(self) -> str:
        whole = self._whole
        if whole is None:
            whole = self._whole = "".join(self._pieces[: self._count])
            # What comes of this from now on begins with the whole. The order matters: another thread may be reading.
            self._pieces = [whole]
            self._count = 1
        return whole

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GrowingText):
            return NotImplemented
        return self is other or (self.length == other.length and str(self) == str(other))

    def __hash__(self) -> int:
        return hash(str(self))
