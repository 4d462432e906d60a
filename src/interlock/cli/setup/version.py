"""`interlock version`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from interlock.cli import output


def version(*, json: Annotated[bool, Parameter(negative="")] = False) -> None:
    """Print the version.

    Parameters
    ----------
    json
        Print JSON for a script.
    """
    from importlib.metadata import version as installed

    number = installed("interlock")
    if json:
        output.print_json({"interlock": number})
    else:
        output.print_text(f"interlock {number}")
