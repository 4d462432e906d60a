"""`A`: the rules that answer for a session, shown, paused, resumed and added to, each by a key of its own."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from interlock.lifecycle.rules.verdict import AskedCall
from interlock.runtime.rules.keeper import RuleKeeper
from interlock.vocabulary.events.audit import PermissionBehavior
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import SessionId
from tests.cli.top.stage import COLOURS, House
from tests.contract.harness import run

ASK, ALLOW = PermissionBehavior.ASK, PermissionBehavior.ALLOW


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    config = tmp_path / "conf" / "config.toml"
    config.parent.mkdir()
    config.write_text("")
    monkeypatch.setenv("INTERLOCK_CONFIG", str(config))
    monkeypatch.delenv("INTERLOCK_SPAWN_ID", raising=False)
    return tmp_path / "home"


def said(home: Path, command: str, session: str = "ses_first") -> PermissionBehavior:
    """What the server's rules say of a command."""
    call = AskedCall(agent="puppet", tool="Bash", arguments={"command": command}, folder="/")
    return RuleKeeper(home, os.environ)(SessionId(session), call, datetime.now(UTC).date()).then


def test_a_rule_for_what_is_asked_is_shown_whole_and_added_by_a_second_key_and_paused_for_the_session(
    home: Path,
) -> None:
    args: Json = {"command": "git status --short"}

    async def story() -> None:
        house = House()
        async with house.serving():
            puppet = await house.asking("first", "Run it?", name="Bash", args=args)
            async with house.board((120, 36), home=home) as seat:
                await seat.selects("first")
                await seat.is_asked("Run it?")
                await seat.press("A")
                await seat.sees("There are no rules here", 'command = ["git", "status", "--short"]', "y adds this")
                await seat.press("escape")
                await seat.misses("y adds this")
                assert said(home, "git status --short") is ASK
                await seat.press("A")
                await seat.sees("y adds this")
                await seat.press("y")
                await seat.sees("added to")
                assert [said(home, one) for one in ("git status --short", "git status")] == [ALLOW, ASK]
                assert not puppet.decisions, "the question still waits for a person"

                await seat.press("A")
                await seat.sees("allow suggested-1: git status --short", "p pauses them in this session")
                await seat.press("p")
                await seat.sees("rules are paused in this session")
                command = "git status --short"
                assert [said(home, command, one) for one in ("ses_first", "ses_other")] == [ASK, ALLOW]
                await seat.press("A")
                await seat.sees("Paused in this session")
                await seat.press("p")
                await seat.sees("rules answer in this session again")
                assert said(home, command) is ALLOW

    run(story())


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ({"command": "rm -rf build"}, "no rule"),
        ({"command": "git log; rm x"}, "more than one simple command"),
        ({"command": "git log > $(pwd)/x"}, "no rule reads this command"),
        ({"command": "ls", "with_rights": "all"}, "no rule would allow this"),
        ({"path": "a.py"}, "names no command"),
    ],
)
def test_what_no_rule_may_allow_is_not_offered(home: Path, args: Json, why: str) -> None:
    async def story() -> None:
        house = House()
        async with house.serving():
            await house.asking("first", "Run it?", name="Bash", args=args)
            async with house.board((120, 36), home=home) as seat:
                await seat.selects("first")
                await seat.is_asked("Run it?")
                await seat.press("A")
                text = await seat.sees("For the open question", why)
                assert "y adds" not in text
                await seat.press("y")
                await seat.press("escape")
                await seat.misses("For the open question")
                assert not (home.parent / "conf" / "rules.toml").exists()

    run(story())


def test_a_file_that_is_not_understood_is_left_as_it_is_and_an_agent_changes_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = home.parent / "conf" / "rules.toml"
    path.write_text("[[rule]]\nid = 7\n")

    async def story() -> None:
        house = House()
        async with house.serving():
            await house.asking("first", "Run it?", name="Bash", args={"command": "git status"})
            async with house.board((120, 36), home=home) as seat:
                await seat.selects("first")
                await seat.is_asked("Run it?")
                await seat.press("A")
                await seat.sees("cannot be used")
                await seat.press("escape")
                await seat.misses("cannot be used")
                path.unlink()
                monkeypatch.setenv("INTERLOCK_SPAWN_ID", "spn_1")
                await seat.press("A")
                await seat.sees("y adds this")
                await seat.press("y")
                await seat.sees("an agent may not change which rules hold")
                assert not path.exists()

    run(story())


def test_a_question_that_names_no_call_offers_no_rule(home: Path) -> None:
    async def story() -> None:
        house = House()
        async with house.serving():
            await house.asking("first", "Which colour?", options=COLOURS)
            async with house.board((80, 24), home=home) as seat:
                await seat.selects("first")
                await seat.is_asked("Which colour?")
                await seat.press("A")
                await seat.sees("names no command", "There are no rules here")

    run(story())
