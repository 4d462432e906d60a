"""`interlock status`: is there a server, is it ready, since when, and does anything need a person?"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.look.ps_list import FoundSessions, ask, tone_of
from interlock.cli.look.session_lines import age, read_moment, shown_of, since_of, why_of
from interlock.cli.server import options
from interlock.cli.server.api import ServerApi, home_folder, read_server_file
from interlock.cli.server.presence import Presence, RunningServer, health_of
from interlock.cli.tables import Line, Tone
from interlock.cli.wire.json_answers import sessions_json
from interlock.log.home_identity import look_at_home
from interlock.vocabulary.errors import InterlockError

if TYPE_CHECKING:
    from interlock.cli.wire.json_shapes import ServerStatusJson
    from interlock.vocabulary.wire.json_types import HealthJson, TaskSummaryJson

_WIDTH = 10
_SAYS = {
    Presence.ABSENT: "does not run; start it with `interlock up`",
    Presence.STALE: "is gone: it ended without a word; start it again with `interlock up`",
    Presence.HELD: "is not known to run: another process has the log, or a server ends",
    Presence.UNKNOWN: "is not known: from here it cannot be told whether the process that has the log lives",
    Presence.STARTING: "is starting",
    Presence.RUNS: "runs, and does not answer",
}

_GROUPS: Final = {"needs_you": "need you", "stuck": "stuck or unknown"}


def status(*, home: options.HomeOption = None, json: options.JsonFlag = False) -> int:
    """Say whether the server of this home runs and is ready, and what needs a person. Exit code 8: no answer; 10: it is
    starting, and reads its log."""
    folder = home_folder(home)
    server, health, found = _answering(folder) or _proven(folder)
    if json:
        output.print_json(_told(folder, server, health, found))
    else:
        output.print_painted(_lines(folder, server, health, found))
    if server.presence is Presence.STARTING:
        return ExitCode.STARTING
    return ExitCode.UNREACHABLE if health is None else ExitCode.COMPLETED


def _answering(home: Path) -> tuple[RunningServer, HealthJson, FoundSessions] | None:
    """A server that is ready, and takes our token: that proves it, and the log need not be opened, which costs more."""
    try:
        said = read_server_file(home)
        health = health_of(str(said.get("url", "")))
        found = ask(ServerApi.of_home(home)) if health is not None and health.get("ready") else None
    except (FileNotFoundError, InterlockError):
        return None
    pid, started_at = said.get("pid"), str(said.get("started_at", ""))
    if health is None or found is None or not isinstance(pid, int):
        return None
    return RunningServer(presence=Presence.RUNS, url=str(said["url"]), pid=pid, started_at=started_at), health, found


def _proven(home: Path) -> tuple[RunningServer, HealthJson | None, FoundSessions | None]:
    """What its process and its log prove, where it does not answer as it should."""
    from interlock.cli.server.process import look_for_server

    server = look_for_server(home)
    health = health_of(server.url) if server.presence is Presence.RUNS else None
    is_ready = health is not None and health.get("ready")
    return server, health, ask(ServerApi.of_home(home)) if is_ready else None


def _told(
    home: Path, server: RunningServer, health: HealthJson | None, found: FoundSessions | None
) -> ServerStatusJson:
    tasks = None if found is None else found.tasks
    return {
        "home": str(home),
        "copied_from": look_at_home(home).copied_from or None,
        "presence": server.presence.value,
        "starting": None if server.start is None else server.start.as_json(),
        "is_up": health is not None,
        "is_ready": health is not None and bool(health.get("ready")),
        "url": server.url or None,
        "pid": server.pid or None,
        "started_at": server.started_at or None,
        "version": None if health is None else health.get("version"),
        "log_problem": None if found is None else found.log_problem,
        "session_count": None if tasks is None else len(tasks),
        "needing_person": None if tasks is None else sessions_json(one for one in tasks if shown_of(one).needs_person),
    }


def _lines(home: Path, server: RunningServer, health: HealthJson | None, found: FoundSessions | None) -> list[Line]:
    now = datetime.now(UTC)
    lines = [_field("home", str(home))]
    if copied_from := look_at_home(home).copied_from:
        lines.append(_field("copy of", f"{copied_from}; it leaves the agents of its original alone", Tone.DOUBTFUL))
    if health is None:
        says = _SAYS[server.presence] + ("" if server.start is None else f" ({server.start.words})")
        tone = Tone.DOUBTFUL if server.presence is Presence.STARTING else Tone.URGENT
        return [*lines, _field("server", says, tone), *_holder(server)]
    is_ready = bool(health.get("ready"))
    ready = ("ready", Tone.ACTIVE) if is_ready else ("not ready: it has not read all of its log", Tone.DOUBTFUL)
    lines.append([*_field("server", f"{server.url}, "), (ready[0], ready[1].value)])
    started = read_moment(server.started_at)
    since = "" if started is None else f", since {started.astimezone():%Y-%m-%d %H:%M} ({age(server.started_at, now)})"
    lines.append(_field("process", f"{server.pid}{since}, version {health.get('version', '?')}"))
    if found is not None:
        if found.log_problem:
            lines.append(_field("log", f"cannot be written, nothing is recorded: {found.log_problem}", Tone.URGENT))
        lines.append(_field("sessions", _counted(found.tasks)))
        lines += [_need(task, now) for task in found.tasks if shown_of(task).needs_person]
    return lines


def _holder(server: RunningServer) -> list[Line]:
    return [_field("log", f"held by {server.holder}")] if server.presence is Presence.HELD and server.holder else []


def _counted(tasks: list[TaskSummaryJson]) -> str:
    counts = Counter(_GROUPS.get(shown_of(one).group, shown_of(one).group) for one in tasks)
    return ", ".join((f"{len(tasks)} in all", *(f"{count} {word}" for word, count in counts.items())))


def _need(task: TaskSummaryJson, now: datetime) -> Line:
    shown = shown_of(task, now)
    what = f"{task['task_id']}  {task.get('agent', '')}  "
    held = age(since_of(task), now)
    return [*_field("needs you", what), (shown.words, tone_of(shown).value), (f" for {held}: {why_of(task)}", "")]


def _field(name: str, text: str, tone: Tone = Tone.PLAIN) -> Line:
    return [(name.ljust(_WIDTH), Tone.FAINT.value), (text, tone.value)]
