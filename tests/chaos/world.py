"""One world of chaos: a log, a few sessions with scripted agents, a runtime that is killed again and again.

What happens is drawn from a seed; when exactly it happens is up to the machine. Every process of a world carries a mark
in its environment that no other has, so that nothing else is ever signalled, and nothing of it is overlooked.
"""

from __future__ import annotations

import os
import random
import secrets
import shutil
import signal
import tempfile
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import msgspec

from interlock.testing.scripted_agent import Gates, prompts_in, read_ledger
from interlock.vocabulary.ids import SPAWN_ID_VARIABLE
from tests.chaos.host import STREAM, TERMINAL, Order, Settings, Told
from tests.chaos.living import MARK, PATIENCE_SECONDS, RunningHost


@dataclass(frozen=True, slots=True)
class Sent:
    """A prompt that was given to the runtime. `answer` is what the agent says to it, if it is let."""

    prompt_id: str
    session_id: str
    text: str
    answer: str


@dataclass
class World:
    """Use it as a context manager: whatever happened, nothing of it is left."""

    home: Path
    seed: int
    stream_sessions: int = 3
    has_terminal: bool = True
    is_patient: bool = True
    sent: dict[str, Sent] = field(default_factory=dict)
    acknowledged: set[str] = field(default_factory=set)
    removed: set[str] = field(default_factory=set)
    sessions: dict[str, str] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    host: RunningHost | None = None
    _open_sends: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.mark = f"chaos-{secrets.token_hex(8)}"
        self.folder = Path(tempfile.mkdtemp(prefix="il-"))  # a short one: paths of sockets are bounded
        self.ledger = self.folder / "ledger"
        self.gates = Gates(self.folder)
        self._orders = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.host is not None:
            self.host.kill()
        for pid in self.marked():
            _kill(pid)
        shutil.rmtree(self.folder, ignore_errors=True)

    # The runtime

    def settings(self, dies_at: str = "") -> Settings:
        return Settings(
            home=str(self.home),
            ledger=str(self.ledger),
            gates=str(self.folder),
            run_folder=str(self.folder / "run"),
            tmux=str(self.folder / "tmux") if self.has_terminal else "",
            dies_at=dies_at,
        )

    def begin_host(self, dies_at: str = "") -> RunningHost:
        """Start a runtime, without waiting for it."""
        assert self.host is None
        self.host = RunningHost(self.settings(dies_at), self.mark)
        return self.host

    def open_host(self, dies_at: str = "") -> RunningHost | None:
        """A runtime that takes commands, the one that is there or a new one; None if it died before that."""
        host = self.host or self.begin_host(dies_at)
        told = host.wait_for(0)
        if told is None:
            assert host.is_dying(), "the runtime did not open in time"
            errors = host.join()
            assert host.process.returncode == -signal.SIGKILL, errors
            self.host = None
            return None
        return host

    def kill_host(self) -> None:
        """SIGKILL, or the end that it has made of itself. Any other end is a failure."""
        assert self.host is not None
        self.host.kill()
        assert self.host.process.returncode == -signal.SIGKILL, self.host.join()
        for prompt_id, order_id in list(self._open_sends.items()):
            if order_id in self.host.told:
                self._heard(prompt_id, self.host.told[order_id])
        self._open_sends.clear()
        self.host = None

    # Commands

    def order(self, do: str, session_id: str = "", **rest: str | bool) -> int:
        assert self.host is not None
        self._orders += 1
        order = msgspec.convert({"id": self._orders, "do": do, "session": session_id, **rest}, Order)
        self.host.order(order)
        return self._orders

    def open_sessions(self) -> None:
        """Open every session, before the first kill."""
        assert self.host is not None
        kinds = [STREAM] * self.stream_sessions + [TERMINAL] * self.has_terminal
        for at, driver in enumerate(kinds):
            session_id = f"ses_{at}"
            told = self.host.wait_for(self.order("open", session_id, driver=driver))
            assert told is not None
            assert not told.problem, told.problem
            self.sessions[session_id] = driver

    def send(self, session_id: str, script: str, answer: str = "") -> str:
        """Send a prompt with an id and words of its own. It may be acknowledged, or not."""
        at = len(self.sent)
        prompt_id = f"prm_{at}"
        text = f"# number {at}; {script}"
        self.sent[prompt_id] = Sent(prompt_id, session_id, text, answer)
        self._open_sends[prompt_id] = self.order("send", session_id, prompt=prompt_id, text=text)
        return prompt_id

    def send_again(self) -> None:
        """What was never acknowledged is sent again under its old id, as a careful client does."""
        for prompt_id, one in self.sent.items():
            if prompt_id not in self.acknowledged and prompt_id not in self._open_sends:
                self._open_sends[prompt_id] = self.order("send", one.session_id, prompt=prompt_id, text=one.text)

    def remove(self, session_id: str) -> None:
        """Take back the last prompt of a session, if it is not too late."""
        mine = [one.prompt_id for one in self.sent.values() if one.session_id == session_id]
        if mine:
            self.removed.add(mine[-1])
            self.order("remove", session_id, prompt=mine[-1])

    def hear(self, seconds: float = PATIENCE_SECONDS) -> None:
        """Take in the acknowledgements of all prompts that are on their way."""
        assert self.host is not None
        for prompt_id, order_id in list(self._open_sends.items()):
            told = self.host.wait_for(order_id, seconds)
            if told is not None:
                self._heard(prompt_id, told)
                del self._open_sends[prompt_id]

    def _heard(self, prompt_id: str, told: Told) -> None:
        assert not told.problem or prompt_id in self.removed, told.problem
        self.acknowledged.add(prompt_id)

    # What is so

    def received(self) -> list[str]:
        return prompts_in(self.ledger)

    def agents(self) -> list[int]:
        """Every scripted agent of this world that lives."""
        living = set(self.marked())
        return [entry.pid for entry in read_ledger(self.ledger, "start") if entry.pid in living]

    def marked(self) -> list[int]:
        """Every living process of this world."""
        return marked_by(self.mark)

    def spawned(self) -> dict[int, tuple[str, str]]:
        """Every living process of this world that belongs to a spawn, with that and its command line."""
        found = {pid: _spawn_of(_environment(pid)) for pid in self.marked()}
        return {
            pid: (spawn_id, _read(pid, "cmdline").replace("\0", " ")) for pid, spawn_id in found.items() if spawn_id
        }


def marked_by(mark: str) -> list[int]:
    """Every living process that carries a mark."""
    return [pid for pid in _processes() if f"{MARK}={mark}" in _environment(pid)]


def _spawn_of(words: list[str]) -> str:
    name = f"{SPAWN_ID_VARIABLE}="
    return next((word.removeprefix(name) for word in words if word.startswith(name)), "")


def _processes() -> list[int]:
    return [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdecimal()]


def _environment(pid: int) -> list[str]:
    return _read(pid, "environ").split("\0")


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text("utf-8", "replace")
    except OSError:  # it is over, or somebody else's; a zombie has no environment
        return ""


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def kill_agent(world: World) -> bool:
    """SIGKILL one of the agents; False if there is none."""
    agents = world.agents()
    if agents:
        _kill(world.chance.choice(agents))
    return bool(agents)
