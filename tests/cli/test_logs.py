"""`interlock logs`: every message once, live text as it comes, and a label on what is no whole answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from interlock.cli.look import logs
from interlock.cli.look.live_text import LiveText, TextOutlet
from interlock.cli.look.transcript_lines import message_lines
from interlock.cli.server.api import SocketFrame
from interlock.cli.tables import Line
from interlock.vocabulary.ending_words import BROKE_OFF, STILL_WRITTEN
from interlock.vocabulary.errors import Unreachable
from interlock.vocabulary.wire.json_types import FrameJson
from tests.bodies import Body
from tests.cli.serving import Served, serving
from tests.each_row import each_row


class Paper:
    """What was printed, as plain text."""

    def __init__(self, *, with_turns: bool = False) -> None:
        self.text = ""
        self.notes: list[str] = []
        self.live = LiveText(TextOutlet(self._lines, self._piece, self.notes.append), with_turns=with_turns)

    def _lines(self, lines: list[Line]) -> None:
        assert not self.text or self.text.endswith("\n"), f"a heading in the middle of a line: {self.text!r}"
        self.text += "".join("".join(text for text, _ in line) + "\n" for line in lines)

    def _piece(self, text: str) -> None:
        self.text += text

    def add(self, event: str, data: Body) -> None:
        frame: Body = {"type": event, **data}
        self.live.add(frame)

    def chunk(self, offset: int, text: str, stream: str = "str_1") -> None:
        self.add("chat:chunk", {"stream_id": stream, "turn_id": "trn_1", "offset": offset, "text": text})

    def says(self, number: int, text: str, *, version: int = 0, **more: object) -> None:
        self.add("chat:message", {"message": message(number, text, version=version or number, **more)})

    def joins(self, *messages: Body, stream: Body | None = None, **more: object) -> None:
        self.add("task:joined", {"snapshot": {"messages": messages, "stream": stream, **more}})

    def ends(self, event: str = "chat:done", **more: object) -> None:
        self.add(event, {"stream_id": "str_1", "cursor": 0, "error_message": "", "error_kind": "", **more})


def message(number: int, text: str, **more: object) -> Body:
    given: Body = {"message_id": number, "version": number, "role": "answer", "status": "completed", "text": text}
    return {**given, "turn_id": "trn_1", **more}


LIVE = f"agent  [{STILL_WRITTEN}]\n"


# Live text


def test_a_stream_and_its_message_are_printed_once() -> None:
    paper = Paper()
    paper.chunk(0, "hello ")
    paper.chunk(6, "wor")
    paper.says(5, "hello world")
    paper.ends()
    assert paper.text == f"{LIVE}  hello world\n[answer]\n\n"


def test_chunks_that_come_again_are_not_printed_again() -> None:
    paper = Paper()
    paper.chunk(0, "abc")
    paper.chunk(0, "abc")
    paper.chunk(1, "bcd")
    assert paper.text == f"{LIVE}  abcd"


def test_text_that_is_cut_is_called_void_and_the_text_that_holds_follows() -> None:
    """An attempt that died: no word of it may stand among those of the next one."""
    paper = Paper()
    paper.chunk(0, "The answer is 41.")
    paper.chunk(0, "It is 42.")
    void = "[void: this attempt was withdrawn]\n\n"
    assert paper.text == f"{LIVE}  The answer is 41.\n{void}{LIVE}  It is 42."
    paper.chunk(5, "")
    assert paper.text.endswith(f"  It is 42.\n{void}{LIVE}  It is")
    paper.says(3, "It is 42, I think.")
    assert paper.text.endswith(f"{LIVE}  It is 42, I think.\n[answer]\n\n")


def test_live_text_that_turns_out_to_be_no_answer_says_so() -> None:
    paper = Paper()
    paper.chunk(0, "Let me look.")
    paper.says(4, "Let me look.", role="commentary", stream_id="str_1")
    assert paper.text == f"{LIVE}  Let me look.\n[agent, at work]\n\n"


def test_the_message_of_another_stream_is_not_taken_for_that_of_the_open_one() -> None:
    paper = Paper()
    paper.chunk(0, "half", "str_2")
    paper.says(4, "half an hour ago", role="commentary", stream_id="str_1")
    assert paper.text == f"{LIVE}  half\nagent, at work\n  half an hour ago\n\n"
    paper.add("chat:done", {"stream_id": "str_2", "cursor": 4})
    assert paper.text.endswith(f"[{BROKE_OFF}]\n\n")


def test_a_gap_is_marked_and_the_whole_text_follows() -> None:
    paper = Paper()
    paper.chunk(0, "ab")
    paper.chunk(5, "fg")
    paper.says(3, "abcdefg")
    assert paper.text == f"{LIVE}  ab[...]fg\n[void: the words that hold follow]\n\nagent\n  abcdefg\n\n"


def test_other_words_than_those_that_streamed_make_them_void() -> None:
    paper = Paper()
    paper.chunk(0, "first try")
    paper.says(3, "second try")
    assert "[void: the words that hold follow]\n\nagent\n  second try\n" in paper.text


def test_what_was_kept_of_a_longer_stream_is_said() -> None:
    paper = Paper()
    paper.chunk(0, "one two three")
    paper.says(3, "one two", status="partial")
    assert paper.text == f"{LIVE}  one two three\n[partial: kept up to 7 characters]\n\n"


@pytest.mark.parametrize(
    ("status", "label"),
    [("partial", "partial"), ("cancelled", "cancelled"), ("timed_out", "timed out"), ("failed", "failed")],
)
def test_a_streamed_text_that_is_no_whole_answer_is_labelled(status: str, label: str) -> None:
    paper = Paper()
    paper.chunk(0, "half")
    paper.says(3, "half", status=status)
    assert paper.text == f"{LIVE}  half\n[{label}]\n\n"


@pytest.mark.parametrize(
    ("event", "more", "label"),
    [
        ("chat:error", {"error_message": "gone"}, f"[{BROKE_OFF}: gone]"),
        ("chat:error", {"error_kind": "gap"}, f"[{BROKE_OFF}: gap]"),
        ("chat:cancelled", {}, f"[{BROKE_OFF}: cancelled]"),
        ("chat:done", {}, f"[{BROKE_OFF}]"),
    ],
)
def test_a_stream_that_ends_without_a_message_says_so(event: str, more: Body, label: str) -> None:
    paper = Paper()
    paper.chunk(0, "half")
    paper.ends(event, **more)
    assert paper.text == f"{LIVE}  half\n{label}\n\n"


def test_a_stream_that_nobody_knows_any_more_broke_off() -> None:
    paper = Paper()
    paper.chunk(0, "half")
    paper.joins()
    assert paper.text == f"{LIVE}  half\n[{BROKE_OFF}]\n\n"


def test_a_new_stream_takes_the_place_of_the_old_one() -> None:
    paper = Paper()
    paper.chunk(0, "half")
    paper.add("chat:start", {"stream_id": "str_2", "turn_id": "trn_1"})
    paper.chunk(0, "again", "str_2")
    assert paper.text == f"{LIVE}  half\n[void: another attempt takes its place]\n\n{LIVE}  again"


def test_a_stream_goes_on_after_a_reconnect() -> None:
    paper = Paper()
    paper.joins(message(1, "do it", role="user"), stream={"stream_id": "str_1", "turn_id": "trn_1", "text": "abc"})
    paper.joins(
        message(1, "do it", role="user"), stream={"stream_id": "str_1", "turn_id": "trn_1", "offset": 1, "text": "bcd"}
    )
    assert paper.text == f"you\n  do it\n\n{LIVE}  abcd"


def test_a_tool_in_the_middle_of_a_stream() -> None:
    paper = Paper()
    paper.chunk(0, "one ")
    paper.says(4, "ls", role="tool", name="Bash", status="running")
    paper.chunk(4, "two")
    paper.says(4, "ls", version=6, role="tool", name="Bash", status="completed")
    paper.says(7, "one two")
    assert paper.text == (
        f"{LIVE}  one \ntool Bash  [running]\n  ls\n\n{LIVE}  two\ntool Bash  [completed]\n\n[answer]\n\n"
    )


def test_a_message_is_printed_once_and_its_change_is_said() -> None:
    paper = Paper()
    paper.says(3, "hi", status="unknown")
    before = paper.text
    paper.says(3, "hi", status="unknown")
    paper.says(3, "hi", version=4)
    assert paper.text == before == "agent  [not known to be whole]\n  hi\n\n"
    paper.says(3, "hi", version=5, status="partial")
    assert paper.text == before + "agent  [partial]\n\n"
    paper.says(3, "hi", version=4, status="failed")
    assert paper.text == before + "agent  [partial]\n\n"


@each_row(
    ("status", "outcome", "told"),
    [
        ("COMPLETED", "done", "completed"),
        ("FAILED", "partial", "partial_failed"),
        ("FAILED", "timed_out", "timed_out"),
        ("FAILED", "failed", "failed"),
        ("CANCELLED", "interrupted", "interrupted"),
        ("COMPLETED", None, "unknown"),
    ],
)
def test_turns_are_told_if_asked_for(status: str, outcome: str | None, told: str) -> None:
    """By the words of `logs --turns`, and of the badge: a server that sends none is not guessed about."""
    paper = Paper(with_turns=True)
    paper.says(1, "do it", role="user")
    paper.chunk(0, "ok")
    badge = None if outcome is None else {"outcome": outcome}
    paper.add("task:status", {"task_status": status, "turn_id": "trn_1", "badge": badge})
    assert paper.text.startswith("turn trn_1  ")
    assert paper.text.endswith(f"  ok\nturn trn_1  {told}\n\n")


def test_a_question_is_noted_and_a_frame_of_a_newer_server_is_nothing() -> None:
    paper = Paper()
    paper.add("approval:opened", {"approval": {"question": "May I?"}})
    paper.add("a:newer:frame", {})
    assert (paper.text, paper.notes) == ("", ["asks: May I?"])


STATUS: Body = {"badge": None, "turn_id": None}
JOINED: Body = {"type": "task:joined", "snapshot": {"messages": [], "task_status": None}}


@pytest.mark.parametrize("json", [False, True])
@pytest.mark.parametrize(
    ("frames", "is_over"),
    [
        ([("task:joined", JOINED), ("task:status", {**STATUS, "task_status": "DELETE"})], True),
        ([("task:joined", {**JOINED, "snapshot": {"messages": [], "task_status": "DELETE"}})], True),
        (
            [("task:joined", JOINED), ("task:status", {"task_status": "COMPLETED", "badge": None, "turn_id": None})],
            False,
        ),
        (
            [("task:joined", JOINED), ("chat:message", {"message": message(1, "DELETE"), "task_status": "DELETE"})],
            False,
        ),
    ],
)
def test_a_session_that_is_put_away_is_over(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    frames: list[tuple[str, Body]],
    is_over: bool,
    json: bool,
) -> None:
    more = ("chat:receipt", {"note": "too late"})
    told = [SocketFrame("1", event, cast("FrameJson", {"type": event, **data})) for event, data in (*frames, more)]
    monkeypatch.setattr(logs, "frames", lambda *_, **__: iter(told))
    assert logs._follow(Path("home"), "ses_1", None, 1.0, with_turns=False, json=json) == 0
    out, err = capsys.readouterr()
    assert ("put away" in err) is is_over
    assert ("too late" in out) is (json and not is_over)


def test_no_text_of_an_agent_passes_for_a_heading_of_ours() -> None:
    lines = message_lines(message(1, "fine\nyou  12:00:00\n[partial]"))
    assert all(line[0][0].startswith("  ") for line in lines[1:])
    paper = Paper()
    paper.chunk(0, "a\nyou  12:00")
    paper.chunk(12, "\nend of the turn")
    assert all(line.startswith("  ") for line in paper.text.splitlines()[1:])


def test_text_off_a_screen_is_said_to_be_unverified() -> None:
    heading = message_lines(message(1, "x", is_verified=False))[0]
    assert "unverified" in "".join(text for text, _ in heading)


def test_who_comes_back_asks_for_what_came_after(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    nothing: Body = {}

    class Away:
        @classmethod
        def of_home(cls, _: Path) -> Away:
            return cls()

        def events(self, _: str, *, after: str) -> Iterator[SocketFrame]:
            asked.append(after)
            yield SocketFrame("5:str_1:3", "chat:chunk", nothing)
            yield SocketFrame("", "server:closing", nothing)
            if len(asked) == 1:
                raise Unreachable("gone")

    monkeypatch.setattr(logs, "ServerApi", Away)
    monkeypatch.setattr(logs, "_RETRY_SECONDS", 0.0)
    frames = logs.frames(Path(), "ses_1")
    assert [next(frames).event for _ in range(6)][::2] == ["chat:chunk"] * 3
    assert asked == ["", "5:str_1:3", "5:str_1:3"]


# The command


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("logs")) as one:
        yield one


def test_a_transcript(served: Served) -> None:
    task_id = served.done('say first; call Bash {"command": "ls"} -> a file; say second', title="Transcribes")
    served.send(task_id, "say half; fail oh no")
    served.shows(task_id, status="FAILED")
    done = served.cli("logs", "transcribes", "--turns")
    assert (done.returncode, done.stderr) == (0, "")
    headings = [line.split("  ")[0] for line in done.stdout.splitlines() if line and not line.startswith(" ")]
    assert [one.split(" trn_")[0] for one in headings] == [
        "turn",
        "you",
        "agent, at work",
        "tool Bash",
        "agent",
        "turn",
        "you",
        "agent",
        "end of the turn",
        f"next: interlock why {task_id} --turn",
        f"next: interlock debug diagnose {task_id}",
        f"next: interlock show {task_id}",
        f"next: interlock send {task_id} -",
    ]
    assert "[partial: the turn did not complete]\n  half\n" in done.stdout
    assert "[partial: server_error]\n  API Error: oh no\n" in done.stdout
    told = [json.loads(line) for line in served.cli("logs", task_id, "--json").stdout.splitlines()]
    assert [one["role"] for one in told] == ["user", "commentary", "tool", "answer", "user", "answer", "end"]
    last = [json.loads(line) for line in served.cli("logs", task_id, "--json", "--last", "2").stdout.splitlines()]
    assert last == told[-2:]
    assert served.cli("logs", task_id, "--last", "0").stdout == ""
    assert served.cli("logs", task_id, "--last", "-1").returncode == 2


def test_live_text_until_ctrl_c(served: Served) -> None:
    task_id = served.open("say one two; gate live; say three")
    with served.following("logs", "-f", task_id) as following:
        following.says(f"{LIVE}  one two")
        served.gates.open("live")
        following.says("three")
        served.send(task_id, "say \x1b]0;evil\x07again")
        following.says("\\x1b]0;evil\\x07again")
        assert following.interrupted() == 0
    assert following.stdout.count("one two") == 2  # the prompt, and the answer
    assert "\x1b" not in following.stdout
    assert following.stderr == ""


def test_live_frames_as_json(served: Served) -> None:
    task_id = served.done("say hello")
    with served.following("logs", "-f", "--json", task_id) as following:
        following.says("task:joined")
        served.send(task_id, "say more")
        following.says("chat:done")
        assert following.interrupted() == 0
    kinds = [json.loads(line)["type"] for line in following.stdout.splitlines()]
    assert kinds[0] == "task:joined"
    assert "chat:message" in kinds


def test_a_session_that_is_put_away_ends_it(served: Served) -> None:
    task_id = served.done("say hello")
    with served.following("logs", "-f", task_id) as following:
        following.says("hello")
        served.api.ask("DELETE", f"/api/tasks/{task_id}")
        assert following.ends() == 0
    assert "nothing more will come" in following.stderr


def test_a_server_that_is_started_again_is_found_again(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        task_id = served.done("say before")
        with served.following("logs", "-f", task_id) as following:
            following.says("before")
            served.kill()
            following.notes("to come back")
            served.start()
            served.send(task_id, "say after")
            following.says("\n  after")
            following.notes("the server is back")
            assert following.stdout.count("\n  before\n") == 1
        with served.following("logs", "-f", "--reconnect-timeout", "0.2", task_id) as impatient:
            impatient.says("after")
            served.kill()
            assert impatient.ends() == 8
            assert "Traceback" not in impatient.stderr
