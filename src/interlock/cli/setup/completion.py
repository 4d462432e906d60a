"""`interlock completion`: the script that teaches a shell our commands."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from interlock.cli import output
from interlock.cli.app import app


def completion(
    shell: Literal["bash", "fish", "zsh"], /, *, install: Annotated[bool, Parameter(negative="")] = False
) -> None:
    """Print a completion script, or install it.

    Parameters
    ----------
    shell
        The shell to complete for.
    install
        Write the script to the shell's own folder and source it from its start-up file, instead of printing it.
    """
    if install:
        output.print_text(f"installed {app.install_completion(shell=shell)}; open a new shell to use it")
    else:
        output.print_text(app.generate_completion(shell=shell))
