"""`interlock notify test`: sends one test notice by each channel, and says what came of it.

Law: only what was delivered is called delivered. A bell is for a terminal: without one it was not tried.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from uuid import uuid4

from msgspec import Struct

from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.server.options import JsonFlag
from interlock.projections.attention_ledger import REASONS, Notice, NoticeKind
from interlock.runtime.config.loading import load
from interlock.runtime.config.sections import NotifySection
from interlock.runtime.notify.channels import (
    BellChannel,
    CommandChannel,
    NtfyChannel,
    TerminalChannel,
    Webhook,
    desktop_channel,
)
from interlock.runtime.notify.notifier import DELIVERY_SECONDS, NoticeChannel
from interlock.vocabulary.errors import PeerFault, UsageError
from interlock.vocabulary.ids import SessionId


class TrialOutcome(StrEnum):
    """What came of it."""

    DELIVERED = "delivered"
    FAILED = "failed"
    NOT_TRIED = "not tried"


class Trial(Struct, frozen=True, kw_only=True):
    """One channel of the configuration, by its key, and what came of it."""

    channel: str
    outcome: TrialOutcome
    detail: str = ""


def trial_notice(now: datetime) -> Notice:
    """A notice like any other. Its key begins with `test/`, and is never the same."""
    return Notice(
        key=f"test/{uuid4().hex}",
        kind=NoticeKind.QUESTION,
        task_id=SessionId("ses_test"),
        version=0,
        agent="interlock",
        title="a test",
        reason=REASONS[NoticeKind.QUESTION],
        question="Does this reach you?",
        at=now,
    )


async def try_channels(
    settings: NotifySection,
    environ: Mapping[str, str],
    terminal: TerminalChannel | None,
    *,
    seconds: float = DELIVERY_SECONDS,
) -> tuple[Trial, ...]:
    """Tell a trial notice by every channel that is configured, all at once."""
    notice = trial_notice(datetime.now(UTC))
    trials = [_try(name, channel, notice, seconds) for name, channel in _asked(settings, environ, terminal)]
    return tuple(await asyncio.gather(*trials))


def _asked(
    settings: NotifySection, environ: Mapping[str, str], terminal: TerminalChannel | None
) -> Iterator[tuple[str, NoticeChannel | Trial]]:
    """Each channel that is asked for, or what can be said of it without a delivery."""
    if settings.bell:
        silent = Trial(channel="bell", outcome=TrialOutcome.NOT_TRIED, detail="this is no terminal")
        yield "bell", silent if terminal is None else BellChannel(terminal)
    if settings.desktop:
        missing = "there is no notify-send here, or no desktop"
        absent = Trial(channel="desktop", outcome=TrialOutcome.FAILED, detail=missing)
        yield "desktop", desktop_channel(environ, terminal) or absent
    if settings.command:
        yield "command", CommandChannel(settings.command, link=settings.link)
    if settings.webhook:
        yield "webhook", Webhook(settings.webhook, link=settings.link)
    if settings.ntfy:
        yield "ntfy", NtfyChannel(settings.ntfy, link=settings.link)


async def _try(name: str, channel: NoticeChannel | Trial, notice: Notice, seconds: float) -> Trial:
    if isinstance(channel, Trial):
        return channel
    try:
        async with asyncio.timeout(seconds):
            await channel.deliver(notice)
    except TimeoutError:
        return Trial(channel=name, outcome=TrialOutcome.FAILED, detail=f"it took longer than {seconds:g} s")
    except (PeerFault, OSError, ValueError) as error:
        return Trial(channel=name, outcome=TrialOutcome.FAILED, detail=str(error))
    by = "" if channel.name == name else f"by {channel.name}"
    return Trial(channel=name, outcome=TrialOutcome.DELIVERED, detail=by)


def try_out(*, json: JsonFlag = False) -> int:
    """Send a test notice by every channel of `[notify]`, and say the result of each channel.

    The server reads the configuration when it starts: after a change, `interlock down` and `interlock up`. Exit code 1:
    none was delivered, 3: some were, 7: nothing could be tried here.
    """
    settings = load(os.environ).config.notify
    terminal = sys.stderr if sys.stderr is not None and sys.stderr.isatty() else None
    trials = asyncio.run(try_channels(settings, os.environ, terminal))
    if not trials:
        raise UsageError(
            "no channel is configured", remedy="name one under [notify]: bell, desktop, command, webhook or ntfy"
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
