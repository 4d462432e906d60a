"""Where the configuration file is, or would be. Imports nothing heavy: light commands look there, too."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

CONFIG_VARIABLE: Final = "INTERLOCK_CONFIG"
MAX_BYTES: Final = 1 << 20


def config_path(environ: Mapping[str, str]) -> Path | None:
    """Where the file is, or would be. None where there is no home to look in."""
    if environ.get(CONFIG_VARIABLE):
        return Path(environ[CONFIG_VARIABLE])
    # By the XDG specification a relative path there is to be ignored.
    base = Path(environ.get("XDG_CONFIG_HOME", ""))
    if not base.is_absolute():
        try:
            base = (Path(environ["HOME"]) if environ.get("HOME") else Path.home()) / ".config"
        except RuntimeError:
            return None
    return base / "interlock" / "config.toml"
