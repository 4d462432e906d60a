"""The face in a terminal: a composer, a spinner, a dialog with options. Its screens are read by the profile `scripted`.

Escape interrupts, Ctrl-D between turns exits. It sets its title, and reports its state by OSC 7501 where the terminal
answers the probe. Verbs that make sense only in a stream of lines show as a row of the transcript, or do nothing.
"""

from __future__ import annotations

import os
import re
import select
import signal
import termios
import time
import tty
from dataclasses import dataclass, field
from typing import Final

from interlock.testing.scripted_agent import deeds
from interlock.testing.scripted_agent.gates import Gates
from interlock.testing.scripted_agent.language import ScriptBook, Step, number, seconds_and_text, tool_use
from interlock.testing.scripted_agent.ledger import PROMPT, Ledger

_SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_OPTIONS: Final = ("Yes, do it", "No, and stop")
_TICK_SECONDS: Final = 0.1
_PASTE: Final = re.compile(rb"\x1b\[200~(.*?)\x1b\[201~", re.DOTALL)
_SEQUENCE: Final = re.compile(rb"\x1b(?:\][^\x07\x1b]*(?:\x07|\x1b\\)|\[[0-?]*[ -/]*[@-~])")
_PROBE: Final = b"\x1b]7501;?\x1b\\"


@dataclass(slots=True)
class Agent:
    """Everything that the screen shows. `steps` are those of the open turn, the first one running."""

    transcript: list[str] = field(default_factory=lambda: ["Scripted agent 1.0", ""])
    draft: str = ""
    steps: list[Step] = field(default_factory=list)
    step_began: float = 0.0
    turn_began: float = 0.0
    asked: str | None = None
    options: tuple[str, ...] = _OPTIONS
    chosen: int = 0
    reports: bool = False
    reported: str = ""
    exit_code: int | None = None
    ledger: Ledger = field(default_factory=Ledger)
    gates: Gates | None = None
    book: ScriptBook = field(default_factory=ScriptBook)
    noise: bytes = b""
    needs_two_escapes: bool = False
    _has_escape: bool = False
    _gate: str = ""

    @property
    def state(self) -> str:
        return "blocked" if self.asked is not None else "working" if self.steps else "idle"

    def submit(self, now: float) -> None:
        prompt, self.draft = self.draft.strip(), ""
        if not prompt:
            return
        self.ledger.record(PROMPT, text=prompt)
        self.transcript += [f"> {prompt}", ""]
        self.steps = self.book.steps_for(prompt)
        self._has_escape = False
        self.turn_began = self.step_began = now

    def escape(self) -> None:
        """Interrupt; where it takes two, the first one only asks for the second."""
        if self.needs_two_escapes and self.steps and self.asked is None and not self._has_escape:
            self._has_escape = True
        else:
            self.interrupt()

    def interrupt(self) -> None:
        self._has_escape = False
        is_deaf = bool(self.steps) and self.steps[0].verb == "deaf"
        if self.state != "idle" and not is_deaf:
            self.ledger.record("interrupt", in_turn=True)
            self.transcript += ["■ Interrupted", ""]
            self.steps, self.asked = [], None

    def answer(self, now: float) -> None:
        given = self.options[self.chosen]
        self.ledger.record("answer", answer=given)
        self.asked = None
        if given == _OPTIONS[-1]:
            self.interrupt()
        else:
            self._next(now)

    def _next(self, now: float) -> None:
        self.steps = self.steps[1:]
        self.step_began = now
        if not self.steps:
            self.transcript += [f"Done in {now - self.turn_began:.0f}s", ""]

    def tick(self, now: float) -> None:
        """Do what the running step asks for."""
        if not self.steps or self.asked is not None:
            return
        verb, rest = self.steps[0]
        match verb:
            case "think":
                if now - self.step_began >= seconds_and_text(rest, 1.0)[0]:
                    self._next(now)
            case "hang" | "deaf":
                pass
            case "gate":
                self._wait_at(rest, now)
            case "ask" | "request":
                self._ask(verb, rest)
            case "fail" | "result" | "silent":
                self.transcript += [] if verb == "silent" else [f"■ Error: {rest or 'it failed'}", ""]
                self.steps = []
            case "exit":
                self.exit_code = number(rest, 0)
            case _:
                self._do(verb, rest)
                self._next(now)

    def _wait_at(self, gate: str, now: float) -> None:
        if self.gates is None:
            raise SystemExit("gate: there is no folder of gates; give --gates FOLDER")
        if self._gate != gate:
            self._gate = gate
            self.gates.reach(gate)
        if self.gates.is_open(gate):
            self._gate = ""
            self._next(now)

    def _ask(self, verb: str, rest: str) -> None:
        question, *options = [part.strip() for part in rest.split("|")]
        self.asked = question or "Go on?" if verb == "ask" else f"Allow {tool_use(rest).name}?"
        self.options = tuple(options) if options and verb == "ask" else _OPTIONS
        self.chosen = 0

    def _do(self, verb: str, rest: str) -> None:
        """Do a step that is over at once."""
        match verb:
            case "cut":
                os.write(1, b"\x1b[1;1Hcut in the middle of a \x1b[3")
                os._exit(number(rest, 0))
            case "crash":
                deeds.crash(rest)
            case "ignore":
                deeds.ignore(rest)
            case "spawn":
                deeds.spawn(rest, self.ledger)
            case "raw":
                self.noise += rest.encode() + b"\n"
            case "garbage":
                self.noise += deeds.garbage(number(rest, 1000))
            case "end" if len(self.steps) > 1:
                self.transcript += ["Done in 0s", ""]
            case "end" | "#" | "usage" | "pace" | "stderr":
                pass
            case _:
                self.transcript += [f"• {row}" for row in _shown(verb, rest).splitlines()] + [""]

    def rows(self, now: float, columns: int, height: int) -> list[str]:
        rule = "─" * columns
        if self.asked is not None:
            options = [f"{'›' if at == self.chosen else ' '} {at + 1}. {text}" for at, text in enumerate(self.options)]
            below = ["╭" + "─" * (columns - 1), f"│ {self.asked}", *(f"│ {text}" for text in options)]
            below += ["╰" + "─" * (columns - 1), "enter to confirm · esc to stop"]
        else:
            elapsed = now - self.turn_began
            spinner = _SPINNER[int(now / _TICK_SECONDS) % len(_SPINNER)]
            status = [f"{spinner} Working ({elapsed:.0f}s)", ""] if self.steps else []
            escape = "esc again to interrupt" if self._has_escape else "esc to interrupt"
            hint = escape if self.steps else "enter to submit"
            below = [
                *status,
                rule,
                f"> {self.draft}" if self.draft else "> \x1b[2mAsk for something\x1b[22m",
                rule,
                hint,
            ]
        above = [row[:columns] for row in self.transcript][-max(0, height - len(below)) :]
        return [*above, *[""] * (height - len(below) - len(above)), *below][-height:]

    def paint(self, now: float) -> bytes:
        size = os.get_terminal_size()
        title = {"idle": "ready", "working": "working", "blocked": "asking"}[self.state]
        rows = self.rows(now, size.columns, size.lines)
        screen = "".join(f"\x1b[{number};1H{row}\x1b[0m\x1b[K" for number, row in enumerate(rows, 1))
        status = ""
        if self.reports and self.reported != self.state:
            self.reported = self.state
            kind = ":kind=permission" if self.state == "blocked" else ""
            status = f"\x1b]7501;state={self.state}:app=scripted-agent{kind}\x1b\\"
        noise, self.noise = self.noise, b""
        return noise + f"\x1b]2;scripted - {title}\x07{status}{screen}".encode()

    def type(self, keys: bytes, now: float) -> None:
        """Take in what was typed or pasted."""
        self.reports = self.reports or _PROBE in keys
        while pasted := _PASTE.search(keys):
            self.type(keys[: pasted.start()], now)
            self.draft += pasted[1].decode("utf-8", "replace").replace("\r", " ").replace("\n", " ")
            keys = keys[pasted.end() :]
        moves = keys.count(b"\x1b[B") - keys.count(b"\x1b[A")
        self.chosen = min(len(self.options) - 1, max(0, self.chosen + moves))
        if self.needs_two_escapes:  # as opencode reads them: two that come together are one
            keys = keys.replace(b"\x1b\x1b", b"\x1b")
        for key in _SEQUENCE.sub(b"", keys).decode("utf-8", "replace"):
            self._press(key, now)

    def _press(self, key: str, now: float) -> None:
        if key == "\x1b":
            self.escape()
        elif key in "\r\n":
            self.answer(now) if self.asked is not None else self.submit(now)
        elif key == "\x04" and not self.steps:
            self.exit_code = 0
        elif key == "\x7f":
            self.draft = self.draft[:-1]
        elif key.isprintable() and self.asked is None:
            self.draft += key


def _shown(verb: str, rest: str) -> str:
    """The row that a step leaves in the transcript."""
    match verb:
        case "words":
            return " ".join(f"word{at}" for at in range(number(rest, 1)))
        case "big":
            return "ä" * (number(rest, 1_000_000) // 2)
        case "call":
            return f"Ran {tool_use(rest).name}\n  {tool_use(rest).output}"
        case "begin":
            return f"Running {tool_use(rest).name}"
        case "say" | "split":
            return rest
        case _:
            return f"{verb} {rest}".strip()


def run(agent: Agent) -> int:
    """Run until the prompt says `exit`, Ctrl-D, or the terminal is gone."""
    before = termios.tcgetattr(0)
    agent.turn_began = agent.step_began = time.monotonic()
    signal.signal(signal.SIGWINCH, lambda *_: None)
    os.write(1, b"\x1b[?1049h\x1b[?25l\x1b[?2004h" + _PROBE)
    try:
        tty.setraw(0)
        while agent.exit_code is None:
            now = time.monotonic()
            agent.tick(now)
            os.write(1, agent.paint(now))
            wait = _TICK_SECONDS if agent.steps and agent.asked is None else None
            if select.select([0], [], [], wait)[0]:
                keys = os.read(0, 65536)
                if not keys:
                    break
                agent.type(keys, time.monotonic())
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)
        os.write(1, b"\x1b[?2004l\x1b[?25h\x1b[?1049l")
    return agent.exit_code or 0
