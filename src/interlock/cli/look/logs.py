"""`interlock logs`: the transcript of a session as text, and as it grows.

Laws:
1. What was printed is not lost or repeated when the server is started again: it is asked for what came after.
2. A server that stays away for longer than the patience is unreachable, and is said to be.
3. While the server cannot write its log nothing new comes: that is told on standard error, and followed on.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from interlock.cli import output
from interlock.cli.look.live_text import LiveText, TextOutlet
from interlock.cli.look.log_trouble import telling_log_trouble
from interlock.cli.look.session_lines import duration, find_task
from interlock.cli.server import options
from interlock.cli.server.api import ServerApi, SocketFrame, home_folder
from interlock.cli.server.waiting import started_api
from interlock.cli.wire.json_answers import frame_json
from interlock.cli.wire.routes import PAGE, task_messages, task_turns
from interlock.vocabulary.errors import Unreachable, UsageError

if TYPE_CHECKING:
    from interlock.vocabulary.wire.json_types import MessageJson, TaskSnapshotJson

PATIENCE_SECONDS = 60.0
_RETRY_SECONDS = 0.5
_ARCHIVED = "DELETE"


def logs(
    session: options.SessionArgument,
    /,
    *,
    follow: options.FollowFlag = False,
    turns: options.Flag = False,
    last: int | None = None,
    reconnect_timeout: options.ReconnectTimeoutOption = PATIENCE_SECONDS,
    home: options.HomeOption = None,
    json: options.JsonFlag = False,
) -> int:
    """Print what was said in a session: prompts, answers, tools, and how turns ended that left no clean answer.

    A text that is not a whole answer bears a label. With --json, one message a line; with --follow as well, one frame a
    line. A server that is started again meanwhile is found again.

    Parameters
    ----------
    follow
        Go on with live text until Ctrl-C, which here is a clean end: exit code 0.
    turns
        Say where each turn begins, and how it stands.
    last
        Show only the last N messages.
    """
    if last is not None and last < 0:
        raise UsageError(f"--last {last} is no number of messages", remedy="give 0 or more")
    folder = home_folder(home)
    api = started_api(folder) if follow else ServerApi.of_home(folder)
    task_id = str(find_task(api, session)["task_id"])
    if follow:
        return _follow(folder, task_id, last, reconnect_timeout, with_turns=turns, json=json)
    states = _states(api, task_id) if turns else {}
    printer = LiveText(_OUTLET, with_turns=turns, session_id=task_id)
    for message in _messages(api, task_id, last):
        if json:
            output.print_json(message)
        else:
            printer.message(message, states.get(str(message.get("turn_id")), ""))
    return 0


_OUTLET = TextOutlet(output.print_painted, output.print_piece, output.note)


def _messages(api: ServerApi, task_id: str, last: int | None, before: str | None = None) -> list[MessageJson]:
    """The newest messages, oldest first; all of them where no number is given."""
    pages: list[list[MessageJson]] = []
    left = last
    while left is None or left > 0:
        page = api.get(task_messages(task_id), before=before, limit=PAGE if left is None else min(PAGE, left))
        pages.append(page["items"])
        before, left = page["next"], None if left is None else left - len(page["items"])
        if before is None:
            break
    return [message for page in reversed(pages) for message in page]


def _states(api: ServerApi, task_id: str) -> dict[str, str]:
    return {turn["turn_id"]: turn["state"] for turn in api.items(task_turns(task_id), limit=PAGE)}


def _follow(
    home: Path, task_id: str, last: int | None, patience_seconds: float, *, with_turns: bool, json: bool
) -> int:
    printer = LiveText(_OUTLET, with_turns=with_turns, session_id=task_id)
    older = partial(_print_older, home, task_id, last, printer)
    is_first = True
    try:
        with telling_log_trouble(home, "following"):
            for frame in frames(home, task_id, patience_seconds=patience_seconds):
                if json:
                    output.print_json(frame_json(frame.data))
                elif is_first and frame.data["type"] == "task:joined":
                    _join(frame.data["snapshot"], last, printer, older)
                else:
                    printer.add(frame.data)
                output.flush()
                is_first = False
                if _is_put_away(frame):
                    output.note("the session was put away: nothing more will come")
                    break
    except KeyboardInterrupt:
        output.print_piece("\n" if not json and printer.is_in_line else "")
    return 0


def _is_put_away(frame: SocketFrame) -> bool:
    """Whether a frame says that the session is over for good."""
    if frame.data["type"] == "task:joined":
        return frame.data["snapshot"]["task_status"] == _ARCHIVED
    return frame.data["type"] == "task:status" and frame.data["task_status"] == _ARCHIVED


def _join(snapshot: TaskSnapshotJson, last: int | None, printer: LiveText, older: partial[None]) -> None:
    """The first look: history by pages, then where the server stands."""
    messages = list(snapshot["messages"])
    if last is not None:
        messages = messages[max(0, len(messages) - last) :]
    if snapshot.get("history_before") is not None and (last is None or last > len(snapshot["messages"])):
        older(str(snapshot["history_before"]), len(messages))
    printer.join({**snapshot, "messages": messages})


def _print_older(home: Path, task_id: str, last: int | None, printer: LiveText, before: str, known: int) -> None:
    for message in _messages(ServerApi.of_home(home), task_id, None if last is None else last - known, before):
        printer.message(message)


def frames(
    home: Path, task_id: str, *, patience_seconds: float = PATIENCE_SECONDS, was_there: bool = False
) -> Iterator[SocketFrame]:
    """The frames of a session, for as long as there is a server; each from where the last one led. `was_there`: the
    server has answered before, so that one that goes away before the first frame is waited for, too."""
    last_id, lost_at = "", None
    while True:
        try:
            for frame in ServerApi.of_home(home).events(task_id, after=last_id):
                if lost_at is not None:
                    output.note("the server is back")
                lost_at, last_id = None, frame.id or last_id
                yield frame
            away: Unreachable = Unreachable("the server ended the stream")
        except Unreachable as error:
            away = error
        now = time.monotonic()
        if not (last_id or was_there) or (lost_at is not None and now - lost_at > patience_seconds):
            raise away
        if lost_at is None:
            lost_at = now
            output.note(f"{away}; waiting up to {duration(patience_seconds)} for it to come back")
        time.sleep(_RETRY_SECONDS)
