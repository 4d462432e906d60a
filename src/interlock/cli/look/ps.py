"""`interlock ps`: every session once, or again and again."""

from __future__ import annotations

from interlock.cli.look import ps_list as board
from interlock.cli.server import options
from interlock.cli.server.api import home_folder


def ps(
    *,
    every: options.AllFlag = False,
    watch: options.Flag = False,
    patience: options.PatienceOption = board.PATIENCE_SECONDS,
    home: options.HomeOption = None,
    json: options.JsonFlag = False,
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
