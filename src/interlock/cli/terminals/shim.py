"""`interlock debug shim -- CMD`: runs a program in a terminal of its own. Loads no parser and no msgspec."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_OPTIONS: Final = {"--status-socket": "status_socket", "--status-file": "status_file"}


def shim(*command: str, status_socket: str = "", status_file: str = "") -> int:
    """Run a command so that it notices nothing, answer its status probe, and pass on what it says of itself.

    The exit code is the command's own; if it died by a signal, so does the shim. 127: not found; 126: not executable.

    Parameters
    ----------
    command
        The command and its arguments, after `--`.
    status_socket
        A Unix stream socket that status lines (JSON) are sent to while somebody listens there.
    status_file
        A file that status lines are appended to.
    """
    from interlock.agents.shim.child import NotStarted, end_as
    from interlock.agents.shim.run import run_shim
    from interlock.cli import output
    from interlock.vocabulary.errors import UsageError

    if not command:
        raise UsageError(
            "there is no command to run", remedy="write it after --, as in: interlock debug shim -- claude"
        )
    try:
        status = run_shim(command, status_socket=status_socket, status_file=status_file)
    except NotStarted as wrong:
        output.error(output.escape(str(wrong)))
        return wrong.exit_code
    return end_as(status)


def run_plain(tokens: Sequence[str]) -> int | None:
    """Carry out `[OPTION VALUE | OPTION=VALUE]... -- CMD...` at once. None for any other form: the parser knows it."""
    options: dict[str, str] = {}
    left = list(tokens)
    while left and left[0] != "--":
        name, has_value, value = left.pop(0).partition("=")
        if name not in _OPTIONS or not (has_value or left):
            return None
        options[_OPTIONS[name]] = value if has_value else left.pop(0)
    return shim(*left[1:], **options) if left[1:] else None
