"""Long answers in a pager, as git shows them: only on a terminal, and only what is longer than its screen.

Law: the pager is started without a shell, and gets text that is escaped already.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TextIO

from interlock.cli import output
from interlock.cli.tables import Line


def print_paged(lines: Sequence[Line], *, is_paged: bool = True) -> None:
    """As `print_painted`; what is longer than the terminal's screen is shown in a pager."""
    stream = sys.stdout
    pager = _pager() if is_paged and stream is not None and stream.isatty() else []
    rows = os.get_terminal_size(stream.fileno()).lines if pager else 0
    if not rows or _height(lines, stream) < rows:  # a terminal of no rows does not say how many it has
        output.print_painted(lines)
        return
    import subprocess  # only here: what is short starts without it

    text = "".join(output.painted(line, colour=output.wants_colour(stream)) for line in lines)
    environment = {**os.environ, "LESS": os.environ.get("LESS", "FRX")}
    try:
        subprocess.run(pager, input=text.encode("utf-8", "replace"), check=False, env=environment)
    except OSError:
        output.print_painted(lines)


def _pager() -> list[str]:
    """The pager as a command, without a shell; none where it is switched off or not here."""
    import shlex
    import shutil

    said = os.environ.get("INTERLOCK_PAGER", os.environ.get("PAGER", "less"))
    try:
        command = shlex.split(said)
    except ValueError:
        return []
    return command if command and command[0] != "cat" and shutil.which(command[0]) else []


def _height(lines: Sequence[Line], stream: TextIO) -> int:
    width = max(1, os.get_terminal_size(stream.fileno()).columns)
    return sum(max(1, -(-sum(output.columns(text) for text, _ in line) // width)) for line in lines)
