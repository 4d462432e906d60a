"""Messages that a search found, a line each: when, of which session, and the words in their place. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from interlock.cli.tables import Line, Tone
from interlock.cli.top.layout.wrapping import cut, fit
from interlock.vocabulary.wire.resources import SearchHit, SearchPage

FOUND_LINES: Final = 6
_NAME: Final = 24
_SHORT_NAME: Final = 14
_WIDE: Final = 100
_ROLE: Final = 10
_BEFORE: Final = 12


def found_lines(hits: Sequence[SearchHit], chosen: int, width: int) -> list[Line]:
    """The hits, with a mark beside the one that is chosen."""
    return [_found_line(hit, width, is_chosen=at == chosen) for at, hit in enumerate(hits)]


def _found_line(hit: SearchHit, width: int, *, is_chosen: bool) -> Line:
    room = _NAME if width >= _WIDE else _SHORT_NAME
    name = cut(" ".join(hit.title.split()) or str(hit.task_id), room)
    role = f"{fit(hit.role.value, _ROLE)} " if width >= _WIDE else ""
    head = f"{fit(name, room)} {hit.at.astimezone():%m-%d %H:%M} {role}"
    begin = [("▌" if is_chosen else " ", Tone.ACTIVE.value), (head, Tone.HEAD.value if is_chosen else Tone.FAINT.value)]
    if hit.is_lost:
        return [*begin, ("the log cannot give this message any more", Tone.DOUBTFUL.value)]
    return [*begin, *_excerpt(hit, max(8, width - len(head) - 1))]


def _excerpt(hit: SearchHit, room: int) -> Line:
    """The excerpt from a little before its first match on: what was searched for is always in sight."""
    first = hit.matches[0][0] if hit.matches else 0
    start = first - _BEFORE if first + _BEFORE > room else 0
    pieces = [("…", Tone.FAINT.value)] if start > 0 else []
    at = max(0, start)
    for begin, end in hit.matches:
        if begin >= at:
            pieces += [(hit.excerpt[at:begin], Tone.PLAIN.value), (hit.excerpt[begin:end], Tone.URGENT.value)]
            at = end
    return [*(one for one in pieces if one[0]), (hit.excerpt[at:], Tone.PLAIN.value)]


def told_of(page: SearchPage) -> str:
    """What is to be said of an answer: that there is none, that there are more, or that it may lack some."""
    said = "" if page.items else "no transcript has these words"
    if page.is_cut:
        return f"{said or 'cut off'}; the search took too long: give more words"
    if not page.is_complete:
        return f"{said or 'not all'}; the index is still being made ({page.progress:.0%})"
    if page.next is not None or len(page.items) > FOUND_LINES:
        return "there are more: give more words, or see `interlock search`"
    return said
