"""The page of states: every word that can be shown is on it, with what it claims."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from interlock.cli.exit_codes import exit_code_for_turn
from interlock.lifecycle.task_status import STATUS_OF_TURN
from interlock.vocabulary.events.audit import DeliveryStage
from interlock.vocabulary.states import Activity, Attention, ExitReason, TaskStatus, TurnState
from tests.docs.test_running_pages import EXPLAINED
from tools import states_page

PAGE = (Path(__file__).parents[2] / "docs/reference/states.md").read_text(encoding="utf-8")
WORDS = {
    "Activity": Activity,
    "Attention": Attention,
    "Turn": TurnState,
    "Task": TaskStatus,
    "Receipt": DeliveryStage,
    "Exit": ExitReason,
}


def rows(page: str, head: str) -> dict[str, list[str]]:
    """The rows of the table with that head, by the word in their first cell."""
    lines = page.partition(f"\n| {head} |")[2].partition("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {first.strip("`"): others for first, *others in cells}


def test_it_is_current() -> None:
    assert states_page.states_page() == PAGE, "to mend it: make docs"


@pytest.mark.parametrize("head", WORDS)
def test_every_word_is_there_with_a_claim_of_its_own(head: str) -> None:
    found = rows(PAGE, head)
    assert list(found) == [word.value for word in WORDS[head]]
    claims = [others[0] for others in found.values()]
    assert all(claims)
    assert len(set(claims)) == len(claims)


def test_a_word_without_a_claim_stops_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    claims: Mapping[Activity, str] = {word: "" for word in Activity if word is not Activity.STALLED}
    monkeypatch.setattr(states_page, "ACTIVITIES", claims)
    with pytest.raises(KeyError, match="STALLED"):
        states_page.states_page()


def test_the_codes_and_the_tasks_of_turns_are_those_of_the_code() -> None:
    for word, (_, code) in rows(PAGE, "Turn").items():
        assert int(code) == exit_code_for_turn(TurnState(word))
    ends = {}
    for word, (when,) in rows(PAGE, "Task").items():
        if " turn is `" in when:
            ends.update(dict.fromkeys(map(TurnState, re.findall(r"`(\w+)`", when)), TaskStatus(word)))
    assert ends == STATUS_OF_TURN


def test_the_receipts_say_the_same_on_both_pages() -> None:
    explained = rows(EXPLAINED, "Receipt")
    for word, (claim,) in rows(PAGE, "Receipt").items():
        assert claim.split(";")[0] == explained[word][0].split(";")[0]
