"""Every key of the board, in one table: what is bound, and what footer and help say, are the same."""

from __future__ import annotations

from typing import Final, NamedTuple

from interlock.cli.tables import Line, Tone
from interlock.cli.top.layout.wrapping import joined


class BoardKey(NamedTuple):
    """`keys` as the terminal names them, `shown` as a person reads them. `label`: its word in the footer."""

    keys: str
    shown: str
    action: str
    does: str
    label: str = ""


KEYS: Final[tuple[tuple[str, tuple[BoardKey, ...]], ...]] = (
    (
        "Look",
        (
            BoardKey("up,k", "up k", "move(-1)", "the session above, or a line of the transcript"),
            BoardKey("down,j", "down j", "move(1)", "the session below, or a line of the transcript"),
            BoardKey("pageup", "pgup", "page(-1)", "a page up"),
            BoardKey("pagedown", "pgdn", "page(1)", "a page down"),
            BoardKey("g,home", "g", "edge(-1)", "to the beginning; older messages are fetched"),
            BoardKey("G,end", "G", "edge(1)", "to the end, and follow it"),
            BoardKey("left", "left", "pan(-8)", "the terminal: to the left"),
            BoardKey("right", "right", "pan(8)", "the terminal: to the right"),
            BoardKey("z", "z", "zoom", "toggle full screen"),
            BoardKey("n", "n", "next_need", "the next session that needs you", "next"),
            BoardKey("slash", "/", "filter", "show only what matches", "filter"),
            BoardKey("e", "e", "ended", "show ended sessions"),
            BoardKey("escape", "esc", "clear", "clear filter and message"),
        ),
    ),
    (
        "Answer",
        (
            BoardKey("a", "a", "approve", "allow what is asked, this once", "approve"),
            BoardKey("d", "d", "deny", "refuse it", "deny"),
            BoardKey("1,2,3,4,5,6,7,8,9", "1-9", "choose", "one of the offered answers"),
            BoardKey("r", "r", "reply", "answer in words", "reply"),
            BoardKey("right_square_bracket", "]", "question(1)", "the next question"),
            BoardKey("left_square_bracket", "[", "question(-1)", "the question before"),
            BoardKey("v", "v", "whole", "the whole question, with all its arguments"),
        ),
    ),
    (
        "Act",
        (
            BoardKey("s", "s", "send", "send a prompt; it waits in the queue if need be", "send"),
            BoardKey("c", "c", "cancel", "interrupt the turn; asks first"),
            BoardKey("x", "x", "stop", "stop the agent; asks first"),
        ),
    ),
    (
        "Ask",
        (
            BoardKey("l", "l", "terminal", "its own terminal, live; again: the transcript"),
            BoardKey("w", "w", "why", "why it says so: the chain of evidence", "why"),
            BoardKey("p", "p", "spawns", "process history"),
            BoardKey("u", "u", "usage", "tokens and cost, by turn"),
            BoardKey("o", "o", "attach", "how to go to its terminal"),
        ),
    ),
    (
        "Board",
        (
            BoardKey("t", "t", "theme", "light or dark"),
            BoardKey("R", "R", "refresh", "look again, now"),
            BoardKey("question_mark", "?", "help", "this page", "help"),
            BoardKey("q,ctrl+c", "q", "quit_board", "quit (agents keep running)", "quit"),
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
