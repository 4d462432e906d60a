"""`interlock rules test` and `suggest`: what the rules say of a command, and of what a session asked before."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Annotated, Final

from cyclopts import Parameter

from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.home import HomeOption, JsonFlag, read_log, tell_damage
from interlock.cli.log.stored_sessions import find_session
from interlock.cli.rules.files import FolderOption, files_in, folder_of, home_of
from interlock.lifecycle.rules.rule_text import suggestion
from interlock.lifecycle.rules.shell_grammar import Opaque, read_command
from interlock.lifecycle.rules.verdict import AskedCall, RuleVerdict, judge
from interlock.log.sqlite.store import SqliteLog
from interlock.runtime.rules.keeper import RuleKeeper
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import (
    DecisionAction,
    PermissionBehavior,
    SessionOpened,
    ToolCallDecided,
    ToolCallSuspended,
)
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.events.workspace import WorktreeChanged

_EXIT: Final = {
    PermissionBehavior.ALLOW: ExitCode.COMPLETED,
    PermissionBehavior.ASK: ExitCode.BLOCKED,
    PermissionBehavior.DENY: ExitCode.FAILED,
}
_TIMES: Final = 3


def try_out(
    command: Annotated[str, Parameter(help="A shell command, as an agent would give it.")] = "",
    /,
    *,
    tool: Annotated[str, Parameter(help="The tool that runs it.")] = "Bash",
    agent: Annotated[str, Parameter(help="The agent that asks.")] = "",
    session: Annotated[str, Parameter(help="Instead: everything this session has asked so far.")] = "",
    cwd: FolderOption = None,
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Say what the rules decide about a command, part by part. Nothing runs.

    Exit code 0: allowed; 6: a person is asked; 1: denied; 2: a file of rules cannot be used.
    """
    if bool(command) == bool(session):
        raise UsageError("name a command, or a session with --session", remedy="quote the command: 'git log; rm x'")
    if session:
        return _of_session(session, home=home, json=json)
    files, _ = files_in(home, cwd)
    call = AskedCall(agent=agent, tool=tool, arguments={"command": command}, folder=folder_of(cwd))
    verdict = judge(files, call, datetime.now(UTC).date())
    if json:
        output.print_json(_json(verdict))
    else:
        rows = [(output.escape(" ".join(part.words)), part.then.value, part.because) for part in verdict.parts]
        if rows:
            output.print_table(("COMMAND", "THEN", "BECAUSE"), rows)
        output.print_text(f"{verdict.then.value}: {verdict.because}")
    return ExitCode.USAGE if any(file.problems for file in files) else _EXIT[verdict.then]


def _json(verdict: RuleVerdict) -> Json:
    return {
        "then": verdict.then.value,
        "because": verdict.because,
        "rule": None if verdict.rule is None else verdict.rule.id,
        "opaque": verdict.opaque,
        "parts": [
            {
                "words": list(part.words),
                "then": part.then.value,
                "rule": None if part.rule is None else part.rule.id,
                "because": part.because,
            }
            for part in verdict.parts
        ],
    }


def _of_session(session: str, *, home: HomeOption, json: bool) -> int:
    keeper = RuleKeeper(home_of(home), os.environ)

    async def work(log: SqliteLog) -> int:
        found = await log.read((await find_session(log, session)).session_id)
        rows = list(_judged(found.events, keeper))
        if json:
            told: list[Json] = [{"tool": call.tool, "arguments": call.arguments, **_verdict(one)} for call, one in rows]
            output.print_json({"questions": told})
        elif rows:
            lines = [(call.tool, _asked(call), one.then.value, one.because) for call, one in rows]
            output.print_table(("TOOL", "ASKED", "THEN", "BECAUSE"), lines)
        else:
            output.note("it has not asked about a tool call yet")
        return ExitCode.DAMAGED_LOG if tell_damage(found.damage) else ExitCode.COMPLETED

    return read_log(home, work)


def _verdict(verdict: RuleVerdict) -> dict[str, Json]:
    told = _json(verdict)
    return told if isinstance(told, dict) else {}


def _judged(events: Iterable[Event], keeper: RuleKeeper) -> Iterator[tuple[AskedCall, RuleVerdict]]:
    opened: SessionOpened | None = None
    source = ""
    for event in events:
        if isinstance(event.data, SessionOpened):
            opened = event.data
        elif isinstance(event.data, WorktreeChanged):
            source = event.data.source
        elif isinstance(event.data, ToolCallSuspended) and opened is not None:
            asked = event.data
            call = AskedCall(
                agent=opened.agent, tool=asked.name, arguments=_arguments(asked), folder=opened.cwd, source=source
            )
            yield call, keeper(event.session_id, call, datetime.now(UTC).date())


def _arguments(asked: ToolCallSuspended) -> Json:
    return asked.args if asked.ticket.pending.arguments is None else asked.ticket.pending.arguments


def _asked(call: AskedCall) -> str:
    command = call.arguments.get("command") if isinstance(call.arguments, dict) else None
    return output.escape(command if isinstance(command, str) else output.encode_json(call.arguments))[:200]


def suggest(*, home: HomeOption = None, json: JsonFlag = False) -> int:
    """Propose the narrowest rules for commands that a person allowed three times or more. Nothing is written."""

    async def work(log: SqliteLog) -> int:
        counted: Counter[tuple[str, tuple[str, ...]]] = Counter()
        page = await log.sessions(limit=1000)
        for session in page.sessions:
            counted.update(_allowed((await log.read(session.session_id)).events))
        frequent = [one for one, times in counted.most_common(100) if times >= _TIMES]
        found = [suggestion(words, tool, number) for number, (tool, words) in enumerate(frequent, 1)]
        kept = [one for one in found if one.text]
        if json:
            output.print_json({"rules": [{"command": one.source, "text": one.text} for one in kept]})
        elif kept:
            output.print_text("\n".join(one.text for one in kept).rstrip())
        else:
            output.note("nothing was allowed three times by a person that a rule may allow")
        return ExitCode.COMPLETED

    return read_log(home, work)


def _allowed(events: Iterable[Event]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Simple commands that a person allowed."""
    asked: dict[str, ToolCallSuspended] = {}
    for event in events:
        if isinstance(event.data, ToolCallSuspended):
            asked[event.data.ticket.suspension.id] = event.data
        elif isinstance(event.data, ToolCallDecided) and event.data.action is DecisionAction.RESUME:
            question = asked.get(event.data.target_id)
            if question is None or event.data.decided_by.startswith("rule:"):
                continue
            arguments = _arguments(question)
            command = arguments.get("command") if isinstance(arguments, dict) else None
            read = read_command(command) if isinstance(command, str) else Opaque("no text")
            if not isinstance(read, Opaque) and len(read) == 1 and not read[0].variables:
                yield question.name, read[0].words
