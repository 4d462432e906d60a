"""A log that cannot be written is told once, its end too, and nothing after the command is over."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.cli.look.log_trouble import LogTrouble
from interlock.cli.server.api import ServerApi
from interlock.vocabulary.errors import Unreachable
from tests.bodies import Body


class _Server:
    """Answers from a list, and ends the watch with the last one."""

    def __init__(self, trouble: LogTrouble, problems: list[str | None]) -> None:
        self._trouble = trouble
        self._problems = problems

    def get(self, path: str) -> Body:
        assert path == "/api/server"
        problem = self._problems.pop(0)
        if not self._problems:
            self._trouble.end()
        if problem is None:
            raise Unreachable("the server is away")
        return {"log_problem": problem}


def told_of(problems: list[str | None], monkeypatch: pytest.MonkeyPatch, folder: Path) -> LogTrouble:
    trouble = LogTrouble(folder, "waiting")
    server = _Server(trouble, problems)
    monkeypatch.setattr("interlock.cli.look.log_trouble._LOOK_SECONDS", 0.0)
    monkeypatch.setattr(ServerApi, "of_home", lambda _: server)
    trouble.look()
    return trouble


def test_each_change_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told_of(["", "full", "full", None, "full", "", "", "broken", ""], monkeypatch, tmp_path)
    assert capsys.readouterr().err.splitlines() == [
        "the server cannot write its log, nothing new is recorded; still waiting: full",
        "the server can write its log again",
        "the server cannot write its log, nothing new is recorded; still waiting: broken",
    ]


def test_an_answer_that_comes_after_the_end_is_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told_of(["full"], monkeypatch, tmp_path).problem == ""
    assert capsys.readouterr().err == ""
