"""Ends the work of a command by a signal the way that Ctrl-C does: by cancelling its task, which then cleans up."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def ended_by(*numbers: signal.Signals) -> Iterator[None]:
    """Within this block these signals cancel the present task."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    for number in numbers:
        loop.add_signal_handler(number, task.cancel)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
