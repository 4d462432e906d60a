"""Reads the files of rules when a question comes, so that what holds is what stands in them then.

Laws:
1. A file that is there and cannot be used asks for everything, as one that is not understood does.
2. What a file says is known by the digest of the bytes that were read: a changed file of a project is not trusted.
3. A path that a rule allows is looked up on the disk: a link that leads out of its folder is no way around.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from interlock.lifecycle.rules.rule import Layer, named_paths
from interlock.lifecycle.rules.rule_file import parse_rules
from interlock.lifecycle.rules.verdict import AskedCall, RuleFile, RuleVerdict, judge
from interlock.log.private_file import unreadable
from interlock.runtime.config.place import MAX_BYTES, config_path
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import PermissionBehavior
from interlock.vocabulary.evidence import Moment
from interlock.vocabulary.ids import SessionId

RULES_FILE: Final = "rules.toml"
PROJECT_FILE: Final = Path(".interlock") / RULES_FILE
_MOST_KNOWN: Final = 256


def user_rules_path(environ: Mapping[str, str]) -> Path | None:
    """Where the rules of the user are, or would be: beside the configuration."""
    config = config_path(environ)
    return None if config is None else config.parent / RULES_FILE


def project_rules_path(folder: str) -> Path:
    """Where the rules of a project are, or would be."""
    return Path(os.path.realpath(folder)) / PROJECT_FILE


class RuleKeeper:
    """What the rules of a user and of projects say, as their files stand now."""

    def __init__(self, home: Path, environ: Mapping[str, str]) -> None:
        self._home = home
        self._user = user_rules_path(environ)
        self._known: dict[tuple[str, Layer], tuple[bytes, RuleFile]] = {}

    def __call__(self, session_id: SessionId, call: AskedCall, today: date) -> RuleVerdict:
        """What the rules say of a call of a session."""
        try:
            standing = read_standing(self._home)
        except UsageError as wrong:
            return RuleVerdict(then=PermissionBehavior.ASK, because=str(wrong))
        verdict = judge(self.files(call.folder, standing, call.source), call, today)
        if verdict.then is not PermissionBehavior.ALLOW:
            return verdict
        if standing.is_paused(session_id, datetime.now(UTC)):
            return replace(verdict, then=PermissionBehavior.ASK, because="rules are paused")
        return _looked_up(verdict, call)

    def files(self, folder: str, standing: RuleStanding, source: str = "") -> tuple[RuleFile, ...]:
        """The files that hold in a folder. In a git worktree those of the folder that it was made from hold, too: its
        own may lack what is not committed, and its agent can write to it."""
        projects = dict.fromkeys(project_rules_path(one) for one in (folder, source) if one)
        found = [self._file(project, Layer.PROJECT) for project in projects]
        if self._user is not None:
            found.insert(0, self._file(self._user, Layer.USER))
        return tuple(
            replace(file, is_trusted=file.layer is Layer.USER or standing.trusted.get(file.path) == file.digest)
            for file in found
            if file is not None
        )

    def _file(self, path: Path, layer: Layer) -> RuleFile | None:
        try:
            with path.open("rb") as opened:
                data = opened.read(MAX_BYTES + 1)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            problem = f"it cannot be read: {error.strerror}"
            return RuleFile(layer=layer, path=str(path), digest="", problems=(problem,))
        key = (str(path), layer)
        known = self._known.get(key)
        if known is None or known[0] != data:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            known = self._known[key] = (data, _parsed(data, layer, path))
        return known[1]


def _parsed(data: bytes, layer: Layer, path: Path) -> RuleFile:
    if len(data) > MAX_BYTES:
        return RuleFile(layer=layer, path=str(path), digest="", problems=(f"it is larger than {MAX_BYTES} bytes",))
    return parse_rules(data, layer, str(path))


def _looked_up(verdict: RuleVerdict, call: AskedCall) -> RuleVerdict:
    """The verdict, unless a path of the call leads elsewhere than it says."""
    rule = verdict.rule
    if rule is None or not rule.paths:
        return verdict
    roots = [os.path.realpath(Path(call.folder, one)) for one in rule.paths]
    for path in named_paths(call.arguments):
        try:
            real = os.path.realpath(Path(call.folder, path))
        except (OSError, ValueError):  # no path at all, such as one with a NUL
            return replace(verdict, then=PermissionBehavior.ASK, because=f"{path!r} cannot be looked up")
        if not any(real.startswith(root.rstrip("/") + "/") for root in roots):
            return replace(verdict, then=PermissionBehavior.ASK, because=f"{path!r} leads to {real}")
    return verdict


# Which rules and plans a person trusts, and for which sessions rules are paused: one small file in the home.

STANDING_FILE: Final = "rules.json"
EVERY_SESSION: Final = "*"
_MAX_BYTES: Final = 1 << 20


class RuleStanding(Struct, frozen=True, forbid_unknown_fields=True):
    """`trusted`: the digest of a file that a person trusts, by its path. `paused`: until when rules allow
    nothing in a session, by its id or for every one; null: until they are resumed."""

    trusted: dict[str, str] = {}
    paused: dict[str, Moment | None] = {}

    def is_paused(self, session_id: str, now: datetime) -> bool:
        """Whether rules allow nothing in a session now."""
        ends = [self.paused[key] for key in (EVERY_SESSION, session_id) if key in self.paused]
        return any(end is None or now < end for end in ends)


def read_standing(home: Path) -> RuleStanding:
    """What the home says. `UsageError` for a file that cannot be understood."""
    path = home / STANDING_FILE
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return RuleStanding()
    except OSError as error:
        raise unreadable(path, error) from error
    try:
        if len(data) > _MAX_BYTES:
            raise ValueError("too long")
        return msgspec.json.decode(data, type=RuleStanding)
    except ValueError as error:
        raise UsageError(f"{path} is not understood", remedy="remove it: trust and pauses are given again") from error


def write_standing(home: Path, standing: RuleStanding) -> None:
    """Put the file in place of the one before, whole."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=home, prefix=f".{STANDING_FILE}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(standing))
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(home / STANDING_FILE)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
