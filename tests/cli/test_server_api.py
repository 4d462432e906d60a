"""The light way to ask a server: what could not be asked is unreachable, what was refused has its remedy."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self, TypeAlias

import pytest

from interlock.cli.server import api as server_api
from interlock.cli.server.api import ServerApi, ServerRefusal, ServerUnavailable, home_folder
from interlock.log.paths import default_home
from interlock.vocabulary.errors import PeerFault, Unreachable, UsageError
from tests.any_route import any_route

Answer: TypeAlias = bytes | Callable[[socket.socket, threading.Event], None]


class Fake:
    """A server that answers each connection with the next of its answers, and keeps what it was asked."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        self._answers = list(answers)
        self.asked: list[bytes] = []
        self._is_over = threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._listening.shutdown(socket.SHUT_RDWR)  # wakes who waits for a connection
        self._listening.close()
        self._thread.join(10)
        assert not self._thread.is_alive()

    def _serve(self) -> None:
        for answer in self._answers:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection:
                self.asked.append(connection.recv(65536))
                try:
                    if callable(answer):
                        answer(connection, self._is_over)
                    else:
                        connection.sendall(answer)
                except OSError:
                    pass  # the client has left


def ok(body: object) -> bytes:
    raw = json.dumps(body).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(raw), raw)


def refused(status: int, **problem: object) -> bytes:
    raw = json.dumps(problem).encode()
    return b"HTTP/1.1 %d No\r\nContent-Length: %d\r\n\r\n%s" % (status, len(raw), raw)


def chunked(*pieces: bytes, is_whole: bool = True) -> bytes:
    sent = b"".join(b"%x\r\n%s\r\n" % (len(one), one) for one in pieces)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + sent + (b"0\r\n\r\n" if is_whole else b"")


@contextmanager
def asked(*answers: Answer) -> Iterator[tuple[Fake, ServerApi]]:
    with Fake(answers) as fake:
        yield fake, ServerApi(fake.url, "the-token")


def write(path: Path, content: object, mode: int = 0o600) -> None:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    path.chmod(mode)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write(tmp_path / "server.json", {"url": "http://127.0.0.1:1", "pid": os.getpid()})
    write(tmp_path / "tokens.json", {"operator": "o", "observer": "p"})
    return tmp_path


# Answers


def test_a_question_bears_the_token_and_gets_its_answer() -> None:
    with asked(ok({"items": [1]})) as (fake, api):
        assert api.get(any_route("/api/tasks"), limit=3, after=None) == {"items": [1]}
    assert fake.asked[0].startswith(b"GET /api/tasks?limit=3 HTTP/1.1\r\n")
    assert b"Authorization: Bearer the-token\r\n" in fake.asked[0]


def test_an_answer_in_pieces_is_put_together() -> None:
    with asked(chunked(b'{"a', b'":', b"1}")) as (_, api):
        assert api.get(any_route("/x")) == {"a": 1}


def test_pages_are_followed_to_the_last() -> None:
    with asked(ok({"items": [{"n": 1}], "next": "a/b"}), ok({"items": [{"n": 2}], "next": None})) as (fake, api):
        assert [one["n"] for one in api.items(any_route("/api/tasks"), limit=1)] == [1, 2]
    assert b"GET /api/tasks?limit=1&after=a/b " in fake.asked[1]


def test_a_refusal_has_the_words_and_the_remedy_of_the_server() -> None:
    answer = refused(409, code="conflict", detail="not now", remedy="wait")
    with asked(answer) as (_, api), pytest.raises(ServerRefusal, match="not now; wait") as caught:
        api.ask("POST", "/x", {"a": 1}, key="k")
    assert (caught.value.status, caught.value.code) == (409, "conflict")


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_server_that_knows_nothing_now_is_unreachable(status: int) -> None:
    with asked(refused(status, detail="not read yet")) as (_, api), pytest.raises(ServerUnavailable, match="not read"):
        api.get(any_route("/x"))


def test_a_refusal_without_words_is_a_refusal() -> None:
    answer = b"HTTP/1.1 418 Tea\r\nContent-Length: 3\r\n\r\n[1]"
    with asked(answer) as (_, api), pytest.raises(ServerRefusal, match="status 418") as caught:
        api.get(any_route("/x"))
    assert caught.value.code == "http_418"


def test_who_asks_too_much_waits_and_asks_again() -> None:
    busy = refused(429, code="too_many", detail="slow down", retry_after_seconds=0.01)
    with asked(busy, busy, ok({"n": 1})) as (fake, api):
        assert api.get(any_route("/x")) == {"n": 1}
    assert len(fake.asked) == 3


def test_a_stream_that_was_refused_for_haste_is_asked_for_again() -> None:
    busy = refused(429, code="too_many", detail="slow down", retry_after_seconds=0.01)
    frame = b'id: 1\nevent: x\ndata: {"type": "x"}\n\n'
    with asked(busy, chunked(b"a\nb\n"), busy, chunked(frame)) as (fake, api):
        assert list(api.lines("/x")) == [b"a", b"b"]
        assert [one.data["type"] for one in api.events("ses_a")] == ["x"]
    assert len(fake.asked) == 4


def test_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_api, "_REPEATS", 1)
    busy = refused(429, code="too_many", detail="slow down", retry_after_seconds=0.01)
    with asked(busy, busy, ok({})) as (fake, api), pytest.raises(ServerRefusal, match="slow down"):
        api.get(any_route("/x"))
    assert len(fake.asked) == 2


def test_a_command_is_never_repeated_by_itself() -> None:
    busy = refused(429, code="too_many", detail="slow down", retry_after_seconds=0.01)
    with asked(busy, ok({})) as (fake, api), pytest.raises(ServerRefusal, match="slow down"):
        api.ask("POST", "/x", {})
    assert len(fake.asked) == 1


# What is no answer


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (b"", Unreachable),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}", Unreachable),
        (chunked(b"{}", is_whole=False), Unreachable),
        (b"HTTP/1.1 200 OK\r\nContent-Len", Unreachable),
        (b"SSH-2.0-OpenSSH\r\n", PeerFault),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", PeerFault),
        (ok([1]), PeerFault),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", PeerFault),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", PeerFault),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000, PeerFault),
    ],
)
def test_what_is_no_answer_is_never_an_empty_one(answer: bytes, kind: type[Exception]) -> None:
    with asked(answer) as (_, api), pytest.raises(kind):
        api.get(any_route("/x"))


def test_pieces_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_api, "MAX_ANSWER_BYTES", 100)
    with asked(chunked(*[b"x" * 60] * 3)) as (_, api), pytest.raises(PeerFault, match="more than 100"):
        api.get(any_route("/x"))


def test_a_line_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_api, "MAX_ANSWER_BYTES", 100)
    with asked(chunked(*[b"x" * 60] * 3)) as (_, api), pytest.raises(PeerFault, match="without an end"):
        list(api.lines("/x"))


def test_an_answer_that_drips_has_a_deadline() -> None:
    def drip(connection: socket.socket, is_over: threading.Event) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(1000):
            connection.sendall(b"x")
            if is_over.wait(0.02):
                return

    with asked(drip) as (_, api), pytest.raises(Unreachable, match="in time"):
        api.ask("GET", "/x", seconds=0.2)


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(Unreachable, match="does not answer"):
        ServerApi(f"http://127.0.0.1:{port}", "t").get(any_route("/x"))


@pytest.mark.parametrize("path", ["/x\r\nEvil: 1", "/x\n"])
def test_no_line_end_gets_into_a_request(path: str) -> None:
    with asked() as (fake, api), pytest.raises((UsageError, Unreachable)):
        # Nobody answers, and nothing may be sent.
        api._head("GET", path, None, "")
    assert fake.asked == []


def test_lines_of_an_answer() -> None:
    with asked(chunked(b"one\ntw", b"o\nthree")) as (_, api):
        assert list(api.lines("/x")) == [b"one", b"two", b"three"]


# Events


def test_events_are_read_whatever_their_pieces() -> None:
    sent = b': hello\n\nid: 7:str:3\nevent: chat:chunk\ndata: {"text": "a\\u00e9"}\n\n'
    sent += b"event: task:status\ndata: {}\n\ndata: {}\n\n"
    with asked(chunked(*(sent[at : at + 5] for at in range(0, len(sent), 5)))) as (fake, api):
        frames = list(api.events("ses/1", after="6"))
    told: list[tuple[str, str, object]] = [(one.id, one.event, one.data) for one in frames]
    assert told == [
        ("7:str:3", "chat:chunk", {"text": "aé"}),
        ("7:str:3", "task:status", {}),
        ("7:str:3", "", {}),
    ]
    assert fake.asked[0].startswith(b"GET /api/tasks/ses%2F1/events ")
    assert b"Last-Event-ID: 6\r\n" in fake.asked[0]


def test_a_stream_that_is_cut_is_no_end_of_it() -> None:
    with asked(chunked(b"event: x\ndata: {}\n\n", is_whole=False)) as (_, api):
        frames = api.events("ses_1")
        assert next(frames).event == "x"
        with pytest.raises(Unreachable):
            next(frames)


def test_silence_is_bounded() -> None:
    def hush(connection: socket.socket, is_over: threading.Event) -> None:
        connection.sendall(chunked(b"event: x\ndata: {}\n\n", is_whole=False))
        is_over.wait(100)

    with asked(hush) as (_, api):
        frames = api.events("ses_1", silence_seconds=5.0)
        assert next(frames).event == "x"
        with pytest.raises(Unreachable, match="in time"):
            next(frames)


# The home


def test_the_server_of_a_home(home: Path) -> None:
    assert ServerApi.of_home(home).url == "http://127.0.0.1:1"


def test_no_server_file_means_that_none_runs(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match=r"no server runs in .*interlock up"):
        ServerApi.of_home(tmp_path)


@pytest.mark.parametrize("pid", [2**22 + 1, 2**70, 0, -1, None, "1"])
def test_no_token_goes_to_the_port_of_a_dead_server(home: Path, pid: object) -> None:
    write(home / "server.json", {"url": "http://127.0.0.1:1", "pid": pid})
    with pytest.raises(Unreachable, match="is gone"):
        ServerApi.of_home(home)


@pytest.mark.parametrize("name", ["server.json", "tokens.json"])
@pytest.mark.parametrize("mode", [0o640, 0o602])
def test_a_file_that_others_can_use_is_not_used(home: Path, name: str, mode: int) -> None:
    (home / name).chmod(mode)
    with pytest.raises(UsageError, match="chmod 600"):
        ServerApi.of_home(home)


@pytest.mark.parametrize("name", ["server.json", "tokens.json"])
def test_a_symlink_or_garbage_is_not_used(home: Path, name: str) -> None:
    (home / name).rename(home / "elsewhere")
    (home / name).symlink_to(home / "elsewhere")
    with pytest.raises(UsageError, match="is a symlink"):
        ServerApi.of_home(home)
    (home / name).unlink()
    write(home / name, "[1]")
    with pytest.raises(UsageError, match="cannot be understood"):
        ServerApi.of_home(home)


def test_missing_tokens_have_a_remedy(home: Path) -> None:
    (home / "tokens.json").unlink()
    with pytest.raises(UsageError, match="`interlock down` and `interlock up`"):  # `up` alone leaves one that runs
        ServerApi.of_home(home)


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"INTERLOCK_HOME": "/a/b"},
        {"INTERLOCK_HOME": ""},
        {"XDG_STATE_HOME": "/state"},
        {"XDG_STATE_HOME": "relative"},
        {"INTERLOCK_HOME": "/a", "XDG_STATE_HOME": "/state"},
    ],
)
def test_the_home_is_the_one_that_the_log_means(environ: dict[str, str]) -> None:
    assert home_folder(None, environ) == default_home(environ)
    assert home_folder(Path("/given"), environ) == Path("/given")
