"""A profile: what is known about the screens of one CLI, for an interval of its versions. Data, written in TOML.

`docs/how-to/write-a-profile.md` describes the file. Rules are asked in the order of the file, the first that holds
decides; where none holds the surface is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from interlock.screen.assessment import Availability, BlockKind, BusinessState, InputMode, TurnEnd
from interlock.screen.conditions import Condition, RowMatches, StyleSpec
from interlock.screen.keys import Arguments, Keys
from interlock.screen.regions import RegionSpec


class Proof(StrEnum):
    """How much one frame proves. A weak idle also appears for a moment while the tool works."""

    STRONG = "strong"
    WEAK = "weak"


@dataclass(frozen=True, slots=True)
class ProfileRule:
    """What a screen on which all conditions hold says. `is_unended`: the latest prompt on it has no end yet."""

    id: str
    when: tuple[Condition, ...]
    state: BusinessState
    input: InputMode = InputMode.UNKNOWN
    context: str = "unknown"
    availability: Availability = Availability.SUPPORTED
    proof: Proof = Proof.STRONG
    kind: BlockKind | None = None
    region: str = "screen"
    options: str | None = None
    is_unended: bool = False


@dataclass(frozen=True, slots=True)
class ProfileEnding:
    """A mark that says how the latest turn ended."""

    id: str
    end: TurnEnd
    when: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class OptionsSpec:
    """How options of a dialog look. `pattern` has the group `text`, and may have `selected` and `key`.

    With `separator` one row holds several. `continued` matches a row that goes on with the option above it. What
    matches `strip` is cut out of the text, such as the brackets around the key in `(Y)es`. `is_unbroken`: nothing else
    stands between the options above the selected one, so that other words in their column are not taken for options.
    """

    pattern: re.Pattern[str]
    separator: re.Pattern[str] | None = None
    continued: re.Pattern[str] | None = None
    selected: StyleSpec | None = None
    strip: re.Pattern[str] | None = None
    is_unbroken: bool = False


@dataclass(frozen=True, slots=True)
class ComposerSpec:
    """Where drafts stand. `mark` is cut off the start of each row and `edge` off its end; what has the style of a ghost
    was not typed by anybody.

    `cursor` is the style of a cursor that the tool draws itself: on the first character of a ghost it is part of it.
    """

    region: str
    mark: re.Pattern[str] | None = None
    edge: re.Pattern[str] | None = None
    ghosts: tuple[StyleSpec, ...] = ()
    cursor: StyleSpec | None = None
    placeholder: re.Pattern[str] | None = None
    ignore: re.Pattern[str] | None = None


@dataclass(frozen=True, slots=True)
class Pace:
    """How long this CLI may look idle while it is not. The tracker heeds it.

    `idle_hold_seconds`: an idle screen after work, seen for less, is not believed; `weak_idle_hold_seconds` where its
    proof is weak. `submit_grace_seconds`: how long it may show nothing after a submit. `answer_grace_seconds`: the same
    after a dialog was answered. `submit_pause_seconds`: how long the prompt must stand in the composer before Enter is
    pressed; some CLIs take an Enter right behind pasted text for a line break.
    """

    idle_hold_seconds: float = 0.6
    weak_idle_hold_seconds: float = 3.0
    submit_grace_seconds: float = 8.0
    answer_grace_seconds: float = 2.0
    submit_pause_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Versions:
    """From this version on, and before that one. None is open."""

    start: tuple[int, ...] | None = None
    before: tuple[int, ...] | None = None

    def hold(self, version: tuple[int, ...]) -> bool:
        """Whether a version lies between. Numbers that are not written are 0: 2.1 is 2.1.0."""
        width = max(len(numbers) for numbers in (version, self.start or (), self.before or ()))
        padded = (numbers and numbers + (0,) * (width - len(numbers)) for numbers in (self.start, version, self.before))
        start, asked, before = (numbers or () for numbers in padded)
        return start <= asked and (self.before is None or asked < before)


@dataclass(frozen=True, slots=True)
class Override:
    """What is different for some of the versions of a profile. It is whole: what did not change is in it too."""

    versions: Versions
    pace: Pace
    keys: Keys


@dataclass(frozen=True, slots=True)
class TitleMarks:
    """What a title begins with while a turn runs, and while a person is asked. None where it does not tell.

    `calm`: what it is while nothing runs. That proves something only in a session whose title has spun before.
    """

    working: re.Pattern[str] | None = None
    asking: re.Pattern[str] | None = None
    calm: re.Pattern[str] | None = None


class Introduction(StrEnum):
    """How a CLI shows that it speaks the status protocol, before the first Enter was typed into it.

    `probe`: it asks whether its status is heard, and is answered. `record`: it never asks, and its first record is all.
    """

    PROBE = "probe"
    RECORD = "record"


@dataclass(frozen=True, slots=True)
class NativeStatus:
    """The CLI reports its state by OSC 7501, under the name `app`."""

    app: str
    introduction: Introduction = Introduction.PROBE


@dataclass(frozen=True, slots=True)
class Profile:
    """`detect`: where all conditions of one of these hold, a pane shows this CLI. `figures`: the first group of each is
    a figure that grows only while the model writes. `native_status` is None where the CLI is not known to report any:
    then no record counts."""

    id: str
    cli: str
    title: str
    versions: Versions
    regions: Mapping[str, RegionSpec]
    rules: tuple[ProfileRule, ...]
    endings: tuple[ProfileEnding, ...] = ()
    options: Mapping[str, OptionsSpec] = field(default_factory=dict)
    composer: ComposerSpec | None = None
    prompts: RowMatches | None = None
    volatile: tuple[re.Pattern[str], ...] = ()
    figures: tuple[re.Pattern[str], ...] = ()
    chrome: tuple[re.Pattern[str], ...] = ()
    pace: Pace = Pace()
    keys: Keys = field(default_factory=Keys)
    arguments: Arguments = field(default_factory=Arguments)
    titles: TitleMarks = TitleMarks()
    executables: tuple[str, ...] = ()
    version_pattern: re.Pattern[str] | None = None
    detect: tuple[tuple[Condition, ...], ...] = ()
    native_status: NativeStatus | None = None
    overrides: tuple[Override, ...] = ()

    def at_version(self, version: tuple[int, ...]) -> Profile:
        """The profile with the pace and the keys of that version: those of the first override that holds it."""
        found = next((one for one in self.overrides if one.versions.hold(version)), None)
        return self if found is None else replace(self, pace=found.pace, keys=found.keys)


class BrokenProfile(Exception):
    """What is wrong with the file of a profile, and at which key."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(reason)
        self.path = path
        self.reason = reason
