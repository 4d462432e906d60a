"""`interlock rules pause`, `resume` and `trust`: what a person lets rules do."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter
from msgspec import structs

from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.home import HomeOption, JsonFlag
from interlock.cli.rules.files import files_in, folder_of, home_of
from interlock.lifecycle.rules.rule import Layer
from interlock.runtime.rules.keeper import (
    EVERY_SESSION,
    RuleStanding,
    project_rules_path,
    read_standing,
    write_standing,
)
from interlock.vocabulary.errors import UsageError

_OURS: Final = "INTERLOCK_SPAWN_ID"
SessionName = Annotated[str, Parameter(help="The whole id of a session; else every session.")]


def pause(
    session: SessionName = "",
    /,
    *,
    minutes: Annotated[int | None, Parameter(name="--for", help="Minutes; else until they are resumed.")] = None,
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Let rules allow nothing, in one session or in all. What they deny stays denied."""
    if minutes is not None and not 0 < minutes <= 1_000_000:
        raise UsageError(f"--for {minutes} is no time", remedy="give minutes, 1 or more")
    end = None if minutes is None else datetime.now(UTC) + timedelta(minutes=minutes)
    folder = home_of(home)
    standing = read_standing(folder)
    write_standing(folder, structs.replace(standing, paused={**standing.paused, session or EVERY_SESSION: end}))
    until = None if end is None else end.isoformat(timespec="seconds")
    _tell(json, {"paused": session or EVERY_SESSION, "until": until}, f"paused: {_named(session)}")
    return ExitCode.COMPLETED


def resume(session: SessionName = "", /, *, home: HomeOption = None, json: JsonFlag = False) -> int:
    """Resume automatic approval by rules. Without a session every pause ends."""
    refuse_agents()
    folder = home_of(home)
    standing = read_standing(folder)
    paused = {} if not session else {key: end for key, end in standing.paused.items() if key != session}
    write_standing(folder, structs.replace(standing, paused=paused))
    _tell(json, {"resumed": session or EVERY_SESSION}, f"resumed: {_named(session)}")
    return ExitCode.COMPLETED


def trust(
    folder: Annotated[Path | None, Parameter(help="A project's folder. Default: this one.")] = None,
    /,
    *,
    forget: Annotated[bool, Parameter(negative="", help="Stop trusting it.")] = False,
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Let the allow rules of a project's file count, as it stands now. A changed file is not trusted."""
    refuse_agents()
    files, standing = files_in(home, folder)
    path = str(project_rules_path(folder_of(folder)))
    found = next((file for file in files if file.layer is Layer.PROJECT), None)
    trusted = {key: digest for key, digest in standing.trusted.items() if key != path}
    if forget:
        write_standing(home_of(home), RuleStanding(trusted, standing.paused))
        _tell(json, {"path": path, "is_trusted": False}, f"not trusted any more: {path}")
        return ExitCode.COMPLETED
    if found is None or found.problems:
        raise UsageError(f"{path} {'is not there' if found is None else found.problems[0]}", remedy="fix it first")
    write_standing(home_of(home), RuleStanding({**trusted, path: found.digest}, standing.paused))
    _tell(
        json,
        {"path": path, "is_trusted": True, "digest": found.digest},
        f"trusted: {path}, {len(found.rules)} rules, {found.digest[:12]}",
    )
    return ExitCode.COMPLETED


def refuse_agents() -> None:
    """Raise `UsageError` in a process that an agent of ours started."""
    if os.environ.get(_OURS):
        raise UsageError("an agent may not change which rules hold", remedy="run this in a terminal of your own")


def _named(session: str) -> str:
    return session or "every session"


def _tell(is_json: bool, told: dict[str, object], line: str) -> None:
    if is_json:
        output.print_json(told)
    else:
        output.print_text(line)
