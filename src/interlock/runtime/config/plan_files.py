"""Finds a plan file, by its path or by its name, and says whether a person trusts it as it stands.

Laws:
1. A plan is read once: what was trusted by its digest is what is run.
2. A plan runs commands and agents, so one that lies outside the user's configuration folder is code of others. It runs
   only once a person has trusted it, and a changed file is not trusted.
"""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interlock.lifecycle.plans.plan_file import MAX_PLAN_BYTES
from interlock.log.private_file import unreadable
from interlock.runtime.config.place import config_path
from interlock.runtime.rules.keeper import read_standing
from interlock.vocabulary.errors import UsageError

SUFFIX: Final = ".plan.toml"
PROJECT_PLANS: Final = Path(".interlock") / "plans"


@dataclass(frozen=True, slots=True)
class FoundPlan:
    """A plan file as it was read. `is_own`: it lies in the user's configuration folder."""

    path: Path
    text: str
    digest: str
    is_own: bool


def user_plans(environ: Mapping[str, str]) -> Path | None:
    """Where the plans of the user are, or would be: beside the configuration."""
    config = config_path(environ)
    return None if config is None else config.parent / "plans"


def find_plan(name: str, environ: Mapping[str, str], folder: Path) -> FoundPlan:
    """Read the plan that a path or a name means. `UsageError` where there is none."""
    own = user_plans(environ)
    path = _path_of(name, folder, own)
    if path.exists() and not path.is_file():  # the other end of a pipe may never write
        raise UsageError(f"{path} is no file", remedy="name a plan file")
    try:
        with path.open("rb") as file:
            data = file.read(MAX_PLAN_BYTES + 1)
    except FileNotFoundError:
        raise UsageError(f"there is no plan {path}", remedy="name a file, or a plan that there is") from None
    except OSError as error:
        raise unreadable(path, error) from error
    if len(data) > MAX_PLAN_BYTES:
        raise UsageError(f"{path} is larger than {MAX_PLAN_BYTES} bytes", remedy="name a file that is a plan")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 at byte {error.start}", remedy="save it as UTF-8") from error
    is_own = own is not None and path.is_relative_to(os.path.realpath(own))
    return FoundPlan(path, text, hashlib.sha256(data).hexdigest(), is_own)


def _path_of(name: str, folder: Path, own: Path | None) -> Path:
    if name.endswith(SUFFIX):
        return Path(os.path.realpath(folder / name))
    if "/" in name or name.endswith(".toml") or not name.strip():
        raise UsageError(f"{name!r} is no plan file", remedy=f"a plan file ends in {SUFFIX}: rename it")
    places = [folder / PROJECT_PLANS, *(() if own is None else (own,))]
    for place in places:
        path = Path(os.path.realpath(place / f"{name}{SUFFIX}"))
        if path.is_file():
            return path
    looked = " nor ".join(str(place) for place in places)
    raise UsageError(f"there is no plan {name!r} in {looked}", remedy="name a file, or a plan that is there")


def is_trusted(home: Path, plan: FoundPlan) -> bool:
    """Whether a plan may run: it is the user's own, or trusted as it stands now."""
    return plan.is_own or read_standing(home).trusted.get(str(plan.path)) == plan.digest


def require_trust(home: Path, plan: FoundPlan) -> None:
    """Raise `UsageError` for a plan that no person trusts as it stands now."""
    if is_trusted(home, plan):
        return
    was = str(plan.path) in read_standing(home).trusted
    why = "changed since you trusted it" if was else "runs commands, and you have not trusted it yet"
    raise UsageError(f"{plan.path} {why}", remedy=f"read it, then `interlock plan trust {shlex.quote(str(plan.path))}`")
