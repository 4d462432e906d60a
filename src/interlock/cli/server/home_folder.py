"""Which home a command means. Imports nothing heavy: a prompt asks this each time that it is drawn."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def home_folder(home: Path | None, environ: Mapping[str, str] = os.environ) -> Path:
    """The home that is meant. The same as `log.paths.default_home`, without all that it imports."""
    if home is not None or environ.get("INTERLOCK_HOME"):
        return home or Path(environ["INTERLOCK_HOME"])
    state = Path(environ.get("XDG_STATE_HOME", ""))
    return (state if state.is_absolute() else Path.home() / ".local" / "state") / "interlock"
