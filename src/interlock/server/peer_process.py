"""Whether a process of an agent is at the other end of a connection to the server.

Laws:
1. A connection is found by both of its addresses in the kernel's own table, and the process by who holds its socket:
   nothing that a client sends counts.
2. A process is the agent's as the census says: by parentage, group, session or the spawn id in its environment.
3. Where it cannot be told (another system than Linux, a client on another machine or behind a proxy, a process of
   another user), the answer is no, and only what the request itself names counts.

Reading blocks, for as long as the table of processes takes to read.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, Final, TypeAlias

from interlock.agents.port import ProcessIdentity
from interlock.agents.processes.census import Census
from interlock.agents.processes.identity import read_table
from interlock.log.host import host
from interlock.vocabulary.errors import Unreachable
from interlock.vocabulary.ids import SpawnId

_WORD_DIGITS: Final = 8

Address: TypeAlias = "tuple[IPv4Address | IPv6Address, int]"
Spawns: TypeAlias = Mapping[SpawnId, ProcessIdentity | None]


@dataclass(frozen=True, slots=True)
class PeerConnection:
    """Both ends of a connection, as the server sees them."""

    client: Address
    server: Address


def connection_of(scope: Mapping[str, Any]) -> PeerConnection | None:
    """The connection of an ASGI scope; None where it is not one over TCP."""
    client, server = _address(scope.get("client")), _address(scope.get("server"))
    return None if client is None or server is None else PeerConnection(client, server)


def _address(spelled: object) -> Address | None:
    match spelled:
        case (str(host), int(port)):
            with suppress(ValueError):
                return _unmapped(ip_address(host.partition("%")[0])), port
            return None
        case _:
            return None


def _unmapped(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped


def is_of_spawn(connection: PeerConnection, leader: ProcessIdentity | None, spawn_id: SpawnId) -> bool:
    """Whether a process of that spawn holds the client's end."""
    name = _socket_name(connection)
    if not name:
        return False
    try:
        found = Census(leader, spawn_id).look()
    except (OSError, Unreachable):
        return False
    return any(name in set(host().open_names(one.identity.pid)) for one in found)


def sender_of(connection: PeerConnection, spawns: Spawns, marks: tuple[str, ...] = ()) -> SpawnId | None:
    """The spawn of which a process holds the client's end: one of these, or one whose id begins with one of `marks`."""
    name = _socket_name(connection)
    if not name:
        return None
    try:
        table = read_table()
        marked = {one for seen in table.values() for one in seen.spawn_ids if marks and one.startswith(marks)}
        leaders = {**dict.fromkeys(map(SpawnId, marked)), **spawns}
        for spawn_id, leader in leaders.items():
            found = Census(leader, spawn_id).look_at(table)
            if any(name in set(host().open_names(one.identity.pid)) for one in found):
                return spawn_id
    except (OSError, Unreachable):
        return None
    return None


def _socket_name(connection: PeerConnection) -> str:
    """How /proc spells the client's socket; blank where the client is not on this machine, or cannot be seen."""
    for table in host().tcp_tables():
        with suppress(ValueError, IndexError):
            for line in table.splitlines()[1:]:
                fields = line.split()
                # The client's own entry: its end is the local one.
                if _read(fields[1]) == connection.client and _read(fields[2]) == connection.server:
                    return f"socket:[{fields[9]}]"
    return ""


def _read(spelled: str) -> Address:
    """`0100007F:1F90` as 127.0.0.1 and 8080: words of 32 bits in the machine's order, and the port."""
    address, _, port = spelled.partition(":")
    words = [address[at : at + _WORD_DIGITS] for at in range(0, len(address), _WORD_DIGITS)]
    packed = b"".join(int(word, 16).to_bytes(4, "little") for word in words)
    return _unmapped(ip_address(packed)), int(port, 16)
