"""`interlock debug screen`: what the terminal of an agent shows, without going there.

Law: a picture that is not of now is labelled, and the exit code says so, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.look.ps_list import looks
from interlock.cli.look.screen_lines import cut_line, picture_lines, said_of
from interlock.cli.look.session_lines import find_task, task_path
from interlock.cli.server.api import Body, ServerApi, ServerRefusal, home_folder
from interlock.cli.server.options import FollowFlag, HomeOption, JsonFlag, PatienceOption, SessionArgument
from interlock.cli.tables import Tone, terminal_columns
from interlock.cli.work.retrying import in_our_words

EVERY_SECONDS: Final = 0.5
PATIENCE_SECONDS: Final = 60.0


def screen(
    session: SessionArgument,
    /,
    *,
    follow: FollowFlag = False,
    patience: PatienceOption = PATIENCE_SECONDS,
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
        return _follow(folder, task_id, patience, json=json)
    try:
        shown = api.get(f"{task_path(task_id)}/screen")
    except ServerRefusal as refusal:
        raise in_our_words(refusal, task_id) from refusal
    if json:
        output.print_json(shown)
    else:
        _print(shown)
    return _tell(shown)


def _tell(shown: Body) -> int:
    if shown.get("is_cut"):
        output.note("the terminal holds more than is shown here")
    if not shown["is_live"]:
        output.note(said_of(shown))
        return ExitCode.UNREACHABLE
    return ExitCode.COMPLETED


def _print(shown: Body, head: str = "") -> None:
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
                    output.print_json(shown)
            elif is_new or state != last or terminal_columns() is not None:
                _print(shown, f"{datetime.now():%H:%M:%S}  {task_id}  {said_of(shown)}")  # noqa: DTZ005  # as a clock
            output.flush()
            last = state
    except KeyboardInterrupt:
        pass
    return ExitCode.COMPLETED


def _pictures(home: Path, task_id: str, patience_seconds: float) -> Iterator[tuple[Body, bool]]:
    """The picture, twice a second, and whether it is another one. A server that went away is waited for, not for ever;
    an agent that is over ends it."""
    known: Body = {}

    def look() -> Body:
        return ServerApi.of_home(home).get(f"{task_path(task_id)}/screen", since=known.get("digest"))

    try:
        for found in looks(look, patience_seconds, EVERY_SECONDS):
            is_new = not found.get("is_unchanged")
            known = found if is_new else {**found, "rows": known.get("rows", ()), "paint": known.get("paint", ())}
            known.pop("is_unchanged", None)
            yield known, is_new
    except ServerRefusal as refusal:
        if not known or refusal.status != 404:
            raise in_our_words(refusal, task_id) from refusal
        output.note(str(in_our_words(refusal, task_id)))
