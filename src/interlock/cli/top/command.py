"""`interlock top`, as the parser sees it. What is heavy is imported only when there is a terminal to draw on."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from interlock.cli.colours import is_light_terminal
from interlock.cli.server.api import ServerApi, home_folder
from interlock.cli.server.options import HomeOption
from interlock.vocabulary.errors import UsageError

if TYPE_CHECKING:
    from interlock.cli.top.app import TopApp


def top(
    *,
    theme: Annotated[
        Literal["auto", "dark", "light"] | None,
        Parameter(help="Else as configured. `auto` believes what the terminal says of its background."),
    ] = None,
    home: HomeOption = None,
) -> int:
    """Watch every session on one board, and answer, send and stop from the keyboard. `?` there lists the keys.

    A server that goes away is waited for; what is shown meanwhile is called the last known. Exit code 2: this is no
    terminal, see `interlock ps`; 8: no server runs.
    """
    streams = (sys.stdin, sys.stdout, sys.stderr)
    is_terminal = all(stream is not None and stream.isatty() for stream in streams)
    if not is_terminal or os.environ.get("TERM") == "dumb":
        raise UsageError("stdout is not a terminal", remedy="see `interlock ps`, or `interlock ps --watch`")
    folder = home_folder(home)
    ServerApi.of_home(folder)  # say now that there is none
    board = _board(folder, theme)
    board.run()
    return board.return_code or 0


def _board(home: Path, theme: str | None) -> TopApp:
    """The board as `[ui]` and `[notify]` say, but for what the command line says."""
    from interlock.cli.top.app import TopApp
    from interlock.cli.top.bell import Ringing
    from interlock.client.client import connect_async
    from interlock.runtime.config.loading import load

    config = load(os.environ).config
    # A board is asked for no colours by this variable, and by an empty one, too, which elsewhere says nothing.
    if config.ui.colour == "never":
        os.environ["NO_COLOR"] = "1"
    elif not os.environ.get("NO_COLOR"):
        os.environ.pop("NO_COLOR", None)
    chosen = theme or config.ui.theme
    return TopApp(
        connect_async(home),
        lambda: ServerApi.of_home(home),
        is_light=is_light_terminal(os.environ) if chosen == "auto" else chosen == "light",
        handles_signals=True,
        ringing=Ringing(home, config.notify),
    )
