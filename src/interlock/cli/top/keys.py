"""Every key of the board, in one table: what is bound, and what footer and help say, are the same."""

from __future__ import annotations

from typing import Final, NamedTuple

from interlock.cli.painting import Line, Tone
from interlock.cli.top.wrapping import joined


class Key(NamedTuple):
    """`keys` as the terminal names them, `shown` as a person reads them. `label`: its word in the footer."""

    keys: str
    shown: str
    action: str
    does: str
    label: str = ""


KEYS: Final[tuple[tuple[str, tuple[Key, ...]], ...]] = (
    (
        "Look",
        (
            Key("up,k", "up k", "move(-1)", "the session above, or a line of the transcript"),
            Key("down,j", "down j", "move(1)", "the session below, or a line of the transcript"),
            Key("pageup", "pgup", "page(-1)", "a page up"),
            Key("pagedown", "pgdn", "page(1)", "a page down"),
            Key("g,home", "g", "edge(-1)", "to the beginning; older messages are fetched"),
            Key("G,end", "G", "edge(1)", "to the end, and follow it"),
            Key("left", "left", "pan(-8)", "the terminal: to the left"),
            Key("right", "right", "pan(8)", "the terminal: to the right"),
            Key("z", "z", "zoom", "toggle full screen"),
            Key("n", "n", "next_need", "the next session that needs you", "next"),
            Key("slash", "/", "filter", "show only what matches", "filter"),
            Key("e", "e", "ended", "show ended sessions"),
            Key("escape", "esc", "clear", "clear filter and message"),
        ),
    ),
    (
        "Answer",
        (
            Key("a", "a", "approve", "allow what is asked, this once", "approve"),
            Key("d", "d", "deny", "refuse it", "deny"),
            Key("1,2,3,4,5,6,7,8,9", "1-9", "choose", "one of the offered answers"),
            Key("r", "r", "reply", "answer in words", "reply"),
            Key("right_square_bracket", "]", "question(1)", "the next question"),
            Key("left_square_bracket", "[", "question(-1)", "the question before"),
            Key("v", "v", "whole", "the whole question, with all its arguments"),
        ),
    ),
    (
        "Act",
        (
            Key("s", "s", "send", "send a prompt; it waits in the queue if need be", "send"),
            Key("c", "c", "cancel", "interrupt the turn; asks first"),
            Key("x", "x", "stop", "stop the agent; asks first"),
        ),
    ),
    (
        "Ask",
        (
            Key("l", "l", "terminal", "its own terminal, live; again: the transcript"),
            Key("w", "w", "why", "why it says so: the chain of evidence", "why"),
            Key("p", "p", "spawns", "process history"),
            Key("u", "u", "usage", "tokens and cost, by turn"),
            Key("o", "o", "attach", "how to go to its terminal"),
        ),
    ),
    (
        "Board",
        (
            Key("t", "t", "theme", "light or dark"),
            Key("R", "R", "refresh", "look again, now"),
            Key("question_mark", "?", "help", "this page", "help"),
            Key("q,ctrl+c", "q", "quit_board", "quit (agents keep running)", "quit"),
        ),
    ),
)
NOTES: Final = (
    "tab goes from the list to the transcript or terminal and back.",
    "The mouse selects, scrolls, chooses an answer by a click, and presses the keys in the last line.",
    "A key answers the question that is on the screen, once it has been there for a moment.",
)


def help_lines() -> list[Line]:
    """The help page."""
    lines: list[Line] = []
    for title, keys in KEYS:
        lines += [[]] if lines else []
        lines.append(joined([(title, Tone.HEAD)]))
        lines += [joined([(f"  {key.shown:<9}", Tone.CALM), (key.does, Tone.PLAIN)]) for key in keys]
    return [*lines, [], *(joined([(note, Tone.FAINT)]) for note in NOTES)]
