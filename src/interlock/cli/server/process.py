"""The server of a home as a process: is it there, start it, end it.

Laws:
1. A server runs if the process that its file names holds the log of its home, by number and start time. A number alone
   proves nothing: it may be another process by now.
2. A signal goes to the process that was proven, and to no other: it is held before it is looked at.
3. Every wait is bounded, and what is not known at its end is said.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import apsw
import msgspec

from interlock.cli import output
from interlock.cli.exit_codes import DamagedLog
from interlock.cli.server.api import read_server_file
from interlock.cli.server.presence import Presence, RunningServer, health_of
from interlock.cli.server.waiting import STALL_SECONDS, StartBar
from interlock.log.host import host
from interlock.log.lease import Holder, Life, judge, read_holder, this_process
from interlock.log.paths import DATABASE_NAME, check_home
from interlock.log.port import LogUnavailable
from interlock.log.sqlite.schema import CURRENT, connect, disconnect
from interlock.log.starting_file import announce_start, read_start
from interlock.vocabulary.errors import InterlockError, PeerFault, Unreachable, UsageError

# These are also had from `server_presence`, which is light; whoever comes here pays for the log anyway.
__all__ = ["Grip", "Presence", "RunningServer", "health_of", "held_server", "look_for_server", "start_server"]

LOG_FILE: Final = "server.log"
_LOOK_SECONDS: Final = 0.05
_OTHER_SECONDS: Final = 10.0
_TOLD_BYTES: Final = 4_000
_USAGE, _UNREACHABLE = 2, 8


def look_for_server(home: Path) -> RunningServer:
    """Law 1."""
    holder = _holder(home)
    life = Life.DEAD if holder is None else judge(holder, this_process())
    try:
        said = read_server_file(home)
    except FileNotFoundError:
        presence = {Life.ALIVE: Presence.HELD, Life.DEAD: Presence.ABSENT, Life.UNKNOWN: Presence.UNKNOWN}[life]
        return _starting(home, holder) or RunningServer(presence=presence, holder=holder)
    pid = said.get("pid")
    if life is Life.UNKNOWN:
        presence = Presence.UNKNOWN
    elif life is Life.DEAD:
        presence = Presence.STALE
    else:
        presence = Presence.RUNS if holder is not None and holder.pid == pid else Presence.HELD
    if presence in (Presence.STALE, Presence.HELD) and (starting := _starting(home, holder)):
        return starting
    return RunningServer(
        presence=presence,
        url=str(said.get("url", "")),
        pid=pid if isinstance(pid, int) else 0,
        started_at=str(said.get("started_at", "")),
        holder=holder,
    )


def _starting(home: Path, holder: Holder | None) -> RunningServer | None:
    """A server that says of itself that it starts. It is held by the log once that is its own, and not before."""
    start = read_start(home)
    if start is None:
        return None
    is_holder = holder is not None and (holder.pid, holder.started) == (start.pid, start.process)
    began = datetime.fromtimestamp(start.began, UTC).isoformat()
    return RunningServer(
        presence=Presence.STARTING, pid=start.pid, started_at=began, holder=holder if is_holder else None, start=start
    )


def _holder(home: Path) -> Holder | None:
    """Who has the log, if anybody says so. Nothing is changed."""
    try:
        if (home / DATABASE_NAME).lstat().st_size == 0:
            return None
        connection = connect(check_home(home), readonly=True)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except LogUnavailable as error:
        raise Unreachable(str(error)) from error
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise DamagedLog(f"the log in {home} is damaged ({error}); see `interlock log verify`") from error
    except apsw.Error as error:
        raise Unreachable(f"the log in {home} cannot be read: {error}; see `interlock doctor`") from error
    try:
        if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'lease'").fetchall():
            return None  # somebody is making it
        return read_holder(connection)
    except (apsw.Error, msgspec.MsgspecError) as error:
        raise Unreachable(f"it cannot be read who has the log in {home}: {error}") from error
    finally:
        disconnect(connection)


# Starting


def start_server(home: Path, options: Sequence[str] = (), *, within_seconds: float = STALL_SECONDS) -> RunningServer:
    """Start the server of a home in the background, and wait until it is ready. One that runs or starts already is as
    good. `within_seconds` is how long it may make no progress; how long it takes in all is not bounded."""
    found = look_for_server(home)
    if found.presence is Presence.UNKNOWN:
        raise Unreachable(
            f"{found.holder} has the log in {home}, and it cannot be determined from here whether it is alive"
        )
    log = home / LOG_FILE
    process = None
    if found.presence not in (Presence.RUNS, Presence.STARTING):
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        process = _launch(home.absolute(), log, options)
    try:
        if process is not None:
            output.note(f"starting the server of {home.absolute()}")
        return _until_ready(home, log, process, within_seconds)
    except KeyboardInterrupt:
        try:
            if process is not None or found.presence is Presence.STARTING:
                output.note("the server goes on starting; `interlock down` ends it")
        finally:
            _forget(process)
        raise


def _launch(home: Path, log: Path, options: Sequence[str]) -> subprocess.Popen[bytes]:
    """A process of its own session: neither Ctrl-C here nor the end of this terminal reaches it."""
    command = [sys.executable, "-P", "-m", "interlock.cli", "up", "--foreground", "--home", str(home)]
    descriptor = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
        process = subprocess.Popen(
            [*command, "--log-file", str(home / LOG_FILE), *options],
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            cwd=home,
            start_new_session=True,
        )
    finally:
        os.close(descriptor)
    announce_start(home, process.pid)
    return process


def _is_ready(url: str) -> bool:
    health = health_of(url)
    return health is not None and health["ready"]


def _until_ready(
    home: Path, log: Path, process: subprocess.Popen[bytes] | None, within_seconds: float
) -> RunningServer:
    bar, ended_at = StartBar(home, within_seconds), None
    with bar.shown():
        while not bar.watch.is_stalled:
            code = 0 if process is None else process.poll()
            found = _look_again(home)
            if found.presence is Presence.RUNS and _is_ready(found.url):
                _forget(process)
                return found
            if code is not None:
                # Ours ended, or there was none. Another one that is about to be ready is as good, for a while.
                ended_at = time.monotonic() if ended_at is None else ended_at
                is_late = found.presence is Presence.HELD and time.monotonic() - ended_at > _OTHER_SECONDS
                if is_late or found.presence not in (Presence.RUNS, Presence.HELD, Presence.STARTING):
                    raise _not_started(log, process, code)
            bar.tick(_of_upgrade(home))
    _forget(process)
    late = f"the server is not ready after {bar.watch.seconds:.0f} s, and makes no progress{_of_upgrade(home)}"
    raise Unreachable(f"{late}; see `interlock status`, and {log}")


def _of_upgrade(home: Path) -> str:
    """What it does where that may take long: an older log is brought up to date before anything else, all or nothing,
    so the file has its older schema until that is done."""
    try:
        connection = connect(check_home(home), readonly=True)
    except (OSError, LogUnavailable, apsw.Error):
        return ""
    try:
        version = CURRENT.found(connection)
    except (LogUnavailable, apsw.Error):
        return ""
    finally:
        disconnect(connection)
    is_older = 0 < version < CURRENT.version
    return f" (upgrading the log from schema {version} to {CURRENT.version}, once)" if is_older else ""


def _look_again(home: Path) -> RunningServer:
    """As `look_for_server`; a log that is just being made, and cannot be read yet, is held by who makes it."""
    try:
        return look_for_server(home)
    except Unreachable:
        return RunningServer(presence=Presence.HELD)


def _forget(process: subprocess.Popen[bytes] | None) -> None:
    """It outlives us, and that is meant: nobody is to be warned about it."""
    if process is not None and process.poll() is None:
        process.returncode = 0


def _not_started(log: Path, process: subprocess.Popen[bytes] | None, code: int | None) -> InterlockError:
    if process is None:
        return Unreachable("the server went away while it was waited for")
    last = _last_words(log)
    message = f"the server did not start: {last or f'exit code {code}'}"
    if code == _USAGE:
        return UsageError(message)
    return Unreachable(message) if code == _UNREACHABLE else PeerFault(f"{message}; see {log}")


def _last_words(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TOLD_BYTES))
        lines = file.read().decode("utf-8", "replace").splitlines()
    said = [line for line in lines if line.startswith("interlock: ")]
    return (said or lines or [""])[-1].removeprefix("interlock: ").strip()


# Ending


@contextmanager
def held_server(home: Path) -> Iterator[tuple[RunningServer, Grip | None]]:
    """The server, and a grip on its process if it is proven to run. Law 2: the grip comes first."""
    found = look_for_server(home)
    if not _can_be_held(found):
        yield found, None
        return
    grip = Grip(found)
    try:
        again = look_for_server(home)
        is_same = _can_be_held(again) and again.holder == found.holder
        yield (found, grip) if is_same else (again, None)
    finally:
        grip.close()


def _can_be_held(server: RunningServer) -> bool:
    """Whether its process is proven by the log: one that runs, or one that starts and has the log already."""
    return server.presence is Presence.RUNS or (server.presence is Presence.STARTING and server.holder is not None)


class Grip:
    """A process that cannot become another one while this is held, where the system can do that."""

    def __init__(self, server: RunningServer) -> None:
        assert server.holder is not None, "it is proven to run"
        self._holder = server.holder
        self._descriptor = host().hold(server.pid)

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    @property
    def lives(self) -> bool:
        return judge(self._holder, this_process()) is Life.ALIVE

    def send(self, number: signal.Signals) -> None:
        """Send a signal, if it lives."""
        try:
            if self._descriptor is not None:
                host().signal_held(self._descriptor, number)
            elif self.lives:
                os.kill(self._holder.pid, number)
        except ProcessLookupError:
            pass  # it ended by itself meanwhile

    def wait(self, seconds: float) -> bool:
        """Wait for its end; whether it came."""
        deadline = time.monotonic() + seconds
        while self.lives:
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_SECONDS)
        return True
