"""Post-submit evidence: what a prompt's own echo is not."""

from __future__ import annotations

from typing import Final

import pytest

from interlock.monitor.evidence import PostSubmitEvidence, Submit, accumulate, shows_change
from interlock.screen.projection import DialogProjection
from interlock.vocabulary.ids import TurnId
from tests.monitor.surfaces import WORKING, screen, seen

TURN: Final = TurnId("turn_1")
PROMPT: Final = "fix the bug in parser.py and run the tests"
BEFORE: Final = screen("banner\nhello\n❯ try something\nfooter", composer_rows=[2])


def changed(after: DialogProjection, prompt: str | None = PROMPT, baseline: DialogProjection = BEFORE) -> bool:
    return shows_change(Submit(TURN, baseline, prompt), after)


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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
