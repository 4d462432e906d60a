"""`interlock ps`: every session once, or again and again."""

from __future__ import annotations

from interlock.cli.look import ps_list as board
from interlock.cli.server import options
from interlock.cli.server.api import home_folder
from interlock.vocabulary.errors import UsageError


def ps(
    *,
    every: options.AllFlag = False,
    watch: options.Flag = False,
    tree: options.Flag = False,
    reconnect_timeout: options.ReconnectTimeoutOption = board.PATIENCE_SECONDS,
    home: options.HomeOption = None,
    json: options.JsonFlag = False,
) -> int:
    """List the sessions: who needs a person first, then what is stalled or unknown, then what works, then the rest.

    SHOWS is what the agent needs and does, FOR for how long, Q how many prompts wait, WHY the question, or the evidence
    in a word. Exit code 8: the server could not be asked, and nothing is known; 3: it has not read all of its log yet.

    Parameters
    ----------
    every
        Include ended sessions.
    watch
        Look again each second until Ctrl-C, which here is a clean end: exit code 0.
    tree
        Draw children and copies below their parents; a family is listed whole while one of it has not ended.
    """
    folder = home_folder(home)
    if tree and (watch or json):
        raise UsageError("--tree is a drawing of its own", remedy="leave --watch and --json out: JSON has parent_id")
    if watch:
        return board.watch_sessions(folder, every=every, json=json, patience_seconds=reconnect_timeout)
    return board.list_sessions(folder, every=every, json=json, is_tree=tree)
