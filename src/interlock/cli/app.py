"""The cyclopts app. A command's module is imported when it is called, so that a cold start pays for one command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cyclopts import App, CycloptsError

from interlock.cli import output
from interlock.cli.commands import COMMANDS, FAMILIES, SUMMARY
from interlock.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from cyclopts.help import HelpPanel
    from rich.console import Console, ConsoleOptions


class _PlainHelp:
    """Loads what draws a help page only when one is asked for."""

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        from interlock.cli.help_page import print_panel

        print_panel(console, options, panel)

    def render_usage(self, console: Console, options: ConsoleOptions, usage: object) -> None:
        from cyclopts.help import PlainFormatter

        PlainFormatter().render_usage(console, options, usage)


app: Final = App(
    name="interlock",
    help=SUMMARY,
    help_format="plaintext",
    help_formatter=_PlainHelp(),
    version_flags=[],
    suppress_keyboard_interrupt=False,
    result_action="return_int_as_exit_code_else_zero",
)
_families: Final = {name: App(name=name, help=text, version_flags=[]) for name, text in FAMILIES.items()}
for _family in _families.values():
    app.command(_family)
for _command in COMMANDS:
    for _path in filter(None, (_command.name, _command.alias)):
        _parent, _, _name = _path.rpartition(" ")
        (_families[_parent] if _parent else app).command(
            _command.target,
            name=_name,
            help=_command.help,
            help_epilogue=f"Examples:\n{_command.examples}" if _command.examples else None,
            version_flags=[],
            show=_path == _command.name,
        )
app.command("interlock.cli.setup.version:version", name="--version", help="Print the version.", version_flags=[])


def run(tokens: list[str]) -> int:
    """Carry out one command line. Returns its exit code; our errors and Ctrl-C pass through to the caller."""
    try:
        code: int = app(tokens, exit_on_error=False, print_error=False)
    except CycloptsError as wrong:
        wrong.verbose = False
        output.error(f"{wrong}\nTry: {' '.join(('interlock', *(wrong.command_chain or ()), '--help'))}")
        return ExitCode.USAGE
    return code
