"""The list of the board: which sessions it shows, in which order and groups, and the lines of each. Pure.

Laws:
1. The order and the words are those of `interlock ps`: who needs a person first.
2. What a session shows is told by a sign and a word; colour only repeats it.
3. A row belongs to a session, and not to a place: whoever is selected stays selected when the order changes.
4. Whatever the order, the sessions that ask stand first in their group, and in the list.
5. While the server cannot be heard, ages stand still at the moment when it was last heard, and nothing counts down.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from interlock.cli.look.ps_list import tone_of
from interlock.cli.look.session_lines import (
    GROUPS,
    Shown,
    age,
    by_attention,
    countdown_of,
    group_of,
    read_moment,
    short_ids,
    shown_of,
    since_of,
    why_of,
)
from interlock.cli.output import escape
from interlock.cli.places import by_rule_of, changes_of, context_of, cost_of, files_of, place_of
from interlock.cli.tables import Line, Tone
from interlock.cli.top.layout.wrapping import cut, fit, joined

if TYPE_CHECKING:
    from interlock.vocabulary.wire.json_types import TaskSummaryJson

_NEEDS, _DOUBTS, _WORKS, _DONE, _IDLE, _REST = GROUPS.values()
_SIGNS: Final[Mapping[str, str]] = {_NEEDS: "!", _DOUBTS: "?", _WORKS: "●", _DONE: "✓", _IDLE: "○", _REST: "·"}
_FAILED: Final = "×"
_NOWHERE, _TREE = "no folder", "sessions and their copies"
_SUMS: Final[Mapping[str, str]] = {
    _NEEDS: "need you",
    _DOUBTS: "stuck or unknown",
    _WORKS: "working",
    _DONE: "done",
    _IDLE: "idle",
    _REST: "ended",
}
_AGENT, _SHOWS, _AGE, _QUEUE = 8, 19, 5, 4
_ROOM_FOR_AGENT: Final = 72


class Arranged(NamedTuple):
    """The sessions that are shown, in order, with a short name and the group of each; and how many are left out."""

    tasks: tuple[TaskSummaryJson, ...] = ()
    shorts: Mapping[str, str] = {}
    ended: int = 0
    unmatched: int = 0
    groups: tuple[str, ...] = ()
    depths: tuple[int, ...] = ()

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(str(task["task_id"]) for task in self.tasks)


class ListPlace(NamedTuple):
    """One line of the list: `part` of a session's row, or the heading of a group (`task` is None then)."""

    task: TaskSummaryJson | None
    part: int = 0
    heading: str = ""
    size: int = 0
    depth: int = 0


class Order(StrEnum):
    """How the list is arranged: by who needs a person, by folder, or copies under what they are copies of."""

    ATTENTION = "attention"
    FOLDER = "folder"
    TREE = "tree"


def arrange(
    tasks: Iterable[TaskSummaryJson],
    *,
    wanted: str = "",
    every: bool = False,
    order: Order = Order.ATTENTION,
) -> Arranged:
    """The sessions to show: those that match, without those that ended unless they are asked for."""
    known = list(tasks)
    matching = [task for task in known if is_match(task, wanted)]
    shown = [task for task in matching if every or not shown_of(task).is_over]
    shorts = short_ids([str(task["task_id"]) for task in known])
    ordered, groups, depths = _ORDERS[order](by_attention(shown))
    return Arranged(
        tasks=ordered,
        shorts=shorts,
        ended=len(matching) - len(shown),
        unmatched=len(known) - len(matching),
        groups=groups,
        depths=depths,
    )


_Placed: TypeAlias = "tuple[tuple[TaskSummaryJson, ...], tuple[str, ...], tuple[int, ...]]"


def _by_need(tasks: Sequence[TaskSummaryJson]) -> _Placed:
    return tuple(tasks), tuple(group_of(shown_of(task)) for task in tasks), (0,) * len(tasks)


def _by_folder(tasks: Sequence[TaskSummaryJson]) -> _Placed:
    """A group a folder, in the order of the most urgent session of each."""
    folders = list(dict.fromkeys(str(task.get("folder") or "") for task in tasks))
    ordered = tuple(task for folder in folders for task in tasks if str(task.get("folder") or "") == folder)
    return ordered, tuple(place_of(task) or _NOWHERE for task in ordered), (0,) * len(ordered)


def _by_parent(tasks: Sequence[TaskSummaryJson]) -> _Placed:
    """Each copy below its parent; a family stands where its most urgent session would."""
    known = {str(task["task_id"]): task for task in tasks}
    parents = {name: str(task.get("parent_id") or "") for name, task in known.items()}

    def root(name: str) -> str:
        passed = {name}
        while parents.get(name) in known and parents[name] not in passed:
            name = parents[name]
            passed.add(name)
        return name

    placed: list[tuple[TaskSummaryJson, int]] = []

    def put(name: str, depth: int) -> None:
        placed.append((known[name], depth))
        for child in (one for one in known if parents[one] == name and root(one) != one):
            put(child, depth + 1)

    for name in dict.fromkeys(root(name) for name in known):
        put(name, 0)
    ordered = tuple(task for task, _ in placed)
    return ordered, (_TREE,) * len(ordered), tuple(depth for _, depth in placed)


_ORDERS: Final = {Order.ATTENTION: _by_need, Order.FOLDER: _by_folder, Order.TREE: _by_parent}


def is_match(task: TaskSummaryJson, wanted: str) -> bool:
    """Whether every word of the filter is in what a person sees of a session, or begins its id."""
    task_id = str(task["task_id"])
    seen = " ".join(
        (
            str(task.get("title", "")),
            str(task.get("agent", "")),
            shown_of(task).words,
            group_of(shown_of(task)),
            str(task.get("question", "")),
            str(task.get("folder", "")),
            str(task.get("model", "")),
            str(task.get("ending", "")),
        )
    ).casefold()
    return all(word in seen or task_id.startswith(word) for word in wanted.casefold().split())


def sign_of(shown: Shown) -> str:
    """One character that says the same as the colour."""
    group = group_of(shown)
    if group == _IDLE and shown.activity == "gone" and not shown.has_failed:
        return _SIGNS[_REST]
    return _FAILED if shown.has_failed and group in (_IDLE, _REST) else _SIGNS[group]


def name_tone(shown: Shown) -> Tone:
    """Bold: what somebody should look at."""
    return Tone.HEAD if shown.needs_person or shown.group == "done" else Tone.PLAIN


def sums(tasks: Iterable[TaskSummaryJson], *, is_brief: bool = False) -> Line:
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
    """Every line of the list, under headings. Roomy: two lines a session, and a blank one between groups."""
    found: list[ListPlace] = []
    last = ""
    counts = Counter(arranged.groups)
    for task, group, depth in zip(arranged.tasks, arranged.groups, arranged.depths, strict=True):
        if group != last:
            found += [ListPlace(None)] if last and is_roomy else []
            found.append(ListPlace(None, heading=group, size=counts[group]))
            last = group
        found += [ListPlace(task, part, depth=depth) for part in range(2 if is_roomy else 1)]
    return tuple(found)


def pinned(known: Sequence[ListPlace], top: int, height: int) -> tuple[ListPlace, ...]:
    """What stays in sight at the head of a list that was scrolled down to `top`, in place of the lines there: sessions
    that ask, at most a third of the room, with the heading of their group if they have one in common; and the heading
    of the session that would be the next line."""
    above = known[:top]
    asking = [one for one in above if one.task is not None and not one.part and shown_of(one.task).needs_person]
    kept = asking[: max(1, height // 3)]
    next_group = next((at for at, one in enumerate(above) if at and one.heading), len(above))
    is_one_group = bool(kept) and above[0].heading and kept[-1] in above[:next_group]
    own = [above[0]] if is_one_group and height > len(kept) + 4 else []
    after = top + len(own) + len(kept)
    heading = next((one for one in reversed(known[:after]) if one.heading), None)
    is_needed = after < len(known) and known[after].task is not None and heading not in own
    return (*own, *kept, *([heading] if heading is not None and is_needed and height > len(kept) + 2 else []))


def heading_line(place: ListPlace) -> Line:
    """The heading of a group, or the blank line before it."""
    if not place.heading:
        return []
    return joined([(f" {place.heading.upper()}", Tone.HEAD), (f"  {place.size}", Tone.FAINT)])


def name_of(task: TaskSummaryJson, shorts: Mapping[str, str]) -> str:
    """What a person calls a session: its title, or the beginning of its id."""
    title = escape(" ".join(str(task.get("title", "")).split()))  # what it takes room for is what is shown
    task_id = str(task["task_id"])
    return title or shorts.get(task_id, task_id)


def _indented(task: TaskSummaryJson, shorts: Mapping[str, str], depth: int) -> str:
    return f"{'  ' * (depth - 1)}└ {name_of(task, shorts)}" if depth else name_of(task, shorts)


def facts_of(task: TaskSummaryJson) -> str:
    """Where it works, with which model, and how full its context is."""
    return " · ".join(
        one for one in (place_of(task), str(task.get("model") or ""), context_of(task), by_rule_of(task)) if one
    )


def row_line(task: TaskSummaryJson, shorts: Mapping[str, str], width: int, now: datetime, depth: int = 0) -> Line:
    """A session on one line, in columns that stand still whatever is in them."""
    shown = shown_of(task, now)
    title, agent = max(12, min(32, width // 4)), _AGENT if width >= _ROOM_FOR_AGENT else -1
    why = max(0, width - title - agent - _SHOWS - _AGE - _QUEUE - 8)
    tone = tone_of(shown)
    return joined(
        [
            (f" {sign_of(shown)} ", tone),
            (fit(_indented(task, shorts, depth), title) + " ", name_tone(shown)),
            (fit(escape(str(task.get("agent", ""))), agent) + " " if agent > 0 else "", Tone.FAINT),
            (fit(shown.words, _SHOWS), tone),
            (age(since_of(task), now).rjust(_AGE), Tone.PLAIN),
            ((f"+{task['queued']}" if task.get("queued") else "").rjust(_QUEUE) + "  ", Tone.FAINT),
            (cut(_rest_of(task, shown, now), why), Tone.PLAIN if shown.needs_person else Tone.FAINT),
        ]
    )


def _rest_of(task: TaskSummaryJson, shown: Shown, now: datetime) -> str:
    """What else there is to say on its line: what is asked or went wrong; of what rests, cost and place."""
    said = brief(task, now)
    if shown.needs_person or shown.group == "stuck":
        return said
    if shown.group == "working":
        return " · ".join(one for one in (said, changes_of(task)) if one)
    return " · ".join(one for one in (files_of(task), cost_of(task), facts_of(task), said) if one)


def row_lines(
    task: TaskSummaryJson, shorts: Mapping[str, str], width: int, now: datetime, depth: int = 0
) -> Sequence[Line]:
    """A session on two lines: its name and age, then what it shows, by whom, and why."""
    shown = shown_of(task, now)
    held, queued = age(since_of(task), now), task.get("queued") or 0
    waits = f"+{queued} " if queued else ""
    room = max(2, width - 4 - len(held) - len(waits))
    tone = tone_of(shown)
    first = joined(
        [
            (f" {sign_of(shown)} ", tone),
            (fit(_indented(task, shorts, depth), room - 1) + " ", name_tone(shown)),
            (waits, Tone.FAINT),
            (held, Tone.FAINT),
        ]
    )
    said, agent = (
        " · ".join(one for one in (shown.words, files_of(task), cost_of(task)) if one),
        str(task.get("agent", "")),
    )
    is_trouble = shown.needs_person or shown.group == "stuck"
    told = (brief(task, now), facts_of(task)) if is_trouble else (facts_of(task), brief(task, now))
    rest = "  ".join(escape(one) for one in (agent, *told) if one)
    second = joined([(f"   {said}", tone), (f"  {cut(rest, max(0, width - 6 - len(said)))}", Tone.FAINT)])
    return first, second


def brief(task: TaskSummaryJson, now: datetime) -> str:
    """The countdown of an agent that is not used; else the question, or the evidence in a word."""
    return ticking(task, now) or why_of(task)


def ticking(task: TaskSummaryJson, now: datetime) -> str:
    """The countdown in the words of `interlock ps`, with the seconds that a board can show."""
    words = countdown_of(task, now)
    live = task.get("live")
    idle_at = None if live is None else read_moment(live.get("idle_at"))
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
