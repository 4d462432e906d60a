"""The pages that come up over the board: why, the lives of a process, usage, and the way to a terminal. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from msgspec import structs

from interlock.cli.look.session_lines import read_moment
from interlock.cli.look.spawns import end_of, life_of
from interlock.cli.look.usage import FIGURES, figure, note_of
from interlock.cli.setup.packages import install_agent
from interlock.cli.tables import Line, Tone
from interlock.cli.top.layout.wrapping import cut, fit, joined, plain_lines, wrapped_lines
from interlock.projections.why import Explanation
from interlock.projections.why_lines import render_lines
from interlock.vocabulary.actions import NextActionKind

if TYPE_CHECKING:
    from interlock.vocabulary.wire.json_types import SpawnRowJson, TaskSummaryJson, TaskUsageJson, UsageJson

_TERMINAL: Final = "terminal"
_FIGURE: Final = 12
_EVENT: Final = re.compile(r"\s+(?P<seq>\d+|\?)  (?P<at>\d{4}-\S+)  (?P<says>.*)", re.DOTALL)
_TURN: Final = 14


def sentence_page(text: str, tone: Tone = Tone.PLAIN) -> Callable[[int], Sequence[Line]]:
    """A page of some words."""
    return lambda width: wrapped_lines(plain_lines(text), width, tone=tone)


def why_page(explanation: Explanation) -> Callable[[int], Sequence[Line]]:
    """The verdict about a turn and its chain of evidence, in the words of `interlock why`."""
    # Who reads this needs no advice to ask for it.
    advice = (action for action in explanation.next_actions if action.kind is not NextActionKind.EXPLAIN_TURN)
    verdict, *rest = render_lines(structs.replace(explanation, next_actions=tuple(advice)))

    def lay(width: int) -> Sequence[Line]:
        lines = wrapped_lines(plain_lines(verdict), width, tone=Tone.HEAD)
        for line in rest:
            is_title = not line.startswith(" ")
            lines += [[]] if is_title else []
            lines += _reason(line, width) or wrapped_lines(
                plain_lines(line.strip()), width, "" if is_title else "  ", Tone.CALM if is_title else Tone.PLAIN
            )
        return lines

    return lay


def _reason(line: str, width: int) -> list[Line]:
    """A line that names an event: its number and time of day, and beside them what it says."""
    found = _EVENT.match(line)
    moment = None if found is None else read_moment(found["at"])
    if found is None or moment is None:
        return []
    head = f"{found['seq']:>6}  {moment.astimezone():%H:%M:%S}  "
    first, *more = wrapped_lines(plain_lines(found["says"]), max(1, width - len(head))) or [[]]
    return [
        joined([(head, Tone.FAINT), *first]),
        *(joined([(" " * len(head), Tone.PLAIN), *line]) for line in more),
    ]


def spawns_page(rows: Sequence[SpawnRowJson], now: datetime) -> Callable[[int], Sequence[Line]]:
    """Every life of the agent, the newest first."""
    if not rows:
        return sentence_page("no agent was started yet")

    def lay(width: int) -> Sequence[Line]:
        lines: list[Line] = [
            joined([(f"{'STATE':<10}{'PID':>8}  {'BEGAN':<14}  {'FOR':>6}  END", Tone.HEAD)]),
        ]
        return [*lines, *(_life(row, width, now) for row in reversed(rows))]

    return lay


def _life(spawn: SpawnRowJson, width: int, now: datetime) -> Line:
    standing, began = str(spawn["standing"]), read_moment(spawn["began"])
    tone = Tone.ACTIVE if standing == "running" else Tone.DOUBTFUL if standing in ("unclean", "unknown") else Tone.PLAIN
    when = "" if began is None else f"{began.astimezone():%m-%d %H:%M:%S}"
    known = f"{spawn['pid'] or '-':>8}  {when:<14}  {life_of(spawn, now):>6}  "
    return joined([(fit(standing, 10), tone), (known, Tone.PLAIN), (cut(end_of(spawn), width - 44), Tone.FAINT)])


def usage_page(used: TaskUsageJson) -> Callable[[int], Sequence[Line]]:
    """Tokens and cost, in all and by turn, the newest turn first. A dash: nobody reported it."""

    def lay(width: int) -> Sequence[Line]:
        del width
        names = "".join(name.rjust(_FIGURE) for name in ("INPUT", "OUTPUT", "CACHED", "USD"))
        turns = [_used(str(turn["turn_id"]), turn["usage"]) for turn in reversed(used["turns"])]
        return [joined([(f"{'TURN':<{_TURN}}{names}", Tone.HEAD)]), _used("all", used["total"], Tone.HEAD), *turns]

    return lay


def _used(name: str, usage: UsageJson, tone: Tone = Tone.PLAIN) -> Line:
    figures = "".join(figure(one, usage.get(one)).rjust(_FIGURE) for one in FIGURES)
    return joined([(fit(name, _TURN), tone), (figures, tone), (f"  {note_of(usage)}", Tone.FAINT)])


def attach_page(task: TaskSummaryJson) -> Callable[[int], Sequence[Line]]:
    """How to see the agent itself."""
    task_id = shlex.quote(str(task["task_id"]))
    if task.get("driver") == _TERMINAL:
        said = [
            ("This agent has a terminal of its own. In another window, or after q:", Tone.PLAIN),
            (f"interlock attach {task_id}", Tone.HEAD),
            ("Ctrl-b d leaves it, and it goes on. In a tmux of your own: Ctrl-b twice, then d.", Tone.FAINT),
        ]
    else:
        driver = task.get("driver") or "no driver"
        said = [
            (f"This agent has no terminal: it is run by {driver}. What it says is here, and also in:", Tone.PLAIN),
            (f"interlock logs -f {task_id}", Tone.HEAD),
        ]
    return lambda width: [
        line for text, tone in said for line in (*wrapped_lines(plain_lines(text), width, tone=tone), [])
    ]


def _found(agents: Sequence[str]) -> str:
    if agents:
        return f"Agents found on this machine: {', '.join(agents)}."
    return "No agent was found on this machine."


def _steps(agents: Sequence[str]) -> tuple[str, ...]:
    """What to do next, as it is typed."""
    if not agents:
        return (
            "1. Try it with scripted agents: interlock demo",
            f"2. Install an agent: {install_agent()}",
            "3. Check this machine: interlock doctor",
        )
    return (
        "1. N starts a session here: agent, folder, worktree, prompt.",
        f'2. Or in another terminal: interlock run {agents[0]} "Fix the failing test"',
        "3. Enter goes to its terminal, a approves what it asks, ? lists all keys.",
    )


def empty_lines(width: int, *, is_known: bool, hidden: str = "", agents: Sequence[str] = ()) -> list[Line]:
    """What to say where no session is shown: what is known, and what to type next."""
    if not is_known:
        return joined_lines([("Asking the server for its sessions.", Tone.FAINT)], width)
    if hidden:
        return joined_lines([("Nothing to show.", Tone.HEAD), (f"Left out: {hidden}.", Tone.FAINT)], width)
    return joined_lines(
        [
            ("There is no session yet.", Tone.HEAD),
            ("", Tone.PLAIN),
            (_found(agents), Tone.PLAIN),
            ("", Tone.PLAIN),
            *((step, Tone.CALM) for step in _steps(agents)),
        ],
        width,
    )


def joined_lines(said: Sequence[tuple[str, Tone]], width: int) -> list[Line]:
    """Sentences of ours, wrapped; a blank one is a blank line."""
    return [line for text, tone in said for line in (wrapped_lines([text], width, tone=tone) if text else [[]])]
