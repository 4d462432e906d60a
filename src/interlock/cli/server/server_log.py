"""What a server in the background says of itself, in a file that only its owner reads and that does not grow for ever.

Law: the file is at most `MAX_BYTES` and one line long, and there is one older one. Everything that is written to
standard error goes there, also what no logger knows of.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import Final

MAX_BYTES: Final = 1024 * 1024
_FORMAT: Final = "%(asctime)s %(levelname)s %(message)s"
# Their own lines hold paths with query strings.
_QUIET: Final = ("uvicorn", "uvicorn.error", "uvicorn.access", "websockets")


def log_to_stderr(path: Path | None = None) -> None:
    """Have warnings and errors written to standard error; with a path, that file is standard error from now on."""
    handler: logging.Handler
    if path is None:
        handler = logging.StreamHandler(sys.stderr)
    else:
        take_over(path)
        handler = BoundedStderr(path)
    handler.setFormatter(logging.Formatter(_FORMAT))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


class BoundedStderr(logging.StreamHandler):  # type: ignore[type-arg]  # its parameter exists for checkers only
    """Standard error that is a file, begun anew when it has grown large."""

    def __init__(self, path: Path) -> None:
        super().__init__(sys.stderr)
        self._path = path

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if os.fstat(2).st_size > MAX_BYTES:
                take_over(self._path)
        except OSError:
            pass  # what cannot be begun anew is written on
        super().emit(record)


def take_over(path: Path) -> None:
    """Make the file standard output and standard error. A large one is put aside first."""
    try:
        if path.stat().st_size > MAX_BYTES:
            path.replace(path.with_name(f"{path.name}.1"))
    except FileNotFoundError:
        pass
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    os.fchmod(descriptor, 0o600)
    for number in (1, 2):
        os.dup2(descriptor, number)
    os.close(descriptor)
