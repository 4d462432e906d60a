"""The commands. `main` is the entry point; every way out of it is one of the codes in `exit_codes`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

_SHIM = (("debug", "shim"), ("shim",))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (by default the process's own) and return its exit code. Raises only on a bug of ours."""
    from interlock.cli import output
    from interlock.vocabulary.errors import InterlockError

    try:
        code = _dispatch(list(sys.argv[1:] if argv is None else argv))
        output.flush()
    except BrokenPipeError as gone:
        return _code_for(gone)  # The reader has what it wanted; there is nobody to tell.
    except KeyboardInterrupt as stop:
        if argv is None:
            _close_ears()
        output.error("interrupted")
        return _code_for(stop)
    except (InterlockError, OSError) as wrong:
        output.error(output.escape(_told(wrong)))
        return _code_for(wrong)
    except UnicodeEncodeError as wrong:
        return _refuse_raw_bytes(wrong, sys.argv[1:] if argv is None else argv)
    finally:
        output.settle()
    return code


def _code_for(error: BaseException) -> int:
    from interlock.cli.exit_codes import exit_code_for  # only who fails pays for the table

    return exit_code_for(error)


def _close_ears() -> None:
    """We are leaving already: a second Ctrl-C must not turn the last words into a traceback."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _told(wrong: Exception) -> str:
    """What to say of an error. The system's own words name no remedy: a disk that takes no more has one."""
    from errno import EDQUOT, EFBIG, ENOSPC

    is_full = isinstance(wrong, OSError) and wrong.errno in (EDQUOT, EFBIG, ENOSPC)
    return f"{wrong}; not all could be written: make room, or write to another place" if is_full else str(wrong)


def _refuse_raw_bytes(wrong: UnicodeEncodeError, argv: Sequence[str]) -> int:
    """Bytes that are no UTF-8 may name a file. Nothing else has such a name; if none was given, it is a bug of ours."""
    from interlock.cli import output
    from interlock.vocabulary.errors import UsageError

    raw = [word for word in argv if any("\ud800" <= letter <= "\udfff" for letter in word)]
    if not raw:
        raise wrong
    refused = UsageError(
        f"{output.escape(raw[0])!r} is not UTF-8", remedy="give text in UTF-8; only a file may be named so"
    )
    output.error(str(refused))
    return _code_for(refused)


def _is_on_terminal() -> bool:
    from interlock.cli.colours import is_on_terminal

    return is_on_terminal()


def _first_words() -> str:
    """What a newcomer is told; blank on a home that was used."""
    from interlock.cli.install.first_run import first_run_text

    return first_run_text()


def _dispatch(tokens: list[str]) -> int:
    if not tokens and _is_on_terminal():
        tokens = ["top"]
    if tokens in ([], ["--help"], ["-h"]):
        # The page that a newcomer and a completion script ask for most needs neither cyclopts nor rich.
        from interlock.cli import output
        from interlock.cli.commands import root_help

        output.print_text((not tokens and _first_words()) or root_help())
        return 0
    from interlock.cli.plain import run_plain as run_plain_command

    code = run_plain_command(tokens)
    if code is not None:
        return code
    shim = next((tokens[len(name) :] for name in _SHIM if tuple(tokens[: len(name)]) == name), None)
    if shim is not None:
        # It stands between a person and an agent's first screen: its usual form does not wait for cyclopts either.
        from interlock.cli.terminals.shim import run_plain

        code = run_plain(shim)
        if code is not None:
            return code
    from interlock.cli.app import run

    return run(tokens)
