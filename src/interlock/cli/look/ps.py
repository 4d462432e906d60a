"""`interlock ps`, as the parser sees it. Its plain forms do not come this way: see `board.run_plain`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from interlock.cli.look import ps_list as board
from interlock.cli.server.api import home_folder
from interlock.cli.server.options import Flag, HomeOption, JsonFlag, PatienceOption


def ps(
    *,
    every: Annotated[bool, Parameter(name="--all", negative="")] = False,
    watch: Flag = False,
    patience: PatienceOption = board.PATIENCE_SECONDS,
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """List the sessions: who needs a person first, then what is stalled or unknown, then what works, then the rest.

    SHOWS is what the agent needs and does, FOR for how long, Q how many prompts wait, WHY the question, or the evidence
    in a word. Exit code 8: the server could not be asked, and nothing is known; 3: it has not read all of its log yet.

    Parameters
    ----------
    every
        Those that ended, too.
    watch
        Look again each second until Ctrl-C, which here is a clean end: exit code 0.
    """
    folder = home_folder(home)
    if watch:
        return board.watch_sessions(folder, every=every, json=json, patience_seconds=patience)
    return board.list_sessions(folder, every=every, json=json)
