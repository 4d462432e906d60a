"""Who may write: one holder at a time, known by its process, and fenced by a token that only grows.

Laws:
1. The token is compared inside every commit, so a writer that lost the lease cannot append, whatever it believes.
2. A lease is taken over without asking only from a holder that is provably dead: its machine is ours and was started
   anew, or no process with its pid and start time lives in our boot and pid namespace.
3. A holder that is provably alive keeps the lease, also against `force`. `force` is for when we cannot tell.
4. Every take-over leaves a row in `maintenance` that names the old holder.
5. A holder holds one file, by device and inode. The lease in a copy of that file is nobody's, whoever lives.

The heartbeat is for people: it decides nothing, because a suspended laptop stops it as surely as a crash.
"""

from __future__ import annotations

import json
import os
from enum import StrEnum
from pathlib import Path

import apsw
import msgspec
from msgspec import Struct, structs

from interlock.log.host import host
from interlock.log.port import LogUnavailable
from interlock.log.private_file import folder_key
from interlock.log.process_life import process_start as process_start
from interlock.vocabulary.errors import Unreachable


class Holder(Struct, frozen=True, kw_only=True):
    """A process, told apart from every other on any machine at any time."""

    pid: int
    started: str
    boot_id: str
    pid_namespace: str
    host: str
    machine_id: str
    database: str = ""

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


class LeaseHeld(LogUnavailable):
    """Another process may write, or it is not certain that it may not."""

    def __init__(self, message: str, *, next_action: str, holder: Holder | None) -> None:
        super().__init__(message, next_action=next_action)
        self.holder = holder


class LeaseLost(LogUnavailable):
    """Another process has taken the lease; this one can append nothing more."""

    def __init__(self) -> None:
        super().__init__(
            "another process has taken over the log", next_action="open the log again to write to it", may_pass=False
        )


class Life(StrEnum):
    """What can be proven about a holder."""

    ALIVE = "alive"
    DEAD = "dead"
    UNKNOWN = "unknown"


def this_process() -> Holder:
    """The holder that we would be."""
    here = host()
    started = process_start(os.getpid())
    assert started is not None, "we live"
    return Holder(
        pid=os.getpid(),
        started=started,
        boot_id=here.boot_id(),
        pid_namespace=here.pid_namespace(),
        host=os.uname().nodename,
        machine_id=here.machine_id(),
    )


def judge(holder: Holder, here: Holder) -> Life:
    """Say what this process can prove about another."""
    if (holder.host, holder.machine_id) != (here.host, here.machine_id):
        return Life.UNKNOWN
    if not holder.boot_id or not here.boot_id:
        return Life.UNKNOWN
    if holder.boot_id != here.boot_id:  # an id of a boot is never given twice; a host's name is
        return Life.DEAD if here.machine_id else Life.UNKNOWN
    if holder.pid_namespace != here.pid_namespace:
        return Life.UNKNOWN
    try:
        return Life.ALIVE if process_start(holder.pid) == holder.started else Life.DEAD
    except Unreachable:
        return Life.UNKNOWN


def take(connection: apsw.Connection, here: Holder, now_unix_ms: int, *, force: bool = False) -> int:
    """Take the lease and return its token, or raise `LeaseHeld`. Call it inside a transaction."""
    ((token, spelled, heartbeat_unix_ms),) = connection.execute("SELECT token, holder, heartbeat_unix_ms FROM lease")
    here = structs.replace(here, database=_database_key(connection))
    if spelled:
        holder = _decode_holder(str(spelled))
        is_of_copy = holder is not None and not _holds(holder, connection)
        life = Life.DEAD if is_of_copy else judge(holder, here) if holder else Life.UNKNOWN
        if life is Life.ALIVE or (life is Life.UNKNOWN and not force):
            raise _held(holder, life, (now_unix_ms - int(str(heartbeat_unix_ms))) / 1000)
        action = "lease_of_copy" if is_of_copy else "lease_taken_over" if life is Life.DEAD else "lease_forced"
        details = {"token": token, "from": spelled, "last_heartbeat_unix_ms": heartbeat_unix_ms, "by": str(here)}
        note(connection, now_unix_ms, action, json.dumps(details))
    connection.execute(
        "UPDATE lease SET token = token + 1, holder = ?, heartbeat_unix_ms = ?",
        (msgspec.json.encode(here).decode(), now_unix_ms),
    )
    return int(str(token)) + 1


def read_holder(connection: apsw.Connection) -> Holder | None:
    """Who has the lease of this very file, by its own word; None: nobody. `MsgspecError` if that cannot be read."""
    ((spelled,),) = connection.execute("SELECT holder FROM lease").fetchall()
    holder = msgspec.json.decode(str(spelled), type=Holder) if spelled else None
    return holder if holder is not None and _holds(holder, connection) else None


def _holds(holder: Holder, connection: apsw.Connection) -> bool:
    """Law 5. A holder of an older version does not say which file it holds."""
    return holder.database in ("", _database_key(connection))


def _database_key(connection: apsw.Connection) -> str:
    return folder_key(Path(connection.filename)) if connection.filename else ""


def check(connection: apsw.Connection, token: int) -> None:
    """Raise `LeaseLost` unless the lease is still ours. Call it inside every transaction that writes."""
    if connection.execute("SELECT token FROM lease").fetchall() != [(token,)]:
        raise LeaseLost


def beat(connection: apsw.Connection, now_unix_ms: int) -> None:
    connection.execute("UPDATE lease SET heartbeat_unix_ms = ?", (now_unix_ms,))


def let_go(connection: apsw.Connection) -> None:
    connection.execute("UPDATE lease SET holder = ''")


def note(connection: apsw.Connection, now_unix_ms: int, action: str, details: str) -> None:
    """Leave a record of something done to the log as a whole. `details` is JSON."""
    connection.execute(
        "INSERT INTO maintenance (at_unix_ms, action, details) VALUES (?, ?, ?)", (now_unix_ms, action, details)
    )


def _held(holder: Holder | None, life: Life, heartbeat_age_seconds: float) -> LeaseHeld:
    who = str(holder) if holder else "a holder whose name cannot be read"
    seen = f"last heartbeat {heartbeat_age_seconds:.0f} s ago"
    if life is Life.ALIVE:
        return LeaseHeld(
            f"{who} is writing to this log ({seen})", next_action="use that one, or stop it first", holder=holder
        )
    return LeaseHeld(
        f"{who} holds this log, and it cannot be determined from here whether it is alive ({seen})",
        next_action="make sure that it is stopped, then open the log with force",
        holder=holder,
    )


def _decode_holder(spelled: str) -> Holder | None:
    try:
        return msgspec.json.decode(spelled, type=Holder)
    except msgspec.MsgspecError:
        return None
