"""What a turn did to the files, as lines: the turn, its files, what is in doubt, and the patch of one file. Pure.

Laws:
1. Nothing of a patch is cut at the right: a long line goes on in the next. What is left out below is said.
2. What agents wrote, names of files too, is escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from interlock.cli.output import escape
from interlock.cli.tables import Line, Tone
from interlock.cli.top.layout.wrapping import cut_left, joined, wrapped_lines
from interlock.vocabulary.wire.workspace import FileDiff, FileReviewState, TaskDiff

MAX_LINES: Final = 4_000
_MAX_DOUBTS: Final = 2
_COUNTS: Final = 14
_TAB: Final = 4
_KINDS: Final = {"A": "new", "D": "deleted", "M": "changed", "T": "another kind"}
_TONES: Final = {"+": Tone.ACTIVE, "-": Tone.URGENT, "@": Tone.CALM}
_REPEATED: Final = ("diff --git ", "index ")  # lines of a file begin with a sign or a blank
_REVIEWS: Final = {
    FileReviewState.NEW: ("", Tone.PLAIN),
    FileReviewState.ACCEPTED: ("accepted", Tone.ACTIVE),
    FileReviewState.SENT_BACK: ("sent back", Tone.DOUBTFUL),
    FileReviewState.DISCARDED: ("discarded", Tone.FAINT),
}


def title_line(called: str, told: TaskDiff) -> Line:
    """Which turn, and how much it changed."""
    files = len(told.files)
    added, removed = sum(one.added or 0 for one in told.files), sum(one.removed or 0 for one in told.files)
    reviewed = sum(one.review is not FileReviewState.NEW for one in told.files)
    lines = f" +{added} -{removed}" if told.tree_after else ""  # without git nobody counted them
    counts = f"{files} {'file' if files == 1 else 'files'}{lines}, {reviewed} reviewed"
    is_sure = told.is_certain or not told.is_known
    return joined(
        [
            (f"turn {told.number} of {told.turns}  ", Tone.HEAD),
            (counts if told.is_known else "unknown", Tone.PLAIN if told.is_known else Tone.DOUBTFUL),
            ("" if is_sure else ", in doubt", Tone.DOUBTFUL),
            (f"  {called}", Tone.FAINT),
        ]
    )


def doubt_lines(told: TaskDiff, width: int) -> list[Line]:
    """Why it is not known, or proves less than it seems to."""
    said = [f"unknown: {told.unknown}"] if told.unknown else [f"in doubt: {one}" for one in told.doubts[:_MAX_DOUBTS]]
    more = 0 if told.unknown else len(told.doubts) - _MAX_DOUBTS
    said += [f"and {more} more: interlock diff {told.task_id} --turn {told.number} --stat"] if more > 0 else []
    if told.between:
        count = len(told.between)
        said.append(f"before this turn {count} {'file' if count == 1 else 'files'} changed, not by a turn")
    return wrapped_lines([escape(one) for one in said], width, tone=Tone.DOUBTFUL)


def file_lines(told: TaskDiff, selected: int, width: int) -> list[Line]:
    """A line for each file, the selected one marked."""
    if told.is_known and not told.files:
        return [joined([("  this turn changed no file", Tone.FAINT)])]
    uncounted = "binary" if told.tree_after else ""
    return [_file_line(one, width, uncounted, is_selected=at == selected) for at, one in enumerate(told.files)]


def _file_line(one: FileDiff, width: int, uncounted: str, *, is_selected: bool) -> Line:
    review, tone = _REVIEWS[one.review]
    counts = uncounted if one.added is None else f"+{one.added} -{one.removed or 0}"
    marks = "  ".join(word for word in (review, "in doubt" if one.is_late else "") if word)
    room = max(10, width - 12 - _COUNTS - len(marks) - 2)
    return joined(
        [
            ("▌ " if is_selected else "  ", Tone.CALM),
            (f"{_KINDS.get(one.change, one.change):<9}", Tone.FAINT),
            (f"{counts:>{_COUNTS - 2}}  ", Tone.PLAIN),
            (cut_left(escape(one.path), room), Tone.HEAD if is_selected else Tone.PLAIN),
            (f"  {marks}" if marks else "", tone if review else Tone.DOUBTFUL),
        ]
    )


def patch_lines(told: TaskDiff, width: int) -> list[Line]:
    """The patch that was asked for, coloured."""
    lines = told.patch.split("\n")
    lines = [line for line in (lines if lines[-1] else lines[:-1]) if not line.startswith(_REPEATED)]
    shown: list[Line] = []
    is_head = True
    for line in lines[:MAX_LINES]:
        is_head = is_head and not line.startswith("@@")
        tone = Tone.FAINT if is_head else _TONES.get(line[:1], Tone.PLAIN)
        shown += wrapped_lines([escape(line.expandtabs(_TAB))], width, tone=tone)
    if len(lines) > MAX_LINES or told.is_cut:
        said = f"[cut here; all of it: interlock diff {told.task_id} --turn {told.number}]"
        shown.append(joined([(said, Tone.DOUBTFUL)]))
    if told.patch_problem:
        shown += wrapped_lines([escape(f"no patch: {told.patch_problem}")], width, tone=Tone.DOUBTFUL)
    return shown


def sentence_lines(text: str, width: int, tone: Tone = Tone.FAINT) -> Sequence[Line]:
    """One sentence in place of a patch."""
    return wrapped_lines([escape(" ".join(text.split()))], width, tone=tone)
