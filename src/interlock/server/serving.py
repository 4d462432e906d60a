"""One server as a process: from its home to its socket, and to an end that tells everybody.

Laws:
1. Beyond loopback only if it was said so, and never without tokens.
2. The socket is bound before anything is started, and accepts when everything stands: whoever connects gets an answer.
3. At the end clients are told first, then nothing is accepted any more, then notices are finished, then agents are
   let go or stopped. All that is bounded. A second signal is the same request again: it shortens the wait, and the
   order and the exit code stay. No signal that comes during the end breaks it off.
4. `server.json` is there while the server is, and names no secret.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, cast

import msgspec
import uvicorn

from interlock.agents.drivers import builtin_drivers
from interlock.agents.evidence.hooks import hook_socket
from interlock.agents.pool.pool import PoolLimits
from interlock.agents.port import Driver
from interlock.log.home_identity import HomeStanding, copy_is_settled, settle_home
from interlock.log.lease import this_process
from interlock.log.port import Log
from interlock.log.private_file import folder_key
from interlock.log.sqlite.store import SqliteLog
from interlock.monitor.policy import DEFAULT_POLICIES, MonitorPolicies
from interlock.runtime.children.owner import ChildOwner
from interlock.runtime.children.subagents import DEFAULT_LIMITS
from interlock.runtime.children.tree_limits import TreeLimits
from interlock.runtime.config.sections import Config, NotifySection
from interlock.runtime.notify.channels import channels_of, desktop_channel
from interlock.runtime.notify.notifier import NoticeChannel
from interlock.runtime.policy import RunPolicy
from interlock.runtime.redaction.redactor import Redactor
from interlock.runtime.redaction.values import named_secrets
from interlock.runtime.rules.keeper import RuleKeeper
from interlock.runtime.runtime import Runtime, SpecSource, spec_from_log
from interlock.server.browser.login_store import LoginStore
from interlock.server.commands.children import ChildCommands
from interlock.server.commands.commands import Commands
from interlock.server.commands.configured import ConfiguredAgents
from interlock.server.commands.workflows import WorkflowCommands
from interlock.server.http.access import Tokens
from interlock.server.http.app import create_app
from interlock.server.http.http_protocol import http_protocol
from interlock.server.live.hub import Hub
from interlock.server.live.searching import TranscriptSearch
from interlock.server.live.socket import socket_options
from interlock.server.log_watch import WatchedLog, store_of
from interlock.server.notices import noticing
from interlock.server.redacted_logging import log_without_secrets
from interlock.server.settings import ServerSettings
from interlock.server.starting import StartReport, told_start
from interlock.server.state import ServerState
from interlock.server.status_file import keeping_status
from interlock.vocabulary.errors import UsageError

SERVER_FILE: Final = "server.json"
_KEEP_ALIVE_SECONDS: Final = 15
_UNCLEAN: Final = 1
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_logger: Final = logging.getLogger("interlock.server")


class ServerFile(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server of this home is to be found. `folder` is the home itself: a copy of it has another. `started` and
    `boot_id` tell its process from a later one with its number."""

    url: str
    pid: int
    started_at: datetime
    folder: str = ""
    started: str = ""
    boot_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What to serve. `drivers` are the built-in ones, which take `monitor`, unless others are given. Without `notify`
    nobody is told. `secrets` are hidden wherever they are said, from the start."""

    home: Path
    settings: ServerSettings
    allow_remote: bool = False
    drivers: Iterable[Driver] | None = None
    monitor: MonitorPolicies = DEFAULT_POLICIES
    policy: RunPolicy | None = None
    limits: PoolLimits | None = None
    tree: TreeLimits = DEFAULT_LIMITS
    notify: NotifySection | None = None
    specs: SpecSource = spec_from_log
    secrets: frozenset[str] = frozenset()
    records_workspaces: bool = True
    agents: ConfiguredAgents = field(default_factory=lambda: ConfiguredAgents(Config(), os.environ))


async def serve(
    setup: Setup,
    on_ready: Callable[[ServerFile], None],
    *,
    give_up: Callable[[int], None] = os._exit,
    ends_process: bool = False,
) -> int:
    """Serve until a signal comes, and return the exit code. `give_up` ends the process where it cannot end itself.

    `ends_process`: the caller exits with that code, and signals that come meanwhile are ignored.
    """
    check_host(setup.settings.host, allow_remote=setup.allow_remote)
    with signals(ends_process=ends_process) as (asked, asked_again):
        is_started = asyncio.Event()
        life = asyncio.create_task(_live(setup, asked, is_started, on_ready))
        try:
            await _first_of(life, asked)
            if not is_started.is_set() and not life.done():
                # Nobody was told of it yet, and what it has not done the next start does.
                life.cancel()
            # Not by a cancel: whoever waits for an agent to stop goes on waiting for it, as it should.
            seconds = setup.settings.closing_seconds
            await _first_of(life, asked_again, seconds)
            if not life.done() and asked_again.is_set():
                seconds = setup.settings.hurried_seconds
                await asyncio.wait((life,), timeout=seconds)
            if not life.done():
                _logger.error("not ended after %g s; agents may be left running", seconds)
                (setup.home / SERVER_FILE).unlink(missing_ok=True)
                give_up(_UNCLEAN)
        except asyncio.CancelledError:
            life.cancel()
            await asyncio.gather(life, return_exceptions=True)
            raise
        with suppress(asyncio.CancelledError):
            await life
    return 0


async def _live(
    setup: Setup, asked: asyncio.Event, is_started: asyncio.Event, on_ready: Callable[[ServerFile], None]
) -> None:
    tokens = Tokens.load_or_create(setup.home)
    drivers = builtin_drivers(setup.home, monitor=setup.monitor) if setup.drivers is None else setup.drivers
    # Agents inherit our environment: what is a secret by its name is one, also where no agent is given it by name.
    redactor = Redactor({tokens.operator, tokens.observer} | named_secrets(os.environ) | setup.secrets)
    with log_without_secrets(redactor), bind(setup.settings) as listening:
        async with (
            told_start(setup.home) as start,
            await SqliteLog.open(setup.home) as store,
            _reading(start, store),
            Runtime(
                log := WatchedLog(store),
                drivers,
                policy=setup.policy,
                limits=setup.limits,
                specs=setup.specs,
                hooks=hook_socket(setup.home),
                redactor=redactor,
                home=(standing := _settled(setup.home)),
                sleeps=True,
                records_workspaces=setup.records_workspaces,
                rules=RuleKeeper(setup.home, os.environ),
            ) as runtime,
            # Before agents are let go, and after clients were told: an agent that we end ourselves is no news.
            noticing(setup.home, setup.notify or NotifySection(), _channels(setup)) as notices,
            running(
                *(runtime, log, tokens, setup.settings, listening),
                home=setup.home,
                tree=setup.tree,
                agents=setup.agents,
            ) as server,
        ):
            if standing.is_fresh_copy:  # what waits in it is held first, however long that takes
                await runtime.settled()
            copy_is_settled(setup.home)
            if notices is not None:
                notices.watch(server.state.hub)
            async with keeping_status(setup.home, server.state.hub, log):
                with announced(setup.home, server.url) as told:
                    start.end_when(lambda: server.state.hub.is_ready)
                    is_started.set()
                    on_ready(told)
                    await _first_of(server.task, asked)


@asynccontextmanager
async def _reading(start: StartReport, store: SqliteLog) -> AsyncIterator[None]:
    """The runtime reads every session to recover it, and the hub to show it."""
    await start.watch(store, times=2)
    yield


def _settled(home: Path) -> HomeStanding:
    """Called once the log is held: nobody else gives this home its id."""
    standing = settle_home(home)
    if standing.is_copy:
        _logger.warning("%s is a copy of %s: it leaves the agents of its original alone", home, standing.copied_from)
    return standing


def _channels(setup: Setup) -> list[NoticeChannel]:
    """The channels that a process without a terminal has. One that was asked for and is not here is said to be so."""
    if setup.notify is None:
        return []
    if setup.notify.desktop and desktop_channel(os.environ, None) is None:
        _logger.warning("notifications by desktop fail: there is no notify-send here, or no desktop")
    return channels_of(setup.notify, os.environ, None)


async def _first_of(task: asyncio.Task[None], asked: asyncio.Event, seconds: float | None = None) -> None:
    """Until a task is done, a signal comes, or the time is over."""
    waiting = asyncio.create_task(asked.wait())
    try:
        await asyncio.wait((waiting, task), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()


class Running:
    """A server that accepts."""

    def __init__(self, state: ServerState, listening: socket.socket) -> None:
        self.state = state
        self.url = url_of(state.settings.host, listening.getsockname()[1])
        self._uvicorn = _Uvicorn(uvicorn_config(state))
        self.task = asyncio.create_task(self._uvicorn.serve(sockets=[listening]))

    async def started(self) -> None:
        while not self._uvicorn.started:
            if self.task.done():
                await self.task
                raise UsageError("the server could not be started", remedy="look at its log")
            await asyncio.sleep(0.005)

    async def close(self, reason: str) -> None:
        """Tell clients, then accept nothing more, then wait for what is being answered."""
        patience = self.state.settings.closing_seconds / 4
        await self.state.hub.close(reason, patience_seconds=patience)
        self._uvicorn.end()
        try:
            await self.task
        finally:
            await self.state.commands.close()
            await self.state.children.close()
            await self.state.workflows.close()


@asynccontextmanager
async def running(
    runtime: Runtime,
    log: Log,
    tokens: Tokens,
    settings: ServerSettings,
    listening: socket.socket,
    *,
    home: Path | None = None,
    tree: TreeLimits = DEFAULT_LIMITS,
    agents: ConfiguredAgents | None = None,
) -> AsyncIterator[Running]:
    """A server over a runtime that runs, for as long as the block. It ends as a restart would: clients come back.

    `home`: below it worktrees are made; without one there are none. `agents`: those that are opened by name."""
    hub = Hub(runtime, log)
    owner = ChildOwner(runtime, log, limits=tree)
    children = ChildCommands(runtime, hub, settings, owner)
    workflows = WorkflowCommands(runtime, hub, settings, owner, log)
    commands = Commands(runtime, hub, settings, log=log, home=home, workflows=workflows)
    repairing: asyncio.Task[None] | None = None
    search = TranscriptSearch(store_of(log), lambda: hub.is_ready)
    try:
        await hub.start()
        search.start()
        state = ServerState(
            runtime=runtime,
            log=log,
            hub=hub,
            commands=commands,
            children=children,
            workflows=workflows,
            search=search,
            tokens=tokens,
            settings=settings,
            logins=LoginStore.of_home(home),
            agents=agents or ConfiguredAgents(Config(), os.environ),
        )
        server = Running(state, listening)
    except BaseException:
        await search.close()
        await hub.close("the server could not be started")
        raise
    async with owner:  # its end comes after that of the last command
        try:
            await server.started()
            repairing = asyncio.create_task(commands.repair_worktrees())
            yield server
        finally:
            if repairing is not None:
                repairing.cancel()
                await asyncio.gather(repairing, return_exceptions=True)
            await search.close()
            await server.close("the server stops")


class _Uvicorn(uvicorn.Server):
    """As it is, but signals are ours, and it does not wake up ten times a second to see whether it should end."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._ending = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def main_loop(self) -> None:
        while not await self.on_tick(0):  # once a second, for the date in its headers
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._ending.wait()

    def end(self) -> None:
        self.should_exit = True
        self._ending.set()


def uvicorn_config(state: ServerState) -> uvicorn.Config:
    """No banner, no access log (it would hold query strings), no trust in headers of proxies."""
    settings = state.settings
    return uvicorn.Config(
        cast("Any", create_app(state)),
        http=http_protocol(settings),
        limit_concurrency=2 * settings.max_connections,
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=max(1, int(settings.closing_seconds / 4)),
        **socket_options(settings),
    )


def check_host(host: str, *, allow_remote: bool) -> None:
    """Law 1."""
    if not allow_remote and not _is_loopback(host):
        raise UsageError(
            f"{host or 'every address'} can be reached from other machines",
            remedy="serve on 127.0.0.1, or say --allow-remote and keep the tokens secret",
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


@contextmanager
def bind(settings: ServerSettings) -> Iterator[socket.socket]:
    """A bound socket. Connections wait in its queue until somebody accepts."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # The protocol is named, for asyncio switches Nagle's algorithm off only where it is: else each answer waits 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    with listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((settings.host, settings.port))
        except OSError as error:
            message = f"{settings.host}:{settings.port} cannot be bound: {error.strerror or error}"
            raise UsageError(message, remedy="choose another port, or 0 for any") from error
        yield listening


def url_of(host: str, port: int) -> str:
    """Where to connect to. A server on every address is found on this machine, too."""
    name = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


@contextmanager
def announced(home: Path, url: str) -> Iterator[ServerFile]:
    """`server.json`, for as long as the block."""
    here = this_process()
    told = ServerFile(
        url=url,
        pid=here.pid,
        started_at=datetime.now(UTC),
        folder=folder_key(home),
        started=here.started,
        boot_id=here.boot_id,
    )
    path = home / SERVER_FILE
    draft = path.with_name(f".{path.name}.{told.pid}")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(msgspec.json.encode(told))
    draft.replace(path)
    try:
        yield told
    finally:
        path.unlink(missing_ok=True)


@contextmanager
def signals(*, ends_process: bool = False) -> Iterator[tuple[asyncio.Event, asyncio.Event]]:
    """Two events: set by the first signal to end, and by the next one.

    `ends_process`: after a first signal, those that come after the block are ignored, so that a late Ctrl-C turns no
    clean end into a traceback.
    """
    loop, asked, asked_again = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()

    def hear() -> None:
        (asked_again if asked.is_set() else asked).set()

    for one in _SIGNALS:
        loop.add_signal_handler(one, hear)
    try:
        yield asked, asked_again
    finally:
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        for one in _SIGNALS:
            loop.remove_signal_handler(one)
            if ends_process and asked.is_set():
                signal.signal(one, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
