"""A small agent for a real terminal that does what its prompt says: for tests and demos, where no model is wanted.

Run it with `python -m interlock.testing.scripted_agent` in a pane. A prompt is a list of steps, split by `;`:
`think SECONDS`, `say TEXT`, `ask QUESTION`, `hang`, `fail TEXT`, `exit CODE`. Escape interrupts. It sets its title, and
reports its state by OSC 7501 where the terminal answers the probe. Its screens are read by the profile `scripted`.
"""

from __future__ import annotations

import os
import re
import select
import signal
import sys
import termios
import time
import tty
from dataclasses import dataclass, field
from typing import Final

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
    steps: list[str] = field(default_factory=list)
    step_began: float = 0.0
    turn_began: float = 0.0
    asked: str | None = None
    chosen: int = 0
    reports: bool = False
    reported: str = ""
    exit_code: int | None = None

    @property
    def state(self) -> str:
        return "blocked" if self.asked is not None else "working" if self.steps else "idle"

    def submit(self, now: float) -> None:
        prompt, self.draft = self.draft.strip(), ""
        if not prompt:
            return
        self.transcript += [f"> {prompt}", ""]
        self.steps = [step.strip() for step in prompt.split(";") if step.strip()]
        self.turn_began = self.step_began = now

    def interrupt(self) -> None:
        if self.steps or self.asked is not None:
            self.transcript += ["■ Interrupted", ""]
            self.steps, self.asked = [], None

    def answer(self, now: float) -> None:
        self.asked = None
        if self.chosen:
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
        verb, _, rest = self.steps[0].partition(" ")
        match verb:
            case "think":
                if now - self.step_began >= float(rest or 1):
                    self._next(now)
            case "hang":
                pass
            case "ask":
                self.asked, self.chosen = rest or "Go on?", 0
            case "fail":
                self.transcript += [f"■ Error: {rest or 'it failed'}", ""]
                self.steps = []
            case "exit":
                self.exit_code = int(rest or 0)
            case _:
                self.transcript += [f"• {rest if verb == 'say' else self.steps[0]}", ""]
                self._next(now)

    def rows(self, now: float, columns: int, height: int) -> list[str]:
        rule = "─" * columns
        if self.asked is not None:
            options = [f"{'›' if at == self.chosen else ' '} {at + 1}. {text}" for at, text in enumerate(_OPTIONS)]
            below = ["╭" + "─" * (columns - 1), f"│ {self.asked}", *(f"│ {text}" for text in options)]
            below += ["╰" + "─" * (columns - 1), "enter to confirm · esc to stop"]
        else:
            elapsed = now - self.turn_began
            spinner = _SPINNER[int(now / _TICK_SECONDS) % len(_SPINNER)]
            status = [f"{spinner} Working ({elapsed:.0f}s)", ""] if self.steps else []
            hint = "esc to interrupt" if self.steps else "enter to submit"
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
        return f"\x1b]2;scripted - {title}\x07{status}{screen}".encode()

    def type(self, keys: bytes, now: float) -> None:
        """Take in what was typed or pasted."""
        self.reports = self.reports or _PROBE in keys
        while pasted := _PASTE.search(keys):
            self.type(keys[: pasted.start()], now)
            self.draft += pasted[1].decode("utf-8", "replace").replace("\r", " ").replace("\n", " ")
            keys = keys[pasted.end() :]
        moves = keys.count(b"\x1b[B") - keys.count(b"\x1b[A")
        self.chosen = min(len(_OPTIONS) - 1, max(0, self.chosen + moves))
        for key in _SEQUENCE.sub(b"", keys).decode("utf-8", "replace"):
            self._press(key, now)

    def _press(self, key: str, now: float) -> None:
        if key == "\x1b":
            self.interrupt()
        elif key in "\r\n":
            self.answer(now) if self.asked is not None else self.submit(now)
        elif key == "\x04" and not self.steps:
            self.exit_code = 0
        elif key == "\x7f":
            self.draft = self.draft[:-1]
        elif key.isprintable() and self.asked is None:
            self.draft += key


def main() -> int:
    """Run until the prompt says `exit`, Ctrl-D, or the terminal is gone."""
    before = termios.tcgetattr(0)
    agent = Agent()
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


if __name__ == "__main__":
    sys.exit(main())
