"""A server as a process: ready when it says so, told where it is, ended by a signal, and alone in its home."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import stat
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from interlock.agents.observations import Exited
from interlock.agents.port import StopReport
from interlock.log.memory import MemoryLog
from interlock.log.port import SessionPage
from interlock.log.sqlite.store import SqliteLog
from interlock.runtime.runtime import Runtime
from interlock.server import serving
from interlock.server.__main__ import main
from interlock.server.serving import SERVER_FILE, ServerFile, Setup, announced, bind, check_host, serve, signals, url_of
from interlock.server.token_file import TOKEN_FILE, TokenFile
from interlock.testing.puppet import Puppet, PuppetDriver
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.ids import SessionId
from tests.cli.harness import python
from tests.contract.harness import run
from tests.each_row import each_row
from tests.server.http_harness import SETTINGS, TOKENS, client

TASK: Final = {"agent": "claude", "driver": "claude-stream", "title": "kept"}


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder with a short name: the address of a socket holds little."""
    with tempfile.TemporaryDirectory(prefix="ilk-") as folder:
        yield Path(folder)


@dataclass(frozen=True, slots=True)
class Process:
    """A server in a process of its own."""

    process: asyncio.subprocess.Process
    url: str
    home: Path

    @property
    def token(self) -> str:
        return msgspec.json.decode((self.home / TOKEN_FILE).read_bytes(), type=TokenFile).operator

    async def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return await self.process.wait()


async def launch(home: Path, *more: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "interlock.server",
        "--home",
        str(home),
        *more,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


@contextlib.asynccontextmanager
async def started(home: Path) -> AsyncIterator[Process]:
    process = await launch(home)
    assert process.stdout is not None
    try:
        line = await process.stdout.readline()
        told = msgspec.json.decode(line)
        assert told.keys() == {"url", "pid"}
        assert told["pid"] == process.pid
        yield Process(process, told["url"], home)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def hear_all(client_socket: ClientConnection) -> list[str]:
    """Everything until the end, whichever end it is."""
    heard: list[str] = []
    with contextlib.suppress(ConnectionClosed):
        async for frame in client_socket:
            heard.append(str(frame))  # noqa: PERF401 - what came before the end is kept
    return heard


def test_a_server_from_its_line_to_its_end(home: Path) -> None:
    async def story() -> None:
        async with started(home) as server, client(server.url, server.token) as operator:
            path = home / SERVER_FILE
            told = msgspec.json.decode(path.read_bytes(), type=ServerFile)
            assert (told.url, told.pid) == (server.url, server.process.pid)
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert server.token not in path.read_text()
            assert (await operator.get("/health")).json()["ready"] is True
            drivers = (await operator.get("/api/agents")).json()["items"]
            assert "claude-stream" in [one["name"] for one in drivers]
            socket_url = server.url.replace("http", "ws") + "/api/socket"
            headers = {"Authorization": f"Bearer {server.token}"}
            async with connect(socket_url, additional_headers=headers, proxy=None) as client_socket:
                await client_socket.recv()
                ending = asyncio.create_task(server.end(signal.SIGTERM))
                heard = await hear_all(client_socket)
                assert '"server:closing"' in heard[-1]
                assert client_socket.close_code == 1012
            assert await ending == 0
            assert not path.exists()

    run(story(), 200)


def test_a_server_imports_nothing_for_types_that_no_route_has() -> None:
    """Litestar takes up pydantic and attrs wherever they are installed, which costs each start a quarter of it."""
    code = (
        "import sys\nfrom interlock.server.__main__ import parse\nfrom interlock.server.http.app import create_routes\n"
        "create_routes(parse([]).settings.max_request_bytes)\nprint({'attr', 'pydantic'} & set(sys.modules) or '')"
    )
    done = python(code)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


@pytest.mark.deep
def test_what_was_accepted_is_there_after_a_kill_and_a_key_still_stands_for_it(home: Path) -> None:
    async def story() -> None:
        key = {"Idempotency-Key": "ses_kept"}
        async with started(home) as server, client(server.url, server.token) as operator:
            assert (await operator.post("/api/tasks", json=TASK, headers=key)).status_code == 201
            await operator.put("/api/tasks/ses_kept/queue/gate", json={"is_open": False})
            sent = await operator.post("/api/tasks/ses_kept/prompts", json={"text": "x", "prompt_id": "p"})
            assert sent.status_code == 202
            assert await server.end(signal.SIGKILL) == -signal.SIGKILL
            assert (home / SERVER_FILE).exists()
        async with started(home) as server, client(server.url, server.token) as operator:
            again = await operator.post("/api/tasks", json=TASK, headers=key)
            assert (again.status_code, again.json()["is_new"]) == (200, False)
            queue = (await operator.get("/api/tasks/ses_kept/queue")).json()
            assert [one["prompt_id"] for one in queue["waiting"]] == ["p"]
            same = await operator.post("/api/tasks/ses_kept/prompts", json={"text": "x", "prompt_id": "p"})
            assert same.status_code == 202
            other = await operator.post("/api/tasks/ses_kept/prompts", json={"text": "y", "prompt_id": "p"})
            assert other.status_code == 409
            assert await server.end(signal.SIGINT) == 0

    run(story(), 200)


def test_what_cannot_be_served_says_why_and_touches_nothing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = home / "home"
    assert main(["--home", str(folder), "--host", "0.0.0.0"]) == 2
    assert "--allow-remote" in capsys.readouterr().err
    assert not folder.exists()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["--home", str(folder), "--port", str(port)]) == 2
        assert "another port" in capsys.readouterr().err
    assert not (folder / "log.sqlite3").exists()
    (folder / TOKEN_FILE).chmod(0o644)
    assert main(["--home", str(folder)]) == 2
    assert "chmod 600" in capsys.readouterr().err


def test_a_home_that_is_held_says_by_whom(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.contextmanager
    def none(*, ends_process: bool) -> Iterator[tuple[asyncio.Event, asyncio.Event]]:
        assert ends_process
        yield asyncio.Event(), asyncio.Event()  # a thread cannot hear signals

    monkeypatch.setattr(serving, "signals", none)

    async def story() -> int:
        async with await SqliteLog.open(home):
            return await asyncio.to_thread(main, ["--home", str(home)])

    assert run(story()) == 8
    assert str(os.getpid()) in capsys.readouterr().err
    assert not (home / SERVER_FILE).exists()


LOOPBACK: Final = ("127.0.0.1", "127.0.0.2", "::1", "localhost")
BEYOND: Final = ("0.0.0.0", "::", "", "192.0.2.1", "box.example", "localhost.example", "127.0.0.1.example")


@pytest.mark.parametrize("host", LOOPBACK)
def test_loopback_needs_no_permission(host: str) -> None:
    check_host(host, allow_remote=False)


@each_row("host", BEYOND)
def test_anything_else_does(host: str) -> None:
    with pytest.raises(UsageError, match="allow-remote"):
        check_host(host, allow_remote=False)
    check_host(host, allow_remote=True)


@each_row(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:5"),
        ("::1", "http://[::1]:5"),
        ("0.0.0.0", "http://127.0.0.1:5"),
        ("::", "http://[::1]:5"),
        ("box.example", "http://box.example:5"),
    ],
)
def test_where_to_find_it(host: str, url: str) -> None:
    assert url_of(host, 5) == url


def test_answers_do_not_wait_for_their_acknowledgement() -> None:
    """asyncio switches Nagle's algorithm off only for sockets that name their protocol."""
    with bind(SETTINGS) as listening:
        assert listening.proto == socket.IPPROTO_TCP


def test_the_file_goes_with_the_server_and_takes_the_place_of_an_old_one(home: Path) -> None:
    path = home / SERVER_FILE
    path.write_text("left by somebody who was killed")
    with announced(home, "http://127.0.0.1:5") as told:
        assert msgspec.json.decode(path.read_bytes(), type=ServerFile) == told
        assert [one.name for one in home.iterdir()] == [SERVER_FILE]
    assert list(home.iterdir()) == []


def test_the_second_signal_is_told_from_the_first_and_ends_nothing_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "_exit", lambda code: pytest.fail(f"it exits with {code}"))

    async def story() -> None:
        with signals() as (asked, asked_again):
            os.kill(os.getpid(), signal.SIGTERM)
            await asked.wait()
            assert not asked_again.is_set()
            os.kill(os.getpid(), signal.SIGINT)
            await asked_again.wait()
            os.kill(os.getpid(), signal.SIGINT)

    run(story())


@pytest.mark.parametrize("ends_process", [True, False])
def test_who_ends_with_the_server_hears_no_signal_after_it(ends_process: bool) -> None:
    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}

    async def story() -> None:
        with signals(ends_process=ends_process) as (asked, _):
            os.kill(os.getpid(), signal.SIGTERM)
            await asked.wait()

    try:
        run(story())
        assert (signal.getsignal(signal.SIGINT) is signal.SIG_IGN) is ends_process
        assert (signal.getsignal(signal.SIGTERM) is signal.SIG_IGN) is ends_process
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def test_a_server_that_is_cancelled_leaves_its_home_as_it_should(home: Path) -> None:
    async def story() -> None:
        ready: asyncio.Future[ServerFile] = asyncio.get_running_loop().create_future()
        served = asyncio.create_task(
            serve(Setup(home=home, settings=SETTINGS, drivers=[PuppetDriver()]), ready.set_result)
        )
        await ready
        served.cancel()
        with pytest.raises(asyncio.CancelledError):
            await served
        assert not (home / SERVER_FILE).exists()
        async with await SqliteLog.open(home):
            pass  # nobody holds it any more

    run(story())


@pytest.mark.parametrize("is_hurried", [False, True], ids=["by its time", "by a second signal"])
def test_an_end_that_takes_too_long_is_cut_off_and_told(
    home: Path, monkeypatch: pytest.MonkeyPatch, is_hurried: bool
) -> None:
    let_go = asyncio.Event()

    async def reluctant(self: Puppet) -> StopReport:
        await let_go.wait()
        if not self.is_gone:
            self.say(Exited(signal=15))
        return StopReport()

    monkeypatch.setattr(Puppet, "stop", reluctant)
    given_up: list[int] = []

    def give_up(code: int) -> None:
        given_up.append(code)
        let_go.set()

    async def story() -> None:
        ready: asyncio.Future[ServerFile] = asyncio.get_running_loop().create_future()
        closing, hurried = (60.0, 0.1) if is_hurried else (0.5, 60.0)
        settings = replace(SETTINGS, closing_seconds=closing, hurried_seconds=hurried)
        setup = Setup(home=home, settings=settings, drivers=[PuppetDriver()])
        served = asyncio.create_task(serve(setup, ready.set_result, give_up=give_up))
        told = await ready
        token = msgspec.json.decode((home / TOKEN_FILE).read_bytes(), type=TokenFile).operator
        async with client(told.url, token) as operator:
            opened = await operator.post("/api/tasks", json={"agent": "puppet", "driver": "puppet", "prompt": "x"})
            status = ""
            while status != "RUNNING":
                path = f"/api/tasks/{opened.json()['task_id']}/runtime-check"
                status = (await operator.get(path)).json()["task_status"]
        os.kill(os.getpid(), signal.SIGTERM)
        if is_hurried:
            os.kill(os.getpid(), signal.SIGTERM)
        await served

    run(story(), 200)
    assert given_up == [1]
    assert not (home / SERVER_FILE).exists()


def test_a_server_that_is_given_up_before_its_log_was_read_leaves_nothing_behind() -> None:
    """Else what follows the log would go on, over a log and a runtime that are closed."""

    class Slow(MemoryLog):
        async def sessions(self, *, prefix: str = "", after: SessionId | None = None, limit: int = 100) -> SessionPage:
            asked.set()
            await asyncio.Event().wait()
            raise AssertionError("nobody sets that")

    asked = asyncio.Event()

    async def story() -> None:
        async def begin() -> None:
            async with Runtime(MemoryLog(), []) as runtime:
                with bind(SETTINGS) as listening:
                    async with serving.running(runtime, Slow(), TOKENS, SETTINGS, listening):
                        raise AssertionError("it cannot have started")

        before = asyncio.all_tasks()
        beginning = asyncio.create_task(begin())
        await asked.wait()
        beginning.cancel()
        await asyncio.gather(beginning, return_exceptions=True)
        assert asyncio.all_tasks() == before

    run(story())
