"""Recordings on disk or on a pipe: plain NDJSON, or gzip, told by the first bytes."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, Final, cast

from interlock.monitor.scoring.recording import MAX_LINE, Record, read_records
from interlock.vocabulary.errors import UsageError

_GZIP: Final = b"\x1f\x8b"
STDIN: Final = "-"


@contextmanager
def open_recording(source: str) -> Iterator[Iterator[Record]]:
    """The records of a file, or of standard input for `-`, one at a time. What cannot be read is a UsageError."""
    if source == STDIN:
        if sys.stdin is None:
            raise UsageError("standard input is closed; name a file")
        yield read_records(_lines(sys.stdin.buffer, "standard input"), "standard input")
        return
    try:
        file = Path(source).open("rb")  # noqa: SIM115 what the caller does with the records is no fault of the file
    except OSError as error:
        raise UsageError(f"{source}: cannot be read: {error.strerror or error}") from error
    with file:
        yield read_records(_lines(file, source), source)


def recordings_under(folder: Path) -> list[Path]:
    """Every recording in a folder and below it, in the order of their names; a file stands for itself."""
    if folder.is_file():
        return [folder]
    if not folder.is_dir():
        raise UsageError(f"{folder}: there is no such file or folder")
    found = sorted(path for path in folder.rglob("*.ndjson*") if path.name.endswith((".ndjson", ".ndjson.gz")))
    if not found:
        raise UsageError(f"{folder}: holds no recording (*.ndjson, *.ndjson.gz)")
    return found


def _lines(file: BinaryIO, name: str) -> Iterator[bytes]:
    stream = file if isinstance(file, BufferedReader) else BufferedReader(cast("BufferedReader", file))
    number = 0
    try:
        packed = stream.peek(2)[:2] == _GZIP
        source = cast("BinaryIO", gzip.GzipFile(fileobj=stream)) if packed else stream
        while line := source.readline(MAX_LINE + 1):
            number += 1
            yield line
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise UsageError(f"{name}:{number + 1}: the file is cut or damaged: {error}") from error
    except OSError as error:
        raise UsageError(f"{name}: cannot be read: {error.strerror or error}") from error
