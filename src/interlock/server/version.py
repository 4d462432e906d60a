"""Which Interlock this is."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def server_version() -> str:
    """The installed version; `unknown` where the package is not installed."""
    try:
        return version("interlock")
    except PackageNotFoundError:
        return "unknown"
