"""`interlock debug diagnose`: what is wrong with a session, where to look, and what to do next."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.home import HomeOption, JsonFlag, SessionArgument, may_have_owner, read_log
from interlock.cli.log.stored_sessions import find_session
from interlock.cli.server.api import ServerApi
from interlock.cli.server.survivors import living_agent, tell_survivor
from interlock.cli.wire.routes import task_path
from interlock.lifecycle.children.open_work import OpenWork
from interlock.log.port import Slice
from interlock.log.sqlite.store import SqliteLog
from interlock.projections.checks.case import CheckStatus, Issue
from interlock.projections.checks.diagnose import DiagnosisReport
from interlock.projections.checks.diagnose import diagnose as checked
from interlock.vocabulary.actions import NextActionKind
from interlock.vocabulary.errors import InterlockError
from interlock.vocabulary.events.conversation import SubagentEvent
from interlock.vocabulary.ids import SessionId


def diagnose(session: SessionArgument, /, *, home: HomeOption = None, json: JsonFlag = False) -> int:
    """Check a session's whole log, also a damaged one, and say of every turn how it stands.

    Exit code 0: ready, also with warnings. 1: blocked, something must be fixed first. 9: the log is damaged.
    """

    async def work(log: SqliteLog) -> int:
        session_id = (await find_session(log, session)).session_id
        found = await log.read(session_id)
        is_owned = await may_have_owner(log)
        pid = None if is_owned else living_agent(found.events)
        report = checked(
            found.events,
            found.damage,
            owner_alive=is_owned or pid is not None,
            now=datetime.now(UTC),
            child_activity=await _child_activity(log, found),
        )
        if is_owned and OpenWork.of(event.data for event in found.events):
            asked = await asyncio.to_thread(_server_report, log.path.parent, session_id)
            report = report if asked is None else asked
        if pid is not None and any(not one.state.is_terminal for one in report.turns):
            tell_survivor(pid, log.path.parent)
        if json:
            output.print_json(report)
        else:
            _print_report(report)
        if found.damage:
            return ExitCode.DAMAGED_LOG
        return ExitCode.COMPLETED if report.ok else ExitCode.FAILED

    return read_log(home, work)


def _server_report(home: Path, session: SessionId) -> DiagnosisReport | None:
    """What the server says, which knows what of the open work it runs; None where it cannot be asked."""
    try:
        return ServerApi.of_home(home).read(DiagnosisReport, f"{task_path(session)}/diagnostics")
    except InterlockError:
        return None


async def _child_activity(log: SqliteLog, found: Slice) -> dict[SessionId, datetime | None]:
    """When the log of each child was last written; None for a child that has no log in this home."""
    facts = (event.data for event in found.events if isinstance(event.data, SubagentEvent))
    children = {fact.child_session_id for fact in facts if fact.child_session_id is not None}
    activity: dict[SessionId, datetime | None] = {}
    for child in sorted(children):
        page = await log.sessions(prefix=child, limit=1)
        activity[child] = next((one.last_at for one in page.sessions if one.session_id == child), None)
    return activity


def _print_report(report: DiagnosisReport) -> None:
    output.print_text(f"{report.session_id}: {report.status.value.replace('_', ' ')}\n")
    states = Counter(turn.state.value for turn in report.turns)
    output.print_text(f"turns: {', '.join(f'{count} {state}' for state, count in states.items()) or 'none'}\n")
    done = [check for check in report.checks if check.status is not CheckStatus.NOT_APPLICABLE]
    output.print_table(
        ("CHECK", "STATUS", "FOUND"), [(check.id.value, check.status.value, check.message) for check in done]
    )
    _print_issues(issue for check in report.checks for issue in check.issues)
    others = (action for action in report.next_actions if action.kind is not NextActionKind.DIAGNOSE_SESSION)
    commands = [action.command for action in others if action.command]
    if commands:
        output.print_text("\nnext:\n" + "\n".join(f"  {output.escape(command)}" for command in commands))


def _print_issues(issues: Iterable[Issue]) -> None:
    rows = [(issue.severity.value, issue.kind, _where(issue), issue.message) for issue in issues]
    if rows:
        output.print_text("")
        output.print_table(("SEVERITY", "ISSUE", "EVENTS", "MESSAGE"), rows)


def _where(issue: Issue) -> str:
    shown = ", ".join(map(str, issue.seqs[:5]))
    return f"{shown}, ..." if len(issue.seqs) > 5 else shown
