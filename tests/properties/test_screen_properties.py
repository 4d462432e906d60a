"""Whatever a terminal shows, reading it never fails, never says ready without the chrome of a CLI, and never hangs."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from interlock.agents.profiles import builtin_profiles
from interlock.monitor.observation import Arrival
from interlock.monitor.tracker import TuiTrackerSession
from interlock.screen.assessment import BusinessState
from interlock.screen.profile import Profile
from interlock.screen.selection import detect_cli, select_reader
from interlock.screen.snapshot import Snapshot, read_snapshot

PROFILES = builtin_profiles()
READERS = {profile.id: select_reader([profile], profile.cli) for profile in PROFILES}
EACH = pytest.mark.parametrize("profile", READERS)

SEQUENCES = st.sampled_from(
    [
        *("\x1b[0m", "\x1b[1;2;31m", "\x1b[38;2;1;2;3m", "\x1b[4:3m", "\x1b[58;5;2m", "\x1b[", "\x1b[38;5", "\x1b"),
        *("\x1b]0;t\x07", "\x1b]8;;u\x1b\\", "\x1b]torn", "\x1bPq\x1b\\", "\x1b_x\x1b\\", "\x9b1m", "\x07", "\r"),
        *("\x00", "\x7f", "\x1b[2J", "\x1b(B", "\x1b[?25l"),
    ]
)
WORDS = st.sampled_from(
    [
        *(
            "漢字",
            "e\u0301\u0301",
            "שלום עולם",
            "مرحبا",
            "\u202eabc",
            "👩\u200d👩\u200d👧",
            "\u200b",
            "\ufeff",
            "ｆｕｌｌ",
        ),
        *("Allow?", "1. Yes", "2. No", "Working", "esc to interrupt", "yes", "no", "(y/n)", "press enter", "thinking"),
        *("Error", "done", "> ", "$ ", "# ", "% ", "│ quoted │", "* item", "- item", "`code`"),
    ]
)
ROWS = st.lists(st.one_of(st.text(max_size=20), SEQUENCES, WORDS), max_size=8).map("".join)
SCREENS = st.lists(ROWS, max_size=12).map("\n".join)
DEEP = "\x1b[" + ";".join(["38", "5", "1"] * 3000) + "m"


def shown(text: str, columns: int, height: int, title: str = "", **more: object) -> Snapshot:
    return read_snapshot(text, columns=columns, height=height, title=title, **more)  # type: ignore[arg-type]


@EACH
@given(
    text=SCREENS,
    columns=st.sampled_from([1, 20, 80, 500]),
    height=st.sampled_from([1, 24, 50, 200]),
    title=st.text(max_size=30),
    cursor=st.none() | st.tuples(st.integers(0, 500), st.integers(0, 200)),
    is_visible=st.none() | st.booleans(),
)
@example(text="x" * 100_000, columns=500, height=1, title="", cursor=None, is_visible=None)
@example(text=DEEP + "x", columns=80, height=24, title="\x1b]0;\x07", cursor=(0, 0), is_visible=True)
@example(text="\n".join(["漢" * 250] * 50), columns=500, height=50, title="漢", cursor=None, is_visible=False)
def test_noise_is_read_without_a_fault_and_never_as_ready(
    profile: str,
    text: str,
    columns: int,
    height: int,
    title: str,
    cursor: tuple[int, int] | None,
    is_visible: bool | None,
) -> None:
    snapshot = shown(text, columns, height, title, cursor=cursor, cursor_visible=is_visible)
    found = READERS[profile].parse_snapshot(snapshot)
    assert not found.assessment.submit_ready
    assert found.assessment.business_state is not BusinessState.IDLE
    assert len(found.projection.rows) == max(1, height)
    assert found.assessment.evidence
    assert all(0 <= row < height for one in found.assessment.evidence for row in one.rows)


@EACH
@given(text=st.binary(max_size=3000))
def test_random_bytes_are_read_without_a_fault_and_never_as_ready(profile: str, text: bytes) -> None:
    snapshot = shown(text.decode("utf-8", "replace"), 80, 24)
    assert not READERS[profile].parse_snapshot(snapshot).assessment.submit_ready
    assert not any(unicodedata.category(character) == "Cc" for row in snapshot.rows for character in row.text)


@given(SCREENS)
def test_noise_is_no_cli(text: str) -> None:
    assert detect_cli(PROFILES, shown(text, 80, 24)) is None


@EACH
@given(
    frames=st.lists(st.tuples(st.floats(0, 5), SCREENS, st.booleans()), max_size=6),
    arrival=st.sampled_from([Arrival.POLLED, Arrival.PUSHED]),
)
def test_a_stream_of_noise_is_never_ready_and_completes_nothing(
    profile: str, frames: list[tuple[float, str, bool]], arrival: Arrival
) -> None:
    session = TuiTrackerSession(READERS[profile])
    now = 0.0
    for gap, text, is_submit in frames:
        now += gap
        verdicts = [session.on_submit(now)] if is_submit else []
        verdicts.append(session.on_snapshot(shown(text, 80, 24), now, arrival))
        if (due := session.deadline) is not None and due <= now + 5:
            verdicts.append(session.on_timer(max(now, due)))
            now = max(now, due)
        for verdict in verdicts:
            assert verdict.business_state is not BusinessState.IDLE
            assert not {"ready", "completed"} & {event.value for event in verdict.events}


def patterns(profile: Profile) -> set[re.Pattern[str]]:
    """Every regular expression of a profile, wherever it stands."""
    found: set[re.Pattern[str]] = set()
    waiting: list[object] = [profile]
    while waiting:
        one = waiting.pop()
        if isinstance(one, re.Pattern):
            found.add(one)
        elif isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, tuple | list):
            waiting += one
        elif hasattr(one, "__dataclass_fields__"):
            waiting += (getattr(one, name) for name in one.__dataclass_fields__)
    return found


def runs(pattern: str) -> list[str]:
    """Rows as long as rows get, of what the pattern itself is made of: where it would try again and again."""
    literals = set(re.sub(r"\\[a-zA-Z]|[\[\](){}?*+^$|]", "", pattern)) | set(" ─│x1.a")
    rows = [literal * 1023 + "!" for literal in sorted(literals) if literal.isprintable()]
    return [*rows, " x" * 512, "1. " * 340, "─ " * 512]


@pytest.mark.parametrize("profile", READERS)
def test_no_pattern_of_a_profile_hangs_on_a_row(profile: str) -> None:
    """On the longest rows a pattern that is worse than cubic takes minutes; the limit of a test ends it."""
    for pattern in sorted(patterns(READERS[profile].profile), key=lambda pattern: pattern.pattern):
        for row in runs(pattern.pattern):
            pattern.search(row)
