"""`interlock resume`: agents that ended are started again with their own conversations, with proof or without."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.look.session_lines import find_task
from interlock.cli.server.api import ServerApi, home_folder
from interlock.cli.server.options import HomeOption, JsonFlag
from interlock.cli.tables import cut
from interlock.cli.wire.routes import PAGE, SPAWNS, TASKS, task_path
from interlock.vocabulary.errors import InterlockError, UsageError

if TYPE_CHECKING:
    from interlock.cli.wire.json_shapes import ResumedJson
    from interlock.vocabulary.wire.json_types import SpawnRowJson

# How an agent ended that nobody stopped: with the machine, or on its own account.
_LOST: Final = ("unclean", "crashed", "oom")
_WENT_ON: Final = ("resumed", "running")
_LEFT_OUT: Final = "left_out"
_TITLE: Final = 24


def resume(
    session: Annotated[str, Parameter(help="The session: its id, its title, or how they begin.")] = "",
    /,
    *,
    all_: Annotated[
        bool, Parameter(name="--all", negative="", help="Every session whose agent process is gone.")
    ] = False,
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Start the CLI of a session again, with its own conversation, and say whether it really went on.

    --all takes the sessions whose agent died with the machine, crashed or could not be started; those that were stopped
    are left alone. Adopted agents were started by a person: --all leaves them out, and says how to start each. A prompt
    is not sent again. Exit code 0: all went on, 3: some did, 1: none, 7: it is not proven of any.
    """
    if bool(session) is all_:
        raise UsageError("no session is named", remedy="name one, or give --all")
    api = ServerApi.of_home(home_folder(home))
    if all_:
        rows = [
            _left_out(row, title) if row["is_foreign"] else _resume(api, row["session_id"], title)
            for row, title in _lost(api)
        ]
    else:
        task = find_task(api, session)
        rows = [_resume(api, str(task["task_id"]), task["title"])]
    if json:
        output.print_json({"sessions": rows})
    elif rows:
        cells = [
            (row["session_id"], cut(row["title"], _TITLE), row["result"].replace("_", " "), row["evidence"])
            for row in rows
        ]
        output.print_table(("SESSION", "TITLE", "RESULT", "EVIDENCE"), cells)
    else:
        output.note("no session lost its agent; `interlock ps --all` lists those that ended")
    return _code_of([row["result"] for row in rows if row["result"] != _LEFT_OUT])


def _lost(api: ServerApi) -> list[tuple[SpawnRowJson, str]]:
    """The newest spawn of each session that lost its agent, or has one that could not be started; with its title."""
    last = {row["session_id"]: row for row in api.items(SPAWNS, limit=PAGE)}
    kept = {task["task_id"]: task["title"] for task in api.items(TASKS, limit=PAGE) if task["task_status"] != "DELETE"}
    return [(last[one], title) for one, title in kept.items() if one in last and _is_lost(last[one])]


def _is_lost(row: SpawnRowJson) -> bool:
    return row["reason"] in _LOST or row["standing"] == "failed"


def _left_out(row: SpawnRowJson, title: str) -> ResumedJson:
    session_id = row["session_id"]
    why = f"a person started it, and it was only adopted; to start it here: interlock resume {session_id}"
    return _told(session_id, title, _LEFT_OUT, why)


def _resume(api: ServerApi, task_id: str, title: str) -> ResumedJson:
    try:
        told = api.ask("POST", f"{task_path(task_id)}/resume")
    except InterlockError as error:
        return _told(task_id, title, "failed", str(error))
    return _told(task_id, title, str(told["result"]), str(told["evidence"]), str(told["native_session_id"]))


def _told(session_id: str, title: str, result: str, evidence: str, native: str = "") -> ResumedJson:
    return {
        "session_id": session_id,
        "title": title,
        "result": result,
        "evidence": evidence,
        "native_session_id": native,
    }


def _code_of(results: list[str]) -> ExitCode:
    went_on = [one for one in results if one in _WENT_ON]
    if len(went_on) == len(results):
        return ExitCode.COMPLETED
    if went_on:
        return ExitCode.PARTIAL
    return ExitCode.UNKNOWN if "unknown" in results else ExitCode.FAILED
