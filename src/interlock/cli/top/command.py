"""`interlock top`, as the parser sees it. What is heavy is imported only when there is a terminal to draw on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from interlock.cli.colours import is_light_terminal, is_on_terminal
from interlock.cli.look.session_lines import find_task
from interlock.cli.server.api import ServerApi, home_folder
from interlock.cli.server.options import HomeOption
from interlock.cli.server.waiting import started_api
from interlock.vocabulary.errors import StillStarting, Unreachable, UsageError

if TYPE_CHECKING:
    from interlock.cli.top.app import TopApp


def top(
    *,
    theme: Annotated[
        Literal["auto", "dark", "light"] | None,
        Parameter(help="Else as configured. `auto` believes what the terminal says of its background."),
    ] = None,
    session: Annotated[str, Parameter(help="Select this session: its ID or a word of its title.")] = "",
    home: HomeOption = None,
) -> int:
    """Watch every session on one board, and answer, send and stop from the keyboard. `?` there lists the keys.

    A server is started in the background if none runs. One that goes away is waited for; what is shown meanwhile is
    called the last known. Exit code 2: this is no terminal, see `interlock ps`.
    """
    if not is_on_terminal():
        raise UsageError("stdout is not a terminal", remedy="see `interlock ps`, or `interlock ps --watch`")
    folder = home_folder(home)
    _have_server(folder)
    wanted = str(find_task(ServerApi.of_home(folder), session)["task_id"]) if session else ""
    board = _board(folder, theme, wanted)
    board.run()
    return board.return_code or 0


def _board(home: Path, theme: str | None, wanted: str = "") -> TopApp:
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
        home=home,
        first=wanted,
    )


def _have_server(home: Path) -> None:
    """Start the server of a home, unless one runs. One that is starting is waited for."""
    try:
        started_api(home)
    except StillStarting:
        raise
    except Unreachable:
        from interlock.cli.server.process import start_server

        start_server(home)
