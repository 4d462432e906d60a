"""Panes of tmux, as commands name them."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

from cyclopts import Parameter

from interlock.agents.identify import Identified, ask_version, identify
from interlock.agents.profiles import load_profiles
from interlock.agents.tmux.panes import Adopted, adopt
from interlock.agents.tmux.server import NoServer, TmuxServer
from interlock.log.paths import default_home
from interlock.screen.selection import GENERIC, ScreenReader, select_reader

PaneArgument: TypeAlias = Annotated[
    str, Parameter(help="The pane: %3, session:window.pane, or less where that is enough; none: the only one.")
]
SocketOption: TypeAlias = Annotated[
    str | None,
    Parameter(
        help="The tmux socket, by name or path; `@home`: that of the agents of this home. Else the one around this "
        "terminal, or the default."
    ),
]
_OF_HOME: Final = "@home"
CliOption: TypeAlias = Annotated[str | None, Parameter(name="--cli", help="Which CLI it is, if it cannot be detected.")]


@dataclass(frozen=True, slots=True)
class KnownPane:
    """A pane that was found, and how its screen is read."""

    adopted: Adopted
    cli: str
    version: str | None
    reader: ScreenReader


def server_of(socket: str | None) -> TmuxServer:
    """The tmux server that is meant."""
    if socket is None:
        return TmuxServer.current()
    return TmuxServer.of_home(default_home(os.environ)) if socket == _OF_HOME else TmuxServer(socket)


@asynccontextmanager
async def known_pane(target: str, socket: str | None, cli: str | None) -> AsyncIterator[KnownPane]:
    """Find a pane and what runs in it. The client that was attached for it is closed afterwards; the agent lives on."""
    server = server_of(socket)
    try:
        adopted = await adopt(server, target)
    except NoServer as missing:
        if missing.__cause__ is not None:  # tmux itself is missing
            raise
        raise NoServer(f"{missing}; is the agent in tmux? --socket names another server, such as @home") from missing
    try:
        profiles = load_profiles()
        found = identify(profiles, adopted.capture.pid, adopted.capture.snapshot)
        if cli is not None and (found is None or found.cli != cli):
            found = Identified(cli)
        version = None if found is None else await ask_version(found, profiles)
        name = GENERIC if found is None else found.cli
        yield KnownPane(adopted, name, version, select_reader(profiles, name, version))
    finally:
        await adopted.pane.client.close()
