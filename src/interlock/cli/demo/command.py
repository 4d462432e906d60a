"""`interlock demo`: scripted agents behind a real server, in every state that there is. On a terminal it is a board to
play with, elsewhere, or with --tell, a story that is told while it happens.

Laws:
1. What is told is what the server said, or what a command printed. Nothing is known beforehand.
2. However it ends (by itself, by Ctrl-C, by SIGTERM, with its terminal) no process, tmux server or folder is left.
"""

from __future__ import annotations

import sys
from typing import Annotated, Final

from cyclopts import Parameter

from interlock.cli import output
from interlock.vocabulary.errors import UsageError

_NO_TMUX: Final = "There is no tmux on this machine: every agent is run by its JSON stream, none in a terminal."


def demo(
    *,
    tell: Annotated[bool, Parameter(negative="")] = False,
    log: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Run scripted agents in a private home, and show how each stands: no agent CLI, no key, nothing is left behind.

    On a terminal this is `interlock top` on them: answer what they ask, q ends it. Elsewhere the story is told line by
    line as it happens, with what the commands print. Exit code 5: something of it did not happen in time.

    Parameters
    ----------
    tell
        Narrate the story line by line.
    log
        Only the log: histories of turns, a writer that is killed for real, and how each turn stands.
    json
        One JSON object a line, for a script.
    """
    if log and tell:
        raise UsageError("--log and --tell exclude each other", remedy="choose one")
    if log:
        from interlock.cli.demo import log as demo_log

        demo_log.show(json=json)
        return 0
    import shutil

    from interlock.cli.demo.run import play, tell_story

    has_tmux = shutil.which("tmux") is not None
    if not has_tmux:
        output.note(_NO_TMUX)
    if tell or json or not _is_terminal():
        return tell_story(has_tmux=has_tmux, json=json)
    return play(has_tmux=has_tmux)


def _is_terminal() -> bool:
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))
