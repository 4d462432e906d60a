"""The list of the board: which sessions it shows, in which order and groups, and the lines of each. Pure.

Laws:
1. The order and the words are those of `interlock ps`: who needs a person first.
2. What a session shows is told by a sign and a word; colour only repeats it.
3. A row belongs to a session, and not to a place: whoever is selected stays selected when the order changes.
4. While the server cannot be heard, ages stand still at the moment when it was last heard, and nothing counts down.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from interlock.cli.look.ps_list import tone_of
from interlock.cli.look.session_lines import (
    Shown,
    age,
    by_attention,
    countdown_of,
    read_moment,
    short_ids,
    shown_of,
    since_of,
    why_of,
)
from interlock.cli.output import escape
from interlock.cli.server.api import Body
from interlock.cli.tables import Line, Tone
from interlock.cli.top.layout.wrapping import cut, fit, joined

_NEEDS, _DOUBTS, _WORKS = "needs you", "stuck or unknown", "working"
_DONE, _IDLE, _REST = "done", "idle", "not running"
_GROUPS: Final[Mapping[str, str]] = {
    "stalled": _DOUBTS,
    "unknown": _DOUBTS,
    "starting": _WORKS,
    "working": _WORKS,
    "settling": _WORKS,
    "quiet": _IDLE,
}
_SIGNS: Final[Mapping[str, str]] = {_NEEDS: "!", _DOUBTS: "?", _WORKS: "●", _DONE: "○", _IDLE: "○", _REST: "·"}
_FAILED: Final = "×"
_SUMS: Final[Mapping[str, str]] = {
    _NEEDS: "need you",
    _DOUBTS: "stuck or unknown",
    _WORKS: "working",
    _DONE: "done",
    _IDLE: "idle",
    _REST: "not running",
}
_AGENT, _SHOWS, _AGE, _QUEUE = 8, 19, 5, 4
_ROOM_FOR_AGENT: Final = 72


class Arranged(NamedTuple):
    """The sessions that are shown, in order, with a short name and the group of each; and how many are left out."""

    tasks: tuple[Body, ...] = ()
    shorts: Mapping[str, str] = {}
    ended: int = 0
    unmatched: int = 0
    groups: tuple[str, ...] = ()

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(str(task["task_id"]) for task in self.tasks)


class ListPlace(NamedTuple):
    """One line of the list: `part` of a session's row, or the heading of a group (`task` is None then)."""

    task: Body | None
    part: int = 0
    heading: str = ""
    size: int = 0


def arrange(tasks: Iterable[Body], *, wanted: str = "", every: bool = False) -> Arranged:
    """The sessions to show: those that match, without those that ended unless they are asked for."""
    known = list(tasks)
    matching = [task for task in known if is_match(task, wanted)]
    shown = [task for task in matching if every or not shown_of(task).is_over]
    shorts = short_ids([str(task["task_id"]) for task in known])
    ordered = tuple(by_attention(shown))
    return Arranged(
        tasks=ordered,
        shorts=shorts,
        ended=len(matching) - len(shown),
        unmatched=len(known) - len(matching),
        groups=tuple(group_of(shown_of(task)) for task in ordered),
    )


def is_match(task: Body, wanted: str) -> bool:
    """Whether every word of the filter is in what a person sees of a session, or begins its id."""
    task_id = str(task["task_id"])
    seen = " ".join(
        (
            str(task.get("title", "")),
            str(task.get("agent", "")),
            shown_of(task).words,
            group_of(shown_of(task)),
            str(task.get("question", "")),
        )
    ).casefold()
    return all(word in seen or task_id.startswith(word) for word in wanted.casefold().split())


def group_of(shown: Shown) -> str:
    """Under which heading a session stands."""
    if shown.needs_person:
        return _NEEDS
    is_done = shown.activity == "quiet" and shown.outcome == "done"
    return _DONE if is_done else _GROUPS.get(shown.activity, _REST)


def sign_of(shown: Shown) -> str:
    """One character that says the same as the colour."""
    group = group_of(shown)
    return _FAILED if shown.has_failed and group in (_IDLE, _REST) else _SIGNS[group]


def sums(tasks: Iterable[Body], *, is_brief: bool = False) -> Line:
    """How many sessions stand how, for the first line of the screen. Brief: by the signs alone."""
    counts: dict[str, int] = dict.fromkeys(_SUMS, 0)
    tones = {_NEEDS: Tone.URGENT, _DOUBTS: Tone.DOUBTFUL, _WORKS: Tone.ACTIVE, _DONE: Tone.CALM, _IDLE: Tone.CALM}
    for task in tasks:
        shown = shown_of(task)
        if not shown.is_over:
            counts[group_of(shown)] += 1
    counts = {group: count for group, count in counts.items() if count}
    said = [
        (f"{_SIGNS[group]} {count}" + ("" if is_brief else f" {_summed(group, count)}"), tones.get(group, Tone.FAINT))
        for group, count in counts.items()
    ]
    return joined([piece for one in said for piece in (one, ("   ", Tone.PLAIN))][:-1])


def _summed(group: str, count: int) -> str:
    return group if count == 1 and group == _NEEDS else _SUMS[group]


def places(arranged: Arranged, *, is_roomy: bool) -> tuple[ListPlace, ...]:
    """Every line of the list. Roomy: two lines a session, under headings."""
    if not is_roomy:
        return tuple(ListPlace(task) for task in arranged.tasks)
    found: list[ListPlace] = []
    last = ""
    counts = Counter(arranged.groups)
    for task, group in zip(arranged.tasks, arranged.groups, strict=True):
        if group != last:
            found += [ListPlace(None)] if last else []
            found.append(ListPlace(None, heading=group, size=counts[group]))
            last = group
        found += [ListPlace(task), ListPlace(task, 1)]
    return tuple(found)


def heading_line(place: ListPlace) -> Line:
    """The heading of a group, or the blank line before it."""
    if not place.heading:
        return []
    return joined([(f" {place.heading.upper()}", Tone.HEAD), (f"  {place.size}", Tone.FAINT)])


def name_of(task: Body, shorts: Mapping[str, str]) -> str:
    """What a person calls a session: its title, or the beginning of its id."""
    title = escape(" ".join(str(task.get("title", "")).split()))  # what it takes room for is what is shown
    task_id = str(task["task_id"])
    return title or shorts.get(task_id, task_id)


def row_line(task: Body, shorts: Mapping[str, str], width: int, now: datetime) -> Line:
    """A session on one line, in columns that stand still whatever is in them."""
    shown = shown_of(task, now)
    title, agent = max(12, min(32, width // 4)), _AGENT if width >= _ROOM_FOR_AGENT else -1
    why = max(0, width - title - agent - _SHOWS - _AGE - _QUEUE - 8)
    tone = tone_of(shown)
    return joined(
        [
            (f" {sign_of(shown)} ", tone),
            (fit(name_of(task, shorts), title) + " ", Tone.HEAD if shown.needs_person else Tone.PLAIN),
            (fit(escape(str(task.get("agent", ""))), agent) + " " if agent > 0 else "", Tone.FAINT),
            (fit(shown.words, _SHOWS), tone),
            (age(since_of(task), now).rjust(_AGE), Tone.PLAIN),
            ((f"+{task['queued']}" if task.get("queued") else "").rjust(_QUEUE) + "  ", Tone.FAINT),
            (cut(brief(task, now), why), Tone.PLAIN if shown.needs_person else Tone.FAINT),
        ]
    )


def row_lines(task: Body, shorts: Mapping[str, str], width: int, now: datetime) -> Sequence[Line]:
    """A session on two lines: its name and age, then what it shows, by whom, and why."""
    shown = shown_of(task, now)
    held, queued = age(since_of(task), now), task.get("queued") or 0
    waits = f"+{queued} " if queued else ""
    room = max(2, width - 4 - len(held) - len(waits))
    tone = tone_of(shown)
    first = joined(
        [
            (f" {sign_of(shown)} ", tone),
            (fit(name_of(task, shorts), room - 1) + " ", Tone.HEAD if shown.needs_person else Tone.PLAIN),
            (waits, Tone.FAINT),
            (held, Tone.FAINT),
        ]
    )
    said, agent = shown.words, str(task.get("agent", ""))
    rest = "  ".join(one for one in (agent, brief(task, now)) if one)
    second = joined([(f"   {said}", tone), (f"  {cut(rest, max(0, width - 6 - len(said)))}", Tone.FAINT)])
    return first, second


def brief(task: Body, now: datetime) -> str:
    """The countdown of an agent that is not used; else the question, or the evidence in a word."""
    return ticking(task, now) or why_of(task)


def ticking(task: Body, now: datetime) -> str:
    """The countdown in the words of `interlock ps`, with the seconds that a board can show."""
    words = countdown_of(task, now)
    idle_at = read_moment((task.get("live") or {}).get("idle_at"))
    if not words or idle_at is None:
        return words
    left = max(0, int((idle_at - now).total_seconds()))
    exact = f"{left // 3600}:{left // 60 % 60:02d}:{left % 60:02d}" if left >= 3600 else f"{left // 60}:{left % 60:02d}"
    return f"{words.rpartition(' ')[0]} {exact}"


def left_out(arranged: Arranged, wanted: str) -> str:
    """What the list does not show, in words; nothing where it shows all."""
    said = []
    if arranged.unmatched:
        said.append(f"{arranged.unmatched} do not match {wanted!r} (esc shows all)")
    if arranged.ended:
        said.append(f"{arranged.ended} that ended (e shows them)")
    return ", ".join(said)
