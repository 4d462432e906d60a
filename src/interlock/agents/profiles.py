"""The profiles on this machine: the user's own, which win, and those that come with Interlock."""

from __future__ import annotations

import os
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final

from interlock.screen.profile import Profile
from interlock.screen.profile_file import read_profile
from interlock.vocabulary.errors import UsageError

_MAX_BYTES: Final = 1 << 20


def load_profiles(folder: Path | None = None) -> tuple[Profile, ...]:
    """Every profile, the user's first. One that is broken is refused with its file and line, and nothing is loaded."""
    own = user_profiles_folder() if folder is None else folder
    return (*user_profiles(own), *builtin_profiles())


def user_profiles_folder() -> Path:
    """Where a user's own profiles live."""
    base = os.environ.get("XDG_CONFIG_HOME") or ""
    config = Path(base) if Path(base).is_absolute() else Path.home() / ".config"
    return config / "interlock" / "profiles"


@cache
def builtin_profiles() -> tuple[Profile, ...]:
    folder = resources.files("interlock.screen") / "profiles"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".toml")), key=lambda file: file.name)
    return tuple(read_profile(file.read_text("utf-8"), file.name) for file in files)


def user_profiles(folder: Path) -> tuple[Profile, ...]:
    return tuple(read_profile_file(path) for path in sorted(folder.glob("*.toml")))


def read_profile_file(path: Path) -> Profile:
    """Read one file. What is wrong with it is said with file and line."""
    return read_profile(_text_of(path), str(path))


def _text_of(path: Path) -> str:
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise UsageError(f"{path}: a profile has at most {_MAX_BYTES} bytes")
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8: {error}") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
