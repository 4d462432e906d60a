"""Giving a command: repeated only where twice is once, and refused in words of ours."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

import pytest

from interlock.cli.server.api import ServerApi, ServerRefusal, ServerUnavailable
from interlock.cli.work.retrying import act, give_until, in_our_words, not_known
from interlock.vocabulary.errors import Unreachable, UsageError
from tests.bodies import Body

AWAY = ServerUnavailable("nothing is known yet")
HASTE = ServerRefusal(429, "too_many", "too many requests", "wait", 0.01)


class Answers(ServerApi):
    """A server that gives these answers in turn."""

    def __init__(self, *answers: Body | Exception) -> None:
        super().__init__("http://127.0.0.1:1", "")
        self.answers = list(answers)
        self.keys: list[str] = []
        self.seconds: list[float] = []

    def ask_raw(self, method: str, path: str, body: object = None, *, key: str = "", seconds: float = 1.0) -> bytes:
        self.keys.append(key)
        self.seconds.append(seconds)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return json.dumps(answer).encode()


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> Sequence[float]:
    """No pause is made; each is written down."""
    made: list[float] = []
    monkeypatch.setattr(time, "sleep", made.append)
    return made


def test_what_bears_an_id_is_given_again_under_it(pauses: Sequence[float]) -> None:
    api = Answers(AWAY, HASTE, {"is": "done"})
    assert act(api, dict, "POST", "/x", key="k") == {"is": "done"}
    assert api.keys == ["k", "k", "k"]
    assert list(pauses) == [0.5, 0.05]


@pytest.mark.parametrize("error", [AWAY, HASTE])
def test_what_has_no_id_is_given_once(error: Exception) -> None:
    api = Answers(error, {"is": "done"})
    with pytest.raises(type(error)):
        act(api, dict, "POST", "/x")
    assert len(api.keys) == 1


def test_a_lost_connection_is_not_taken_for_an_answer() -> None:
    api = Answers(Unreachable("went away"), {"is": "done"})
    with pytest.raises(Unreachable, match="went away"):
        act(api, dict, "POST", "/x", key="k")
    assert len(api.keys) == 1


def test_there_is_an_end_to_repeating() -> None:
    api = Answers(*[AWAY] * 100)
    with pytest.raises(ServerUnavailable):
        act(api, dict, "POST", "/x", key="k")
    assert len(api.keys) == 9


@pytest.mark.parametrize("error", [AWAY, HASTE])
def test_who_waits_only_so_long_is_not_kept_longer(
    monkeypatch: pytest.MonkeyPatch, error: Exception, pauses: Sequence[float]
) -> None:
    api = Answers(error, error, {"is": "done"})
    clock = iter((0.0, 0.0, 0.0, 0.3, 1.0))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock, 2.0))
    with pytest.raises(type(error)):
        act(api, dict, "POST", "/x", key="k", until=0.3)
    assert len(api.keys) == 2  # the second one at the end of the time, and none after it
    assert max(pauses) <= 0.3
    assert api.seconds == [0.5, 0.5]


def test_a_command_is_given_also_by_who_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    assert [give_until(seconds) for seconds in (None, 0.0, 60.0)] == [float("inf"), 105.0, 160.0]
    api = Answers({"is": "done"}, {"is": "done"})
    act(api, dict, "POST", "/x", until=give_until(0.0))
    act(api, dict, "POST", "/x", until=give_until(None))
    assert api.seconds == [5.0, 40.0]


@pytest.mark.parametrize(
    ("code", "remedy", "task_id", "says"),
    [
        ("not_supervised", "take it up again: POST /api/tasks/ses_1/start", "ses_1", "`interlock start ses_1`"),
        ("unknown_task", "list the tasks: GET /api/tasks", "", "`interlock ps --all`"),
        ("not_found", "take it up again: POST /api/tasks/ses_1/start", "ses_1", "`interlock start ses_1`"),
        ("not_found", "read what it says: GET /api/tasks/ses_1/messages", "ses_1", "`interlock logs ses_1`"),
        ("conflict", "GET /api/tasks/ses_1", "ses_1", "`interlock show ses_1`"),
        ("conflict", "GET /api/tasks", "", "`interlock ps --all`"),
        ("conflict", "send another", "ses_1", "send another"),
    ],
)
def test_a_remedy_can_be_typed(code: str, remedy: str, task_id: str, says: str) -> None:
    refused = in_our_words(ServerRefusal(409, code, "it cannot be", remedy), task_id)
    assert isinstance(refused, UsageError)
    assert str(refused).startswith("it cannot be; ")
    assert says in str(refused)
    assert "/api/" not in str(refused)


def test_whoever_was_not_answered_is_told_how_to_repeat_it() -> None:
    told = str(not_known(Unreachable("went away"), "repeat it with --prompt-id p"))
    assert "not known whether it was done; repeat it with --prompt-id p" in told
