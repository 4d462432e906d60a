"""A tool that does not exist, and a short profile of it: what the tests of engine and tracker are written in.

Its screen: a transcript, a line of work, a composer between two rules, a footer; dialogs stand in a box at the bottom.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from interlock.screen.engine import ScreenReading
from interlock.screen.profile import Profile
from interlock.screen.profile_file import read_profile
from interlock.screen.selection import ScreenReader, select_reader
from interlock.screen.snapshot import Snapshot, read_snapshot

TINY: Final = r"""
id = "tiny-1"
cli = "tiny"
title = "Tiny"
versions = { from = "1.0", before = "2.0" }
executables = ["tiny"]
volatile = ['^\* Working \(\d+s\)$']
chrome = ['^-{4,}$']
prompts = { region = "transcript", match = '^> \S' }

[pace]
idle_hold_seconds = 0.5
weak_idle_hold_seconds = 3.0
submit_grace_seconds = 8.0
answer_grace_seconds = 2.0

[composer]
region = "composer"
mark = '^> ?'
ghosts = [{ dim = true }]
placeholder = 'Type here'

[[region]]
name = "composer"
top = '^-{4,}$'
start = '^>(?: |$)'
bottom = '^-{4,}$'

[[region]]
name = "transcript"
above = "composer"

[[region]]
name = "latest"
above = "composer"
from = '^> \S'

[[region]]
name = "status"
above = "composer"
rows = 2

[[region]]
name = "box"
from = '^=== '

[options.numbered]
pattern = '^(?P<selected>>)? *(?P<key>\d)\. (?P<text>.+)$'
continued = '^     (?P<text>\S.*)$'

[[detect]]
when = [{ title = '^tiny' }]

[[rule]]
id = "box.approval"
state = "awaiting_operator"
kind = "approval"
input = "modal"
context = "approval_prompt"
region = "box"
options = "numbered"
when = [{ missing = "composer" }, { region = "box", match = '^=== Allow' }]

[[rule]]
id = "box.picker"
state = "awaiting_operator"
kind = "other"
input = "modal"
context = "selection_menu"
region = "box"
options = "numbered"
when = [{ missing = "composer" }, { region = "box", match = '^=== Pick' }]

[[rule]]
id = "status.working"
state = "working"
input = "freeform"
context = "normal_prompt"
when = [{ region = "status", match = '^\* Working' }]

[[rule]]
id = "composer.weak"
state = "idle"
input = "freeform"
context = "normal_prompt"
proof = "weak"
when = [{ present = "composer" }, { region = "screen", match = '^weak$' }]

[[rule]]
id = "composer.ready"
state = "idle"
input = "freeform"
context = "normal_prompt"
when = [{ present = "composer" }]

[[ending]]
id = "latest.interrupted"
end = "interrupted"
when = [{ region = "latest", match = '^# Interrupted' }]

[[ending]]
id = "latest.failed"
end = "failed"
when = [{ region = "latest", match = '^# Error' }]

[[ending]]
id = "latest.done"
end = "completed"
when = [{ region = "latest", match = '^# Done' }]
"""

RULE: Final = "-" * 20


@cache
def profile(text: str = TINY) -> Profile:
    return read_profile(text, "tiny.toml")


@cache
def reader() -> ScreenReader:
    return select_reader([profile()], "tiny", "1.5")


def screen(*rows: str, title: str = "", is_dead: bool = False) -> Snapshot:
    return read_snapshot("\n".join(rows), columns=80, height=24, title=title, is_dead=is_dead)


def composer(*above: str, draft: str = "") -> Snapshot:
    """A screen with a composer under the rows."""
    return screen(*above, RULE, f"> {draft}", RULE, "footer")


def read(snapshot: Snapshot) -> ScreenReading:
    return reader().parse_snapshot(snapshot)


IDLE: Final = composer("hello", "")
WORKING: Final = composer("hello", "> do it", "* Working (3s)")
WEAK: Final = composer("hello", "> do it", "weak")
DONE: Final = composer("hello", "> do it", "answer", "# Done")
APPROVAL: Final = screen("hello", "> do it", "=== Allow it?", "> 1. Yes", "  2. No, and", "     stop")
OTHER_APPROVAL: Final = screen("hello", "> do it", "=== Allow that too?", "> 1. Yes", "  2. No")
PICKER: Final = screen("hello", "=== Pick a model", "> 1. Small", "  2. Large")
BLANK: Final = screen("")
SILENT: Final = screen("nothing that a rule knows")
DEAD: Final = screen("hello", is_dead=True)
