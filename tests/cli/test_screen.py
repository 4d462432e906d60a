"""`interlock debug screen`: the picture of a terminal as lines, and the command on a real agent in a real tmux."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from interlock.cli.look import screen as command
from interlock.cli.look.screen_lines import cut_line, picture_lines, said_of
from interlock.cli.server.api import ServerApi, ServerRefusal
from interlock.cli.tables import Line
from interlock.vocabulary.errors import Unreachable
from tests.bodies import Body
from tests.cli.serving import Served, serving, until
from tests.each_row import each_row


def screen(*rows: str, **more: object) -> Body:
    places = {"task_id": "ses_1", "captured_at": "2026-01-01T00:00:00Z", "columns": 80, "height": 24, "cursor": None}
    told = {
        "is_live": True,
        "problem": "",
        "age_seconds": 0.0,
        "title": "",
        "digest": "d",
        "is_cut": False,
        "has_ended": False,
        "paint": [],
    }
    return {**places, **told, "is_unchanged": False, "rows": rows, **more}


def read(line: Line) -> str:
    return "".join(text for text, _ in line)


def test_colours_stand_where_they_stood() -> None:
    lines = picture_lines(screen("plain bold end", "two", paint=[(0, 6, 10, "1"), (1, 0, 3, "38;5;1")]))
    assert lines == [[("plain ", ""), ("bold", "1"), (" end", "")], [("two", "38;5;1")]]


@each_row("sgr", ["1m\x1b[2J", "", "x", "9" * 65, "1\n"])
def test_what_is_no_colour_paints_nothing(sgr: str) -> None:
    assert picture_lines(screen("text", paint=[(0, 0, 4, sgr)])) == [[("text", "")]]


def test_paint_that_makes_no_sense_loses_no_text() -> None:
    paint = [(0, 2, 4, "1"), (0, 3, 9, "4"), (0, 5, 5, "7"), (9, 0, 1, "1")]
    assert [read(line) for line in picture_lines(screen("abcdef", paint=paint))] == ["abcdef"]


@pytest.mark.parametrize(
    ("cursor", "row", "marked"),
    [((1, 0), 0, "b"), ((2, 1), 1, "語"), ((5, 0), 0, " "), ((3, 5), 5, " ")],
)
def test_the_cursor_is_one_cell(cursor: tuple[int, int], row: int, marked: str) -> None:
    lines = picture_lines(screen("abc", "日語", cursor=cursor), with_cursor=True)
    assert [text for text, sgr in lines[row] if sgr == "7"] == [marked]
    assert picture_lines(screen("abc", cursor=(0, 99)), with_cursor=True) == [[("abc", "")]]


def test_only_what_is_live_is_called_live() -> None:
    assert said_of(screen()) == "live"
    assert said_of(screen(age_seconds=5.0)) == "live, unchanged for 5s"
    assert said_of(screen(), 180.0) == "live, unchanged for 3m"
    gone = screen(is_live=False, problem="tmux is gone", age_seconds=3.0)
    assert said_of(gone, 4.0) == "not live, 7s old: tmux is gone"
    nothing: Body = {}
    assert said_of(nothing) == "not live, 0s old: the terminal cannot be seen now"


def test_a_line_is_cut_by_columns() -> None:
    assert cut_line([("ab", ""), ("日本", "1")], 5) == [("ab", ""), ("日", "1")]
    assert cut_line([("ab", "")], 2) == [("ab", "")]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("screen")) as one:
        yield one


def test_a_session_without_a_terminal_says_what_to_do(served: Served) -> None:
    task_id = served.open(title="idle")
    done = served.cli("screen", task_id)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"no agent runs in session {task_id}; start it with `interlock start {task_id}`" in done.stderr


@pytest.mark.deep
def test_the_terminal_of_an_agent_is_printed_and_followed_to_its_end(served: Served) -> None:
    task_id = served.open("say Hello there.; gate more; say And more.", face="tui", title="drawn")
    until(lambda: "Hello there." in served.cli("screen", "drawn").stdout, "the answer is on the screen")
    once = served.cli("screen", "drawn")
    assert once.returncode == 0
    assert "\x1b" not in once.stdout
    told = served.json("screen", "drawn")
    assert (told["session_id"], told["is_live"]) == (task_id, True)
    assert any("Hello there." in row for row in told["rows"])
    with (
        served.following("screen", "-f", "drawn") as text,
        served.following("screen", "-f", "drawn", "--json") as lines,
    ):
        text.says("Hello there.")
        lines.says("Hello there.")
        served.gates.open("more")
        text.says("And more.")
        lines.says("And more.")
        assert served.cli("stop", "drawn").returncode == 0
        assert (text.ends(), lines.ends()) == (0, 0)
        assert "no agent runs" in text.stderr
        pictures = [json.loads(line) for line in lines.stdout.splitlines()]
        assert not any("is_unchanged" in one for one in pictures)
        assert all(one["rows"] for one in pictures if one["is_live"])  # an agent that ends may clear its screen
        states = [(one["digest"], one["is_live"]) for one in pictures]
        assert all(one != other for one, other in pairwise(states))


@pytest.mark.deep
def test_the_last_screen_of_an_agent_that_ended_survives_a_crash_of_the_server(served: Served) -> None:
    # With Ctrl-C ignored it draws nothing at its end: what it said stands there last.
    task_id = served.open("ignore INT; say Last words.; hang", face="tui", title="ended")
    until(lambda: "Last words." in served.cli("screen", "ended").stdout, "the answer is on the screen")
    assert served.cli("stop", "ended").returncode == 0
    for _ in range(2):
        shown = served.cli("screen", task_id)
        assert (shown.returncode, "Last words." in shown.stdout) == (0, True), shown.stderr
        assert "the agent has ended; this is its last screen" in shown.stderr
        told = served.json("screen", task_id)
        assert (told["is_live"], told["has_ended"]) == (False, True)
        assert "last screen" in served.cli("show", "--no-pager", task_id).stdout
        served.kill()
        served.start()


@pytest.mark.deep
def test_following_ends_cleanly_with_ctrl_c(served: Served) -> None:
    task_id = served.open("say Hello there.; hang", face="tui", title="followed")
    until(lambda: "Hello there." in served.cli("screen", task_id).stdout, "the answer is on the screen")
    with served.following("screen", "-f", task_id) as seen:
        seen.says("Hello there.")
        assert seen.interrupted() == 0


class FakeApi:
    """A server that answers these one after the other: a picture, or an error."""

    def __init__(self, *answers: Body | Exception) -> None:
        self.answers = list(answers)
        self.since: list[object] = []

    def get(self, path: str, **query: object) -> Body:
        if not path.endswith("/screen"):
            return {"summary": {"task_id": "ses_1"}}
        self.since.append(query.get("since"))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, FakeApi]]:
    """Run the command in this process on a server that answers so."""

    def ask(*answers: Body | Exception, **options: bool) -> tuple[int, FakeApi]:
        api = FakeApi(*answers)
        monkeypatch.setattr(ServerApi, "of_home", lambda _: api)
        monkeypatch.setattr(command, "EVERY_SECONDS", 0.0)
        return command.screen("ses_1", home=Path("/nowhere"), **options), api

    return ask


def test_a_picture_that_is_not_live_is_labelled_and_has_the_code_of_unreachable(
    asked: Callable[..., tuple[int, FakeApi]], capsys: pytest.CaptureFixture[str]
) -> None:
    code, _ = asked(screen("last words", is_live=False, problem="tmux is gone", age_seconds=12.0, is_cut=True))
    said = capsys.readouterr()
    assert (code, said.out) == (8, "last words\n")
    assert said.err == "the terminal holds more than is shown here\nnot live, 12s old: tmux is gone\n"
    code, _ = asked(screen("last words", is_live=False, problem="tmux is gone"), json=True)
    assert (code, json.loads(capsys.readouterr().out)["problem"]) == (8, "tmux is gone")


def test_a_followed_picture_is_printed_when_it_changed_and_when_it_is_not_live_any_more(
    asked: Callable[..., tuple[int, FakeApi]], capsys: pytest.CaptureFixture[str]
) -> None:
    unchanged = {**screen(), "is_unchanged": True}
    code, api = asked(
        screen("one"),
        unchanged,
        {**unchanged, "is_live": False, "problem": "tmux is gone"},
        Unreachable("the server is away"),
        screen("two", digest="e"),
        ServerRefusal(404, "not_found", "no agent runs in task ses_1"),
        follow=True,
    )
    said = capsys.readouterr()
    heads = [line.split("  ")[2] for line in said.out.splitlines() if "ses_1" in line]
    assert heads == ["live", "not live, 0s old: tmux is gone", "live"]
    assert [line for line in said.out.splitlines() if "ses_1" not in line] == ["one", "one", "two"]
    assert (code, api.since) == (0, [None, "d", "d", "d", "d", "e"])
    assert "the server is away" in said.err
    assert said.err.endswith("no agent runs in task ses_1\n")


def test_what_never_was_there_is_an_error_also_to_a_follower(asked: Callable[..., tuple[int, FakeApi]]) -> None:
    for error in (ServerRefusal(404, "not_found", "no agent runs"), Unreachable("away")):
        with pytest.raises(type(error)):
            asked(error, follow=True)
