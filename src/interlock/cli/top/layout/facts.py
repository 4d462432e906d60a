"""The head of the selected session: who it is, both axes, the connection, and the evidence. Pure.

Laws:
1. Both axes show, also where one of them says nothing.
2. What is not known to hold now is called the last known, and is faint. It is never put in other words.
3. Of the board's line and the room's word the one with the higher version is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final

import msgspec

from interlock.cli.log.reasons import words_of
from interlock.cli.look.ps_list import tone_of
from interlock.cli.look.session_lines import Shown, age, below_of, shown_of, since_of
from interlock.cli.output import escape
from interlock.cli.places import by_rule_of, changes_of, checked_out, context_of, cost_of
from interlock.cli.tables import Line, Tone
from interlock.cli.top.layout.session_list import facts_of, name_of, sign_of, ticking
from interlock.cli.top.layout.wrapping import cut_left, fitted_line, joined
from interlock.client.machine.state import SyncState, TaskState
from interlock.lifecycle.task_status import StatusClass, classify, has_open_turn

if TYPE_CHECKING:
    from interlock.vocabulary.wire.json_types import TaskSummaryJson

_GAP: Final = "   "
_ENDS: Final = {"done": "completed", "partial": "failed, partial answer kept"}


def told(task: TaskSummaryJson, state: TaskState | None) -> TaskSummaryJson:
    """What is known of the selected session: its line of the board, with what its room said since."""
    if state is None or state.version < task.get("version", 0):
        return task
    known = task.copy()
    known["task_status"], known["turn_id"], known["version"] = state.status, state.turn_id, state.version
    if state.badge is not None:
        known["badge"] = msgspec.to_builtins(state.badge)
    if state.agent is not None:
        known["live"] = msgspec.to_builtins(state.agent)
    if state.tick is not None:
        known["queued"] = len(state.queue.waiting)
        known["open_approvals"] = sum(one.state == "open" for one in state.approvals)
    return known


def facts_lines(
    task: TaskSummaryJson,
    state: TaskState | None,
    shorts: Mapping[str, str],
    width: int,
    now: datetime,
    *,
    is_connected: bool,
) -> list[Line]:
    """Three lines: who, how it stands, and why that is said."""
    task = told(task, state)
    is_live = is_connected and (state is None or state.is_reachable)
    lines = [_who(task, shorts), *(_stands(task, state, now) if is_live else _last_known(task))]
    lines.append(_because(task, state, Tone.PLAIN if is_live else Tone.FAINT))
    return [fitted_line(line, width) for line in lines]


def about_lines(task: TaskSummaryJson, width: int) -> list[Line]:
    """Where it works, and what it used: a line each, as far as it is known."""
    known = (
        ("folder", str(task.get("folder") or "")),
        ("branch", checked_out(task)),
        ("model", str(task.get("model") or "")),
        ("context", context_of(task).removeprefix("ctx ") + (" tokens" if context_of(task) else "")),
        ("changes", changes_of(task)),
        ("cost", cost_of(task)),
        ("answered", by_rule_of(task)),
        ("below", below_of(task)),
        ("child of" if task.get("depth") else "copy of", str(task.get("parent_id") or "")),
    )
    shown = [(name, said) for name, said in known if said]
    return [
        fitted_line(joined([(f"{name:<9}", Tone.FAINT), (cut_left(escape(said), width - 9), Tone.PLAIN)]), width)
        for name, said in shown
    ]


def _who(task: TaskSummaryJson, shorts: Mapping[str, str]) -> Line:
    task_id, driver = str(task["task_id"]), str(task.get("driver", ""))
    name, short = name_of(task, shorts), shorts.get(task_id, task_id)
    agent = ", by ".join(one for one in (str(task.get("agent", "")), driver) if one)
    known = [one for one in (short if short != name else "", agent, facts_of(task), cost_of(task)) if one]
    return joined([(name, Tone.HEAD), *((f"{_GAP}{one}", Tone.FAINT) for one in known)])


def _stands(task: TaskSummaryJson, state: TaskState | None, now: datetime) -> list[Line]:
    shown = shown_of(task, now)
    held, tone = age(since_of(task), now), tone_of(shown)
    doing = tone if not shown.needs_person else Tone.PLAIN
    pieces = [
        (f"{sign_of(shown)} ", tone),
        (_doing(shown), doing),
        (f"  {needs_of(shown)}", tone if shown.needs_person else Tone.FAINT),
        (f"  for {held}" if held else "", Tone.FAINT),
    ]
    pieces += [(f"{_GAP}{said}", tone) for said, tone in _asides(task, state, now)]
    return [joined(pieces)]


def needs_of(shown: Shown) -> str:
    """The second axis in words."""
    if not shown.needs_person:
        return ""
    return "needs you: look at it" if shown.attention == "none" else f"needs you: {shown.attention}"


def _asides(task: TaskSummaryJson, state: TaskState | None, now: datetime) -> list[tuple[str, Tone]]:
    """What else matters now: doubt first."""
    said: list[tuple[str, Tone]] = []
    if state is not None and not state.is_verified and state.sync is not SyncState.ERROR:
        said.append(("being checked", Tone.DOUBTFUL))
    if state is not None and state.is_stopping:
        said.append(("asked to stop", Tone.DOUBTFUL))
    if task.get("task_status") not in (None, "UNKNOWN", "DELETE"):
        said.append((turn_of(str(task["task_status"]), shown_of(task).outcome), Tone.FAINT))
    queued = task.get("queued") or 0
    if queued:
        is_held = state is not None and not state.queue.is_open
        said.append((f"{queued} in the queue{', held' if is_held else ''}", Tone.DOUBTFUL if is_held else Tone.PLAIN))
    countdown = ticking(task, now)
    if countdown:
        said.append((countdown, Tone.FAINT))
    return said


def turn_of(status: str, outcome: str) -> str:
    """What the log can prove of its last turn. How it ended is the badge's to say."""
    if has_open_turn(status):
        return "turn being cancelled" if status == "CANCELLING" else "turn open"
    ended = _ENDS.get(outcome, outcome) if classify(status) is StatusClass.TERMINAL else ""
    return f"turn {(ended or status.lower()).replace('_', ' ')}"


def _last_known(task: TaskSummaryJson) -> list[Line]:
    shown = shown_of(task)
    known = ", ".join(one for one in (f", last known: {_doing(shown)}", needs_of(shown)) if one)
    return [joined([("disconnected", Tone.DOUBTFUL), (known, Tone.FAINT)])]


def _doing(shown: Shown) -> str:
    """The first axis, where the second is told beside it."""
    return shown.activity if shown.needs_person and shown.attention != "none" else shown.words


def _because(task: TaskSummaryJson, state: TaskState | None, tone: Tone) -> Line:
    if state is not None and state.sync is SyncState.ERROR:
        return joined([("cannot be followed: ", Tone.DOUBTFUL), (state.problem, Tone.FAINT)])
    if not task.get("is_supervised", True):
        return joined([("why: no server runs it; this is what the log can prove", Tone.FAINT)])
    live = task.get("live")
    proofs = [] if live is None else live.get("evidence", [])
    if not proofs:
        return joined([("no evidence was told: w asks the log", Tone.FAINT)])
    source, rule = str(proofs[0]["source"]), str(proofs[0]["rule"])
    where = f", {proofs[0]['where']}" if proofs[0].get("where") else ""
    more = f" (and {len(proofs) - 1} more)" if len(proofs) > 1 else ""
    told = f"{_GAP}{source}: {rule}{where}{more}"
    asks = "waiting for your answer; " if task.get("open_approvals") else ""
    return joined([(f"why: {asks}{words_of(source, rule)}", tone), (told, Tone.FAINT)])
