"""One redraw: what is known, laid out for the size that the screen has."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual.geometry import Size
from textual.screen import Screen
from textual.widget import Widget

from interlock.cli.painting import Line, Tone
from interlock.cli.task_lines import duration
from interlock.cli.top.facts import facts_lines
from interlock.cli.top.pages import empty_lines
from interlock.cli.top.panes import SessionList, Sheet, Transcript
from interlock.cli.top.questions import question_lines
from interlock.cli.top.sessions import left_out, sums
from interlock.cli.top.wrapping import joined, wrapped_lines

if TYPE_CHECKING:
    from interlock.cli.top.board import Board


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of the screen, found once: another screen may be over them, or they may be going."""

    screen: Screen[object]
    bar: Sheet
    banner: Sheet
    board: SessionList
    detail: Widget
    facts: Sheet
    transcript: Transcript
    questions: Sheet
    notice: Sheet


def find_parts(screen: Screen[object]) -> Parts:
    return Parts(
        screen=screen,
        bar=screen.query_one("#bar", Sheet),
        banner=screen.query_one("#banner", Sheet),
        board=screen.query_one(SessionList),
        detail=screen.query_one("#detail"),
        facts=screen.query_one("#facts", Sheet),
        transcript=screen.query_one(Transcript),
        questions=screen.query_one("#questions", Sheet),
        notice=screen.query_one("#notice", Sheet),
    )


def draw(app: Board, parts: Parts, now: datetime) -> None:
    """Show all of it."""
    parts.bar.show([bar_line(app, app.size.width - 2)])
    parts.banner.show(banner_lines(app))
    board, is_roomy = parts.board, parts.screen.has_class("-wide")
    board.show(app.arranged, app.selected_id, now, is_stale=not app.sessions.is_connected, is_roomy=is_roomy)
    if board.display != bool(app.arranged.tasks):
        board.display = bool(app.arranged.tasks)
        if board.display:
            board.focus()  # while it was hidden it could not have the focus
    _draw_selected(app, now, parts.facts, parts.transcript)
    _draw_question(app, now, parts.questions, parts.detail.size)
    said = [] if app.said is None else [joined([(" ".join(app.said.text.split()), app.said.tone)])]
    parts.notice.show(said or _hidden(app))


def _draw_selected(app: Board, now: datetime, facts: Sheet, transcript: Transcript) -> None:
    task, width = app.line, max(1, transcript.scrollable_content_region.width)
    if task is None:
        facts.show([])
        hidden = left_out(app.arranged, app.wanted)
        transcript.show((), empty_lines(width, is_known=app.sessions.has_list, hidden=hidden))
        return
    chosen = app.selected if app.selected is not None and app.selected.task_id == app.selected_id else None
    state = None if chosen is None else chosen.state
    is_connected = app.sessions.is_connected
    facts.show(facts_lines(task, state, app.arranged.shorts, facts.content_size.width, now, is_connected=is_connected))
    messages = () if chosen is None else chosen.messages
    is_read = state is not None and state.is_verified and not state.needs_room
    empty = "Nothing was said yet. s sends a prompt." if is_read else "Reading what was said."
    transcript.show(messages, [joined([(empty, Tone.FAINT)])])


def _draw_question(app: Board, now: datetime, sheet: Sheet, room: Size) -> None:
    """By the size of what it stands in: it has none of its own while nothing is asked."""
    asked = app.questions
    at = min(app.question_at, len(asked) - 1) if asked else 0
    width, height = max(1, room.width - sheet.styles.padding.width), max(5, room.height // 2)
    sheet.show(question_lines(asked, at, width, height, now, is_live=app.sessions.is_connected))


def bar_line(app: Board, width: int) -> Line:
    """The first line: how many stand how, and whether the server is heard."""
    left: list[tuple[str, str]] = [("interlock", Tone.HEAD.value), ("   ", "")]
    counted = sums(app.sessions.bodies.values()) or [("no session" if app.sessions.has_list else "", Tone.FAINT.value)]
    left += counted if app.sessions.is_connected else [(text, Tone.FAINT.value) for text, _ in counted]
    word = "connected" if app.sessions.is_connected else "disconnected" if app.sessions.lost_at else "connecting"
    tone = Tone.FAINT if app.sessions.is_connected else Tone.DOUBTFUL
    room = width - sum(cell_len(text) for text, _ in left) - len(word)
    return joined([*left, (" " * max(2, room), Tone.PLAIN), (word, tone)])


def banner_lines(app: Board) -> list[Line]:
    """What is wrong with the connection, for as long as it is."""
    known, now = app.sessions, app.clock()
    if known.is_connected and not known.problem:
        return []
    said = ""
    if known.lost_at is not None:
        gone = duration((now - known.lost_at).total_seconds())
        said = f"disconnected for {gone}: this is what was last known; connecting again"
    elif not known.is_connected:
        said = "connecting"
    text = "; ".join(one for one in (said, " ".join(known.problem.split())) if one)
    if said == "connecting" and not known.problem:
        return []
    return wrapped_lines([joined([(text, Tone.PLAIN)])[0][0]], max(20, app.size.width - 2))[:2]


def _hidden(app: Board) -> list[Line]:
    said = left_out(app.arranged, app.wanted)
    return [joined([(f"not shown: {said}", Tone.FAINT)])] if said and app.arranged.tasks else []
