"""`interlock up`: the server of a home, in the background or in place."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from interlock.cli import output
from interlock.cli.server.api import home_folder
from interlock.cli.server.options import Flag, HomeOption, JsonFlag
from interlock.cli.server.process import Presence, RunningServer, look_for_server, start_server
from interlock.log import home_identity
from interlock.vocabulary.errors import Unreachable, UsageError

if TYPE_CHECKING:
    from interlock.cli.wire.json_shapes import StartedServerJson
    from interlock.server.serving import ServerFile, Setup


def up(
    *,
    foreground: Flag = False,
    host: str | None = None,
    port: int | None = None,
    allow_remote: Flag = False,
    take_over: Flag = False,
    log_file: Annotated[Path | None, Parameter(show=False)] = None,
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Start the server of this home, wait until it is ready, and print its address. One that runs already is kept.

    It runs in the background, with its log in `server.log` of the home, until `interlock down`. Exit code 8: it did not
    become ready in time, or another process has the log.

    Parameters
    ----------
    foreground
        Run here, until Ctrl-C.
    host
        The address to listen on; else as configured, or 127.0.0.1.
    port
        The port; else as configured, or any that is free.
    allow_remote
        The address may be one that other machines can reach.
    take_over
        This home is a copy of one that is gone, such as one moved to another disk: its agents and prompts are now those
        of this home. Refused while the original is there.
    """
    folder = home_folder(home)
    if port is not None and not 0 <= port <= 65_535:
        raise UsageError(f"--port {port} is no port", remedy="give 0 to 65535; 0 is any that is free")
    if take_over:
        _take_over(folder)
    if foreground:
        return _serve(folder, host, port, log_file, allow_remote=allow_remote, json=json)
    before = look_for_server(folder)
    options = [] if host is None else ["--host", host]
    options += [] if port is None else ["--port", str(port)]
    server = start_server(folder, [*options, *(["--allow-remote"] if allow_remote else [])])
    is_new = server.holder != before.holder
    output.note(f"a server {'runs' if is_new else 'ran already'} (process {server.pid})")
    tell_copy(folder)
    _tell(server, is_new=is_new, json=json)
    return 0


def _take_over(home: Path) -> None:
    """Law of identity: only where a person asks for it, and while nobody runs this home."""
    if look_for_server(home).presence is Presence.RUNS:
        raise UsageError("a server runs in this home", remedy="end it with `interlock down` first")
    output.note(f"this home takes over the agents and prompts of {home_identity.take_over(home)}")


def tell_copy(home: Path) -> None:
    """Say that a home is a copy, and what that means."""
    standing = home_identity.look_at_home(home)
    if standing.is_copy:
        output.note(f"this home is a copy of {standing.copied_from}")
        output.note("  agents of the original are left alone, and prompts that waited there are held here")
        output.note("  if the original is gone: `interlock down`, then `interlock up --take-over`")


def _tell(server: RunningServer, *, is_new: bool, json: bool) -> None:
    if json:
        told: StartedServerJson = {"url": server.url, "pid": server.pid, "is_new": is_new}
        output.print_json(told)
    else:
        output.print_text(server.url)


def _serve(
    home: Path, host: str | None, port: int | None, log_file: Path | None, *, allow_remote: bool, json: bool
) -> int:
    """Run in place. Whoever is asked to be the one server must not end as if all were well because there is one."""
    import asyncio
    import gc

    gc.disable()  # what is imported stays: to look through all of it again and again is a tenth of the start
    from interlock.cli.server.server_log import log_to_stderr
    from interlock.log.port import LogUnavailable
    from interlock.server.serving import serve

    gc.freeze()
    gc.enable()
    log_to_stderr(log_file)
    found = look_for_server(home)
    if found.presence is Presence.RUNS:
        raise UsageError(
            f"a server runs already at {found.url} (process {found.pid})", remedy="`interlock down` ends it"
        )

    def on_ready(told: ServerFile) -> None:
        server = RunningServer(presence=Presence.RUNS, url=told.url, pid=told.pid)
        _tell(server, is_new=True, json=json)
        output.flush()

    try:
        setup = _setup(home, host, port, allow_remote=allow_remote)
        return asyncio.run(serve(setup, on_ready, ends_process=True))
    except LogUnavailable as error:
        raise Unreachable(str(error)) from error


def _setup(home: Path, host: str | None, port: int | None, *, allow_remote: bool) -> Setup:
    """What is configured, but for what the command line says."""
    from interlock.runtime.config.loading import load
    from interlock.runtime.config.spec_lookup import specs_by
    from interlock.server.commands.configured import ConfiguredAgents
    from interlock.server.serving import Setup
    from interlock.server.settings import ServerSettings

    config = load(os.environ).config
    settings = ServerSettings(
        host=config.server.host if host is None else host,
        port=config.server.port if port is None else port,
        allowed_hosts=config.server.allowed_hosts,
        allowed_origins=config.server.allowed_origins,
    )
    return Setup(
        home=home,
        settings=settings,
        allow_remote=allow_remote,
        policy=config.run.policy(),
        monitor=config.monitor_policies(),
        limits=config.pool.limits(),
        tree=config.tree.limits(),
        notify=config.notify,
        specs=specs_by(config, os.environ),
        records_workspaces=config.workspace.record_trees,
        agents=ConfiguredAgents(config, dict(os.environ)),
    )
