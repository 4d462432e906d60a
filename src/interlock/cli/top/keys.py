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
            BoardKey("home,less_than_sign", "home", "edge(-1)", "to the beginning; older messages are fetched"),
            BoardKey("end,G", "end", "edge(1)", "to the end, and follow it"),
            BoardKey("left", "left", "pan(-8)", "scroll the terminal left"),
            BoardKey("right", "right", "pan(8)", "scroll the terminal right"),
            BoardKey("z", "z", "zoom", "toggle full screen"),
            BoardKey("n", "n", "next_need", "the next session that needs you", "next"),
            BoardKey("slash", "/", "filter", "search titles, folders, questions, and all transcripts", "search"),
            BoardKey("g", "g", "order('folder')", "group by folder; again: by attention"),
            BoardKey("t", "t", "order('tree')", "copies under their parents; again: by attention"),
            BoardKey("m", "m", "seen", "mark as seen now"),
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
            BoardKey("i", "i", "reply", "answer in words", "reply"),
            BoardKey("right_square_bracket", "]", "question(1)", "the next question"),
            BoardKey("left_square_bracket", "[", "question(-1)", "the question before"),
            BoardKey("v", "v", "whole", "the whole question, with all its arguments"),
        ),
    ),
    (
        "Act",
        (
            BoardKey("s", "s", "send", "send a prompt; it waits in the queue if need be", "send"),
            BoardKey("N", "N", "new", "a new session: agent, folder, worktree, prompt", "new"),
            BoardKey(
                "enter", "enter", "enter", "its terminal, here; Ctrl-b d comes back (in tmux: Ctrl-b twice)", "open"
            ),
            BoardKey("p", "p", "pause", "pause or resume its queue"),
            BoardKey("A", "A", "rules", "rules for this session: pause, resume, add one (asks first)"),
            BoardKey("r", "r", "rename", "rename the session"),
            BoardKey("R", "R", "restart", "restart the agent; asks first"),
            BoardKey("X", "X", "archive", "archive the session; asks first"),
            BoardKey("c", "c", "cancel", "interrupt the turn; asks first"),
            BoardKey("x", "x", "stop", "stop the agent; asks first"),
        ),
    ),
    (
        "Ask",
        (
            BoardKey("l", "l", "terminal", "the transcript in place of its terminal, and back"),
            BoardKey("w", "w", "why", "why it has this status: the evidence", "why"),
            BoardKey("D", "D", "review", "what its turns did to the files, to be reviewed"),
            BoardKey("P", "P", "spawns", "process history"),
            BoardKey("u", "u", "usage", "tokens and cost, by turn"),
            BoardKey("o", "o", "attach", "how to go to its terminal"),
        ),
    ),
    (
        "Board",
        (
            BoardKey("T", "T", "theme", "light or dark"),
            BoardKey("f5", "f5", "refresh", "look again, now"),
            BoardKey("question_mark", "?", "help", "this page", "help"),
            BoardKey("q,ctrl+c", "q", "quit_board", "quit (agents keep running)", "quit"),
        ),
    ),
)
NOTES: Final = (
    "tab goes from the list to the transcript or terminal and back.",
    "The mouse selects, opens by a double click, scrolls and chooses an answer. A click on a key in the last line,",
    "or on a line of this page, does what the key does.",
    "A key answers the question that is on the screen, once it has been there for a moment.",
)


def key_of(action: str) -> str:
    """How the key of an action is shown to a person."""
    return next(key.shown for _, keys in KEYS for key in keys if key.action == action)


def action_at(row: int) -> str:
    """The action of the key that stands in a row of the help page; blank where none does, or several."""
    rows: list[str] = []
    for _, keys in KEYS:
        rows += [""] * (2 if rows else 1)
        rows += ["" if key.action == "choose" else key.action for key in keys]
    return rows[row] if 0 <= row < len(rows) else ""


def help_lines() -> list[Line]:
    """The help page."""
    lines: list[Line] = []
    for title, keys in KEYS:
        lines += [[]] if lines else []
        lines.append(joined([(title, Tone.HEAD)]))
        lines += [joined([(f"  {key.shown:<9}", Tone.CALM), (key.does, Tone.PLAIN)]) for key in keys]
    return [*lines, [], *(joined([(note, Tone.FAINT)]) for note in NOTES)]
