"""Several command lines in one process of the warm interpreter: what `homes.run_many` runs there."""

from __future__ import annotations

import contextlib
import io
import json
import sys


def run() -> None:
    """Run each argument as a command line, write what became of it as a line of JSON, and end the process."""
    from interlock.cli import main

    for command in sys.argv[1:]:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(command.split())
        print(json.dumps([command, code, out.getvalue(), err.getvalue()]), flush=True)  # noqa: T201
    raise SystemExit(0)
