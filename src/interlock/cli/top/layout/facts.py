"""The head of the selected session: who it is, both axes, the connection, and the evidence. Pure.

Laws:
1. Both axes show, also where one of them says nothing.
2. What is not known to hold now is called the last known, and is faint. It is never put in other words.
3. Of the board's line and the room's word the one with the higher version is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

import msgspec

from interlock.cli.log.reasons import words_of
from interlock.cli.look.ps_list import tone_of
from interlock.cli.look.session_lines import Shown, age, shown_of, since_of
from interlock.cli.server.api import Body
from interlock.cli.tables import Line, Tone
from interlock.cli.top.layout.session_list import name_of, sign_of, ticking
from interlock.cli.top.layout.wrapping import fitted_line, joined
from interlock.client.machine.state import SyncState, TaskState
from interlock.lifecycle.task_status import StatusClass, classify, has_open_turn

_GAP: Final = "   "
_ENDS: Final = {"done": "completed", "partial": "failed, partial answer kept"}


def told(task: Body, state: TaskState | None) -> Body:
    """What is known of the selected session: its line of the board, with what its room said since."""
    if state is None or state.version < task.get("version", 0):
        return task
    more: Body = {"task_status": state.status, "turn_id": state.turn_id, "version": state.version}
    if state.badge is not None:
        more["badge"] = msgspec.to_builtins(state.badge)
    if state.agent is not None:
        more["live"] = msgspec.to_builtins(state.agent)
    if state.tick is not None:
        more["queued"] = len(state.queue.waiting)
        more["open_approvals"] = sum(one.state == "open" for one in state.approvals)
    return {**task, **more}


def facts_lines(
    task: Body, state: TaskState | None, shorts: Mapping[str, str], width: int, now: datetime, *, is_connected: bool
) -> list[Line]:
    """Three lines: who, how it stands, and why that is said."""
    task = told(task, state)
    is_live = is_connected and (state is None or state.is_reachable)
    lines = [_who(task, shorts), *(_stands(task, state, now) if is_live else _last_known(task))]
    lines.append(_because(task, state, Tone.PLAIN if is_live else Tone.FAINT))
    return [fitted_line(line, width) for line in lines]


def _who(task: Body, shorts: Mapping[str, str]) -> Line:
    task_id, driver = str(task["task_id"]), str(task.get("driver", ""))
    name, short = name_of(task, shorts), shorts.get(task_id, task_id)
    agent = ", by ".join(one for one in (str(task.get("agent", "")), driver) if one)
    known = [one for one in (short if short != name else "", agent) if one]
    return joined([(name, Tone.HEAD), *((f"{_GAP}{one}", Tone.FAINT) for one in known)])


def _stands(task: Body, state: TaskState | None, now: datetime) -> list[Line]:
    shown = shown_of(task, now)
    held, tone = age(since_of(task), now), tone_of(shown)
    doing = tone if not shown.needs_person else Tone.PLAIN
    pieces = [
        (f"{sign_of(shown)} ", tone),
        (shown.activity, doing),
        (f"  {needs_of(shown)}", tone if shown.needs_person else Tone.FAINT),
        (f"  for {held}" if held else "", Tone.FAINT),
    ]
    pieces += [(f"{_GAP}{said}", tone) for said, tone in _asides(task, state, now)]
    return [joined(pieces)]


def needs_of(shown: Shown) -> str:
    """The second axis in words."""
    return f"needs you: {shown.attention}" if shown.needs_person else ""


def _asides(task: Body, state: TaskState | None, now: datetime) -> list[tuple[str, Tone]]:
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


def _last_known(task: Body) -> list[Line]:
    shown = shown_of(task)
    known = ", ".join(one for one in (f", last known: {_doing(shown)}", needs_of(shown)) if one)
    return [joined([("disconnected", Tone.DOUBTFUL), (known, Tone.FAINT)])]


def _doing(shown: Shown) -> str:
    """The first axis, where the second is told beside it."""
    return shown.activity if shown.needs_person else shown.words


def _because(task: Body, state: TaskState | None, tone: Tone) -> Line:
    if state is not None and state.sync is SyncState.ERROR:
        return joined([("cannot be followed: ", Tone.DOUBTFUL), (state.problem, Tone.FAINT)])
    if not task.get("is_supervised", True):
        return joined([("why: nobody runs it; this is what the log can prove", Tone.FAINT)])
    proofs = (task.get("live") or {}).get("evidence") or ()
    if not proofs:
        return joined([("no evidence was told: w asks the log", Tone.FAINT)])
    source, rule = str(proofs[0]["source"]), str(proofs[0]["rule"])
    where = f", {proofs[0]['where']}" if proofs[0].get("where") else ""
    more = f" (and {len(proofs) - 1} more)" if len(proofs) > 1 else ""
    told = f"{_GAP}{source}: {rule}{where}{more}"
    asks = "it asks; " if task.get("open_approvals") else ""
    return joined([(f"why: {asks}{words_of(source, rule)}", tone), (told, Tone.FAINT)])
