"""Which profile reads a pane: by the CLI and its version, which the tool itself told once, at the start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from interlock.screen.assessment import ParserMetadata, SurfaceAnomaly
from interlock.screen.engine import ScreenReading, holds, read_screen
from interlock.screen.profile import Profile, Versions
from interlock.screen.profile_file import parse_version
from interlock.screen.projection import DialogProjection
from interlock.screen.snapshot import Snapshot
from interlock.vocabulary.errors import UsageError

GENERIC: Final = "generic"


class SelectionSource(StrEnum):
    """How a profile was chosen."""

    VERSION = "version"
    NEAREST = "nearest_version"
    VERSION_UNKNOWN = "version_unknown"
    GENERIC = "generic"


@dataclass(frozen=True, slots=True)
class ScreenReader:
    """A profile that was chosen for a session, with what is to be said about the choice on every reading."""

    profile: Profile
    metadata: ParserMetadata
    anomalies: tuple[SurfaceAnomaly, ...] = ()

    def parse_snapshot(
        self, snapshot: Snapshot, baseline: DialogProjection | None = None, lasting_rows: Counter[str] | None = None
    ) -> ScreenReading:
        """Read a snapshot. `baseline` is the projection at the submit: what stood there says nothing about this turn,
        unless it was out of sight since: `lasting_rows` are those of every screen on which the turn was at work.

        A position in the text would say nothing either, for an alternate screen is drawn anew.
        """
        reading = read_screen(snapshot, self.profile, self.metadata, self.anomalies)
        if baseline is None or reading.assessment.turn_end is None:
            return reading
        if _is_of_this_turn(reading, baseline) or (lasting_rows is not None and _has_come(reading, lasting_rows)):
            return reading
        return replace(reading, assessment=replace(reading.assessment, turn_end=None))


def _is_of_this_turn(reading: ScreenReading, baseline: DialogProjection) -> bool:
    """Whether the mark of an ending is new, or stands below a prompt that is."""
    now = reading.projection
    prompts, before = (Counter(text.rows[row] for row in text.prompt_rows) for text in (now, baseline))
    return bool(prompts - before) or _has_come(reading, Counter(baseline.rows))


def _has_come(reading: ScreenReading, rows: Counter[str]) -> bool:
    """Whether the mark of an ending stands on the screen more often than among these rows."""
    now = reading.projection.rows
    marks = {now[row] for one in reading.assessment.evidence[1:] for row in one.rows}
    return any(now.count(mark) > rows[mark] for mark in marks)


def select_reader(profiles: Sequence[Profile], cli: str, version: str | None = None) -> ScreenReader:
    """The reader for a CLI. Profiles that stand earlier win, so a user's own come first.

    A version outside every interval is read by the nearest profile, and a CLI without one by the generic profile; both
    leave an anomaly.
    """
    of_cli = [profile for profile in profiles if profile.cli == cli]
    if not of_cli:
        return _generic(profiles, cli, version)
    numbers = parse_version(version) if version else None
    if numbers is None:
        return _reader(_newest(of_cli), SelectionSource.VERSION_UNKNOWN, version)
    for profile in of_cli:
        if profile.versions.hold(numbers):
            return _reader(profile.at_version(numbers), SelectionSource.VERSION, version)
    nearest = min(of_cli, key=lambda profile: _distance(profile.versions, numbers)).at_version(numbers)
    anomaly = SurfaceAnomaly(
        code="version_outside_profile",
        message=f"{nearest.title} {version} is outside the versions that profile {nearest.id} was made for",
        details=(("cli", cli), ("version", version or ""), ("profile", nearest.id)),
    )
    return _reader(nearest, SelectionSource.NEAREST, version, anomaly)


def detect_cli(profiles: Sequence[Profile], snapshot: Snapshot) -> str | None:
    """Which CLI a pane shows, by the marks that the profiles name; None where none or more than one claims it."""
    found = {profile.cli for profile in profiles if any(holds(when, snapshot, profile) for when in profile.detect)}
    return found.pop() if len(found) == 1 else None


def _generic(profiles: Sequence[Profile], cli: str, version: str | None) -> ScreenReader:
    generic = next((profile for profile in profiles if profile.cli == GENERIC), None)
    if generic is None:
        known = ", ".join(sorted({profile.cli for profile in profiles})) or "none"
        raise UsageError(f"there is no profile for {cli!r}, and no generic one; there are: {known}")
    anomaly = SurfaceAnomaly(
        code="no_profile",
        message=f"there is no profile for {cli!r}; the generic one reads it, which says little",
        details=(("cli", cli),),
    )
    return _reader(generic, SelectionSource.GENERIC, version, *(() if cli == GENERIC else (anomaly,)))


def _reader(profile: Profile, source: SelectionSource, version: str | None, *anomalies: SurfaceAnomaly) -> ScreenReader:
    return ScreenReader(profile, ParserMetadata(profile.cli, profile.id, source.value, version), anomalies)


def _newest(profiles: Sequence[Profile]) -> Profile:
    return max(profiles, key=lambda profile: profile.versions.before or (1 << 30,))


def _distance(versions: Versions, version: tuple[int, ...]) -> tuple[int, ...]:
    """How far a version is from an interval, the most significant number first."""
    bound = versions.start if versions.start is not None and version < versions.start else versions.before
    width = max(len(version), len(bound or ()))
    ours, theirs = (numbers + (0,) * (width - len(numbers)) for numbers in (version, bound or ()))
    return tuple(abs(one - other) for one, other in zip(ours, theirs, strict=True))
