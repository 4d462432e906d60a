"""`interlock debug inspect`: find out what runs in a pane that somebody else started, and say how it stands."""

from __future__ import annotations

import asyncio
import os
from contextlib import aclosing
from typing import Annotated, Final, TypeAlias

from cyclopts import Parameter
from msgspec import Struct

from interlock.agents.pane_tracker import track_pane
from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.home import JsonFlag
from interlock.cli.terminals.panes import CliOption, KnownPane, PaneArgument, SocketOption, known_pane
from interlock.cli.terminals.track import Tracked, print_change, tracked
from interlock.monitor.tracker import TuiTrackerSession, Verdict
from interlock.runtime.config.loading import load
from interlock.screen.assessment import BusinessState

FollowFlag: TypeAlias = Annotated[
    bool, Parameter(name=("--follow", "-f"), negative="", help="Go on, with a line for each change, until Ctrl-C.")
]
_CODES: Final = {
    BusinessState.IDLE: ExitCode.COMPLETED,
    BusinessState.WORKING: ExitCode.COMPLETED,
    BusinessState.AWAITING_OPERATOR: ExitCode.BLOCKED,
    BusinessState.UNKNOWN: ExitCode.UNKNOWN,
}


class InspectedPane(Struct, frozen=True):
    """What runs in a pane, as `debug inspect --json` prints it first."""

    pane: str
    place: str
    socket: str
    pid: int
    started: str | None
    cli: str
    version: str | None
    profile: str
    selection: str
    verdict: Tracked


def inspect_pane(
    pane: PaneArgument = "",
    /,
    *,
    socket: SocketOption = None,
    cli: CliOption = None,
    follow: FollowFlag = False,
    json: JsonFlag = False,
) -> int:
    """Say which agent runs in a pane of tmux, how it stands now and by which rule. Changes nothing in the pane.

    Exit code 6: it waits for a person. 7: its screen does not say. 8: there is no such pane.
    """
    return asyncio.run(_inspect(pane, socket, cli, follow=follow, json=json))


async def _inspect(pane: str, socket: str | None, cli: str | None, *, follow: bool, json: bool) -> int:
    async with known_pane(pane, socket, cli) as known:
        monitor = load(os.environ).config.monitor_policies().of(known.cli)
        session = TuiTrackerSession(known.reader, monitor, saw_start=False)
        shown: tuple[str, ...] = ()
        last: Verdict | None = None
        began = 0.0
        async with aclosing(track_pane(known.adopted.pane, session)) as verdicts:
            async for live in verdicts:
                if last is None:
                    began = live.verdict.at_seconds
                    _introduce(known, live.verdict, json=json)
                if json and last is not None:
                    output.print_json(tracked(live.verdict))
                elif not json:
                    shown = print_change(live.verdict, shown, began)
                output.flush()
                last = live.verdict
                if not follow:
                    break
    return ExitCode.UNREACHABLE if last is None else _CODES[last.business_state]


def _introduce(known: KnownPane, verdict: Verdict, *, json: bool) -> None:
    info, profile = known.adopted.info, known.reader.profile
    if json:
        identity = info.identity
        output.print_json(
            InspectedPane(
                pane=info.pane_id,
                place=info.place,
                socket=identity.socket,
                pid=identity.pid,
                started=identity.started,
                cli=known.cli,
                version=known.version,
                profile=profile.id,
                selection=known.reader.metadata.selection_source,
                verdict=tracked(verdict),
            )
        )
        return
    version = f" {known.version}" if known.version else ""
    output.print_text(f"{info.pane_id} ({info.place}): {profile.title}{version}, read by profile {profile.id}")
    for anomaly in known.reader.anomalies:
        output.note(anomaly.message)
