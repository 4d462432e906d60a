"""What the commands that change something have in common: one request that may be repeated, and words for a refusal.

Laws:
1. Only what bears an id of its own is given again: then twice is once.
2. Whoever was not answered is told that nothing is known, and how to repeat it safely.
3. A remedy names commands of ours, not routes of the server.
4. Who waits no longer than a moment is answered by then, or told that nothing is known.
"""

from __future__ import annotations

import math
import os
import sys
import time
from typing import Final, TypeVar

from interlock.cli import output
from interlock.cli.look.session_lines import LIST
from interlock.cli.server.api import (
    ANSWER_SECONDS,
    MAX_REQUEST_BYTES,
    ServerApi,
    ServerRefusal,
    ServerUnavailable,
    decode,
)
from interlock.vocabulary.errors import Unreachable, UsageError
from interlock.vocabulary.ids import sortable_id

T = TypeVar("T")
MAX_WORDS_BYTES: Final = MAX_REQUEST_BYTES
_TOO_MANY: Final = "too_many"
_REPEATS: Final = 8
_PAUSE_SECONDS: Final = 0.5
_MAX_PAUSE_SECONDS: Final = 3.0
_MIN_SECONDS: Final = 0.5
# What a command gets where nobody wants to wait for what follows from it: it has to be given all the same.
_GIVE_SECONDS: Final = 5.0


def new_id(prefix: str) -> str:
    """A name for what is about to be asked for, so that it can be asked for again."""
    return sortable_id(prefix, time.time_ns() // 1_000_000, os.urandom(10))


def act(
    api: ServerApi,
    kind: type[T],
    method: str,
    path: str,
    body: object = None,
    *,
    key: str = "",
    is_once: bool = False,
    task_id: str = "",
    until: float = math.inf,
) -> T:
    """Give a command, and read its answer. With a `key`, or where it names itself what it is about (`is_once`), it is
    given again while the server says that nothing is known yet, but not after `until`, by the monotonic clock."""
    repeats = _REPEATS if key or is_once else 0
    while True:
        left = until - time.monotonic()
        try:
            seconds = min(ANSWER_SECONDS, max(left, _MIN_SECONDS))
            return decode(api.ask_raw(method, path, body, key=key, seconds=seconds) or b"null", kind)
        except ServerUnavailable:
            if not repeats or time.monotonic() >= until:
                raise
            pause = _PAUSE_SECONDS
        except ServerRefusal as refusal:
            # What was refused for haste was not done: this may always be repeated.
            if refusal.code != _TOO_MANY or not repeats or time.monotonic() >= until:
                raise in_our_words(refusal, task_id) from refusal
            pause = min(max(refusal.pause_seconds, 0.05), _MAX_PAUSE_SECONDS)
        except KeyboardInterrupt:
            output.note(
                f"it is not known whether it was done; {f'see `interlock show {task_id}`' if task_id else LIST}"
            )
            raise
        repeats -= 1
        time.sleep(max(0.0, min(pause, until - time.monotonic())))


def give_until(timeout_seconds: float | None) -> float:
    """Until when to try to give a command whose effect is waited for so long; see `act`."""
    return math.inf if timeout_seconds is None else time.monotonic() + max(timeout_seconds, _GIVE_SECONDS)


def in_our_words(refusal: ServerRefusal, task_id: str) -> UsageError:
    """The same refusal, with a remedy that can be typed."""
    said = str(refusal).removesuffix(f"; {refusal.remedy}") if refusal.remedy else str(refusal)
    said = said.replace(f"task {task_id}", f"session {task_id}") if task_id else said
    match refusal.code:
        case "not_supervised" if task_id:
            remedy = f"take it up again with `interlock start {task_id}`"
        case "unknown_task":
            remedy = LIST
        case _ if task_id and f"/api/tasks/{task_id}/start" in refusal.remedy:
            remedy = f"start it with `interlock start {task_id}`"
        case _ if task_id and f"/api/tasks/{task_id}/messages" in refusal.remedy:
            remedy = f"read what it says with `interlock logs {task_id}`"
        case _ if "/api/" in refusal.remedy:
            remedy = f"look at it: `interlock show {task_id}`" if task_id else LIST
        case _:
            return refusal
    return UsageError(said, remedy=remedy)


def not_known(error: Unreachable, how: str) -> Unreachable:
    """Law 2."""
    return Unreachable(f"{error}\nit is not known whether it was done; {how}: it is not done twice")


def read_words(given: str, what: str) -> str:
    """What was given on the command line, or with `-` on standard input.

    The parser lets `-` pass only together with everything else that begins so: an option that is misspelt is no prompt.
    """
    if given != "-":
        if given.startswith("-"):
            raise UsageError(
                f"there is no option {given}", remedy=f"give {what} by standard input, with -, if it is one"
            )
        return given
    if sys.stdin is None:
        raise UsageError("standard input is closed", remedy=f"give {what} on the command line")
    raw = sys.stdin.buffer.read(MAX_WORDS_BYTES + 1)
    if len(raw) > MAX_WORDS_BYTES:
        raise UsageError(f"{what} is larger than {MAX_WORDS_BYTES} bytes", remedy="give less")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"standard input is not UTF-8 at byte {error.start}", remedy="give text") from error


def confirmed(question: str) -> bool:
    """Ask a person at a terminal. `UsageError` where there is nobody to ask."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError("cannot ask for confirmation here", remedy="use --yes")
    output.note(f"{question} Type yes to continue:")
    if sys.stdin.readline().strip() == "yes":
        return True
    output.note("cancelled")
    return False
