"""`interlock debug screen`: what the terminal of an agent shows, without going there.

Law: a picture that is not of now is labelled, and the exit code says so, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.look.ps_list import looks
from interlock.cli.look.screen_lines import cut_line, picture_lines, said_of
from interlock.cli.look.session_lines import find_task
from interlock.cli.server.api import ServerApi, ServerRefusal, home_folder
from interlock.cli.server.options import FollowFlag, HomeOption, JsonFlag, ReconnectTimeoutOption, SessionArgument
from interlock.cli.tables import Tone, terminal_columns
from interlock.cli.wire.json_answers import screen_json
from interlock.cli.wire.routes import task_screen
from interlock.cli.work.retrying import in_our_words

if TYPE_CHECKING:
    from interlock.vocabulary.wire.json_types import TaskScreenJson

EVERY_SECONDS: Final = 0.5
PATIENCE_SECONDS: Final = 60.0


def screen(
    session: SessionArgument,
    /,
    *,
    follow: FollowFlag = False,
    reconnect_timeout: ReconnectTimeoutOption = PATIENCE_SECONDS,
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Print what the terminal of an agent shows. To type there, use `interlock attach`.

    Exit code 8: nobody sees the terminal now; what is printed is the last that was seen, and standard error says how
    old that is. Exit code 2: it has no terminal, or no agent runs.

    Parameters
    ----------
    follow
        Print it each time that it changed, until Ctrl-C, which here is a clean end, or until the agent is over.
    """
    folder = home_folder(home)
    api = ServerApi.of_home(folder)
    task_id = str(find_task(api, session)["task_id"])
    if follow:
        return _follow(folder, task_id, reconnect_timeout, json=json)
    try:
        shown = api.get(task_screen(task_id))
    except ServerRefusal as refusal:
        raise in_our_words(refusal, task_id) from refusal
    if json:
        output.print_json(screen_json(shown))
    else:
        _print(shown)
    return _tell(shown)


def _tell(shown: TaskScreenJson) -> int:
    if shown.get("is_cut"):
        output.note("the terminal holds more than is shown here")
    if shown.get("has_ended"):
        output.note(said_of(shown))
        return ExitCode.COMPLETED
    if not shown["is_live"]:
        output.note(said_of(shown))
        return ExitCode.UNREACHABLE
    return ExitCode.COMPLETED


def _print(shown: TaskScreenJson, head: str = "") -> None:
    room = terminal_columns()
    lines = picture_lines(shown)
    lines = lines if room is None else [cut_line(line, room) for line in lines]
    output.print_painted([[(head, Tone.FAINT.value)], *lines] if head else lines, is_redrawn=bool(head))


def _follow(home: Path, task_id: str, patience_seconds: float, *, json: bool) -> int:
    """Print each picture once; a terminal is redrawn, so that its age is told, too."""
    last: tuple[str, bool] | None = None
    try:
        for shown, is_new in _pictures(home, task_id, patience_seconds):
            state = (str(shown["digest"]), bool(shown["is_live"]))
            if json:
                if state != last:
                    output.print_json(screen_json(shown))
            elif is_new or state != last or terminal_columns() is not None:
                _print(shown, f"{datetime.now():%H:%M:%S}  {task_id}  {said_of(shown)}")  # noqa: DTZ005  # as a clock
            output.flush()
            last = state
    except KeyboardInterrupt:
        pass
    return ExitCode.COMPLETED


def _pictures(home: Path, task_id: str, patience_seconds: float) -> Iterator[tuple[TaskScreenJson, bool]]:
    """The picture, twice a second, and whether it is another one. A server that went away is waited for, not for ever;
    an agent that is over ends it."""
    known: TaskScreenJson | None = None

    def look() -> TaskScreenJson:
        since = None if known is None else known["digest"]
        return ServerApi.of_home(home).get(task_screen(task_id), since=since)

    try:
        for found in looks(look, patience_seconds, EVERY_SECONDS):
            is_new = known is None or not found["is_unchanged"]
            if known is not None and not is_new:
                found = {**found, "rows": known["rows"], "paint": known["paint"]}
            known = found
            yield known, is_new
            if found.get("has_ended"):
                output.note(f"no agent runs in session {task_id}: this is its last screen")
                return
    except ServerRefusal as refusal:
        if known is None or refusal.status != 404:
            raise in_our_words(refusal, task_id) from refusal
        output.note(str(in_our_words(refusal, task_id)))
