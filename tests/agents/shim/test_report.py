"""Who is told by the shim: what a listener does not take is dropped and counted, line by line."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.agents.shim.report import MAX_PENDING_BYTES, RETRY_SECONDS, StatusFile, StatusSocket


@pytest.fixture
def path() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="il-") as short:  # a socket's path must be short
        yield str(Path(short) / "s")


def listener(path: str) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(path)
    listening.listen()
    return listening


def retry_at(told: StatusSocket) -> float | None:
    return told.retry_at_seconds


def test_a_line_that_a_full_disk_does_not_take_is_counted_once() -> None:
    file = StatusFile("/dev/full")
    for number in range(1, 4):
        file.send(b"line\n")
        assert file.dropped == number


def test_after_half_a_line_the_next_begins_on_a_line_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, room = StatusFile(str(tmp_path / "told")), [2, 99]
    with (tmp_path / "told").open("ab", buffering=0) as kept, monkeypatch.context() as patch:
        patch.setattr("os.write", lambda _, data: kept.write(data[: room.pop(0)]))
        file.send(b"one\n")
        file.send(b"two\n")
    assert ((tmp_path / "told").read_bytes(), file.dropped) == (b"on\ntwo\n", 1)


def test_lines_that_nobody_listens_to_are_counted_and_a_listener_is_told_how_things_stand(path: str) -> None:
    told = StatusSocket(path, lambda: (b"stands\n",))
    told.connect(10.0)
    assert retry_at(told) == 10.0 + RETRY_SECONDS
    for number in range(1, 4):
        told.send(b"line\n", 10.0)
        assert told.dropped == number
    with listener(path) as listening:
        told.connect(10.0 + RETRY_SECONDS / 2)
        assert told.listening() is None, "it is not time yet"
        told.connect(10.0 + RETRY_SECONDS)
        assert told.listening() is not None
        assert retry_at(told) is None
        told.send(b"line\n", 12.0)
        with listening.accept()[0] as heard:
            assert heard.recv(99) == b"stands\nline\n"
        told.check(20.0)
        assert (told.listening(), told.retry_at_seconds, told.dropped) == (None, 20.0, 3)


def test_a_listener_that_does_not_read_is_cut_off_and_each_line_that_waited_is_counted(path: str) -> None:
    told, line, sent = StatusSocket(path, lambda: ()), b"x" * 1023 + b"\n", 0
    with listener(path) as listening:
        told.connect(0.0)
        with listening.accept()[0] as heard:
            while told.listening() is not None:
                told.send(line, 5.0)
                sent += 1
                assert sent < 100_000
            heard.setblocking(False)
            taken = 0
            while piece := heard.recv(1 << 20):
                taken += piece.count(b"\n")
    assert told.dropped == sent - taken, "each line was taken or is counted"
    assert told.dropped * len(line) > MAX_PENDING_BYTES
    assert (told.waiting(), told.retry_at_seconds) == (None, 5.0 + RETRY_SECONDS)
