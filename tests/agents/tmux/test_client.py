"""The client on a real tmux: quoting, deadlines, reconnection, and what a person is spared."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.agents.tmux import client, link
from interlock.agents.tmux.client import TmuxClient, Wake
from interlock.agents.tmux.link import FalseReply, Replies
from interlock.agents.tmux.panes import OWN_SESSION, start_pane
from interlock.agents.tmux.process import ClientProcess
from interlock.agents.tmux.server import Absent, NoServer, TmuxRefused, TmuxServer, spell
from interlock.vocabulary.errors import Unreachable, UsageError
from tests.agents.tmux.harness import FOREVER, Wakes, control_pid, private_server, shows, stage
from tests.contract.harness import run

NASTY = [
    "",
    " ",
    "~",
    "$HOME",
    "'\"\\",
    "a\nb\tc",
    ";",
    "x;",
    "#{pid}",
    "%1",
    "{ }",
    "-t",
    "é漢🙂\u0301",
    "\\n",
    "\x1b[0m",
]


def test_every_word_arrives_as_it_was_given() -> None:
    async def main() -> None:
        async with stage() as on:
            for word in NASTY:
                if word:
                    await on.client.command("set-option", "-g", "@word", word)
                    assert await on.client.command("show-options", "-gv", "@word") == word
                    assert await on.server.run(["show-options", "-gv", "@word"]) == word + "\n"

    run(main())


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), max_size=4))
def test_a_command_is_always_one_line_of_quoted_words(words: list[str]) -> None:
    line = spell([words])
    assert line.count(b"\n") == 1
    assert line.count(b'"') == 2 * len(words)


def test_a_nul_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(UsageError, match="NUL"):
        spell([("set-buffer", "a\0b")])


def test_replies_of_many_commands_at_once_reach_the_right_caller() -> None:
    async def main() -> None:
        async with stage() as on:
            asked = [on.client.command("display-message", "-p", f"answer {number}") for number in range(200)]
            assert await asyncio.gather(*asked) == [f"answer {number}" for number in range(200)]

    run(main())


def test_a_caller_that_goes_away_does_not_shift_the_replies() -> None:
    async def main() -> None:
        async with stage() as on:
            gone = asyncio.create_task(on.client.command("display-message", "-p", "gone"))
            await asyncio.sleep(0)
            gone.cancel()
            assert await on.client.command("display-message", "-p", "here") == "here"

    run(main())


def test_a_sequence_stops_at_its_first_failure_and_the_next_command_is_answered() -> None:
    async def main() -> None:
        async with stage() as on:
            with pytest.raises(Absent):
                await on.client.ask([("kill-pane", "-t", "%99"), ("kill-server",)], lambda _: None)
            with pytest.raises(TmuxRefused, match="unknown command"):
                await on.client.command("no-such-command")
            assert await on.client.command("display-message", "-p", "still") == "still"

    run(main())


def test_what_is_not_there_is_said_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with private_server() as server:
            with pytest.raises(NoServer, match="no tmux server"):
                await TmuxClient.attach(server, OWN_SESSION)
            with pytest.raises(NoServer):
                await server.run(["list-panes"])
            await start_pane(server, FOREVER)
            with pytest.raises(Absent, match="nobody"):
                await TmuxClient.attach(server, "nobody")
            with monkeypatch.context() as patch:
                patch.setenv("PATH", "/nonexistent")
                with pytest.raises(NoServer, match="not installed"):
                    await server.run(["list-panes"])

    run(main())


def test_a_server_is_named_by_its_socket_or_by_the_pane_that_we_run_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMUX", "/run/some/socket,123,0")
    assert TmuxServer.current() == TmuxServer("/run/some/socket")
    monkeypatch.delenv("TMUX")
    assert TmuxServer.current() == TmuxServer("default")
    assert TmuxServer("a").argv() == ["tmux", "-u", "-L", "a"]
    assert TmuxServer.own("/b/c").argv("x") == ["tmux", "-u", "-S", "/b/c", "-f", os.devnull, "x"]


def test_somebody_elses_server_is_never_started() -> None:
    async def main() -> None:
        async with private_server(is_own=False) as server:
            with pytest.raises(UsageError, match="not ours to start"):
                await start_pane(server, FOREVER)
            with pytest.raises(NoServer):
                await TmuxClient.attach(server, "0")

    run(main())


def test_a_killed_control_client_is_replaced_and_the_panes_live_on() -> None:
    async def main() -> None:
        async with stage("cat") as on:
            before = await on.pane.capture()
            wakes = Wakes(on.client, on.pane.pane_id)
            os.kill(control_pid(on.client), signal.SIGKILL)
            await wakes.until(Wake.UP)
            assert wakes.seen[:2] == [Wake.DOWN, Wake.UP]
            assert (await on.pane.capture()).pid == before.pid
            await on.pane.send_text("after")
            await shows(on.pane, "after")

    run(main())


def test_a_connection_that_fails_as_nothing_provides_for_is_lost_and_not_quiet(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(_: TmuxClient) -> None:
        raise RuntimeError("planted in a test")

    async def main() -> None:
        async with stage("cat") as on:
            wakes = Wakes(on.client, on.pane.pane_id)
            monkeypatch.setattr(TmuxClient, "_reopen", fail)
            os.kill(control_pid(on.client), signal.SIGKILL)
            await wakes.until(Wake.LOST)
            assert on.client.is_lost
            assert "planted in a test" in on.client.why_down

    run(main())
    assert "planted in a test" in caplog.text


def test_a_server_that_does_not_answer_is_unreachable_until_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with stage() as on:
            wakes = Wakes(on.client, on.pane.pane_id)
            server_pid = int(await on.client.command("display-message", "-p", "#{pid}"))
            os.kill(server_pid, signal.SIGSTOP)
            try:
                monkeypatch.setattr(client, "DEADLINE_SECONDS", 0.2)
                monkeypatch.setattr(link, "DEADLINE_SECONDS", 0.2)
                with pytest.raises(Unreachable, match="did not answer"):
                    await on.pane.capture()
                await wakes.until(Wake.DOWN)
                with pytest.raises(Unreachable):
                    await on.pane.capture()
            finally:
                os.kill(server_pid, signal.SIGCONT)
            monkeypatch.undo()
            await wakes.until(Wake.UP)
            assert Wake.LOST not in wakes.seen
            await on.pane.capture()

    run(main())


def test_a_killed_control_client_is_noticed_though_the_server_hangs_and_holds_its_pipes() -> None:
    async def main() -> None:
        async with stage() as on:
            wakes = Wakes(on.client, on.pane.pane_id)
            server_pid = int(await on.client.command("display-message", "-p", "#{pid}"))
            pipe_pid = control_pid(on.client)
            os.kill(server_pid, signal.SIGSTOP)
            try:
                os.kill(pipe_pid, signal.SIGKILL)
                await wakes.until(Wake.DOWN)
            finally:
                os.kill(server_pid, signal.SIGCONT)
            await wakes.until(Wake.UP)

    run(main())


def test_the_last_words_of_a_client_are_heard_whichever_pipe_ends_first() -> None:
    async def main() -> None:
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        words = ["sh", "-c", "exec 1>&-; echo late >&2"]
        process = await ClientProcess.start(words, os.environ, lambda _: None, lambda: ended.set_result(None))
        await ended
        assert process.errors == "late"
        await process.close()

    run(main())


def test_a_server_that_is_killed_is_lost_and_not_empty() -> None:
    async def main() -> None:
        async with stage() as on:
            wakes = Wakes(on.client, on.pane.pane_id)
            await on.server.kill()
            await wakes.until(Wake.LOST)
            with pytest.raises(Unreachable, match="no tmux server"):
                await on.pane.capture()
            with pytest.raises(Unreachable):
                on.client.watch(on.pane.pane_id, lambda _: None)

    run(main())


def test_another_server_behind_the_same_socket_is_not_taken_for_the_old_one() -> None:
    async def main() -> None:
        async with stage() as on:
            wakes = Wakes(on.client, on.pane.pane_id)
            server_pid = int(await on.client.command("display-message", "-p", "#{pid}"))
            os.kill(server_pid, signal.SIGKILL)
            start_at_once(on.server)
            await wakes.until(Wake.LOST)
            assert "another one" in on.client.why_down

    run(main())


def test_closing_leaves_agents_alive_and_nothing_of_us_behind() -> None:
    async def main() -> None:
        async with stage() as on:
            async with await TmuxClient.attach(on.server, OWN_SESSION) as second:
                pid = control_pid(second)
                assert len((await on.client.command("list-clients")).splitlines()) == 2
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)
            assert len((await on.client.command("list-clients")).splitlines()) == 1
            os.kill((await on.pane.capture()).pid, 0)

    run(main())


def test_a_false_reply_ends_the_link_before_anything_after_it_is_believed() -> None:
    def refuse(_: Replies) -> None:
        raise FalseReply("made up")

    async def main() -> None:
        async with stage() as on:
            wakes = Wakes(on.client, on.pane.pane_id)
            false = asyncio.create_task(on.client.ask([("display-message", "-p", "x")], refuse))
            after = asyncio.create_task(on.client.command("display-message", "-p", "y"))
            with pytest.raises(FalseReply):
                await false
            with pytest.raises(Unreachable, match="made up"):
                await after
            await wakes.until(Wake.UP)

    run(main())


def test_a_person_with_another_size_is_not_disturbed() -> None:
    async def main() -> None:
        async with stage(columns=100, rows=30) as on:
            await on.start(*FOREVER)
            told = "#{client_session} #{window_width}x#{window_height} #{window_id} #{client_flags}"
            state = ("display-message", "-p", "-t", OWN_SESSION, "#{window_width}x#{window_height} #{window_id}")
            assert (await on.server.run(state)).startswith("100x30 ")
            with person(on.server, 66, 21) as wait_attached:
                await wait_attached()
                before = await on.server.run(["list-clients", "-F", told], state)
                assert (await on.server.run(state)).startswith("66x20 ")  # one row is the status line
                async with await TmuxClient.attach(on.server, OWN_SESSION) as second:
                    await second.command("refresh-client")
                    await on.start(*FOREVER, columns=150, rows=50)
                    after = await on.server.run(["list-clients", "-F", told], state)
                assert set(before.splitlines()) <= set(after.splitlines())

    run(main())


def start_at_once(server: TmuxServer) -> None:
    """Start a server without a moment in which the client could look. The old one may take a while to die."""
    argv = server.argv("new-session", "-d", "-s", OWN_SESSION, *FOREVER)
    for _ in range(1000):
        if subprocess.run(argv, check=False, capture_output=True, env={**os.environ, "TMUX": ""}).returncode == 0:
            return
    pytest.fail("no second server could be started")


class person:
    """Somebody who attaches with a real terminal of this size."""

    def __init__(self, server: TmuxServer, columns: int, rows: int) -> None:
        self._server = server
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        environment = {**os.environ, "TERM": "screen"} | {"TMUX": ""}
        argv = server.argv("attach-session", "-t", OWN_SESSION)
        self._process = subprocess.Popen(argv, stdin=slave, stdout=slave, stderr=slave, env=environment)
        os.close(slave)

    def __enter__(self) -> Callable[[], Awaitable[None]]:
        return self._attached

    async def _attached(self) -> None:
        async with asyncio.timeout(100):
            while b"\x1b" not in await asyncio.to_thread(os.read, self._master, 4096):
                continue

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._master)
