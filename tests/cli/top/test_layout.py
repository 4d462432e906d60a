"""What the board lays out, without a board: the words, the signs, and that everything fits."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.theme import Theme
from textual.widget import Widget

from interlock.cli.colours import is_light_terminal
from interlock.cli.look.session_lines import group_of, shown_of
from interlock.cli.tables import Line, Tone
from interlock.cli.top import actions as deeds
from interlock.cli.top import drawing
from interlock.cli.top.board import BoardApp
from interlock.cli.top.layout.facts import about_lines, facts_lines, told
from interlock.cli.top.layout.pages import spawns_page, usage_page
from interlock.cli.top.layout.questions import (
    can_approve,
    can_deny,
    can_reply,
    option_at,
    question_lines,
    whole_question,
)
from interlock.cli.top.layout.session_list import (
    Order,
    arrange,
    is_match,
    pinned,
    places,
    row_line,
    row_lines,
    sign_of,
    sums,
)
from interlock.cli.top.layout.transcript import Reader, TranscriptWindow, message_lines
from interlock.cli.top.layout.wrapping import MAX_CHARACTERS, cut, fit, plain_lines, wrap
from interlock.cli.top.themes import DARK, LIGHT
from interlock.client.machine.state import TaskState
from interlock.vocabulary.ids import SessionId, StreamId
from interlock.vocabulary.wire.frames import Message, MessageStatus, Role
from tests.bodies import Body
from tests.cli.badges import with_badge
from tests.each_row import each_row

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def read(lines: list[Line]) -> str:
    return "\n".join("".join(text for text, _ in line) for line in lines)


def task(name: str = "one", **more: object) -> Body:
    line: Body = {
        "task_id": f"ses_{name}",
        "version": 3,
        "title": name,
        "since": (NOW - timedelta(minutes=2)).isoformat(),
        **more,
    }
    return with_badge(line, NOW)


def live(activity: str, attention: str = "none", **more: object) -> Body:
    return {"activity": activity, "attention": attention, **more}


@given(st.text(max_size=200), st.integers(1, 40))
def test_no_line_is_wider_than_its_room_and_no_word_is_lost(text: str, width: int) -> None:
    for line in plain_lines(text):
        wrapped = wrap(line, width)
        assert all(cell_len(one) <= width or len(one) == 1 for one in wrapped)
        assert "".join("".join(wrapped).split()) == "".join(line.split())
        assert line.isprintable() or not any(ord(one) < 32 or 127 <= ord(one) < 160 for one in line)


@given(st.text(max_size=60).map(lambda text: " ".join(plain_lines(text))), st.integers(0, 40))
def test_what_is_cut_or_filled_fits(text: str, width: int) -> None:
    assert cell_len(cut(text, width)) <= width
    assert cell_len(fit(text, width)) == width


def test_a_word_is_kept_whole_where_it_can_be() -> None:
    assert wrap("one two three", 7) == ["one two", "three"]
    assert wrap("onetwothree", 4) == ["onet", "woth", "ree"]
    assert wrap("日本語", 4) == ["日本", "語"]
    assert cut("three", 4) == "thr…"


@each_row(
    ("seen", "sign", "group"),
    [
        (live("working", "approval"), "!", "needs you"),
        (live("quiet", "error"), "!", "needs you"),
        (live("stalled"), "?", "stuck or unknown"),
        (live("unknown"), "?", "stuck or unknown"),
        (live("working"), "●", "working"),
        (live("settling"), "●", "working"),
        (live("quiet"), "○", "idle"),
        (live("gone"), "·", "idle"),
    ],
)
def test_each_state_has_a_sign_and_a_word(seen: Body, sign: str, group: str) -> None:
    shown = shown_of(task(live=seen))
    assert (sign_of(shown), group_of(shown)) == (sign, group)
    for lines in ([row_line(task(live=seen), {}, 80, NOW)], list(row_lines(task(live=seen), {}, 40, NOW))):
        assert sign in read(lines)
        assert shown.words in read(lines)
        assert "2m" in read(lines)


def test_a_failed_end_has_a_sign_of_its_own() -> None:
    assert sign_of(shown_of(task(live=live("quiet"), task_status="FAILED"))) == "!"
    seen = task(live=live("quiet"), task_status="FAILED", turn_id="t", seen_turn_id="t")
    assert sign_of(shown_of(seen)) == "×"
    assert sign_of(shown_of(task(live=live("quiet", "error"), task_status="FAILED"))) == "!"


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_rows_fit_and_stand_in_columns(width: int) -> None:
    short, long = task(live=live("working")), task("x" * 300, live=live("quiet"), agent="y" * 50, question="日" * 200)
    rows = [read([row_line(one, {}, width, NOW)]) for one in (short, long)]
    assert all(cell_len(row) <= width for row in rows)
    assert rows[0].index("working") == rows[1].index("new ·")
    assert all(cell_len(read([line])) <= width for line in row_lines(long, {}, width, NOW))


def test_why_a_session_is_stuck_comes_before_where_it_works() -> None:
    proof = {"source": "native_status", "rule": "stream.turn_open", "where": ""}
    where = {"folder": "/srv/a/folder/of/a/long/name", "model": "a-model-of-a-name"}
    stuck = task("stuck", live=live("stalled", evidence=[proof]), **where)
    assert "turn in progress" in read([row_lines(stuck, {}, 46, NOW)[1]])


def test_the_countdown_ticks_by_the_second() -> None:
    idle = task(live=live("quiet", idle_at=(NOW + timedelta(seconds=185)).isoformat()))
    assert "stops in 3:05" in read([row_line(idle, {}, 80, NOW)])
    assert "stops in 3:04" in read([row_line(idle, {}, 80, NOW + timedelta(seconds=1))])
    far = task(live=live("quiet", idle_at=(NOW + timedelta(seconds=7_265)).isoformat()))
    assert "stops in 2:01:05" in read([row_line(far, {}, 80, NOW)])


def test_the_order_is_that_of_ps_and_groups_have_headings() -> None:
    tasks = [
        task("calm", live=live("quiet")),
        task("ready", live=live("quiet"), task_status="COMPLETED", turn_id="t"),
        task("broken", live=live("quiet"), task_status="FAILED", turn_id="t"),
        task("busy", live=live("working")),
        task("asks", live=live("working", "question")),
        task("stuck", live=live("stalled")),
        task("over", is_supervised=False, task_status="COMPLETED", turn_id="t"),
    ]
    arranged = arrange(tasks)
    assert [one["title"] for one in arranged.tasks] == ["asks", "broken", "stuck", "busy", "ready", "calm"]
    assert (arranged.ended, arrange(tasks, every=True).ended) == (1, 0)
    roomy = places(arranged, is_roomy=True)
    headings = ["needs you", "stuck or unknown", "working", "done", "idle"]
    assert [place.heading for place in roomy if place.heading] == headings
    tight = places(arranged, is_roomy=False)
    assert len([place for place in roomy if place.task]) == 2 * len([place for place in tight if place.task])
    assert [one.heading for one in tight if one.heading] == [one.heading for one in roomy if one.heading]
    assert read([sums(tasks)]) == "! 2 need you   ? 1 stuck or unknown   ● 1 working   ✓ 1 done   ○ 1 idle"


def test_columns_stand_still_whatever_is_in_them() -> None:
    """Also where a name takes more room than it has characters."""
    names = ["one", "日本語" * 20, "evil \x1b[31m\u202e\x07" * 9, "long " * 40]
    tasks = [task(name, agent="opencode", live=live("working", "approval"), question="May I?") for name in names]
    for width in (60, 79, 120):
        lines = [row_line(one, {}, width, NOW) for one in tasks]
        places_of_words = {cell_len(read([line]).partition("approval")[0]) for line in lines}
        assert len(places_of_words) == 1
        assert all(cell_len(read([line])) <= width for line in lines)
        assert all(("opencode" in read([line])) == (width > 70) for line in lines)
        assert all("May I?" in read([line]) for line in lines)
    for one in tasks:
        first, _ = row_lines(one, {}, 46, NOW)
        assert read([first]).endswith(" 2m")
        assert cell_len(read([first])) < 46


def test_a_filter_asks_for_every_word() -> None:
    one = task("parser", agent="claude", live=live("working", "approval"))
    assert all(is_match(one, wanted) for wanted in ("", "PARS", "claude approval", "needs", "ses_par"))
    assert not any(is_match(one, wanted) for wanted in ("claude codex", "s_par", "quiet"))


def test_both_axes_show_and_the_evidence() -> None:
    proof = {"source": "hook", "rule": "pre_tool", "where": "line 3"}
    shown = read(
        facts_lines(task(live=live("working", "approval", evidence=[proof])), None, {}, 80, NOW, is_connected=True)
    )
    assert "working  needs you: approval  for 2m" in shown
    assert "why: reported by hook   hook: pre_tool, line 3" in shown
    assert "needs you" not in read(facts_lines(task(live=live("quiet")), None, {}, 80, NOW, is_connected=True))
    asks = task(live=live("working", "approval", evidence=[proof]), open_approvals=1)
    assert "why: waiting for your answer; reported by hook" in read(
        facts_lines(asks, None, {}, 80, NOW, is_connected=True)
    )


@each_row(
    ("status", "state", "said"),
    [
        ("RUNNING", None, "turn open"),
        ("PENDING_CONFIRMATION", None, "turn open"),
        ("CANCELLING", None, "turn being cancelled"),
        ("COMPLETED", "completed", "turn completed"),
        ("FAILED", "timed_out", "turn timed out"),
        ("FAILED", "partial_failed", "turn failed, partial answer kept"),
        ("CANCELLED", "interrupted", "turn interrupted"),
        ("DELETE", None, ""),
    ],
)
def test_what_the_log_proves_of_the_turn_is_said_in_words(status: str, state: str | None, said: str) -> None:
    line = task(live=live("quiet"), task_status=status, turn_state=state)
    shown = read(facts_lines(line, None, {}, 120, NOW, is_connected=True))
    assert "confirmation" not in shown
    assert said in shown if said else "turn" not in shown


def test_what_is_not_known_to_hold_is_the_last_known() -> None:
    state = TaskState(task_id=SessionId("ses_one"), is_reachable=False, status="RUNNING", version=5)
    for connected, known in ((False, None), (True, state)):
        shown = read(facts_lines(task(live=live("working")), known, {}, 80, NOW, is_connected=connected))
        assert "disconnected, last known: working" in shown
        proved = task(live=live("working", evidence=[{"source": "hook", "rule": "pre_tool"}]))
        because = facts_lines(proved, known, {}, 80, NOW, is_connected=connected)[-1]
        assert {tone for _, tone in because} == {Tone.FAINT}
    doubtful = TaskState(task_id=SessionId("ses_one"), is_reachable=True, status="RUNNING", version=5)
    shown = read(facts_lines(task(live=live("working")), doubtful, {}, 80, NOW, is_connected=True))
    assert "being checked" in shown


def test_of_two_words_the_higher_version_is_told() -> None:
    old = TaskState(task_id=SessionId("ses_one"), status="RUNNING", version=2)
    new = TaskState(task_id=SessionId("ses_one"), status="RUNNING", version=4)
    line = task(task_status="COMPLETED")
    assert told(line, old)["task_status"] == "COMPLETED"
    assert told(line, new)["task_status"] == "RUNNING"


def message(at: int, text: str = "words", status: MessageStatus = MessageStatus.COMPLETED, **more: object) -> Message:
    fields: Body = {"role": Role.ANSWER, **more}
    return Message(message_id=at, version=at, status=status, text=text, at=NOW, **fields)


@each_row(
    ("status", "label"),
    [
        (MessageStatus.PARTIAL, "[partial]"),
        (MessageStatus.FAILED, "[failed]"),
        (MessageStatus.CANCELLED, "[cancelled]"),
        (MessageStatus.TIMED_OUT, "[timed out]"),
        (MessageStatus.INTERRUPTED, "[partial: broke off]"),
        (MessageStatus.STREAMING, "[partial: still being written]"),
    ],
)
def test_what_is_no_whole_answer_is_labelled(status: MessageStatus, label: str) -> None:
    assert label in read(message_lines(message(1, status=status), 80))
    assert "[" not in read(message_lines(message(1), 80))


def test_a_tool_takes_one_line_whatever_it_says() -> None:
    lines = message_lines(message(1, "a\n" * 500, MessageStatus.COMPLETED, role=Role.TOOL, name="Bash"), 60)
    assert len(lines) == 1
    assert cell_len(read(lines)) <= 60


def test_of_text_that_grows_the_end_is_shown_and_of_whole_text_the_beginning() -> None:
    text = "first " + "x" * 2 * MAX_CHARACTERS + " last"
    whole = read(message_lines(message(1, text), 80))
    grows = read(message_lines(message(0, text, MessageStatus.STREAMING, stream_id=StreamId("s")), 80))
    assert "first" in whole
    assert "last" not in whole
    assert "last" in grows
    assert "first" not in grows
    assert "16,011 characters more" in whole
    assert "16,011 characters more" in grows


def test_a_changed_message_is_laid_out_again() -> None:
    reader = Reader()
    assert "one" in read(reader.lines([message(1, "one")], 80))
    changed = Message(message_id=1, version=2, role=Role.ANSWER, status=MessageStatus.COMPLETED, text="two", at=NOW)
    assert "two" in read(reader.lines([changed], 80))


def test_a_window_stays_with_its_message() -> None:
    messages = [message(at) for at in range(1, 1_001)]
    window = TranscriptWindow()
    assert window.of(messages)[-1].message_id == 1_000
    window.hold(messages)
    first = window.of(messages)[0]
    assert window.of([*messages, message(1_001)])[0] == first
    assert window.of([message(-5 + at) for at in range(5)] + messages)[0] == first
    assert window.slide(messages, -10_000)
    assert window.of(messages)[0].message_id == 1
    assert not window.slide(messages, -1)
    window.follow()
    assert window.of(messages)[-1].message_id == 1_000


def asked(**more: object) -> Body:
    return {
        "approval_id": "apr_1",
        "session_id": "ses_1",
        "state": "open",
        "attention": "approval",
        "question": "May I?",
        "asked_at": NOW.isoformat(),
        **more,
    }


def test_a_screen_of_any_width_has_its_question() -> None:
    arguments = {"command": "made", "files": ["a", "b"], "": ""}
    one = asked(question="Run it?", tool="Bash", arguments=arguments, options=YES_NO)
    for width in range(1, 40):
        assert "made" in "".join(read(whole_question(one, width)).split()), width
        assert "Runit?" in "".join(read(question_lines([one], 0, width, 40, NOW)).split()), width


YES_NO = [{"label": "Yes", "kind": "allow_once"}, {"label": "No", "kind": "reject_once"}]


def test_only_keys_that_answer_are_offered() -> None:
    tool, question, bare = asked(options=YES_NO), asked(attention="question", options=[{"label": "x"}]), asked()
    words = asked(attention="question")
    assert [can_approve(one) for one in (tool, question, bare, words)] == [True, False, True, False]
    assert [can_deny(one) for one in (tool, question, bare, words)] == [True, False, True, False]
    assert [can_reply(one) for one in (tool, question, bare, words)] == [False, True, True, True]
    always = asked(options=[{"label": "Always", "kind": "allow_always"}])
    assert not can_approve(always)
    assert "a approve  d deny  1-2 choose" in read(question_lines([tool], 0, 80, 20, NOW))
    assert "answered" in read(question_lines([asked(state="decided")], 0, 80, 20, NOW))


def test_a_question_that_does_not_fit_says_how_much_is_hidden() -> None:
    long = asked(question="\n".join(f"line {at}" for at in range(100)), options=YES_NO)
    lines = question_lines([long], 0, 80, 10, NOW)
    assert len(lines) == 10
    assert "[95 lines more: v shows all of it]" in read(lines)
    assert "line 99" in read(whole_question(long, 80))
    huge = asked(tool="Write", arguments={"text": "z" * 3 * MAX_CHARACTERS})
    assert "lines more: v" in read(question_lines([huge], 0, 80, 10, NOW))
    assert "z" * 40 in read(whole_question(huge, 80))


def test_a_question_that_is_asked_again_says_why() -> None:
    again = asked(problem="the pipe is closed\x1b[2J", question="\n".join(f"line {at}" for at in range(100)))
    for lines in (question_lines([again], 0, 80, 10, NOW), whole_question(again, 80)):
        assert "asked again: the decision did not reach the agent: the pipe is closed" in read(lines)
        assert "\x1b" not in read(lines)


def test_what_is_to_be_allowed_is_read_as_it_will_run() -> None:
    one = asked(tool="Bash", arguments={"command": "rm -rf build\ntimeout: 5", "timeout": 60, "why": ""})
    lines = question_lines([one], 0, 80, 20, NOW)
    assert read(lines).splitlines()[1:-1] == [
        "  May I?",
        "  Bash  command: rm -rf build",
        "    timeout: 5",  # words of the command: deeper than any name
        "  timeout: 60",
        "  why: ",
    ]
    assert {tone for line in lines[1:-1] for _, tone in line} == {Tone.PLAIN}
    assert '"timeout": 60' in read(whole_question(one, 80))
    assert "  Ls\n" in read(question_lines([asked(tool="Ls", arguments={})], 0, 80, 20, NOW))
    assert '  Ls ["a", "b"]' in read(question_lines([asked(tool="Ls", arguments=["a", "b"])], 0, 80, 20, NOW))


@given(
    st.dictionaries(st.text(max_size=20), st.text(max_size=80), max_size=3), st.text(max_size=20), st.integers(20, 60)
)
def test_arguments_fit_and_hold_no_control_character(arguments: Body, tool: str, width: int) -> None:
    lines = question_lines([asked(tool=tool, arguments=arguments)], 0, width, 400, NOW)[1:-1]
    assert all(cell_len(read([line])) <= width for line in lines)
    assert not any(ord(one) < 32 or 127 <= ord(one) < 160 for line in lines for text, _ in line for one in text)


def test_a_question_of_another_time_is_faint() -> None:
    one = asked(tool="Bash", arguments={"command": "ls"}, options=YES_NO)
    lines = question_lines([one], 0, 80, 20, NOW, is_live=False)
    assert {tone for line in lines for _, tone in line} == {Tone.FAINT}


@pytest.mark.parametrize("height", [8, 14])
def test_answers_stand_apart_where_there_is_room_and_a_click_finds_them(height: int) -> None:
    one = asked(options=YES_NO)
    lines = question_lines([one], 0, 80, height, NOW)
    assert ([] in lines) == (height > 10)
    rows = [row for row in range(len(lines)) if option_at(one, 80, len(lines), row) is not None]
    assert [read([lines[row]]).split() for row in rows] == [["1", "Yes"], ["2", "No"]]


def test_a_question_says_how_long_it_will_stand() -> None:
    one = asked(deadline_at=(NOW + timedelta(minutes=5)).isoformat())
    assert "asked 0s ago, 5m left" in read(question_lines([one], 0, 80, 10, NOW))
    assert "it may have been answered since" in read(question_lines([one], 0, 80, 10, NOW, is_live=False))


def test_pages_of_lives_and_usage() -> None:
    spawn: Body = {
        "standing": "exited", "pid": 7, "began": NOW.isoformat(), "ended": None, "duration_seconds": 3.0,
        "reason": "crashed", "is_adopted": False,
        "signal": 9, "exit_code": None, "attempt": None, "is_released": False, "message": "",
    }  # fmt: skip
    assert "crashed, signal 9" in read(list(spawns_page([spawn], NOW)(80)))
    assert "no agent was started yet" in read(list(spawns_page([], NOW)(80)))
    used: Body = {"total": {"input_tokens": 1_200}, "turns": [{"turn_id": "trn_1", "usage": {}}]}
    shown = read(list(usage_page(used)(80)))
    assert "1,200" in shown
    assert shown.splitlines()[-1].split() == ["trn_1", "-", "-", "-", "-"]


def _light(colour: str) -> float:
    shares = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (one / 12.92 if one <= 0.03928 else ((one + 0.055) / 1.055) ** 2.4 for one in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=lambda theme: theme.name)
def test_every_colour_can_be_read_on_every_ground(theme: Theme) -> None:
    """By WCAG AA: 4.5 to 1 for text."""
    words = [theme.foreground, theme.error, theme.warning, theme.success, theme.accent, theme.variables["faint"]]
    grounds = [theme.background, theme.surface, theme.variables["row"]]
    pairs = [*itertools.product(words, grounds), (theme.variables["alarm-text"], theme.variables["alarm"])]
    for pair in pairs:
        low, high = sorted(_light(str(colour)) for colour in pair)
        assert (high + 0.05) / (low + 0.05) >= 4.5, pair


def test_a_light_terminal_is_believed() -> None:
    assert is_light_terminal({"COLORFGBG": "0;15"})
    assert not is_light_terminal({"COLORFGBG": "15;0"})
    assert not is_light_terminal({})


@pytest.mark.parametrize(
    ("is_read", "is_connected", "said"),
    [(True, False, "Nothing was said yet"), (False, True, "Reading"), (False, False, "Not read yet")],
)
def test_what_was_not_read_is_not_called_being_read_without_a_server(
    is_read: bool, is_connected: bool, said: str
) -> None:
    assert drawing._unread(is_read=is_read, is_connected=is_connected).startswith(said)


@pytest.mark.parametrize(
    ("width", "said"),
    [
        (80, "terminal, live   l transcript   z zoom   → more"),
        (52, "terminal, live   l transcript   z zoom"),
        (30, "terminal, live"),
        (16, "terminal,…"),
    ],
)
def test_keys_in_a_title_leave_what_it_says_whole(width: int, said: str) -> None:
    pane = SimpleNamespace(size=SimpleNamespace(width=width), border_title="")
    drawing._entitle(cast("Widget", pane), "terminal, live", ["l transcript", "z zoom", "→ more"])
    assert pane.border_title == f" {said} "


def test_what_is_said_has_more_than_one_line_if_need_be() -> None:
    said = deeds.ActionMessage(f"not done: {'because ' * 12}; the remedy \x1b[2J", Tone.DOUBTFUL)
    app = SimpleNamespace(said=said, size=SimpleNamespace(width=80))
    lines = drawing._said(cast("BoardApp", app))
    assert len(lines) == 2
    assert read(lines).endswith(r"; the remedy \x1b[2J")
    assert all(cell_len(read([line])) <= 78 for line in lines)
    assert drawing._said(cast("BoardApp", SimpleNamespace(said=None, size=app.size))) == []
    endless = SimpleNamespace(said=deeds.ActionMessage("word " * 500), size=app.size)
    assert len(drawing._said(cast("BoardApp", endless))) == 3


def test_the_first_line_says_it_in_less_where_there_is_little_room() -> None:
    tasks = [task(f"t{at}", live=live(seen)) for at, seen in enumerate(("working", "stalled", "quiet", "gone"))]
    assert read([sums(tasks, is_brief=True)]) == "? 1   ● 1   ○ 2"
    app = SimpleNamespace(
        sessions=SimpleNamespace(
            bodies={one["task_id"]: one for one in tasks}, is_connected=False, lost_at=NOW, has_list=True
        )
    )
    for width in (40, 60, 78, 120):
        line = read([drawing.bar_line(cast("BoardApp", app), width)])
        assert cell_len(line) == width
        assert line.endswith("disconnected")
        assert line.startswith("interlock") == (width >= 78)


def test_a_session_that_asks_stays_in_sight_however_far_the_list_is_scrolled() -> None:
    tasks = [task("asks", live=live("working", "question"))]
    tasks += [task(f"busy{at:02}", live=live("working")) for at in range(30)]
    known = places(arrange(tasks), is_roomy=False)
    assert pinned(known, 0, 8) == ()
    kept = pinned(known, 20, 8)
    assert [one.task["title"] if one.task else one.heading for one in kept] == ["needs you", "asks", "working"]
    low = pinned(known, 20, 5)
    assert [one.task["title"] if one.task else one.heading for one in low] == ["asks", "working"]
    within = pinned(places(arrange([task(f"a{at}", live=live("working", "question")) for at in range(9)]),
                           is_roomy=False), 5, 9)  # fmt: skip
    assert [one.heading for one in within].count("needs you") == 1
    assert len(pinned(places(arrange([task(f"a{at}", live=live("working", "question")) for at in range(9)]),
                             is_roomy=False), 9, 9)) <= 4  # fmt: skip


def test_no_session_stands_under_the_heading_of_another_group_however_far_the_list_is_scrolled() -> None:
    groups = {"question": live("working", "question"), "working": live("working"), "quiet": live("quiet")}
    tasks = [task(f"{name}{at}", live=one) for name, one in groups.items() for at in range(4)]
    for is_roomy, height in itertools.product((False, True), range(4, 14)):
        known = places(arrange(tasks), is_roomy=is_roomy)
        for top in range(1, len(known)):
            kept = pinned(known, top, height)
            shown = [*kept, *known[top + len(kept) :]][:height]
            heading = ""
            for one in shown:
                heading = one.heading or heading
                if one.task is None or not heading or one in kept:
                    continue
                group = next(place.heading for place in reversed(known[: known.index(one)]) if place.heading)
                assert heading == group, (top, height, [place.heading or place.task for place in shown])


def test_the_list_is_grouped_by_folder_and_as_a_tree_on_request() -> None:
    tasks = [
        task("copy", live=live("working", "question"), parent_id="ses_first"),
        task("first", live=live("quiet"), folder="/nowhere/one"),
        task("other", live=live("working"), folder="/nowhere/two"),
        task("loop", live=live("quiet"), parent_id="ses_loop"),
    ]
    folders = arrange(tasks, order=Order.FOLDER)
    assert [one["title"] for one in folders.tasks] == ["copy", "loop", "other", "first"]
    assert folders.groups == ("no folder", "no folder", "two", "one")
    tree = arrange(tasks, order=Order.TREE)
    assert [(one["title"], depth) for one, depth in zip(tree.tasks, tree.depths, strict=True)] == [
        ("first", 0),
        ("copy", 1),
        ("other", 0),
        ("loop", 0),
    ]
    row = read([row_line(tree.tasks[1], {}, 80, NOW, 1)])
    assert "└ copy" in row


def test_a_row_says_folder_branch_model_context_cost_and_budget(tmp_path: Path) -> None:
    (tmp_path / "tree" / ".git").mkdir(parents=True)
    (tmp_path / "tree" / ".git" / "HEAD").write_text("ref: refs/heads/fix/\x1b[31mlog\n")
    done = task(
        "ready", live=live("quiet"), task_status="COMPLETED", turn_id="t", folder=str(tmp_path / "tree"), model="opus",
        context_tokens=51_200, cost_usd=0.14, max_cost_usd=2.0,
    )  # fmt: skip
    text = read(list(row_lines(done, {}, 160, NOW)))
    assert "done · unseen · $0.14 of $2.00" in text
    assert "tree (fix/\\x1b[31mlog) · opus · ctx 51k" in text
    assert read(about_lines(done, 60)).splitlines()[1].split() == ["branch", "fix/\\x1b[31mlog"]
