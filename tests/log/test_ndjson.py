"""NDJSON: what is exported comes back byte for byte, and what cannot be imported is named by its line."""

from __future__ import annotations

import asyncio
import io
import random
import shutil
import stat
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from interlock.log import ndjson
from interlock.log.memory import MemoryLog
from interlock.log.ndjson import Imported, ImportRefused, export, export_file, import_events, import_file
from interlock.log.port import Log, Slice
from interlock.log.sqlite.store import SqliteLog
from interlock.testing.strategies import payloads
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.codec import MAX_LINE_BYTES, encode_event
from interlock.vocabulary.events.envelope import TYPE_OF, Event
from interlock.vocabulary.events.presenter import TextDelta
from interlock.vocabulary.events.registry import DECLARATIONS, Durability
from interlock.vocabulary.ids import SessionId, StreamId
from tests.contract.harness import A, B, batch, event, run
from tests.each_row import each_row
from tests.log.edits import copy_home, lines_of, make_home, reports, sql
from tests.seeds import seed_of

UNKNOWN = (
    b'{"id":"e1","session_id":"ses_a","seq":1,"ts":"2026-01-01T00:00:00Z","type":"from_tomorrow","data":{"x":[1]}}'
)
LIVE = event(data=TextDelta(stream_id=StreamId("s"), offset=0, text="x"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_home(tmp_path_factory.mktemp("made") / "home")


def exported(home: Path) -> bytes:
    async def main() -> bytes:
        stream = io.BytesIO()
        async with await SqliteLog.open(home, readonly=True) as log:
            await export(log, stream)
        return stream.getvalue()

    return run(main())


def imported(log: Log, data: bytes, *, keep_going: bool = False) -> Imported:
    return run(import_events(log, io.BytesIO(data), keep_going=keep_going))


def into_home(home: Path, data: bytes) -> Imported:
    async def main() -> Imported:
        async with await SqliteLog.open(home) as log:
            return await import_events(log, io.BytesIO(data))

    return run(main())


def lines(events: Sequence[Event]) -> bytes:
    return b"".join(encode_event(each) + b"\n" for each in events)


def stamped(size: int, session_id: SessionId = A) -> list[Event]:
    return [structs.replace(each, seq=seq) for seq, each in enumerate(batch(size, session_id), start=1)]


def content(log: Log, session_id: SessionId = A) -> bytes:
    async def main() -> bytes:
        return lines((await log.read(session_id)).events)

    return run(main())


def refused(log: Log, data: bytes) -> ImportRefused:
    with pytest.raises(ImportRefused) as caught:
        imported(log, data)
    assert caught.value.problem.next_action
    return caught.value


def test_an_export_holds_the_stored_lines_and_makes_the_same_log_elsewhere(made: Path, tmp_path: Path) -> None:
    data = exported(made)
    assert data.splitlines() == [line for session in lines_of(made).values() for line in session]
    assert into_home(tmp_path / "other", data).events == 13
    assert reports(tmp_path / "other") == reports(made), "versions, heads and all"
    assert exported(tmp_path / "other") == data


@given(
    st.lists(payloads().filter(lambda data: DECLARATIONS[TYPE_OF[type(data)]].durability is not Durability.EPHEMERAL))
)
def test_every_event_comes_back_as_it_was(written: list[object]) -> None:
    log, other = MemoryLog(), MemoryLog()
    events = [event(data=data) for data in written]  # type: ignore[arg-type]
    if events:
        run(log.append(A, events))
    data = content(log)
    assert imported(other, data).events == len(events)
    assert content(other) == data


def test_unknown_types_and_unknown_fields_stay(tmp_path: Path) -> None:
    odd = UNKNOWN.replace(b'"seq":1', b'"seq":2,"mood":{"a":1}')
    into_home(tmp_path / "home", UNKNOWN + b"\n" + odd + b"\n")
    first, second = exported(tmp_path / "home").splitlines()
    assert (b"from_tomorrow" in first, b'"mood":{"a":1}' in second) == (True, True)


def test_a_damaged_event_is_left_out_of_an_export_and_reported(made: Path, tmp_path: Path) -> None:
    home = copy_home(made, tmp_path / "home")
    sql(home, "UPDATE events SET line = x'7b7d' WHERE session_id = 'ses_a' AND seq = 4")

    async def main() -> ndjson.Exported:
        async with await SqliteLog.open(home, readonly=True) as log:
            return await export_file(log, tmp_path / "out.ndjson")

    result = run(main())
    assert (result.sessions, result.events, [one.first_seq for one in result.damage]) == (2, 12, [4])
    assert len((tmp_path / "out.ndjson").read_bytes().splitlines()) == 12


def test_an_export_in_several_pages_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = lines(stamped(8))
    into_home(tmp_path / "home", data)
    for page in (1, 3, 4, 8):
        monkeypatch.setattr(ndjson, "EXPORT_PAGE", page)
        assert exported(tmp_path / "home") == data


def export_to(home: Path, path: Path, *, replace: bool = False) -> None:
    async def main() -> None:
        async with await SqliteLog.open(home, readonly=True) as log:
            await export_file(log, path, replace=replace)

    run(main())


def test_an_exported_file_is_private_and_replaces_nothing_unasked(made: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.ndjson"
    export_to(made, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_bytes(b"precious")
    with pytest.raises(UsageError, match="name another file"):
        export_to(made, path)
    assert path.read_bytes() == b"precious"
    export_to(made, path, replace=True)
    assert path.read_bytes() == exported(made)
    assert [each.name for each in tmp_path.iterdir()] == ["out.ndjson"]


def test_an_export_that_fails_leaves_no_file(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def failing(log: SqliteLog, stream: BinaryIO, session_ids: Sequence[SessionId] | None) -> ndjson.Exported:
        stream.write(b"half a li")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ndjson, "export", failing)
    with pytest.raises(UsageError, match="No space left on device; free some space"):
        export_to(made, tmp_path / "out.ndjson", replace=True)
    assert list(tmp_path.iterdir()) == []


GOOD = lines(stamped(3))
LINES = GOOD.splitlines(keepends=True)


@each_row(
    "data",
    [
        GOOD.replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf" + GOOD,
        b"\n \n" + GOOD.replace(b"\n", b"\n\r\n\n"),
        GOOD.rstrip(b"\n"),
        GOOD.replace(b'"data":', b' "data" : '),
        GOOD + GOOD,
        LINES[0] + LINES[0] + LINES[1] + LINES[2],
    ],
    ids=["CRLF", "BOM", "blank lines", "no last newline", "spaces", "twice", "a line twice"],
)
def test_what_means_the_same_is_imported_the_same(data: bytes) -> None:
    log = MemoryLog()
    assert imported(log, data).events == 3
    assert content(log) == GOOD


@each_row(
    ("data", "line", "field", "reason"),
    [
        (LINES[0] + b"{}\n" + LINES[1], 2, "$", "missing required field `type`"),
        (LINES[0] + LINES[1].replace(b'"message 1"', b"1"), 2, "data.text", "Expected `str`"),
        (LINES[0] + LINES[1][:40] + b"\n" + LINES[2], 2, "$", "not JSON"),
        (LINES[0] + LINES[1][:40], 2, "$", "the file ends in the middle of this line"),
        (LINES[0] + LINES[1].replace(b"message 1", b"mess\x00ge"), 2, "$", "not JSON"),
        (LINES[0] + LINES[1].replace(b"message 1", rb"mess\u0000ge"), 2, "data.text", "holds a NUL"),
        (LINES[0] + b"\xef\xbb\xbf" + LINES[1], 2, "$", ""),
        (LINES[0] + b"\xff\xfe" + LINES[1], 2, "$", "not UTF-8"),
        (LINES[0] + b"\n\n" + LINES[2], 4, "seq", "comes where 2 is due"),
        (LINES[0].replace(b'"seq":1', b'"seq":0'), 1, "seq", "comes where 1 is due"),
        (LINES[0] + LINES[0].replace(b"message 0", b"changed"), 2, "$", "is there already, and is another one"),
        (lines([LIVE]), 1, "type", "never logged"),
        (LINES[0].replace(b"ses_a", b"../up"), 1, "session_id", "regex"),
        (LINES[0] + b"[" * 100_000 + b"\n", 2, "$", ""),
    ],
)
def test_a_bad_line_is_named_and_nothing_of_its_batch_is_written(
    data: bytes, line: int, field: str, reason: str
) -> None:
    log = MemoryLog()
    error = refused(log, data)
    assert (error.problem.line, error.problem.field) == (line, field)
    assert reason in error.problem.reason
    assert str(error).startswith(f"line {line}: {field}: ")
    assert content(log) == b""


def test_a_huge_line_is_refused_and_never_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ndjson, "MAX_LINE_BYTES", 1_000_000)
    monkeypatch.setattr(ndjson, "BATCH_BYTES", 100_000)
    path = tmp_path / "in.ndjson"
    with path.open("wb") as stream:
        stream.truncate(50_000_000)
        stream.seek(0, io.SEEK_END)
        stream.write(b"\n" + GOOD)
    log = MemoryLog()
    tracemalloc.start()
    try:
        result = run(import_file(log, path, keep_going=True))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [(one.line, one.reason) for one in result.problems] == [(1, "longer than 1000000 bytes")]
    assert content(log) == GOOD
    assert peak < 5_000_000


def test_a_file_with_a_wrong_line_is_refused_unless_it_is_told_to_keep_going(tmp_path: Path) -> None:
    path, log = tmp_path / "in.ndjson", MemoryLog()
    path.write_bytes(b"no\n" + GOOD)
    with pytest.raises(ImportRefused):
        run(import_file(log, path))
    assert content(log) == b""


def test_a_line_of_the_largest_size_is_not_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_LINE_BYTES == 64 * 1024 * 1024
    size = len(LINES[0]) - 1
    for limit, events in ((size, 1), (size - 2, 0)):
        monkeypatch.setattr(ndjson, "MAX_LINE_BYTES", limit)
        log = MemoryLog()
        assert imported(log, LINES[0], keep_going=True).events == events


def test_what_is_there_already_is_skipped_and_the_rest_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ndjson, "_WINDOW", 2)
    data, log = lines(stamped(9)), MemoryLog()
    first = imported(log, b"".join(data.splitlines(keepends=True)[:5]))
    again = imported(log, data)
    assert (first.events, first.skipped, again.events, again.skipped) == (5, 0, 4, 5)
    assert content(log) == data
    assert imported(log, data).skipped == 9


def test_an_import_again_holds_the_events_of_few_sessions_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read to compare is let go when it is of too many sessions, and read again where it is needed again."""
    monkeypatch.setattr(ndjson, "_MAX_WINDOWS", 2)
    a, b, c = (stamped(2, SessionId(f"ses_{name}")) for name in "abc")
    data = lines([a[0], b[0], c[0], a[1]])
    log = MemoryLog()
    assert imported(log, data).events == 4
    read: list[SessionId] = []
    read_log = log.read

    async def note_read(session_id: SessionId, *, after: int = 0, limit: int | None = None) -> Slice:
        read.append(session_id)
        return await read_log(session_id, after=after, limit=limit)

    monkeypatch.setattr(log, "read", note_read)
    assert imported(log, data).skipped == 4
    assert read == ["ses_a", "ses_b", "ses_c", "ses_a"]


def test_another_event_at_the_same_place_is_a_conflict() -> None:
    log = MemoryLog()
    imported(log, GOOD)
    other = refused(log, LINES[0] + LINES[1].replace(b"message 1", b"changed"))
    assert (other.problem.line, "event 2 of session ses_a" in other.problem.reason) == (2, True)
    assert content(log) == GOOD


def test_events_from_elsewhere_are_numbered_and_numbered_the_same_again() -> None:
    loose = b"".join(line.replace(b'"seq":%d,' % seq, b"") for seq, line in enumerate(LINES, start=1))
    assert b"seq" not in loose
    log = MemoryLog()
    assert imported(log, loose[: len(loose) // 2 + 1].rpartition(b"\n")[0] + b"\n").events == 1
    assert (imported(log, loose).events, imported(log, loose).skipped) == (2, 3)
    assert content(log) == GOOD
    run(log.append(A, batch(1)))
    refused(log, loose + lines([event()]))


def test_an_event_that_is_damaged_here_cannot_be_compared(made: Path, tmp_path: Path) -> None:
    home = copy_home(made, tmp_path / "home")
    data = exported(home)
    sql(home, "UPDATE events SET line = x'7b7d' WHERE session_id = 'ses_a' AND seq = 4")
    with pytest.raises(ImportRefused, match=r"line 4: .*cannot be compared; run `interlock log verify ses_a`"):
        into_home(home, data)


def test_a_purged_session_is_not_imported_again(made: Path, tmp_path: Path) -> None:
    home = copy_home(made, tmp_path / "home")
    data = exported(home)

    async def main() -> None:
        async with await SqliteLog.open(home) as log:
            await log.purge(A)

    run(main())
    with pytest.raises(ImportRefused, match=r"line 1: session_id: .*was purged"):
        into_home(home, data)


@given(st.data())
def test_many_sessions_in_one_file_in_any_order_of_turns(data: st.DataObject) -> None:
    names = [SessionId(f"ses_{name}") for name in "abc"]
    sessions = {name: stamped(data.draw(st.integers(0, 6)), name) for name in names}
    turns = data.draw(st.permutations([name for name, events in sessions.items() for _ in events]))
    left = {name: iter(events) for name, events in sessions.items()}
    log = MemoryLog()
    assert imported(log, lines([next(left[name]) for name in turns])).events == len(turns)
    assert all(content(log, name) == lines(events) for name, events in sessions.items())


def test_going_on_ends_a_session_at_its_first_problem_and_keeps_the_others() -> None:
    b = lines(stamped(3, B)).splitlines(keepends=True)
    log = MemoryLog()
    data = LINES[0] + b[0] + b"nonsense\n" + LINES[2] + b[1] + LINES[1] + b[2][:-9]
    result = imported(log, data, keep_going=True)
    assert [(one.line, one.field) for one in result.problems] == [(3, "$"), (4, "seq"), (7, "$")]
    assert (result.events, result.problem_count) == (3, 3)
    assert (content(log, A), content(log, B)) == (LINES[0], b[0] + b[1])


def test_many_problems_are_counted_and_some_are_told() -> None:
    result = imported(MemoryLog(), b"no\n" * 1234, keep_going=True)
    assert (result.problem_count, len(result.problems)) == (1234, ndjson.MAX_PROBLEMS)


def test_progress_counts_bytes_after_each_durable_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ndjson, "BATCH_LINES", 4)
    path, log = tmp_path / "in.ndjson", MemoryLog()
    path.write_bytes(lines(stamped(10)))
    seen: list[tuple[int, int | None, int]] = []

    def note(done: int, total: int | None) -> None:
        seen.append((done, total, len(log._sessions[A])))

    run(import_file(log, path, on_progress=note))
    size = path.stat().st_size
    assert [(total, events) for _, total, events in seen] == [(size, 4), (size, 8), (size, 10)]
    assert seen[-1][0] == size
    assert [done for done, *_ in seen] == sorted(done for done, *_ in seen)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file or directory; check its name"):
        run(import_file(MemoryLog(), tmp_path / "none.ndjson"))


def test_somebody_else_who_writes_to_the_session_ends_the_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ndjson, "BATCH_LINES", 1)
    log = MemoryLog()

    async def main() -> None:
        def interfere(done: int, total: int | None) -> None:
            tasks.append(asyncio.ensure_future(log.append(A, batch(1))))

        tasks: list[asyncio.Future[int]] = []
        await import_events(log, io.BytesIO(GOOD), on_progress=interfere)

    with pytest.raises(UsageError, match="let nothing else write to it, and import again"):
        run(main())


def test_an_import_cancelled_anywhere_can_be_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ndjson, "BATCH_LINES", 3)
    data = lines([*stamped(30), *stamped(9, B)])
    rng = random.Random(7)

    async def main() -> None:
        async with await SqliteLog.open(tmp_path / "home") as log:
            interrupted = 0
            for _ in range(12):
                task = asyncio.ensure_future(import_events(log, io.BytesIO(data)))
                await asyncio.wait({task}, timeout=rng.uniform(0, 0.01))
                interrupted += not task.done()
                task.cancel()
                await asyncio.wait({task})
                version = (await log.read(A)).version
                assert version % 3 == 0, "only whole batches"
            assert interrupted
            await import_events(log, io.BytesIO(data))

    run(main())
    assert exported(tmp_path / "home") == data
    assert all(report.sound for report in reports(tmp_path / "home"))


IMPORT = """
import asyncio, sys
from pathlib import Path
from interlock.log import ndjson
from interlock.log.sqlite.store import SqliteLog
async def main():
    async with await SqliteLog.open(Path(sys.argv[1])) as log:
        await ndjson.import_file(log, Path(sys.argv[2]), on_progress=lambda done, total: print(done, flush=True))
ndjson.BATCH_LINES = 5
asyncio.run(main())
"""


KILLS = 60


def kill_during_import(home: Path, path: Path, after_batches: int) -> bool:
    """Let an import go on for some batches, then kill it in the middle of the next; return whether it lived to."""
    child = subprocess.Popen([sys.executable, "-c", IMPORT, home, path], stdout=subprocess.PIPE)
    assert child.stdout is not None
    with child, child.stdout:
        told = [child.stdout.readline() for _ in range(after_batches)]
        child.kill()
    return all(told)


@pytest.mark.deep
@pytest.mark.timeout(600)
def test_an_import_killed_anywhere_can_be_run_again(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    home, path = tmp_path / "home", tmp_path / "in.ndjson"
    data = lines([*stamped(600), *stamped(3, B)])
    path.write_bytes(data)
    seed = seed_of("import killed")
    rng, kills = random.Random(seed), 0
    while kills < KILLS:
        kills += kill_during_import(home, path, rng.randrange(1, 8))
        whole = exported(home)
        assert data.startswith(whole)
        assert (whole.count(b"\n") % 5 == 0) or whole == data, "only whole batches"
        assert all(report.sound for report in reports(home))
        if whole == data:
            shutil.rmtree(home)
    into_home(home, data)
    assert exported(home) == data
    record_property("explored", f"imports killed: {kills} (seed {seed})")
