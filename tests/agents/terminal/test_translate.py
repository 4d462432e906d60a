"""What frames of a terminal are told as: a dialog that is half drawn is no question yet."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

from interlock.agents.observations import ApprovalAsked, ApprovalGone, Observation, StandingSeen
from interlock.agents.pane_tracker import LiveVerdict
from interlock.agents.port import AgentSpec
from interlock.agents.profiles import builtin_profiles
from interlock.agents.terminal.translate import Translator
from interlock.agents.tmux.capture import PaneCapture
from interlock.agents.tmux.watcher import PaneSeen
from interlock.monitor.observation import Arrival
from interlock.monitor.policy import DEFAULT_POLICY
from interlock.monitor.tracker import TuiTrackerSession
from interlock.screen.selection import select_reader
from interlock.screen.snapshot import read_snapshot
from interlock.vocabulary.evidence import EvidenceSource
from interlock.vocabulary.states import Attention
from tests.agents.terminal.harness import QUICK, agent, driving
from tests.contract.harness import run

TITLE = "[ ! ] Action Required | app"
TRANSCRIPT = ("› run it", "", "• I will run it.", "")
DIALOG = (
    "  Would you like to run the following command?",
    "",
    "  $ touch made.txt",
    "",
    "› 1. Yes, proceed (y)",
    "  2. No, and tell Codex what to do differently (esc)",
    "",
    "  Press enter to confirm or esc to cancel",
)


class Screen:
    """Frames of a CLI, seen one after the other."""

    def __init__(self, title: str = TITLE, cli: str = "codex", version: str = "0.166.0") -> None:
        self._title = title
        reader = select_reader(builtin_profiles(), cli, version)
        self.translator = Translator(reader, "dialog", is_adopted=True)
        self._session = TuiTrackerSession(reader, DEFAULT_POLICY, saw_start=False)
        self._now = 0.0

    def shows(self, *rows: str, after_seconds: float = 0.05) -> list[Observation]:
        self._now += after_seconds
        snapshot = read_snapshot("\n".join(rows), columns=80, height=24, title=self._title)
        capture = PaneCapture("%1", "@1", snapshot, 1, None, None, 0, self._now)
        verdict = self._session.on_snapshot(snapshot, self._now, Arrival.PUSHED)
        return self.translator.see(LiveVerdict("%1", verdict, PaneSeen(capture, Arrival.PUSHED, 0.0)))


def questions(told: Sequence[Observation]) -> list[str]:
    return [one.question.splitlines()[0] for one in told if isinstance(one, ApprovalAsked)]


def test_a_dialog_that_only_the_title_tells_of_is_asked_once_it_is_drawn() -> None:
    """Codex writes its title before it draws: what stood on the screen until then is not what it asks."""
    screen = Screen()
    early = screen.shows(*TRANSCRIPT)
    half = screen.translator.unfinished
    assert half is not None
    drawn = screen.shows(*TRANSCRIPT, *DIALOG)
    assert questions([*early, *drawn]) == ["Would you like to run the following command?"]
    (asked,) = [one for one in drawn if isinstance(one, ApprovalAsked)]
    assert [one.label for one in asked.options] == ["Yes, proceed", "No, and tell Codex what to do differently"]
    assert screen.translator.settle(half) == [], "its moment is over"
    assert not [one for one in drawn if isinstance(one, ApprovalGone)]


def test_a_dialog_that_stays_without_options_is_asked_after_a_moment() -> None:
    screen = Screen()
    early = screen.shows(*TRANSCRIPT)
    half = screen.translator.unfinished
    assert half is not None
    assert screen.shows(*TRANSCRIPT) == []
    assert screen.translator.unfinished is half, "its moment does not begin again"
    assert questions(early) == []
    assert questions(screen.translator.settle(half)) == ["› run it"]
    assert screen.translator.settle(half) == [], "once"
    drawn = screen.shows(*TRANSCRIPT, *DIALOG)
    assert [type(one) for one in drawn if isinstance(one, ApprovalAsked | ApprovalGone)] == [
        ApprovalGone,
        ApprovalAsked,
    ]


def ticking(since: str, command: str = "make") -> tuple[str, ...]:
    rows = list(DIALOG)
    rows[2:3] = [f"  $ {command}", f"{since}"]
    return (*TRANSCRIPT, *rows)


def test_a_tick_in_an_approval_opens_nothing_and_another_command_does() -> None:
    screen = Screen()
    first = screen.shows(*ticking("• Waiting (9s • esc to interrupt)"))
    ticks = [
        one
        for seconds in range(10, 75)
        for one in screen.shows(
            *ticking(f"◦ Waiting ({f'{seconds // 60}m ' * (seconds > 59)}{seconds % 60}s • esc to interrupt)"),
            after_seconds=1.0,
        )
    ]
    assert len(questions(first)) == 1
    assert [one for one in ticks if isinstance(one, ApprovalAsked | ApprovalGone)] == []
    other = screen.shows(*ticking("◦ Waiting (1m 14s • esc to interrupt)", "make clean"))
    assert [type(one) for one in other if isinstance(one, ApprovalAsked | ApprovalGone)] == [
        ApprovalGone,
        ApprovalAsked,
    ]


def test_a_dialog_with_one_option_is_half_drawn() -> None:
    screen = Screen()
    assert questions(screen.shows(*TRANSCRIPT, *DIALOG[:5])) == []
    drawn = screen.shows(*TRANSCRIPT, *DIALOG)
    assert [len(one.options) for one in drawn if isinstance(one, ApprovalAsked)] == [2]


def test_a_dialog_that_is_drawn_again_bit_by_bit_stays_one_question() -> None:
    screen = Screen()
    asked = screen.shows(*TRANSCRIPT, *DIALOG)
    half = screen.shows(*TRANSCRIPT, *DIALOG[:3])
    whole = screen.shows(*TRANSCRIPT, *DIALOG)
    assert len(questions(asked)) == 1
    assert [one for one in (*half, *whole) if isinstance(one, ApprovalAsked | ApprovalGone)] == []
    assert screen.translator.unfinished is None


def test_half_a_dialog_that_stays_where_a_whole_one_stood_is_another_question() -> None:
    screen = Screen()
    screen.shows(*TRANSCRIPT, *DIALOG)
    screen.shows(*TRANSCRIPT, *DIALOG[:3])
    half = screen.translator.unfinished
    assert half is not None
    assert [type(one) for one in screen.translator.settle(half)] == [ApprovalGone, ApprovalAsked]


FOOT = (
    "─" * 80,
    "  4. Chat about this",
    "",
    "Enter to select · ↑/↓ to navigate · ctrl+g to edit in Vim · Esc to cancel",
)
COLOURS = ("─" * 80, " ☐ Colour", "", "Which colour shall it be?", "", "❯ 1. Red", "  2. Blue", "  3. Type something.")


def test_what_is_left_of_a_question_that_was_answered_is_no_new_one() -> None:
    """Claude Code wipes it away by rows: its foot may stand alone for a frame."""
    screen = Screen("claude", "claude", "2.1.325")
    (asked,) = [one for one in screen.shows("● Hm.", *COLOURS, *FOOT) if isinstance(one, ApprovalAsked)]
    assert asked.attention is Attention.QUESTION
    screen.translator.answered(asked.request_id, gone_at=0.06)
    told = screen.shows("● Hm.", "", *FOOT)
    half = screen.translator.unfinished
    assert half is not None
    assert [type(one) for one in told if isinstance(one, ApprovalAsked | ApprovalGone)] == [ApprovalGone]
    assert questions(screen.translator.settle(half)) == ["4. Chat about this"], "what stays is told"


ONLY_A_TITLE = f"""
import sys
print(*{TRANSCRIPT!r}, sep="\\n")
print("\\x1b]2;{TITLE}\\x07", flush=True)
sys.stdin.read()
"""


def test_a_program_that_only_writes_its_title_is_asked_about_in_the_end() -> None:
    """In real tmux: nothing more is ever drawn, so that only the clock can tell."""

    async def story() -> None:
        spec = AgentSpec(agent="codex", driver="terminal", argv=(sys.executable, "-c", ONLY_A_TITLE))
        policy = replace(QUICK, drawn_within_seconds=0.5)
        async with driving(policy) as driver, agent(driver, spec) as seen:
            asked = await seen.until(ApprovalAsked)
            assert (asked.question.splitlines()[0], asked.options) == ("› run it", ())

    run(story())


def test_the_rows_of_a_screen_are_evidence_only_where_the_screen_decides() -> None:
    """What a title decides is not proven by the rows that happen to stand there."""
    working = "• Working (9s • esc to interrupt)"
    for title, rung, rows in (
        ("app", EvidenceSource.SCREEN, working),
        ("\N{BRAILLE PATTERN DOTS-124} app", EvidenceSource.PANE_TITLE, ""),
    ):
        seen = Screen(title).shows(*TRANSCRIPT, working, "", "› Ask Codex to do anything", "", "  gpt-5 · /w")
        (told,) = [one for one in seen if isinstance(one, StandingSeen)]
        assert (told.standing.rung, told.rows) == (rung, rows)
        assert told.frame_sha256
        assert told.profile.startswith("codex")
