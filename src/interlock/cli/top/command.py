"""`interlock top`, as the parser sees it. What is heavy is imported only when there is a terminal to draw on."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Literal

from cyclopts import Parameter

from interlock.cli.server_api import ServerApi, home_folder
from interlock.cli.server_options import HomeOption
from interlock.vocabulary.errors import UsageError


def top(
    *,
    theme: Annotated[
        Literal["auto", "dark", "light"], Parameter(help="`auto` believes what the terminal says of its background.")
    ] = "auto",
    home: HomeOption = None,
) -> int:
    """Watch every session on one board, and answer, send and stop from the keyboard. `?` there lists the keys.

    A server that goes away is waited for; what is shown meanwhile is called the last known. Exit code 2: this is no
    terminal, see `interlock ps`; 8: no server runs.
    """
    streams = (sys.stdin, sys.stdout, sys.stderr)
    is_terminal = all(stream is not None and stream.isatty() for stream in streams)
    if not is_terminal or os.environ.get("TERM") == "dumb":
        raise UsageError(
            "this is no terminal to draw a board on", remedy="see `interlock ps`, or `interlock ps --watch`"
        )
    folder = home_folder(home)
    ServerApi.of_home(folder)  # say now that there is none
    from interlock.cli.top.app import TopApp
    from interlock.cli.top.themes import is_light_terminal
    from interlock.client.client import Client

    is_light = theme == "light" or (theme == "auto" and is_light_terminal(os.environ))
    board = TopApp(Client.of_home(folder), lambda: ServerApi.of_home(folder), is_light=is_light, handles_signals=True)
    board.run()
    return board.return_code or 0
