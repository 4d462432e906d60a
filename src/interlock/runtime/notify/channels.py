"""The ways to tell a person, and which of them a configuration asks for.

Laws:
1. A terminal is given nothing but a bell or one whole sequence, made from scrubbed text.
2. A program gets its arguments as a list; what an agent wrote reaches it as JSON on its input and in variables.
3. A webhook is asked once. A redirect is a failure, like every answer but a 2xx.
4. Whatever takes too long is ended: the process with its group, the connection by closing it.
"""

from __future__ import annotations

import asyncio
import http.client
import os
import shutil
import signal
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from typing import Final, Protocol
from urllib.parse import quote, urlsplit

import msgspec

from interlock.agents.processes.child import inherited_environment
from interlock.projections.attention import MAX_QUESTION, MAX_TEXT, scrub
from interlock.projections.attention_ledger import Notice, NoticeKind
from interlock.runtime.config.sections import NotifySection
from interlock.runtime.notify.notifier import NoticeChannel
from interlock.vocabulary.errors import PeerFault

REQUEST_SECONDS: Final = 10.0
_HANG_UP_SECONDS: Final = 1.0
_BELL: Final = "\a"
_CALM: Final = (NoticeKind.COMPLETED, NoticeKind.ALL_QUIET)
_SOUND: Final = "--hint=string:sound-name:message-new-instant"
_OSC_9: Final = frozenset({"iTerm.app", "WezTerm", "ghostty"})
_OSC_777: Final = ("rxvt", "foot")


class TerminalChannel(Protocol):
    """Where a bell rings."""

    def write(self, text: str, /) -> object: ...

    def flush(self) -> object: ...


def channels_of(
    settings: NotifySection, environ: Mapping[str, str], terminal: TerminalChannel | None
) -> list[NoticeChannel]:
    """The channels that are asked for and can be had here. `terminal` is one that a person looks at, or None."""
    found: list[NoticeChannel] = []
    if settings.bell and terminal is not None:
        found.append(BellChannel(terminal))
    if settings.desktop:
        desktop = desktop_channel(environ, terminal)
        found += [] if desktop is None else [desktop]
    if settings.command:
        found.append(CommandChannel(settings.command, link=settings.link))
    if settings.webhook:
        found.append(Webhook(settings.webhook, link=settings.link))
    if settings.ntfy:
        found.append(NtfyChannel(settings.ntfy, link=settings.link))
    return found


def desktop_channel(environ: Mapping[str, str], terminal: TerminalChannel | None) -> NoticeChannel | None:
    """`notify-send` where it and a desktop are there, else a terminal that shows notices itself. None: neither."""
    has_desktop = any(environ.get(name) for name in ("WAYLAND_DISPLAY", "DISPLAY", "DBUS_SESSION_BUS_ADDRESS"))
    program = shutil.which("notify-send", path=environ.get("PATH", os.defpath))
    if has_desktop and program is not None:
        return NotifySend(program)
    spelled = None if terminal is None else osc_of(environ)
    return None if spelled is None or terminal is None else TerminalNotice(terminal, spelled)


def headline(notice: Notice) -> str:
    """Who, and why."""
    return scrub(f"{notice.agent or notice.task_id} {notice.reason}")


def details(notice: Notice) -> str:
    """Of what, and what is asked."""
    text = ": ".join(part for part in (notice.title, notice.question) if part)
    return scrub(text, MAX_TEXT + MAX_QUESTION)


def command_of(notice: Notice) -> str:
    """The command that shows its session on the board."""
    return f"interlock top --session {notice.task_id}"


def link_of(notice: Notice, template: str) -> str:
    """The address of its session, by the template of the configuration; blank without one."""
    return template.replace("{session}", quote(str(notice.task_id), safe=""))


def as_data(notice: Notice, template: str) -> bytes:
    """A notice as JSON, with the ways to its session."""
    ways = {"command": command_of(notice), "link": link_of(notice, template)}
    return msgspec.json.encode(msgspec.to_builtins(notice) | ways)


def osc_of(environ: Mapping[str, str]) -> Callable[[str, str], str] | None:
    """How this terminal is told to show a notice; None where it is not known to have a way."""
    if environ.get("TERM_PROGRAM") in _OSC_9:
        return lambda head, body: f"\x1b]9;{head}{': ' if body else ''}{body}\x1b\\"
    if environ.get("VTE_VERSION") or environ.get("TERM", "").startswith(_OSC_777):
        # The parts are separated by semicolons, so the first one may have none.
        return lambda head, body: f"\x1b]777;notify;{head.replace(';', ',')};{body}\x1b\\"
    return None


@dataclass(frozen=True, slots=True)
class BellChannel:
    """The bell of a terminal."""

    terminal: TerminalChannel

    @property
    def name(self) -> str:
        return "bell"

    async def deliver(self, notice: Notice) -> None:
        del notice
        self.terminal.write(_BELL)
        self.terminal.flush()


@dataclass(frozen=True, slots=True)
class TerminalNotice:
    """A terminal that shows notices on the desktop by itself."""

    terminal: TerminalChannel
    spelled: Callable[[str, str], str]

    @property
    def name(self) -> str:
        return "terminal"

    async def deliver(self, notice: Notice) -> None:
        self.terminal.write(self.spelled(headline(notice), details(notice)))
        self.terminal.flush()


@dataclass(frozen=True, slots=True)
class NotifySend:
    """The desktop's own notices."""

    program: str

    @property
    def name(self) -> str:
        return "notify-send"

    async def deliver(self, notice: Notice) -> None:
        # The body is read as markup by most desktops.
        body = escape("\n".join(filter(None, (details(notice), command_of(notice)))), quote=False)
        await run_program((self.program, "--app-name=interlock", _SOUND, "--", headline(notice), body), b"", {})


@dataclass(frozen=True, slots=True)
class CommandChannel:
    """A program of the user's."""

    argv: tuple[str, ...]
    link: str = ""

    @property
    def name(self) -> str:
        return "command"

    async def deliver(self, notice: Notice) -> None:
        fields = ("kind", "task_id", "turn_id", "agent", "title", "reason", "question", "key")
        told = {name: str(getattr(notice, name) or "") for name in fields}
        told |= {"command": command_of(notice), "link": link_of(notice, self.link)}
        extra = {f"INTERLOCK_NOTICE_{name.upper()}": value for name, value in told.items()}
        await run_program(self.argv, as_data(notice, self.link) + b"\n", extra)


@dataclass(frozen=True, slots=True)
class Webhook:
    """An address that takes a notice as JSON."""

    url: str
    seconds: float = REQUEST_SECONDS
    link: str = ""

    @property
    def name(self) -> str:
        return "webhook"

    async def deliver(self, notice: Notice) -> None:
        await post_json(self.url, as_data(notice, self.link), self.seconds)


@dataclass(frozen=True, slots=True)
class NtfyChannel:
    """A topic of an ntfy server. Its app gives what needs a person a sound of its own, by the priority, and opens the
    link, where there is one, by a tap."""

    url: str
    seconds: float = REQUEST_SECONDS
    link: str = ""

    @property
    def name(self) -> str:
        return "ntfy"

    async def deliver(self, notice: Notice) -> None:
        split = urlsplit(self.url)
        above, _, topic = split.path.rstrip("/").rpartition("/")
        is_calm = notice.kind in _CALM
        link = link_of(notice, self.link)
        said = {
            "topic": topic,
            "title": headline(notice),
            "message": f"{details(notice) or headline(notice)}\n{command_of(notice)}",
            **({"click": link} if link else {}),
            "priority": 3 if is_calm else 4,
            "tags": ["white_check_mark" if is_calm else "warning"],
        }
        await post_json(split._replace(path=f"{above}/").geturl(), msgspec.json.encode(said), self.seconds)


async def post_json(url: str, body: bytes, seconds: float) -> None:
    """Post it once. `PeerFault` where it was not taken; hung up on if cancelled."""
    # Not on the loop: for https it reads the certificates of the system.
    connection = await asyncio.to_thread(_connection, url, seconds)
    asking = asyncio.create_task(asyncio.to_thread(_post, connection, url, body))
    try:
        status = await asyncio.shield(asking)
    except asyncio.CancelledError:
        _hang_up(connection)  # the thread then ends by itself
        await asyncio.wait((asking,), timeout=_HANG_UP_SECONDS)
        asking.add_done_callback(lambda done: None if done.cancelled() else done.exception())
        raise
    if not 200 <= status < 300:
        raise PeerFault(f"{_address(url)} answered {status}")


async def run_program(argv: tuple[str, ...], given: bytes, extra: Mapping[str, str]) -> None:
    """Run a program to its end. `PeerFault` where it cannot be started or fails; ended with its group if cancelled."""
    # Not cancelled while it starts: it may have started others by then, and nobody would know its group.
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            env=inherited_environment(extra),
            start_new_session=True,
        )
    )
    try:
        process = await asyncio.shield(starting)
    except (OSError, ValueError) as error:
        raise PeerFault(f"{argv[0]} did not start: {error}") from error
    except asyncio.CancelledError:
        with suppress(OSError, ValueError):
            await _end_group(await starting)
        raise
    try:
        await process.communicate(given)  # it need not read what it is given
        code = await process.wait()
    finally:
        await _end_group(process)
    if code:
        raise PeerFault(f"{argv[0]} ended with {code}")


async def _end_group(process: asyncio.subprocess.Process) -> None:
    """End a program that still runs, with what it started."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def _connection(url: str, seconds: float) -> http.client.HTTPConnection:
    split = urlsplit(url)
    try:
        port = split.port
    except ValueError as error:
        raise PeerFault(f"{_address(url)} has no port that can be read") from error
    if split.scheme == "https":
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(split.hostname or "", port, timeout=seconds, context=context)
    return http.client.HTTPConnection(split.hostname or "", port, timeout=seconds)


def _post(connection: http.client.HTTPConnection, url: str, body: bytes) -> int:
    split = urlsplit(url)
    target = (split.path or "/") + (f"?{split.query}" if split.query else "")
    try:
        connection.request("POST", target, body, {"Content-Type": "application/json", "User-Agent": "interlock"})
        return connection.getresponse().status
    except (OSError, http.client.HTTPException, ValueError) as error:
        # Without the address whole: it may hold a secret. The cause's words do not repeat it.
        raise PeerFault(f"{_address(url)} cannot be asked: {type(error).__name__}") from None
    finally:
        connection.close()


def _hang_up(connection: http.client.HTTPConnection) -> None:
    sock = connection.sock
    if sock is not None:
        with suppress(OSError):
            sock.shutdown(2)


def _address(url: str) -> str:
    split = urlsplit(url)
    return f"{split.scheme}://{split.hostname or ''}"
