"""Who is heard on the status socket of an agent: its shim, by the word of the system, and nobody else."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from pathlib import Path
from stat import S_IMODE

import pytest

from interlock.agents.observations import BecameReady, StandingSeen, Warned
from interlock.agents.terminal import listening
from interlock.agents.terminal.launch import read_where
from interlock.agents.terminal.listening import ShimChannel
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import Anomaly
from interlock.vocabulary.evidence import EvidenceSource
from tests.agents.terminal.harness import agent, driving
from tests.contract.harness import run
from tests.held_time import until

FORGED = [
    {"type": "started", "seq": 1, "at_monotonic_seconds": 1.0, "shim_pid": 1, "pid": 1, "dropped": 0},
    {"type": "status", "seq": 2, "at_monotonic_seconds": 1.0, "shim_pid": 1, "pid": 1, "dropped": 0}
    | {"state": "blocked", "app": "scripted", "kind": "permission", "id": "", "title": None, "message": "FORGED"}
    | {"progress": None, "fields": [["state", "blocked"]]},
]


async def write_forged(path: Path) -> bytes:
    """Connect as this process, write, and return what comes back, up to the end that the listener makes."""
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(b"".join(json.dumps(one).encode() + b"\n" for one in FORGED))
    try:
        async with asyncio.timeout(100):
            return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


def test_a_folder_that_cannot_be_listened_in_is_told_and_nothing_stays_open(tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(UsageError) as refused:
            await ShimChannel.open(tmp_path / "none" / "s")
        assert str(refused.value) == (
            f"{tmp_path}/none/s cannot be listened on (No such file or directory); check the run folder"
        )

    before = len(list(Path("/dev/fd").iterdir()))
    run(main())
    assert len(list(Path("/dev/fd").iterdir())) == before


def test_a_process_that_is_not_the_shim_is_closed_and_noted_and_the_shim_is_heard_on() -> None:
    async def main() -> None:
        async with driving() as driver, agent(driver) as seen:
            await seen.until(BecameReady)
            path = Path(read_where(seen.handle.where).status_socket)
            assert [S_IMODE(one.stat().st_mode) for one in (path, path.parent)] == [0o600, 0o700]
            assert await write_forged(path) == b""
            noted = await seen.until(Warned, lambda one: one.kind == "status_writer_refused")
            assert f"process {os.getpid()} of user {os.geteuid()}" in noted.message
            native = [one for one in seen.of(StandingSeen) if one.standing.rung is EvidenceSource.NATIVE_STATUS]
            assert "FORGED" not in repr(native)

    run(main())


@pytest.mark.parametrize(
    ("pid", "uid"),
    [(os.getpid(), os.geteuid() + 1), (os.getpid() + 1, os.geteuid())],
    ids=["another_user", "another_process"],  # numbers of this machine would name the tests otherwise in each worker
)
def test_another_user_and_another_process_are_refused_before_a_byte_is_read(
    pid: int, uid: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "peer_of", lambda _: (pid, uid))

    async def main(folder: Path) -> None:
        ear, noted = await ShimChannel.open(folder / "s"), list[Anomaly]()
        try:
            ear.expect(os.getpid())
            assert await write_forged(ear.path) == b""
            ear.attach(lambda _: None, noted.append, None, 0)
            assert [one.kind for one in noted] == ["status_writer_refused"]
            assert not ear.began.done()
        finally:
            await ear.close(is_over=True)

    with tempfile.TemporaryDirectory(prefix="il-") as short:
        run(main(Path(short)))


def test_the_expected_process_is_heard_also_if_it_came_before_it_was_expected() -> None:
    async def main(folder: Path) -> None:
        ear = await ShimChannel.open(folder / "s")
        try:
            _, writer = await asyncio.open_unix_connection(ear.path)
            writer.write(json.dumps(FORGED[0]).encode() + b"\n")
            await writer.drain()
            assert not ear.began.done()
            ear.expect(os.getpid())
            async with asyncio.timeout(100):
                assert await ear.began == 1
            writer.close()
        finally:
            await ear.close(is_over=True)

    with tempfile.TemporaryDirectory(prefix="il-") as short:
        run(main(Path(short)))


def test_a_shim_that_comes_back_after_a_cut_is_not_taken_for_killed() -> None:
    """Else the status that its program ended with would not be believed."""

    async def main(folder: Path) -> None:
        ear = await ShimChannel.open(folder / "s")
        try:
            ear.expect(os.getpid())
            for _ in range(2):
                reader, writer = await asyncio.open_unix_connection(ear.path)
                writer.write(json.dumps(FORGED[0]).encode() + b"\n")
                await until(lambda: ear.began.done() and not ear.was_cut)
                writer.close()
                await until(lambda: ear.was_cut)
                assert await reader.read() == b""
        finally:
            await ear.close(is_over=True)

    with tempfile.TemporaryDirectory(prefix="il-") as short:
        run(main(Path(short)))
