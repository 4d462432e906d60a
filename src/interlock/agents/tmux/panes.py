"""Panes: which there are, starting one for an agent, adopting one that somebody else started, and reaching into it."""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from interlock.agents.tmux.capture import PaneCapture, capture_pane
from interlock.agents.tmux.client import TmuxClient
from interlock.agents.tmux.ownership import OWNER_OPTION
from interlock.agents.tmux.server import OF_OWN_SERVER, Absent, Command, NoServer, TmuxRefused, TmuxServer
from interlock.log.home_identity import NotOurs
from interlock.log.lease import process_start
from interlock.screen.keys import KEY_NAME
from interlock.vocabulary.errors import PeerFault, Unreachable, UsageError

OWN_SESSION: Final = "agents"
# A server of ours passes on to its panes neither its own environment nor that of a person who attaches to it.
_BARE_SERVER: Final[tuple[Command, ...]] = (
    ("set-option", "-g", "default-terminal", "screen-256color"),
    ("set-option", "-g", "update-environment", ""),
    *(("set-environment", "-g", "-u", name) for name in (*OF_OWN_SERVER, "PWD")),
)
# tmux gives a pane the PATH of its client and a SHELL of its own choice, whatever `-e` says.
_SET_LATE: Final = ("PATH", "SHELL")
_FIELDS: Final = (
    "pane_id", "window_id", "session_id", "pane_pid", "window_index", "pane_index", "pane_dead", "session_name",
    "window_name", "pane_current_command", "pane_title", OWNER_OPTION,
)  # fmt: skip
_FORMAT: Final = "\t".join(f"#{{s/[\001-\037]/ /:{name}}}" for name in _FIELDS)
# Bytes that a terminal would act on. A paste that held its own end mark would go on as keys.
_UNTYPABLE: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class PaneIdentity:
    """A pane and the very process in it: numbers are used again, a pid with its start time is not."""

    socket: str
    pane_id: str
    pid: int
    started: str | None


@dataclass(frozen=True, slots=True)
class PaneInfo:
    """A pane as the list of tmux shows it. Names and title are text from outside. `owner` is its mark."""

    identity: PaneIdentity
    session_id: str
    window_id: str
    place: str
    session_name: str
    window_name: str
    command: str
    title: str
    is_dead: bool
    owner: str = ""

    @property
    def pane_id(self) -> str:
        return self.identity.pane_id

    def is_named(self, target: str) -> bool:
        """Whether the target names this pane, or something that this pane is in. Names count whole, never in part."""
        if target in ("", self.pane_id, self.window_id, self.session_id, self.place):
            return True
        session, _, rest = target.partition(":")
        index, _, pane = self.place.partition(":")[2].partition(".")
        window_names = (index, self.window_name, self.window_id)
        is_here = session in (self.session_name, self.session_id)
        return is_here and (
            rest in ("", *window_names)
            or rest in [f"{name}.{number}" for name in window_names for number in (pane, self.pane_id)]
        )


@dataclass(frozen=True, slots=True)
class Pane:
    """One pane, reached through the client of its session. With an `owner`, only while it bears that mark."""

    client: TmuxClient
    pane_id: str
    owner: str = ""

    async def capture(self) -> PaneCapture:
        return await capture_pane(self.client, self.pane_id)

    async def check_owner(self) -> None:
        """`NotOurs` if the pane bears another mark than the one that it is reached with; `Absent` if it is gone."""
        if not self.owner:
            return
        asked = f"#{{pane_id}} #{{{OWNER_OPTION}}}"
        told = await self.client.command("display-message", "-p", "-t", self.pane_id, asked)
        pane_id, _, found = told.strip().partition(" ")
        if pane_id != self.pane_id:  # of a pane that is gone tmux tells nothing, or tells of another one
            raise Absent(f"pane {self.pane_id} is gone")
        if found != self.owner:
            raise NotOurs(f"pane {self.pane_id} belongs to {found or 'no one'} now, and not to {self.owner}")

    async def send_text(self, text: str) -> None:
        """Paste text, bracketed if the program asked for that. Line ends arrive as a terminal pastes them."""
        text = typable(text)
        await self.check_owner()
        buffer = f"interlock-{secrets.token_hex(8)}"
        paste = ("paste-buffer", "-d", "-p", "-b", buffer, "-t", self.pane_id)
        try:
            await self.client.ask([("set-buffer", "-b", buffer, "--", text), paste], lambda _: None)
        except (Absent, TmuxRefused):
            # The paste failed, so the buffer is still there, and it holds somebody's words.
            await self.client.command("delete-buffer", "-b", buffer)
            raise

    async def send_keys(self, *keys: str) -> None:
        """Press keys by name (`Enter`, `Escape`, `C-c`, `y`). A name that tmux does not know would be typed out."""
        for key in keys:
            if KEY_NAME.fullmatch(key) is None:
                raise UsageError(f"{key!r} is no key", remedy="name keys as tmux does, and send text with send_text")
        await self.check_owner()
        await self.client.command("send-keys", "-t", self.pane_id, "--", *keys)

    async def disown(self) -> None:
        """Take our mark off a pane that was never ours to close."""
        await self.check_owner()
        await self.client.command("set-option", "-p", "-u", "-t", self.pane_id, OWNER_OPTION)

    async def kill(self) -> None:
        """Close the pane; its program is hung up on."""
        await self.check_owner()
        await self.client.command("kill-pane", "-t", self.pane_id)


def typable(text: str) -> str:
    """The text with plain line ends. Refuses what a terminal would take for commands."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if (found := _UNTYPABLE.search(text)) is not None:
        raise UsageError(
            f"the text holds the control character U+{ord(found[0]):04X}", remedy="take it out; keys go by send_keys"
        )
    if not text:
        raise UsageError("there is nothing to type", remedy="give a text")
    return text


async def list_panes(server: TmuxServer) -> tuple[PaneInfo, ...]:
    """Every pane of a server. `NoServer` if there is none."""
    printed = await server.run(["list-panes", "-a", "-F", _FORMAT])
    return tuple(_info(server, line) for line in printed.split("\n") if line)


async def find_pane(server: TmuxServer, target: str = "") -> PaneInfo:
    """The one pane that is meant: `%3`, `session:window.pane`, or less where that is enough. Nothing: the only one."""
    panes = await list_panes(server)
    found = [pane for pane in panes if pane.is_named(target)]
    if len(found) == 1:
        return found[0]
    asked = f"{target!r} on tmux socket {server.socket!r}"
    shown = ", ".join(f"{pane.pane_id} ({pane.place} {pane.command})" for pane in (found or panes)[:8])
    if found:
        raise UsageError(f"{asked} names {len(found)} panes: {shown}", remedy="name one by its %id")
    raise Absent(f"there is no pane {asked}; there are {shown}")


async def find_again(server: TmuxServer, identity: PaneIdentity) -> PaneInfo:
    """The pane with the same process as before. `Absent` if the pane or the process is another."""
    pane = await find_pane(server, identity.pane_id)
    if pane.identity != identity:
        raise Absent(f"pane {identity.pane_id} is there, but process {identity.pid} in it is not")
    return pane


@dataclass(frozen=True, slots=True)
class Adopted:
    """A pane that somebody else started, and what it shows."""

    pane: Pane
    info: PaneInfo
    capture: PaneCapture


async def adopt(server: TmuxServer, target: str = "", client: TmuxClient | None = None) -> Adopted:
    """Find a pane and look at it. A client of its session is used if given; else one is attached, which stays open."""
    info = await find_pane(server, target)
    if client is not None and (client.server, client.session_id) != (server, info.session_id):
        raise UsageError(f"the client is not attached to session {info.session_id}", remedy="attach one that is")
    used = client or await TmuxClient.attach(server, info.session_id)
    pane = Pane(used, info.pane_id)
    try:
        return Adopted(pane, info, await pane.capture())
    except BaseException:
        if client is None:
            await used.close()
        raise


async def start_pane(
    server: TmuxServer,
    argv: Sequence[str],
    *,
    name: str = "agent",
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    columns: int = 120,
    rows: int = 40,
    session: str = OWN_SESSION,
    owner: str = "",
) -> PaneInfo:
    """Start a program in a window of its own, without a shell, on a server of ours.

    It gets `env`, and beside that only what tmux sets itself: TERM, TERM_PROGRAM, TERM_PROGRAM_VERSION, TMUX, TMUX_PANE
    and PWD; PATH and SHELL, where `env` does not name them. The pane remains when the program ends, so that its exit
    status can be read. The window keeps its size until a person attaches or it is resized.
    """
    if not argv or (len(argv) == 1 and "=" in argv[0]):
        raise UsageError("there is no program to start", remedy="give its name and arguments as a list")
    name_for_now = f"interlock-{secrets.token_hex(8)}"  # found by it, whatever else runs; then it gets its own name
    given = env or {}
    options = ["-d", "-n", name_for_now, *(["-c", cwd] if cwd else [])]
    for key, value in given.items():
        options += ["-e", f"{key}={value}"]
    # tmux gives a single word to a shell, so there are always two.
    late = [f"{key}={given[key]}" for key in _SET_LATE if key in given]
    program = [*options, "--", shutil.which("env") or "env", *late, *argv]
    where, window = f"={session}:", f"={session}:={name_for_now}"
    after: list[Command] = [
        *([("set-option", "-p", "-t", window, OWNER_OPTION, owner)] if owner else []),
        ("set-option", "-p", "-t", window, "remain-on-exit", "on"),
        # No text of tmux's own, which would push the last screen up by a row. Known since 3.3; -q for older ones.
        ("set-option", "-p", "-q", "-t", window, "remain-on-exit-format", ""),
        ("display-message", "-p", "-t", window, _FORMAT),
        ("rename-window", "-t", window, name),
    ]
    size = ("set-option", "-t", where, "default-size", f"{columns}x{rows}")
    first = ("new-session", "-E", "-s", session, "-x", str(columns), "-y", str(rows), *program)
    # The first window of a session leaves its variables to the session, and so to every later window.
    forget = [("set-environment", "-t", where, "-u", key) for key in given]
    printed = await _start(
        server,
        [size, ("new-window", "-t", where, *program), *after],
        [*_BARE_SERVER, first, *forget, *after],
    )
    return _info(server, printed.rstrip("\n"))


async def _start(server: TmuxServer, into_session: list[Command], new_session: list[Command]) -> str:
    try:
        return await server.run(*into_session)
    except (NoServer, Absent):
        pass
    try:
        return await server.run(*new_session, may_start=True)
    except TmuxRefused as refused:
        if "duplicate session" not in str(refused):
            raise
        return await server.run(*into_session)  # somebody was faster


def _info(server: TmuxServer, line: str) -> PaneInfo:
    values = line.split("\t")
    if len(values) != len(_FIELDS):
        raise PeerFault(f"tmux listed a pane in a way that we do not read: {line[:80]!r}")
    told = dict(zip(_FIELDS, values, strict=True))
    pid = int(told["pane_pid"]) if told["pane_pid"].isdecimal() else 0
    return PaneInfo(
        identity=PaneIdentity(server.socket, told["pane_id"], pid, _started(pid)),
        session_id=told["session_id"],
        window_id=told["window_id"],
        place=f"{told['session_name']}:{told['window_index']}.{told['pane_index']}",
        session_name=told["session_name"],
        window_name=told["window_name"],
        command=told["pane_current_command"],
        title=told["pane_title"],
        is_dead=told["pane_dead"] == "1",
        owner=told[OWNER_OPTION],
    )


def _started(pid: int) -> str | None:
    """When a process began; None if it is gone or hidden."""
    try:
        return process_start(pid) if pid > 0 else None
    except Unreachable:
        return None
