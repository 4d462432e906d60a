"""`interlock version`."""

from __future__ import annotations

from interlock.cli import output
from interlock.cli.server import options


def version(*, json: options.JsonFlag = False) -> None:
    """Print the version."""
    from importlib.metadata import version as installed

    number = installed("interlock")
    if json:
        output.print_json({"interlock": number})
    else:
        output.print_text(f"interlock {number}")
