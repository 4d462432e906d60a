"""Post-submit evidence: what a prompt's own echo is not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations
from typing import Final

from hypothesis import example, given
from hypothesis import strategies as st

from interlock.monitor.observation import ShadowObservation
from interlock.monitor.post_submit_evidence import MARKS, PostSubmitEvidence, Submit, accumulate, shows_change
from interlock.screen.projection import DialogProjection, project_dialog
from interlock.vocabulary.ids import TurnId
from tests.each_row import each_row
from tests.monitor.surfaces import READY, WORKING, screen, seen

TURN: Final = TurnId("turn_1")
PROMPT: Final = "fix the bug in parser.py and run the tests"
BEFORE: Final = screen("banner\nhello\n❯ try something\nfooter", composer_rows=[2])


def changed(after: DialogProjection, prompt: str | None = PROMPT, baseline: DialogProjection = BEFORE) -> bool:
    return shows_change(Submit(TURN, baseline, prompt), after)


@each_row(
    "after",
    [
        BEFORE,
        screen("banner\nhello\n❯ half a dra\nfooter", composer_rows=[2]),
        screen(f"banner\nhello\n❯ {PROMPT}\nfooter", composer_rows=[2]),
        screen(f"banner\nhello\n❯ {PROMPT}\n\n❯\nfooter", composer_rows=[4]),
        screen("banner\nhello\n> fix the bug in\n  parser.py and run the tests\n❯\nfooter", composer_rows=[4]),
        screen("banner\nhello\n│ fix the bug in par │\n│ ser.py and run the  │\n│ tests │\n❯\nfooter", [5]),
        screen("banner\nhello\n❯ [Pasted text #1]\n❯\nfooter", composer_rows=[3], prompt_rows=[2]),
        screen(f"hello\n❯ {PROMPT}\n❯\nfooter", composer_rows=[2]),
        screen("hello\n❯ fix the bug in parser.py\n  and run the tests\nfooter", composer_rows=[1, 2]),
    ],
    ids=[
        "same",
        "draft",
        "typed",
        "echo",
        "wrapped",
        "cut inside a word",
        "folded by the tool",
        "scrolled",
        "scrolled by typing",
    ],
)
def test_the_composer_and_the_prompt_are_no_evidence(after: DialogProjection) -> None:
    assert not changed(after)
    assert changed(after, prompt=None) == (after.key != BEFORE.key)


@each_row(
    "after",
    [
        screen(f"banner\nhello\n❯ {PROMPT}\n● Reading parser.py\n❯\nfooter", composer_rows=[4]),
        screen("banner\nhello\n❯ fix the bug in\n● no\n❯\nfooter", composer_rows=[4]),
        screen("banner\nhello\n● the tests\n❯\nfooter", composer_rows=[3]),
        screen("hello\n❯\nfooter", composer_rows=[1]),
        screen(f"❯ {PROMPT}\n❯", composer_rows=[1]),
        screen("banner\nhello\n❯ try something else\nfooter"),
    ],
    ids=["answer", "half a prompt", "words of the prompt", "scrolled without a prompt", "cleared", "no composer"],
)
def test_any_other_change_is_evidence(after: DialogProjection) -> None:
    assert changed(after)


def test_the_same_prompt_twice_is_no_evidence_the_second_time() -> None:
    before = screen(f"❯ {PROMPT}\n● Done.\n❯", composer_rows=[2])
    after = screen(f"❯ {PROMPT}\n● Done.\n❯ {PROMPT}\n❯", composer_rows=[3])
    assert not changed(after, baseline=before)
    assert changed(screen(f"❯ {PROMPT}\n● Done.\n❯ {PROMPT}\n● Done.\n❯", [4]), baseline=before)


def test_a_prompt_wrapped_at_a_mark_of_its_own_is_still_its_echo() -> None:
    for echo in ("❯ sort a >\n  b", "❯ sort a\n  > b"):
        assert not changed(screen(f"banner\nhello\n{echo}\n❯\nfooter", composer_rows=[4]), prompt="sort a > b")


def test_evidence_counts_on_every_frame_and_is_kept() -> None:
    turn = Submit(TURN, screen("welcome"))
    gone = seen(availability="disconnected", text="connection lost")
    first = accumulate(PostSubmitEvidence(), turn, gone, None)
    assert first == PostSubmitEvidence(saw_projection_change=True)
    second = accumulate(first, turn, WORKING, gone)
    assert second == PostSubmitEvidence(saw_working=True, saw_projection_change=True)
    assert accumulate(second, turn, seen(), WORKING) is second


def test_a_blank_prompt_is_no_known_prompt() -> None:
    typed = screen("banner\nhello\n❯ half a dra\nfooter", composer_rows=[2])
    assert changed(typed, prompt=" ")


def test_a_prompt_that_looks_like_a_clock_is_still_its_own_echo() -> None:
    clock = [re.compile(r"\d+:\d+")]

    def masked(text: str, composer_rows: list[int]) -> DialogProjection:
        return project_dialog(text, text, volatile=clock, composer_rows=composer_rows)

    before, prompt = masked("hello 10:00\n❯", [1]), "wake me at 12:30"
    assert not changed(masked(f"hello 10:01\n❯ {prompt}\n❯", [2]), prompt, before)
    assert changed(masked(f"hello 10:01\n❯ {prompt}\n● I shall\n❯", [3]), prompt, before)


def by_the_law(turn: Submit, seen: DialogProjection) -> bool:
    """Law 3 in its own words, with no thought of speed."""
    prompt = bare(turn.prompt or "")
    if seen.key == turn.baseline.key or not prompt:
        return seen.key != turn.baseline.key
    (rows, held), (baseline, _) = (others(projection, prompt) for projection in (seen, turn.baseline))
    scrolled = held and 0 < len(rows) < len(baseline) and baseline[-len(rows) :] == rows
    return rows != baseline and not scrolled


def others(projection: DialogProjection, prompt: str) -> tuple[list[str], bool]:
    runs: set[int] = set()
    for first, last in combinations(range(len(projection.rows) + 1), 2):
        run = projection.rows[first:last]
        if first not in runs and bare(run[0]) and bare(run[-1]) and spells(run, prompt):
            runs.update(range(first, last))
    held = runs | projection.prompt_rows
    hidden = held | projection.composer_rows
    return [row for number, row in enumerate(projection.rows) if row and number not in hidden], bool(held)


def spells(rows: Sequence[str], prompt: str) -> bool:
    for row in rows:
        if not prompt.startswith(bare(row)):
            return False
        prompt = prompt.removeprefix(bare(row)).lstrip(MARKS)
    return not prompt


def bare(text: str) -> str:
    return "".join(text.split()).strip(MARKS)


ROWS: Final = st.sampled_from(
    ["", "a", "b", "ab", "❯ a", "❯ ab", "  b", "│ a │", "c", "x", "> c", "a > b", "a >", "❯", "aa"]
)
NUMBERS: Final = st.sets(st.integers(0, 5), max_size=2)
SCREENS: Final = st.builds(
    lambda rows, composer, prompt: screen("\n".join(rows), composer, prompt),
    st.lists(ROWS, min_size=1, max_size=6),
    NUMBERS,
    NUMBERS,
)
PROMPTS: Final = st.sampled_from([None, " ", "a", "ab", "a b", "abc", "a > b", "aa", "c"])


@given(SCREENS, SCREENS, PROMPTS)
def test_the_short_ways_give_what_the_law_gives(
    baseline: DialogProjection, after: DialogProjection, prompt: str | None
) -> None:
    turn = Submit(TURN, baseline, prompt)
    assert shows_change(turn, after) == by_the_law(turn, after)


@given(SCREENS, st.lists(SCREENS, max_size=4), PROMPTS)
def test_a_frame_that_is_not_judged_again_would_be_judged_the_same(
    baseline: DialogProjection, frames: list[DialogProjection], prompt: str | None
) -> None:
    turn, before, evidence = Submit(TURN, baseline, prompt), None, PostSubmitEvidence()
    for frame in [baseline, *frames, *frames]:
        observation = ShadowObservation(READY.assessment, frame)
        evidence = accumulate(evidence, turn, observation, before)
        before = observation
    assert evidence.saw_projection_change == any(shows_change(turn, frame) for frame in frames)


@given(st.lists(ROWS, max_size=3), st.lists(ROWS, max_size=3), st.lists(ROWS, max_size=5), PROMPTS, st.integers(0, 2))
@example(["x"], ["b"], ["a", "c"], "ab", 1)
@example(["b", "x"], ["x"], ["a", "c"], "a", 1)
def test_what_is_typed_changes_no_judgement_of_the_rows_around_it(
    above: list[str], below: list[str], drafts: list[str], prompt: str | None, gone: int
) -> None:
    """Frames that differ in their composer alone, most of which are not judged again."""
    frames = [screen("\n".join([*above, draft, *below]), [len(above)]) for draft in drafts]
    kept, left = above[gone:], below[gone:]
    turn = Submit(TURN, screen("\n".join([*kept, "❯", *left]), [len(kept)]), prompt)
    before, evidence = None, PostSubmitEvidence()
    for frame in frames:
        observation = ShadowObservation(READY.assessment, frame)
        evidence, before = accumulate(evidence, turn, observation, before), observation
    assert evidence.saw_projection_change == any(shows_change(turn, frame) for frame in frames)
