"""The hook program and who listens to it: nothing is lost where we listen, and nobody is delayed where we do not."""

from __future__ import annotations

import asyncio
import json
import os
import select
import shlex
import socket
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.agents.evidence import hook_program, hooks
from interlock.agents.evidence.hook_command import hook_command, is_ours
from interlock.agents.evidence.hooks import HookHeard, HookListener, hook_socket, read_line
from interlock.log.paths import default_home
from interlock.monitor.sources.hooks import read_hook
from interlock.vocabulary.errors import Unreachable
from interlock.vocabulary.states import Activity

PAYLOADS: Final = Path(__file__).parents[2] / "recordings" / "hooks"
PROGRAM: Final = (sys.executable, "-I", "-S", hook_program.__file__, "claude")
STOP: Final = {"hook_event_name": "Stop", "session_id": "s1", "transcript_path": "/t.jsonl", "cwd": "/w"}


def environment(home: Path, **more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(home), "INTERLOCK_HOME": str(home), **more}


def fire(home: Path, payload: object = STOP, **more: str) -> subprocess.CompletedProcess[bytes]:
    """Run the program to its end. Thirty seconds are no claim about its speed, only an end to the test."""
    given_ = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    env = environment(home, **more)
    return subprocess.run(PROGRAM, input=given_, capture_output=True, env=env, timeout=100, check=False)


def is_silent(done: subprocess.CompletedProcess[bytes]) -> bool:
    return (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@asynccontextmanager
async def listening(home: Path) -> AsyncIterator[HookListener]:
    async with asyncio.timeout(100), HookListener(hook_socket(home)) as listener:
        yield listener


async def send(path: Path, data: bytes, *, ends: bool = True) -> asyncio.StreamWriter:
    _, writer = await asyncio.open_unix_connection(str(path))
    writer.write(data)
    await writer.drain()
    if ends:
        writer.close()
    return writer


async def refused(listener: HookListener, reason: str) -> None:
    async with asyncio.timeout(100):
        while not listener.refused[reason]:  # noqa: ASYNC110  # it counts, and tells nobody
            await asyncio.sleep(0.01)


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("h")


# What is fired is heard


def test_a_hook_is_heard_with_its_spawn_its_payload_and_its_time(home: Path) -> None:
    async def main() -> HookHeard:
        async with listening(home) as listener:
            before = asyncio.get_running_loop().time()
            done = await asyncio.to_thread(fire, home, STOP, INTERLOCK_SPAWN_ID="spn_1")
            assert is_silent(done)
            heard = await anext(listener)
            assert before <= heard.at_seconds <= asyncio.get_running_loop().time()
            assert not listener.refused
            return heard

    heard = asyncio.run(main())
    assert (heard.spawn_id, heard.cli, heard.payload) == ("spn_1", "claude", STOP)
    assert (heard.event, heard.session_id, heard.transcript_path, heard.cwd) == ("Stop", "s1", "/t.jsonl", "/w")
    (claim,) = read_hook(heard.payload, at_seconds=heard.at_seconds, spawn_id=heard.spawn_id).claims
    assert (claim.activity, claim.spawn_id) == (Activity.QUIET, "spn_1")


def test_every_recorded_payload_arrives_as_it_was(home: Path) -> None:
    recorded = [json.loads(line) for path in PAYLOADS.glob("*.ndjson") for line in path.read_bytes().splitlines()[:3]]
    assert len(recorded) > 10

    async def main() -> list[Mapping[str, object]]:
        async with listening(home) as listener:
            for number, payload in enumerate(recorded):
                text = json.dumps(payload, indent=number % 3 or None).encode()
                assert is_silent(await asyncio.to_thread(fire, home, text))
            return [(await anext(listener)).payload for _ in recorded]

    assert asyncio.run(main()) == recorded


def test_a_huge_payload_loses_its_long_fields_and_nothing_else(home: Path) -> None:
    async def main() -> HookHeard:
        async with listening(home) as listener:
            payload = {**STOP, "tool_name": "Write", "tool_input": {"content": "x" * 3_000_000}}
            assert is_silent(await asyncio.to_thread(fire, home, payload))
            return await anext(listener)

    assert asyncio.run(main()).payload == {**STOP, "tool_name": "Write"}


def test_a_spawn_id_that_could_not_be_one_is_left_out(home: Path) -> None:
    async def main() -> HookHeard:
        async with listening(home) as listener:
            await asyncio.to_thread(fire, home, STOP, INTERLOCK_SPAWN_ID='x","cli":"y')
            return await anext(listener)

    assert asyncio.run(main()).spawn_id is None


def test_the_program_and_the_runtime_agree_on_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    for settings in ({"INTERLOCK_HOME": "/a"}, {"XDG_STATE_HOME": "/b"}, {"XDG_STATE_HOME": "rel"}, {}):
        for name in ("INTERLOCK_HOME", "XDG_STATE_HOME", hook_program.SOCKET_VARIABLE):
            monkeypatch.delenv(name, raising=False)
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        assert Path(hook_program.socket_path()) == hook_socket(default_home(os.environ))
    monkeypatch.setenv(hook_program.SOCKET_VARIABLE, "/c/s")
    assert hook_program.socket_path() == "/c/s"


def test_a_home_whose_path_is_too_long_for_a_socket_works_all_the_same(tmp_path: Path) -> None:
    home = tmp_path / ("long" * 30)

    async def main() -> None:
        async with listening(home) as listener:
            assert is_silent(await asyncio.to_thread(fire, home))
            assert (await anext(listener)).event == "Stop"
            with pytest.raises(Unreachable):
                await HookListener(hook_socket(home)).__aenter__()

    asyncio.run(main())


# The agent is never delayed or broken


def test_without_a_listener_the_program_is_silent_and_done(home: Path) -> None:
    assert is_silent(fire(home))
    assert is_silent(fire(home / "none"))
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("payload", [b"", b"not JSON", b"[]", b"\xff\xfe", b"{" * 2_000_000, b'{"a": 1'])
def test_whatever_is_on_stdin_the_program_is_silent(home: Path, payload: bytes) -> None:
    assert is_silent(fire(home, payload))


def test_a_stale_socket_a_file_and_a_folder_in_its_place_do_no_harm(home: Path) -> None:
    path = hook_socket(home)
    path.parent.mkdir()
    with closing(socket.socket(socket.AF_UNIX)) as dead:
        dead.bind(str(path))
    assert is_silent(fire(home))
    path.unlink()
    path.write_bytes(b"")
    assert is_silent(fire(home))
    path.unlink()
    path.mkdir()
    assert is_silent(fire(home))


@pytest.mark.parametrize("size", [10, 900_000])
def test_a_listener_that_never_reads_does_not_hold_the_program(home: Path, size: int) -> None:
    path = hook_socket(home)
    path.parent.mkdir()
    with closing(socket.socket(socket.AF_UNIX)) as deaf:
        deaf.bind(str(path))
        deaf.listen(1)
        # The third finds the queue of connections full.
        assert all(is_silent(fire(home, {**STOP, "x": "y" * size})) for _ in range(3))


def test_a_stdin_that_never_ends_does_not_hold_the_program(home: Path) -> None:
    process = subprocess.Popen(PROGRAM, stdin=subprocess.PIPE, env=environment(home))
    assert process.stdin is not None
    with process.stdin:
        process.stdin.write(b'{"hook')
        process.stdin.flush()
        assert process.wait(30) == 0


def test_the_command_is_silent_and_succeeds_even_if_nothing_of_us_is_left(tmp_path: Path) -> None:
    command = hook_command("claude")
    assert is_ours(command)
    for gone in (sys.executable, hook_program.__file__):
        broken = command.replace(shlex.quote(gone), str(tmp_path / "gone"))
        assert broken != command
        done = subprocess.run(["sh", "-c", broken], input=b"{}", capture_output=True, timeout=100, check=False)
        assert is_silent(done)


def test_the_program_imports_nothing_that_starts_slowly(home: Path) -> None:
    """Its own imports and no others: what it does not import cannot make an agent wait."""
    code = (
        "import sys, runpy; before = set(sys.modules)\n"
        "import os; os._exit = lambda code: print(*sorted(set(sys.modules) - before))\n"
        f"sys.argv = ['p', 'claude']\nexec(compile(open({hook_program.__file__!r}).read(), 'p', 'exec'), "
        "{'__name__': '__main__'})"
    )
    command = [sys.executable, "-I", "-S", "-c", code]
    done = subprocess.run(
        command, input=json.dumps(STOP).encode(), capture_output=True, env=environment(home), timeout=100, check=False
    )
    assert done.stderr == b""
    assert set(done.stdout.decode().split()) <= {"__future__", "_socket", "select", "time"}


# Only what is ours is heard


def test_only_the_owner_can_reach_the_socket_and_it_goes_with_the_listener(home: Path) -> None:
    path = hook_socket(home)

    async def main() -> None:
        async with listening(home):
            modes = [stat.S_IMODE(one.stat().st_mode) for one in (path, path.parent)]
            assert modes == [0o600, 0o700]
        assert not path.exists()

    asyncio.run(main())


def test_a_stale_socket_is_replaced_and_a_living_one_never(home: Path) -> None:
    path = hook_socket(home)
    path.parent.mkdir()
    with closing(socket.socket(socket.AF_UNIX)) as dead:
        dead.bind(str(path))

    async def main() -> None:
        async with listening(home) as listener:
            with pytest.raises(Unreachable, match="another runtime"):
                await HookListener(path).__aenter__()
            await refused(listener, "malformed")  # the look at it said nothing
            assert is_silent(await asyncio.to_thread(fire, home))
            assert (await anext(listener)).event == "Stop"

    asyncio.run(main())


def test_what_is_no_socket_is_not_removed(home: Path) -> None:
    path = hook_socket(home)
    path.parent.mkdir()
    path.write_bytes(b"precious")
    with pytest.raises(Unreachable, match="no socket"):
        asyncio.run(HookListener(path).__aenter__())
    assert path.read_bytes() == b"precious"


def test_a_listener_that_was_replaced_leaves_the_new_socket_alone(home: Path) -> None:
    path = hook_socket(home)

    async def main() -> None:
        async with AsyncExitStack() as stack:
            first = HookListener(path)
            await first.__aenter__()
            path.unlink()
            await stack.enter_async_context(HookListener(path))
            await first.__aexit__(None, None, None)
            assert path.is_socket()
        assert not path.exists()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"hello\n", "malformed"),
        (b"[]\n", "malformed"),
        (b'{"payload": 5}\n', "malformed"),
        (b'{"payload": {"a": 1}}', "malformed"),
        (b"\xff\n", "malformed"),
        (b"[" * 200_000 + b"\n", "malformed"),
        (b"x" * (hook_program.MAX_PAYLOAD_BYTES + 70_000), "size"),
    ],
)
def test_hostile_input_is_counted_and_not_heard(home: Path, data: bytes, reason: str) -> None:
    async def main() -> None:
        async with listening(home) as listener:
            await send(hook_socket(home), data)
            await refused(listener, reason)
            await asyncio.to_thread(fire, home)
            assert (await anext(listener)).event == "Stop"

    asyncio.run(main())


def test_one_who_never_ends_a_line_is_let_go(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "_READ_SECONDS", 0.05)

    async def main() -> None:
        async with listening(home) as listener:
            writer = await send(hook_socket(home), b'{"pay', ends=False)
            await refused(listener, "slow")
            writer.close()

    asyncio.run(main())


def test_connections_and_records_are_bounded(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "_MAX_CONNECTIONS", 2)
    monkeypatch.setattr(hooks, "_MAX_WAITING", 1)

    async def main() -> None:
        async with listening(home) as listener:
            for _ in range(2):
                await send(hook_socket(home), b'{"payload": {}}\n')
            await refused(listener, "full")
            held = [await send(hook_socket(home), b"{", ends=False) for _ in range(3)]
            await refused(listener, "busy")
            for writer in held:
                writer.close()

    asyncio.run(main())


def test_a_hook_is_dated_by_when_it_fired_if_that_can_be_believed() -> None:
    def at(fired: object) -> float | None:
        line = json.dumps({"payload": {}, "fired_unix_seconds": fired}).encode()
        heard = read_line(line, at_seconds=50.0, unix_seconds=1000.0)
        return None if heard is None else heard.at_seconds

    assert [at(999.0), at(1001.0), at(0.0), at("soon")] == [49.0, 50.0, 50.0, None]


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_no_line_is_an_error(line: bytes) -> None:
    heard = read_line(line, at_seconds=time.monotonic(), unix_seconds=time.time())
    assert heard is None or isinstance(heard, HookHeard)


def test_what_an_agent_gave_its_hook_stands_in_no_traceback() -> None:
    heard = HookHeard(None, {"hook_event_name": "Stop", "prompt": "my secret"}, 1.0, "claude")
    assert "claude" in repr(heard)
    assert "secret" not in repr(heard)


@pytest.mark.parametrize(("over", "is_kept"), [(0, True), (1, False)])
def test_an_input_is_read_to_its_end_and_kept_up_to_64_mib(
    over: int, is_kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent's own write must not fail, however much it is."""
    size = 64 * 1024 * 1024 + over
    left = [size]

    def read(_: int, limit: int) -> bytes:
        piece = min(limit, left[0])
        left[0] -= piece
        return bytes(piece)

    monkeypatch.setattr(os, "read", read)
    monkeypatch.setattr(select, "select", lambda *_: ([0], [], []))
    assert len(hook_program._input(0.0)) == (size if is_kept else 0)
    assert left == [0]
