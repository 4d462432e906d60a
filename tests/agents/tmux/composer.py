"""A small full-screen program with a composer, to type prompts into. Run in a pane: `python composer.py MODE FILE`.

Row 0 tells its state, answers follow, and the last rows are the composer. What is submitted is written to FILE as JSON.
"""

from __future__ import annotations

import json
import os
import re
import select
import sys
import termios
import tty
from pathlib import Path

MODE, FILE = sys.argv[1], Path(sys.argv[2])
PASTE = re.compile(rb"\x1b\[200~(.*?)\x1b\[201~", re.DOTALL)
LONG = 400


class Composer:
    def __init__(self) -> None:
        self.state = {"dialog": "DIALOG", "working": "WORKING"}.get(MODE, "READY")
        self.draft = "half a thought" if MODE == "draft" else ""
        self.answers: list[str] = []
        self.shown = ""

    def paint(self) -> None:
        shown = self.draft
        if MODE == "placeholder" and len(shown) > LONG:
            shown = f"[Pasted text #1 +{shown.count(chr(10))} lines]"
        elif len(shown) > LONG:
            shown = "\n".join(shown[-LONG:].split("\n")[-10:])
        menu = "\n  /help  /clear" if MODE == "menu" and self.draft.startswith("/") else ""
        lines = [self.state, *self.answers, "----", *f"> {shown}".split("\n")]
        if MODE == "vanish" and self.draft:
            lines = [self.state, "something else altogether"]
        text = "\x1b[H\x1b[2J" + "\r\n".join(lines)
        os.write(1, (text + ("\x1b7" + menu.replace("\n", "\r\n") + "\x1b8" if menu else "")).encode())

    def paste(self, text: str) -> None:
        self.draft += text.replace("\r", "\n")
        if MODE == "deaf":
            self.draft = ""
        if MODE == "typed_before":
            self.draft = "wait, " + self.draft
        if MODE == "typed_behind":
            self.draft += " and"
        if MODE == "dialog_on_paste":
            self.state = "DIALOG"
        if MODE == "spins":
            self.state = "WORKING"

    def enter(self) -> None:
        if MODE == "swallow":
            return
        if MODE == "second_enter" and not self.shown:
            self.shown = "once"
            return
        if MODE == "line_break" and not self.shown:
            self.shown = "once"
            self.draft += "\n"
            return
        if MODE == "backslash" and self.draft.endswith("\\"):
            self.draft = self.draft[:-1] + "\n"
            return
        FILE.with_suffix(".part").write_text(json.dumps(self.draft), "utf-8")
        FILE.with_suffix(".part").rename(FILE)
        if MODE == "fast":
            self.answers = ["> " + self.draft, "Here is your answer."]
        elif MODE == "clears":
            self.answers = ["❯ " + self.draft]
        else:
            self.state = "WORKING"
        self.draft = ""

    def take(self, data: bytes) -> bytes:
        """Use up what is complete; give back the rest."""
        while data:
            if data.startswith(b"\x1b[200~"):
                found = PASTE.match(data)
                if found is None:
                    return data
                self.paste(found[1].decode())
                data = data[found.end() :]
            elif data.startswith((b"\r", b"\n")):
                self.enter()
                data = data[1:]
            else:
                end = min(at for at in (data.find(b"\x1b", 1), data.find(b"\r"), len(data)) if at > 0)
                self.draft += data[:end].decode("utf-8", "replace")
                data = data[end:]
        return b""


def main() -> None:
    kept = termios.tcgetattr(0)
    tty.setraw(0)
    os.write(1, b"\x1b[?1049h" + (b"" if MODE == "unbracketed" else b"\x1b[?2004h"))
    composer, rest = Composer(), b""
    try:
        composer.paint()
        while True:
            is_spinning = MODE == "spins" and composer.state == "WORKING" and composer.draft
            if is_spinning and not select.select([0], [], [], 0.5)[0]:
                composer.state = "READY"  # it was no work at all
            elif data := os.read(0, 65536):
                rest = composer.take(rest + data)
            else:
                break
            composer.paint()
    finally:
        termios.tcsetattr(0, termios.TCSANOW, kept)


main()
