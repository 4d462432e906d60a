"""The page of every command, made from what `--help` prints."""

from __future__ import annotations

import re
from io import StringIO

from rich.console import Console

from interlock.cli.app import app
from interlock.cli.commands import COMMANDS, Command
from tools.markdown import page, table

_COLUMNS = 96


def commands_page() -> str:
    """A line for each command, then the help of each."""
    rows = ((f"[`{one.name}`](#{_anchor(one)})", one.help) for one in COMMANDS)
    return page(
        "Commands",
        "Answers go to standard output, everything else to standard error. `--json` prints the answer for a script. The"
        " exit code of every command is one of [this table](exit-codes.md). SESSION is an id, its beginning or"
        " its end, or the beginning of a word of the session's title.",
        table(("Command", "What it does"), rows),
        *(_section(one) for one in COMMANDS),
    )


def _section(command: Command) -> str:
    formerly = f"\n\nUntil the next release also: `interlock {command.alias}`." if command.alias else ""
    return f"## interlock {command.name}\n\n```text\n{help_of(command.name)}\n```{formerly}"


def _anchor(command: Command) -> str:
    return f"interlock-{command.name.replace(' ', '-')}"


def help_of(command: str) -> str:
    """What `interlock COMMAND --help` prints, without the spaces at the ends of lines."""
    printed = StringIO()
    console = Console(file=printed, width=_COLUMNS, color_system=None, force_terminal=False)
    app.help_print(command.split(" "), console=console)
    lines = "\n".join(line.rstrip() for line in printed.getvalue().strip().splitlines())
    return re.sub(r"\n{3,}", "\n\n", lines)
