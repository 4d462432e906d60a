"""One redraw: what is known, laid out for the size that the screen has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from textual.geometry import Size
from textual.markup import escape as escape_markup
from textual.screen import Screen
from textual.widget import Widget

from interlock.cli.look.session_lines import duration
from interlock.cli.output import escape
from interlock.cli.tables import Line, Tone
from interlock.cli.top.layout.facts import about_lines, facts_lines, told
from interlock.cli.top.layout.pages import empty_lines, why_page
from interlock.cli.top.layout.questions import option_at, question_lines
from interlock.cli.top.layout.session_list import left_out, sums
from interlock.cli.top.layout.wrapping import cut, joined, wrapped_lines
from interlock.cli.top.panes import EvidencePane, QuestionsPane, SessionList, Sheet, Transcript
from interlock.cli.top.terminal import TerminalPane

if TYPE_CHECKING:
    from interlock.cli.top.board import BoardApp


_GAP: Final = "   "
_SAID_LINES: Final = 3
_ROOM_FOR_FACTS: Final = 12


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
    terminal: TerminalPane
    questions: QuestionsPane
    evidence: EvidencePane
    notice: Sheet

    @property
    def room(self) -> tuple[Size, ...]:
        """What a redraw lays out for. The screen is arranged after a redraw, or after it has another size."""
        panes = (self.board, self.detail, self.facts, self.transcript, self.terminal, self.evidence)
        return tuple(pane.size for pane in panes)


def find_parts(screen: Screen[object]) -> Parts:
    return Parts(
        screen=screen,
        bar=screen.query_one("#bar", Sheet),
        banner=screen.query_one("#banner", Sheet),
        board=screen.query_one(SessionList),
        detail=screen.query_one("#detail"),
        facts=screen.query_one("#facts", Sheet),
        transcript=screen.query_one(Transcript),
        terminal=screen.query_one(TerminalPane),
        questions=screen.query_one(QuestionsPane),
        evidence=screen.query_one(EvidencePane),
        notice=screen.query_one("#notice", Sheet),
    )


def draw(app: BoardApp, parts: Parts, now: datetime) -> None:
    """Show all of it."""
    parts.bar.show([bar_line(app, app.size.width - 2)])
    parts.banner.show(banner_lines(app))
    board, is_roomy = parts.board, parts.screen.has_class("-wide") or parts.screen.has_class("-triple")
    board.show(app.arranged, app.selected_id, now, is_stale=not app.sessions.is_connected, is_roomy=is_roomy)
    has_list = bool(app.arranged.tasks) and not (app.is_zoomed and app.selected_id)
    if board.display != has_list:
        board.display = has_list
        if has_list:
            board.focus()  # while it was hidden it could not have the focus
    # Where there is little room, a question and its keys go before what is known of who asks.
    is_tight = bool(app.questions) and parts.detail.size.height < _ROOM_FOR_FACTS
    _draw_selected(app, now, parts, has_facts=not (app.is_zoomed or is_tight))
    _draw_terminal(app, parts)
    _draw_question(app, now, parts.questions, parts.detail.size)
    _draw_evidence(app, parts.evidence)
    parts.notice.show(_said(app) or _hidden(app))


def _draw_selected(app: BoardApp, now: datetime, parts: Parts, *, has_facts: bool) -> None:
    facts, transcript = parts.facts, parts.transcript
    task, width = app.line, transcript.scrollable_content_region.width
    if task is None:
        facts.show([])
        hidden = left_out(app.arranged, app.wanted)
        is_known = app.sessions.has_list
        said = empty_lines(width, is_known=is_known, hidden=hidden, agents=app.agents) if width > 0 else []
        transcript.show((), said)  # it has no room until it has taken the place of a terminal
        return
    chosen = app.selected if app.selected is not None and app.selected.task_id == app.selected_id else None
    state = None if chosen is None else chosen.state
    is_connected = app.sessions.is_connected
    lines = facts_lines(task, state, app.arranged.shorts, facts.content_size.width, now, is_connected=is_connected)
    facts.show(lines if has_facts else [])
    messages = () if chosen is None else chosen.messages
    is_read = state is not None and state.is_verified and not state.needs_room
    transcript.show(messages, [joined([(_unread(is_read=is_read, is_connected=is_connected), Tone.FAINT)])])


def _unread(*, is_read: bool, is_connected: bool) -> str:
    """What to say where there is no message to show."""
    if is_read:
        return "Nothing was said yet. s sends a prompt."
    return "Reading what was said." if is_connected else "Not read yet: the server is not heard."


def _draw_terminal(app: BoardApp, parts: Parts) -> None:
    """The terminal, in place of the transcript, where somebody wants to see it. What it is stands above it."""
    feed, terminal, transcript = app.screen_feed, parts.terminal, parts.transcript
    had_focus = transcript.has_focus or terminal.has_focus
    if feed is not None and feed.screen is None and feed.problem:
        feed = None  # the server has no picture of it: what was said is shown
    if terminal.display != (feed is not None):
        terminal.display, transcript.display = feed is not None, feed is None
        if had_focus:
            (transcript if feed is None else terminal).focus()
    name, zoom = (f"{app.called}: ", "z board") if app.is_zoomed else ("", "z zoom")
    if app.line is None:
        transcript.border_title = ""
    elif feed is None:
        _entitle(transcript, f"{name}transcript", ["l terminal", zoom] if app.has_terminal else [zoom])
    if feed is None:
        return
    said, tone = feed.said(is_connected=app.sessions.is_connected)
    terminal.set_class(tone is Tone.DOUBTFUL, "-doubtful")
    more = ["→ more"] if terminal.has_more else []
    _entitle(terminal, f"{name}terminal, {said}", ["l transcript", zoom, *more])
    width = max(1, terminal.scrollable_content_region.width - 1)
    terminal.show(feed.screen, wrapped_lines([escape(said)], width, " ", Tone.FAINT))


def _draw_evidence(app: BoardApp, pane: EvidencePane) -> None:
    """The third pane, where the screen has room for it."""
    feed, task = app.evidence_feed, app.line
    if pane.display != (feed is not None):
        pane.display = feed is not None
    if feed is None or task is None:
        return
    width = max(1, pane.scrollable_content_region.width - 1)
    _entitle(pane, "evidence", ["w whole"])
    about = list(about_lines(told(task, None if app.selected is None else app.selected.state), width))
    if feed.explanation is None:
        said = feed.problem or "asking the log"
        pane.show([*about, [], *wrapped_lines([escape(said)], width, tone=Tone.FAINT)])
        return
    doubt = wrapped_lines([f"as last told: {escape(feed.problem)}"], width, tone=Tone.DOUBTFUL) if feed.problem else []
    pane.show([*about, [], *doubt, *why_page(feed.explanation)(width)])


def _entitle(pane: Widget, title: str, keys: Sequence[str]) -> None:
    """Say in the rule above a pane what it is, and the keys to what else could be there: as many as leave it whole."""
    said, room = escape(title), max(1, pane.size.width - 6)
    shown = next((keys[:n] for n in range(len(keys), 0, -1) if cell_len(_GAP.join((said, *keys[:n]))) <= room), ())
    title = escape_markup(f" {_GAP.join((cut(said, room), *shown))} ")
    if pane.border_title != title:
        pane.border_title = title


def _draw_question(app: BoardApp, now: datetime, sheet: QuestionsPane, room: Size) -> None:
    """By the size of what it stands in: it has none of its own while nothing is asked."""
    asked = app.questions
    at = min(app.question_at, len(asked) - 1) if asked else 0
    width, height = max(1, room.width - sheet.styles.padding.width), max(5, room.height // 2)
    lines = question_lines(asked, at, width, height, now, is_live=app.sessions.is_connected)
    sheet.option_at = lambda row: option_at(asked[at], width, len(lines), row) if asked else None
    sheet.set_class(not app.sessions.is_connected, "-stale")
    sheet.show(lines)


def bar_line(app: BoardApp, width: int) -> Line:
    """The first line: how many stand how, and whether the server is heard. With little room it says it in less."""
    word = "connected" if app.sessions.is_connected else "disconnected" if app.sessions.lost_at else "connecting"
    tone = Tone.FAINT if app.sessions.is_connected else Tone.DOUBTFUL
    name: Line = [("interlock", Tone.HEAD.value), ("   ", "")]
    forms = ([*name, *_counted(app)], _counted(app), _counted(app, is_brief=True))
    widths = [sum(cell_len(text) for text, _ in form) for form in forms]
    at = next((at for at, one in enumerate(widths) if one + 2 + len(word) <= width), len(forms) - 1)
    return joined([*forms[at], (" " * max(2, width - widths[at] - len(word)), Tone.PLAIN), (word, tone)])


def _counted(app: BoardApp, *, is_brief: bool = False) -> Line:
    counted = sums(app.sessions.bodies.values(), is_brief=is_brief)
    counted = counted or [("no session" if app.sessions.has_list else "", Tone.FAINT.value)]
    return counted if app.sessions.is_connected else [(text, Tone.FAINT.value) for text, _ in counted]


def banner_lines(app: BoardApp) -> list[Line]:
    """What is wrong with the connection or the server, for as long as it is."""
    known, now = app.sessions, app.clock()
    if known.is_connected and not (known.problem or known.log_problem):
        return []
    said = ""
    if known.lost_at is not None:
        gone = duration((now - known.lost_at).total_seconds())
        said = f"disconnected for {gone}: this is what was last known; connecting again"
    elif not known.is_connected:
        said = "connecting"
    if known.is_connected and known.log_problem:
        said = f"the server cannot write its log: this is what was last recorded ({known.log_problem})"
    text = "; ".join(one for one in (said, known.problem) if one)
    if said == "connecting" and not known.problem:
        return []
    return wrapped_lines([escape(" ".join(text.split()))], max(20, app.size.width - 2))[:2]


def _said(app: BoardApp) -> list[Line]:
    """What came of the last deed. A remedy stands at the end of it: it has more than one line, if need be."""
    text = "" if app.said is None else escape(" ".join(app.said.text.split()))
    tone = Tone.PLAIN if app.said is None else app.said.tone
    return wrapped_lines([text], max(20, app.size.width - 2), tone=tone)[:_SAID_LINES] if text else []


def _hidden(app: BoardApp) -> list[Line]:
    said = left_out(app.arranged, app.wanted)
    return [joined([(f"not shown: {said}", Tone.FAINT)])] if said and app.arranged.tasks else []
