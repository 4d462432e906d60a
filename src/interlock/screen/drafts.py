"""The draft in a composer: what somebody typed, told from placeholder and ghost text by its style."""

from __future__ import annotations

from interlock.screen.profile import ComposerSpec
from interlock.screen.regions import Located
from interlock.screen.snapshot import Row, Span


def read_draft(spec: ComposerSpec, located: Located) -> str | None:
    """The typed text, "" for none; None where there is no composer. What is in doubt counts as typed."""
    region = located[spec.region]
    if region is None:
        return None
    texts = (_typed(spec, located.rows[number]) for number in region)
    draft = "\n".join(text for text in texts if text is not None).strip()
    return "" if spec.placeholder and spec.placeholder.fullmatch(draft) else draft


def _typed(spec: ComposerSpec, row: Row) -> str | None:
    if spec.ignore and spec.ignore.search(row.text):
        return None
    mark = spec.mark.match(row.text) if spec.mark else None
    start = mark.end() if mark else 0
    edge = spec.edge.search(row.text, start) if spec.edge else None
    end = edge.start() if edge else len(row.text)
    kept = [
        row.text[max(span.start, start) : min(span.end, end)]
        for span, after in zip(row.spans, (*row.spans[1:], None), strict=False)  # a blank row has no span
        if span.end > start and not _is_ghost(spec, span, after)
    ]
    return "".join(kept).replace("\u200b", "").rstrip()


def _is_ghost(spec: ComposerSpec, span: Span, after: Span | None) -> bool:
    """In the style of a ghost, or a cursor of one column right before one."""
    if any(ghost.fits(span.style) for ghost in spec.ghosts):
        return True
    is_cursor = spec.cursor is not None and span.end - span.start == 1 and spec.cursor.fits(span.style)
    return is_cursor and after is not None and any(ghost.fits(after.style) for ghost in spec.ghosts)
