"""A progress bar on stderr, for a person who waits; nothing for a pipe or a file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from interlock.cli import output

Report: TypeAlias = Callable[[int, int | None], None]


@contextmanager
def progress(title: str, *, of_bytes: bool = True) -> Iterator[Report]:
    """Yields what to call with how much is done, and of how much (None: not known). The bar is gone afterwards."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(file=sys.stderr, color_system="auto" if output.wants_colour(sys.stderr) else None)
    amount = DownloadColumn() if of_bytes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), amount, TimeRemainingColumn())
    try:
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task(title, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)
    finally:
        # A second Ctrl-C may hit the bar while it takes itself away.
        console.show_cursor(True)
