"""`interlock notify test`: whether whoever is to be told is reached."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence

from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.server.options import JsonFlag
from interlock.runtime.config.loading import load
from interlock.runtime.notify.trial import Trial, TrialOutcome, try_channels
from interlock.vocabulary.errors import UsageError


def try_out(*, json: JsonFlag = False) -> int:
    """Send a test notice by every channel of `[notify]`, and say what came of each.

    The server reads the configuration when it starts: after a change, `interlock down` and `interlock up`. Exit code 1:
    none was delivered, 3: some were, 7: nothing could be tried here.
    """
    settings = load(os.environ).config.notify
    terminal = sys.stderr if sys.stderr is not None and sys.stderr.isatty() else None
    trials = asyncio.run(try_channels(settings, os.environ, terminal))
    if not trials:
        raise UsageError(
            "no channel is configured", remedy="name one under [notify]: bell, desktop, command or webhook"
        )
    if json:
        output.print_json({"channels": trials})
    else:
        output.print_table(
            ("CHANNEL", "OUTCOME", "DETAIL"), [(one.channel, one.outcome.value, one.detail) for one in trials]
        )
    return exit_code_of(trials)


def exit_code_of(trials: Sequence[Trial]) -> ExitCode:
    """What a script may rely on."""
    outcomes = {one.outcome for one in trials}
    if TrialOutcome.FAILED in outcomes:
        return ExitCode.PARTIAL if TrialOutcome.DELIVERED in outcomes else ExitCode.FAILED
    return ExitCode.COMPLETED if TrialOutcome.DELIVERED in outcomes else ExitCode.UNKNOWN
