"""Keeps the result and the recording of each scenario, so that a lab that was interrupted goes on where it was.

A result counts for one version of the CLI, read by one set of profiles: another digest is another folder. It is written
once the scenario is over, and in one piece, so that what is there is whole.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final

import msgspec

from interlock.agents.profiles import user_profiles_folder
from interlock.screen.profile_file import read_profile
from interlock.testing.lab.installs import cache_folder
from interlock.testing.lab.results import ScenarioResult
from interlock.testing.lab.sizes import USUAL_SIZE

_DIGEST_LENGTH: Final = 12


def profile_digest(cli: str) -> str:
    """A digest of every profile that may read this CLI: the user's own, and ours."""
    own = [path.read_text("utf-8") for path in sorted(user_profiles_folder().glob("*.toml"))]
    return _digest(cli, [*own, *_builtin_texts()])


@cache
def builtin_digest(cli: str) -> str:
    """The same where the user has no profile of their own. Ours do not change while we run."""
    return _digest(cli, _builtin_texts())


def _builtin_texts() -> list[str]:
    ours = resources.files("interlock.screen") / "profiles"
    return [file.read_text("utf-8") for file in sorted(ours.iterdir(), key=lambda file: file.name)]


def _digest(cli: str, texts: Sequence[str]) -> str:
    of_cli = [text for text in texts if read_profile(text, cli).cli == cli]
    return hashlib.sha256("\0".join(of_cli).encode()).hexdigest()[:_DIGEST_LENGTH]


def lab_folder() -> Path:
    """Where results are kept: beside the installs."""
    return cache_folder().parent / "lab"


class ResultStore:
    """The results of one CLI at one version in a terminal of one size, read by one set of profiles."""

    def __init__(self, cli: str, version: str, profile: str, size: str = str(USUAL_SIZE)) -> None:
        self.folder = lab_folder() / f"{cli}-{version}" / (profile if size == str(USUAL_SIZE) else f"{profile}-{size}")

    def recording(self, scenario: str) -> Path:
        return self.folder / f"{scenario}.ndjson.gz"

    def find(self, scenario: str) -> ScenarioResult | None:
        """The result of a scenario that is over; None if there is none, or if it cannot be read any more."""
        try:
            return msgspec.json.decode(self._path(scenario).read_bytes(), type=ScenarioResult)
        except (OSError, msgspec.MsgspecError):
            return None

    def keep(self, result: ScenarioResult) -> None:
        path = self._path(result.scenario)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{os.getpid()}-{path.name}")
        partial.write_bytes(msgspec.json.format(msgspec.json.encode(result)) + b"\n")
        partial.replace(path)

    def _path(self, scenario: str) -> Path:
        return self.folder / f"{scenario}.json"
