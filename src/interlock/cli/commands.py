"""What `interlock` can do, in one table. Imports nothing heavy: the first help page is made from it alone."""

from __future__ import annotations

from typing import Final, NamedTuple

SUMMARY: Final = "Runs and watches AI coding agents, and never claims more than it can prove."


class Command(NamedTuple):
    """A command's name, where its function lives, and its line of help."""

    name: str
    target: str
    help: str


COMMANDS: Final = (
    Command("machines", "interlock.cli.machines:machines", "List the state machines, or print one: laws and table."),
    Command("demo", "interlock.cli.demo:demo", "Show what works today, on this machine, without an agent."),
    Command("completion", "interlock.cli.completion:completion", "Print or install a completion script for a shell."),
    Command("version", "interlock.cli.version:version", "Print the version."),
)

_EXAMPLES: Final = """\
Examples:
  interlock machines               the state machines, and what each decides
  interlock machines run           one machine: its laws, its diagram, its table
  interlock machines run --json    the same for a script
  interlock COMMAND --help         what one command takes

Exit codes: 0 completed, 1 failed, 2 usage, 3 partial, 4 interrupted,
5 timed out, 6 blocked, 7 unknown, 8 unreachable, 9 damaged log."""


def root_help() -> str:
    """The page that `interlock`, `interlock --help` and `interlock -h` print."""
    flags = (("--help, -h", "Print this page."), ("--version", "Print the version."))
    rows = (*((command.name, command.help) for command in COMMANDS), *flags)
    listed = "\n".join(f"  {name:<12} {text}" for name, text in rows)
    return f"Usage: interlock COMMAND\n\n{SUMMARY}\n\nCommands:\n{listed}\n\n{_EXAMPLES}"
