"""Checks of a home: its folder, the log in it, the disk, its tokens and the server's port. Nothing is changed."""

from __future__ import annotations

import asyncio
import http.client
import os
import shutil
import socket
import stat
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import apsw
import msgspec

from interlock.agents.tmux.server import MAX_SOCKET_BYTES, TmuxServer, run_folder
from interlock.cli.home import has_log
from interlock.cli.setup.doctor_checks import PROBE_SECONDS, CheckProbe, MachineCheck, MachineHealth
from interlock.log.home_identity import HomeStanding, look_at_home
from interlock.log.lease import Life, judge, process_start, read_holder, this_process
from interlock.log.paths import DATABASE_NAME, check_home
from interlock.log.port import LogUnavailable
from interlock.log.private_file import folder_key
from interlock.log.sqlite.schema import CURRENT, connect, disconnect
from interlock.runtime.config.sections import Config
from interlock.server.token_file import TOKEN_FILE
from interlock.vocabulary.errors import Unreachable

SERVER_FILE: Final = "server.json"
"""As the server names it; its module is too heavy to be asked."""

_GROUP: Final = "home"
_ID_CHARACTERS: Final = 26
_MEGABYTE: Final = 1024 * 1024
_LOW_MEGABYTES: Final = 1024
_CLOCK_SECONDS: Final = 120
_MAKE_ROOM: Final = "interlock log archive --before 30d, then interlock log vacuum"
_NO_MEGABYTES: Final = 64
_ASK_SECONDS: Final = 2.0
# SQLite asks after this many steps whether to go on.
_STEPS: Final = 20_000


def home_probes(home: Path | None, config: Config) -> list[CheckProbe]:
    if home is None:
        check = MachineCheck(id="folder", group=_GROUP, health=MachineHealth.FAIL, found="there is no home for the log")
        return [
            CheckProbe.told(
                check.but(MachineHealth.FAIL, check.found, "set HOME, or name a folder with INTERLOCK_HOME")
            )
        ]
    looks = {
        "folder": partial(_folder, home),
        "identity": partial(_identity, home),
        "sockets": partial(_sockets, home),
        "log": partial(_log, home),
        "disk": partial(_disk, home),
        "clock": partial(_clock, home),
        "tokens": partial(_tokens, home),
        "port": partial(_port, home, config),
    }

    def probe(name: str, look: partial[MachineCheck]) -> CheckProbe:
        async def looked() -> Sequence[MachineCheck]:
            return (await asyncio.to_thread(look),)

        return CheckProbe(name, _GROUP, looked)

    return [probe(name, look) for name, look in looks.items()]


def _folder(home: Path) -> MachineCheck:
    check = MachineCheck(id="folder", group=_GROUP, health=MachineHealth.OK, found=str(home))
    if not home.exists() and not home.is_symlink():
        near = _nearest(home)
        if not os.access(near, os.W_OK | os.X_OK):
            return check.but(
                MachineHealth.FAIL, f"{home} cannot be made: {near} cannot be written", "set INTERLOCK_HOME"
            )
        return check.but(MachineHealth.OK, f"{home} is made when it is first used")
    try:
        check_home(home)
    except LogUnavailable as error:
        return _refused(check, error)
    if home.stat().st_uid != os.geteuid():
        return check.but(
            MachineHealth.FAIL, f"{home} belongs to another user", "set INTERLOCK_HOME to a folder of your own"
        )
    if home.stat().st_mode & 0o077:
        return check.but(MachineHealth.WARN, f"others can look into {home}", f"chmod 700 '{home}'")
    return check


def _identity(home: Path) -> MachineCheck:
    check = MachineCheck(id="identity", group=_GROUP, health=MachineHealth.OK, found="made when it is first used")
    standing = look_at_home(home) if home.is_dir() else HomeStanding()
    if standing.is_copy:
        mend = "nothing, to use it as a home of its own; `interlock up --take-over` if the original is gone"
        found = f"a copy of {standing.copied_from}: it leaves the agents of its original alone"
        return check.but(MachineHealth.WARN, found, mend)
    return check.but(MachineHealth.OK, f"{standing.home_id}, not a copy") if standing.home_id else check


def _sockets(home: Path) -> MachineCheck:
    longest = run_folder(home) / f"spn_{'0' * _ID_CHARACTERS}.sock"
    size = len(os.fsencode(longest))
    check = MachineCheck(
        id="sockets", group=_GROUP, health=MachineHealth.OK, found=f"{TmuxServer.of_home(home).socket}"
    )
    if size > MAX_SOCKET_BYTES:
        found = f"{home} is {size - MAX_SOCKET_BYTES} bytes too long: no agent can be run in a terminal"
        return check.but(MachineHealth.WARN, found, "set INTERLOCK_HOME to a shorter path")
    return check


def _log(home: Path) -> MachineCheck:
    check = MachineCheck(id="log", group=_GROUP, health=MachineHealth.OK, found="none yet")
    if not has_log(home):
        return check
    try:
        path = check_home(home)
    except LogUnavailable:
        return check.but(MachineHealth.WARN, "not looked at, as the folder is not in order")
    wal = path.with_name(f"{path.name}-wal")
    # A reader of its own kind would leave files behind. Without a WAL nobody writes, and none are needed.
    is_at_rest = not wal.exists()
    found = _look_at(path, check, is_at_rest=is_at_rest)
    if found.health is not MachineHealth.OK and is_at_rest and wal.exists():  # somebody began to write meanwhile
        return _look_at(path, check, is_at_rest=False)
    return found


def _look_at(path: Path, check: MachineCheck, *, is_at_rest: bool) -> MachineCheck:
    try:
        connection = _at_rest(path) if is_at_rest else connect(path, readonly=True, busy_timeout_seconds=1.0)
    except apsw.Error as error:
        return check.but(MachineHealth.FAIL, f"cannot be opened: {error}", "interlock log repair --salvage")
    try:
        version = CURRENT.found(connection)
        return _sound(connection, check.but(MachineHealth.OK, f"schema {version}, {_holder(connection)}"))
    except LogUnavailable as error:
        return _refused(check, error)
    except apsw.Error as error:
        return check.but(MachineHealth.FAIL, f"cannot be read: {error}", "interlock log repair --salvage")
    finally:
        disconnect(connection)


def _at_rest(path: Path) -> apsw.Connection:
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_NOFOLLOW
    return apsw.Connection(f"{path.as_uri()}?immutable=1", flags)


def _refused(check: MachineCheck, error: LogUnavailable) -> MachineCheck:
    return check.but(MachineHealth.FAIL, str(error).removesuffix(f"; {error.next_action}"), error.next_action)


def _sound(connection: apsw.Connection, check: MachineCheck) -> MachineCheck:
    until = time.monotonic() + PROBE_SECONDS - 1
    connection.set_progress_handler(lambda: time.monotonic() > until, _STEPS)
    try:
        found = [str(text) for (text,) in connection.execute("PRAGMA quick_check(1)")]
    except apsw.InterruptError:
        return check.but(MachineHealth.WARN, f"{check.found}; too large for a quick look", "interlock log verify")
    if found != ["ok"]:
        return check.but(MachineHealth.FAIL, f"{check.found}; damaged: {found[0]}", "interlock log repair")
    return check.but(MachineHealth.OK, f"{check.found}, the file is sound")


def _holder(connection: apsw.Connection) -> str:
    try:
        holder = read_holder(connection)
    except msgspec.MsgspecError:
        return "held by somebody whose name cannot be read"
    if holder is None:
        return "no process writes"
    life = judge(holder, this_process())
    words = {Life.ALIVE: "writes", Life.DEAD: "was the last to write, and is gone", Life.UNKNOWN: "may be writing"}
    return f"{holder} {words[life]}"


def _disk(home: Path) -> MachineCheck:
    near = _nearest(home)
    free = shutil.disk_usage(near).free // _MEGABYTE
    told = f"{free / 1024:.1f} GB free" if free >= _LOW_MEGABYTES else f"{free} MB free"
    check = MachineCheck(id="disk", group=_GROUP, health=MachineHealth.OK, found=told)
    if free < _NO_MEGABYTES:
        return check.but(MachineHealth.FAIL, told, f"make room, the log stops when the disk is full: {_MAKE_ROOM}")
    return check.but(MachineHealth.WARN, told, _MAKE_ROOM) if free < _LOW_MEGABYTES else check


def _clock(home: Path) -> MachineCheck:
    """What was written by this machine cannot be newer than now, whatever its time zone."""
    check = MachineCheck(id="clock", group=_GROUP, health=MachineHealth.OK, found="")
    now = time.time()
    newest = max(
        (path.stat().st_mtime for path in (home / DATABASE_NAME, Path(__file__)) if path.exists()), default=now
    )
    spelled = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
    if newest - now > _CLOCK_SECONDS:
        behind = f"{spelled} is at least {(newest - now) / 60:.0f} min behind: files here are newer"
        return check.but(MachineHealth.WARN, behind, "sudo timedatectl set-ntp true")
    return check.but(MachineHealth.OK, f"{spelled}; no file of ours is newer")


def _tokens(home: Path) -> MachineCheck:
    path = home / TOKEN_FILE
    check = MachineCheck(id="tokens", group=_GROUP, health=MachineHealth.OK, found="only you can read them")
    remake = f"rm '{path}'; the server makes new ones"
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return check.but(MachineHealth.OK, "made when a server is first started")
    if not stat.S_ISREG(found.st_mode):
        return check.but(MachineHealth.FAIL, f"{path} is no plain file", remake)
    if found.st_uid != os.geteuid():
        return check.but(MachineHealth.FAIL, f"{path} belongs to another user", remake)
    if stat.S_IMODE(found.st_mode) & 0o077:
        return check.but(MachineHealth.FAIL, f"others can read {path}", remake)
    return check


def _port(home: Path, config: Config) -> MachineCheck:
    host, port = config.server.host, config.server.port
    running = _running(home)
    check = MachineCheck(id="port", group=_GROUP, health=MachineHealth.OK, found="any free one; no server runs")
    if running is not None and (not port or urlsplit(running).port == port):
        if _answers(running):
            return check.but(MachineHealth.OK, f"ours: {running} answers")
        return check.but(
            MachineHealth.WARN, f"a server should be at {running}, and does not answer", "stop it, start it anew"
        )
    if not port:
        return check
    if _can_bind(host, port):
        return check.but(MachineHealth.OK, f"{host}:{port} is free")
    mend = "choose another server.port, or stop what listens there"
    return check.but(MachineHealth.FAIL, f"{host}:{port} is taken by somebody else, or cannot be used", mend)


class _ServerFile(msgspec.Struct, frozen=True):
    url: str
    pid: int
    folder: str = ""


def _running(home: Path) -> str | None:
    """Where the server of this home says that it is, if its process lives."""
    try:
        told = msgspec.json.decode((home / SERVER_FILE).read_bytes(), type=_ServerFile)
        if told.folder not in ("", folder_key(home)):  # it came here with a copy
            return None
        return told.url if urlsplit(told.url).port and process_start(told.pid) is not None else None
    except (OSError, msgspec.MsgspecError, ValueError, Unreachable):
        return None


def _answers(url: str) -> bool:
    split = urlsplit(url)
    connection = http.client.HTTPConnection(split.hostname or "", split.port, timeout=_ASK_SECONDS)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _can_bind(host: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((host.strip("[]"), port))
        except OSError:
            return False
    return True


def _nearest(path: Path) -> Path:
    """The folder itself, or the one above it that is there."""
    return next((one for one in (path, *path.absolute().parents) if one.exists()), Path(os.sep))
