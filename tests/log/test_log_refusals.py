"""What the log refuses, in its own words, and at which bound it begins to."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from interlock.log.chain import Head, check_session_id, stamp, start
from interlock.log.memory import MemoryLog, check_page, closed
from interlock.log.paths import check_home, prepare_home
from interlock.log.port import LogUnavailable, VersionConflict
from interlock.log.private_file import read_private_file
from interlock.log.sqlite.store import SqliteLog
from interlock.vocabulary.errors import ContractError, InterlockError, UsageError
from interlock.vocabulary.events.presenter import TextDelta
from interlock.vocabulary.ids import StreamId
from tests.contract.harness import A, B, batch, run

EMPTY = Head(0, start(A))
CHOOSE = "choose another folder with INTERLOCK_HOME"


def told(kind: type[InterlockError], act: Callable[[], object]) -> str:
    with pytest.raises(kind) as wrong:
        act()
    return str(wrong.value)


def test_an_append_that_breaks_the_order_of_a_session_is_refused_and_says_which_event() -> None:
    first, *_ = batch(1, A)
    late = msgspec.structs.replace(first, seq=5)
    live = msgspec.structs.replace(first, data=TextDelta(text="x", stream_id=StreamId("s"), offset=0))
    assert told(ContractError, lambda: stamp(A, [], EMPTY)) == (
        f"an append to session {A} without events; there is nothing to make durable"
    )
    assert told(ContractError, lambda: stamp(B, [first], Head(0, start(B)))) == (
        f"event {first.id} belongs to session {A}, not to {B}"
    )
    assert told(ContractError, lambda: stamp(A, [late], EMPTY)) == (
        f"event {first.id} says seq 5; the next of session {A} is 1"
    )
    assert told(ContractError, lambda: stamp(A, [live], EMPTY)) == (
        f"event {first.id} (text_delta) is shown live and never logged; publish it instead"
    )
    with pytest.raises(VersionConflict) as behind:
        stamp(A, [first], EMPTY, expected_version=3)
    assert (behind.value.expected, behind.value.actual) == (3, 0)
    assert stamp(A, [msgspec.structs.replace(first, seq=1)], EMPTY)[0].event.seq == 1


@pytest.mark.parametrize("name", ["", "-x", "a b", "a/b", "x" * 129, "a\n"])
def test_what_is_no_session_id_is_refused(name: str) -> None:
    assert told(ContractError, lambda: check_session_id(name)) == (
        f"{name!r} is not a session id: 1 to 128 letters, digits and _ . : - , no other first sign"
    )


def test_the_longest_session_id_is_one() -> None:
    check_session_id("x" * 128)
    check_session_id("x")


@pytest.mark.parametrize(("after", "limit"), [(-1, None), (0, 0), (-1, 1)])
def test_a_page_below_its_bounds_is_refused(after: int, limit: int | None) -> None:
    assert told(ContractError, lambda: check_page(after, limit)) == (
        f"cannot read {limit} events after {after}; count from 0, and ask for at least one"
    )


def test_the_stored_rows_of_a_session_are_asked_for_by_pages_within_the_same_bounds(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with await SqliteLog.open(tmp_path) as log:
            await log.append(A, batch(3))
            for after, limit in ((-1, None), (0, 0), (0, -1)):
                with pytest.raises(ContractError, match=f"cannot read {limit} events after {after}; count from 0"):
                    await log.rows(A, after=after, limit=limit)
            assert [row.seq for row in await log.rows(A, after=1, limit=1)] == [2]

    run(scenario())


def test_a_page_at_its_bounds_is_read() -> None:
    check_page(0, 1)
    check_page(0, None)


def test_a_closed_log_says_so_and_that_waiting_does_not_help() -> None:
    error = closed()
    assert (str(error), error.may_pass) == ("the log is closed; open it again", False)

    async def story() -> None:
        log = MemoryLog()
        await log.close()
        with pytest.raises(LogUnavailable, match=r"^the log is closed; open it again$"):
            await log.append(A, batch(1, A))

    run(story())


def test_a_home_of_another_user_is_refused_and_not_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert told(LogUnavailable, lambda: prepare_home(home)) == (
        f"{home} belongs to another user; run as its owner, or {CHOOSE}"
    )
    assert home.stat().st_mode & 0o777 == 0o755
    assert list(home.iterdir()) == []


def test_a_home_that_is_a_file_or_open_to_others_is_refused(tmp_path: Path) -> None:
    file, shared = tmp_path / "file", tmp_path / "shared"
    file.touch()
    shared.mkdir()
    assert told(LogUnavailable, lambda: check_home(file)) == (
        f"{file} is not a folder; name the folder itself, or {CHOOSE}"
    )
    for mode in (0o702, 0o720):
        shared.chmod(mode)
        assert told(LogUnavailable, lambda: check_home(shared)) == (
            f"others can write to {shared}; run `chmod 700 {shared}`, or {CHOOSE}"
        )
    shared.chmod(0o755)
    check_home(shared)


def test_a_private_file_that_is_a_folder_is_refused(tmp_path: Path) -> None:
    assert told(UsageError, lambda: read_private_file(tmp_path, max_bytes=9)) == (
        f"{tmp_path} is not a plain file; look at what it is, and move it away"
    )
