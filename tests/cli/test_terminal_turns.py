"""Turns of an agent in a terminal: proven complete without words, and answered while the screen still asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.cli.work import prompt_wait
from interlock.cli.work.prompt_wait import PromptAsked
from interlock.client.outcome import TurnText
from interlock.client.prompt_watch import PromptEnding, PromptOutcome
from interlock.monitor.observer.reply import Contract, sentinel_contract
from interlock.vocabulary.ids import PromptId
from tests.cli.badges import look_of
from tests.cli.homes import run_many
from tests.cli.serving import Served

MARKED = "<<<word\nforty two\nword>>>"


def tell(
    monkeypatch: pytest.MonkeyPatch, answer: TurnText | None, contract: Contract | None = None, *, json: bool = False
) -> int:
    """What is told of a turn that completed and left this answer; the exit code."""
    monkeypatch.setattr(prompt_wait, "_answer", lambda _asked, _outcome: answer)
    asked = PromptAsked(home=Path("home"), task_id="ses_1", prompt_id=PromptId("prm_1"), contract=contract)
    look = look_of({"task_id": "ses_1"}, {"turn_id": "trn_1", "state": "completed"})
    outcome = PromptOutcome(ending=PromptEnding.ENDED, look=look)
    return prompt_wait._tell(asked, outcome, json=json)


def words(text: str, *, is_verified: bool = True) -> TurnText:
    return TurnText(text=text, is_partial=False, is_verified=is_verified)


def test_a_turn_without_words_is_completed_and_says_where_to_look(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tell(monkeypatch, None) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "completed; no channel gives its words" in err
    assert "interlock debug screen ses_1\n" in err
    assert "interlock attach ses_1\n" in err


def test_a_reply_is_read_from_verified_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tell(monkeypatch, words(MARKED), sentinel_contract("word")) == 0
    assert capsys.readouterr() == ("forty two\n", "")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "the turn completed, and no channel gives its words"),
        (words(MARKED, is_verified=False), "the words were read off a screen"),
        (words("forty two"), "there is no text between the lines"),
    ],
)
@pytest.mark.parametrize("json", [False, True])
def test_a_reply_that_cannot_be_read_is_a_failure_and_prints_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: TurnText | None, said: str, json: bool
) -> None:
    assert tell(monkeypatch, answer, sentinel_contract("word"), json=json) == 1
    out, err = capsys.readouterr()
    assert (out.count("\n"), '"reply":null' in out) == ((1, True) if json else (0, False))
    assert said in err
    # Where there are no words, the log has none either.
    assert ("interlock logs" in err) is (answer == words("forty two"))


def test_a_screen_that_no_profile_fits_is_said_with_what_helps(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = PromptAsked(home=Path("home"), task_id="ses_1", prompt_id=PromptId("prm_1"))
    outcome = PromptOutcome(ending=PromptEnding.UNREADABLE, look=look_of({"task_id": "ses_1"}))
    assert prompt_wait._tell(asked, outcome, json=False) == 7
    out, err = capsys.readouterr()
    assert out == ""
    assert "no profile fits the agent's screen" in err
    assert "interlock debug screen ses_1 " in err
    assert "interlock queue rm ses_1 prm_1 " in err


@pytest.mark.deep
def test_an_agent_in_a_terminal_is_waited_for_after_it_was_answered(acting_server: Served) -> None:
    task_id = acting_server.open(face="tui")
    asked = acting_server.cli("send", task_id, "ask Which? | red | green; say ok", "--wait", "--timeout", "20")
    assert (asked.returncode, asked.stdout) == (6, "")
    answered, waited, *_ = run_many(
        [f"answer {task_id} --option red", f"wait {task_id} --timeout 20"], acting_server.home
    )
    assert answered.code == 0, answered
    assert (waited.code, waited.out) == (0, f"{task_id}  completed\n"), waited
    wordless = acting_server.cli("send", task_id, "say hello", "--wait", "--timeout", "20")
    assert (wordless.returncode, wordless.stdout) == (0, ""), wordless
    assert "no channel gives its words" in wordless.stderr
