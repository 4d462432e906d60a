"""Recordings on disk or on a pipe: plain or packed, whole or cut."""

from __future__ import annotations

import gzip
import io
import sys
from pathlib import Path

import pytest

from interlock.agents.recording_files import open_recording, recordings_under
from interlock.monitor.scoring.recording import MAX_LINE, Frame, Header, Record
from interlock.vocabulary.errors import UsageError

LINES = b'{"kind":"header","format":1,"cli":"tiny"}\n' + b"".join(
    b'{"kind":"frame","t":%d,"ansi":"screen %d of many, each another, so that there is something to pack"}\n' % (n, n)
    for n in range(400)
)


def read(source: str) -> list[Record]:
    with open_recording(source) as records:
        return list(records)


def refusal(source: str) -> tuple[int, str]:
    """How many records were given before it was refused, and what was said."""
    given: list[Record] = []
    with pytest.raises(UsageError) as refused, open_recording(source) as records:
        given.extend(records)
    return len(given), str(refused.value)


@pytest.mark.parametrize("name", ["r.ndjson", "r.ndjson.gz", "named.otherwise"])
@pytest.mark.parametrize("is_packed", [False, True])
def test_plain_and_packed_are_told_by_their_first_bytes(tmp_path: Path, name: str, is_packed: bool) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(LINES) if is_packed else LINES)
    found = read(str(path))
    assert isinstance(found[0], Header)
    assert len(found) == 401


def test_standard_input_is_read_for_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    for content in (LINES, gzip.compress(LINES)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        assert len(read("-")) == 401


def test_without_a_standard_input_there_is_nothing_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UsageError, match="standard input is closed"):
        read("-")


def test_a_cut_file_gives_what_is_whole_and_then_says_where_it_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "r.ndjson.gz"
    packed = gzip.compress(LINES)
    path.write_bytes(packed[: len(packed) // 2])
    count, said = refusal(str(path))
    assert count > 10
    assert said.startswith(f"{path}:{count + 1}: the file is cut or damaged")
    path.write_bytes(packed[:-8] + b"\0" * 8)
    assert refusal(str(path))[0] == 401


def test_a_plain_file_that_was_cut_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "r.ndjson"
    path.write_bytes(LINES[:-30])
    count, said = refusal(str(path))
    assert count == 400
    assert said.startswith(f"{path}:401: not a record")


def test_a_line_without_end_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "r.ndjson.gz"
    path.write_bytes(gzip.compress(LINES[:42] + b"x" * (MAX_LINE * 2)))
    count, said = refusal(str(path))
    assert count == 1
    assert f":2: the line has {MAX_LINE + 1} bytes" in said


@pytest.mark.parametrize("content", [b"", b"\x1f\x8b", b"\x1f\x8bgarbage that is no gzip", b"\n\n"])
def test_what_is_no_recording_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "r"
    path.write_bytes(content)
    assert refusal(str(path))[1].startswith(str(path))


def test_a_missing_file_and_a_folder_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        assert "cannot be read" in refusal(str(path))[1]


def test_a_fault_of_the_reader_is_no_fault_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "r"
    path.write_bytes(LINES)

    def print_records() -> None:
        with open_recording(str(path)) as records:
            assert isinstance(next(records), Header)
            raise BrokenPipeError(32, "Broken pipe")

    with pytest.raises(BrokenPipeError):
        print_records()


def test_recordings_are_found_below_a_folder_in_order(tmp_path: Path) -> None:
    for name in ("b/two.ndjson.gz", "a.ndjson", "b/one.ndjson", "b/notes.txt", "b/x.ndjson.bak"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = recordings_under(tmp_path)
    assert [str(path.relative_to(tmp_path)) for path in found] == ["a.ndjson", "b/one.ndjson", "b/two.ndjson.gz"]
    assert recordings_under(tmp_path / "b/notes.txt") == [tmp_path / "b/notes.txt"]


def test_a_folder_without_recordings_and_no_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no recording"):
        recordings_under(tmp_path)
    with pytest.raises(UsageError, match="there is no such file or folder"):
        recordings_under(tmp_path / "none")


def test_frames_of_a_file_are_filled_in(tmp_path: Path) -> None:
    path = tmp_path / "r"
    path.write_bytes(LINES[: LINES.index(b"\n") + 1] + b'{"kind":"frame","t":1,"ansi":"a"}\n{"kind":"frame","t":2}\n')
    assert [frame.ansi for frame in read(str(path)) if isinstance(frame, Frame)] == ["a", "a"]
