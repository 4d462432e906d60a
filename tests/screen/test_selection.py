"""Which profile reads a pane, and what a mark of an ending means after a submit."""

from __future__ import annotations

from collections import Counter

import pytest

from interlock.screen.assessment import TurnEnd
from interlock.screen.profile import Profile
from interlock.screen.selection import ScreenReader, detect_cli, select_reader
from interlock.vocabulary.errors import UsageError
from tests.each_row import each_row
from tests.screen.tiny import TINY, composer, profile, reader, screen


def made(id: str, cli: str = "tiny", versions: str = '{ from = "1.0", before = "2.0" }') -> Profile:
    text = TINY.replace('id = "tiny-1"', f'id = "{id}"').replace('cli = "tiny"', f'cli = "{cli}"')
    return profile(text.replace('{ from = "1.0", before = "2.0" }', versions))


OLD = made("old", versions='{ before = "1.0" }')
NEW = made("new", versions='{ from = "2.0", before = "3.0" }')
GENERIC = made("plain", "generic", "{}")


def chosen(profiles: list[Profile], version: str | None, cli: str = "tiny") -> tuple[str, str, list[str]]:
    found = select_reader(profiles, cli, version)
    return found.profile.id, found.metadata.selection_source, [anomaly.code for anomaly in found.anomalies]


@each_row(
    ("version", "expected"),
    [
        ("0.9", ("old", "version", [])),
        ("2.0", ("new", "version", [])),
        ("2.9.9", ("new", "version", [])),
        ("tool 2.1.0 (build 7)", ("new", "version", [])),
        ("3.0", ("new", "nearest_version", ["version_outside_profile"])),
        ("99", ("new", "nearest_version", ["version_outside_profile"])),
        ("1.1", ("old", "nearest_version", ["version_outside_profile"])),
        ("1.9", ("old", "nearest_version", ["version_outside_profile"])),
        (None, ("new", "version_unknown", [])),
        ("dev build", ("new", "version_unknown", [])),
        ("9" * 5000, ("new", "nearest_version", ["version_outside_profile"])),
    ],
)
def test_the_version_chooses_the_profile(version: str | None, expected: tuple[str, str, list[str]]) -> None:
    assert chosen([OLD, NEW], version) == expected


def test_the_first_that_holds_wins_so_a_users_own_come_first() -> None:
    assert chosen([made("mine"), made("theirs")], "1.5")[0] == "mine"
    assert chosen([made("mine", versions='{ before = "1.2" }'), made("theirs")], "1.5")[0] == "theirs"


def test_a_cli_without_a_profile_is_read_by_the_generic_one_and_says_so() -> None:
    assert chosen([NEW, GENERIC], "1", cli="other") == ("plain", "generic", ["no_profile"])
    assert chosen([NEW, GENERIC], None, cli="generic") == ("plain", "version_unknown", [])


def test_without_a_generic_profile_it_is_refused_with_what_there_is() -> None:
    with pytest.raises(UsageError, match=r"'other'.*tiny"):
        select_reader([NEW], "other")
    with pytest.raises(UsageError, match="none"):
        select_reader([], "other")


def test_a_pane_is_told_by_its_marks_if_one_cli_claims_it() -> None:
    shown = screen("x", title="tiny - ready")
    assert detect_cli([OLD, NEW], shown) == "tiny"
    assert detect_cli([OLD, made("same", "other")], shown) is None
    assert detect_cli([OLD], screen("x")) is None


@pytest.fixture
def tiny() -> ScreenReader:
    return reader()


def test_an_ending_that_stood_at_the_submit_says_nothing_about_this_turn(tiny: ScreenReader) -> None:
    before = composer("> old", "# Done")
    baseline = tiny.parse_snapshot(before).projection
    assert tiny.parse_snapshot(before).assessment.turn_end is TurnEnd.COMPLETED
    assert tiny.parse_snapshot(before, baseline).assessment.turn_end is None
    scrolled = composer("", "> old", "# Done")
    assert tiny.parse_snapshot(scrolled, baseline).assessment.turn_end is None


def test_an_ending_that_was_out_of_sight_while_the_turn_was_at_work_is_its_own(tiny: ScreenReader) -> None:
    shown = composer("> old", "# Done")
    baseline = tiny.parse_snapshot(shown).projection
    assert tiny.parse_snapshot(shown, baseline, Counter(["> old"])).assessment.turn_end is TurnEnd.COMPLETED
    assert tiny.parse_snapshot(shown, baseline, Counter(["> old", "# Done"])).assessment.turn_end is None
    assert tiny.parse_snapshot(shown, baseline, None).assessment.turn_end is None


def test_an_ending_that_is_new_or_below_a_new_prompt_counts(tiny: ScreenReader) -> None:
    baseline = tiny.parse_snapshot(composer("> old", "# Done")).projection
    same_words = composer("> old", "# Done", "> new", "# Done")
    assert tiny.parse_snapshot(same_words, baseline).assessment.turn_end is TurnEnd.COMPLETED
    scrolled_away = composer("> new", "# Done")
    assert tiny.parse_snapshot(scrolled_away, baseline).assessment.turn_end is TurnEnd.COMPLETED
    same_prompt = composer("> old", "# Done", "> old", "# Done")
    assert tiny.parse_snapshot(same_prompt, baseline).assessment.turn_end is TurnEnd.COMPLETED
    other_mark = composer("> old", "# Interrupted")
    assert tiny.parse_snapshot(other_mark, baseline).assessment.turn_end is TurnEnd.INTERRUPTED
