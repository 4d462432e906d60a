"""Bytes to lines, whatever the cuts between them."""

from __future__ import annotations

from typing import Final, NamedTuple

from interlock.vocabulary.foreign_json import Fields, decode_object

MAX_LINE_BYTES: Final = 64 * 1024 * 1024


class Line(NamedTuple):
    """One line without its end. `is_cut`: it was longer than the limit, and this is its beginning.

    `is_whole` is False for what stood before the end of the stream without a line end: the writer died in mid-line.
    """

    data: bytes
    is_whole: bool = True
    is_cut: bool = False


def object_on(line: Line) -> Fields | None:
    """The JSON object on a line; None for anything else, and for a line that is not all there."""
    return decode_object(line.data) if line.is_whole and not line.is_cut else None


class LineSplitter:
    """Feed it bytes as they come. A line of megabytes is kept whole; one over the limit is cut, its rest skipped."""

    def __init__(self, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._limit = max_line_bytes
        self._held = bytearray()
        self._size = 0

    def feed(self, data: bytes) -> list[Line]:
        """The lines that are whole now. Blank ones are left out."""
        *ended, rest = data.split(b"\n")
        lines = []
        for piece in ended:
            if self._size or len(piece) > self._limit:
                self._keep(piece)
                line = self._take(is_whole=True)
            else:
                line = _line(piece, is_whole=True)
            if line is not None:
                lines.append(line)
        self._keep(rest)
        return lines

    def end(self) -> Line | None:
        """What is left when no more will come; None where the last line had its end."""
        return self._take(is_whole=False)

    def _keep(self, piece: bytes) -> None:
        if piece:
            room = self._limit - self._size
            self._size += len(piece)
            if room > 0:
                self._held += piece[:room]

    def _take(self, *, is_whole: bool) -> Line | None:
        data, is_cut = bytes(self._held), self._size > self._limit
        self._held, self._size = bytearray(), 0
        return _line(data, is_whole=is_whole, is_cut=is_cut)


def _line(data: bytes, *, is_whole: bool, is_cut: bool = False) -> Line | None:
    data = data.removesuffix(b"\r")
    return Line(data, is_whole, is_cut) if data and not data.isspace() else None
