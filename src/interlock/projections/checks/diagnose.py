"""`diagnose`: everything that is wrong with a session, said by name, with the place to look and what to do next.

Laws:
1. Total: any list of events, in any order and of any damage, gives a report. What is damaged is a finding.
2. Every turn has an explicit state in the report, given by the one classifier.
3. `blocked`: some check failed. `ready_with_warnings`: some check warns. `ready`: all else. `ok` is "not blocked".
4. Read only, and without a clock: what depends on the time is checked only if the time is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from interlock.lifecycle.turns import TurnRecord
from interlock.log.port import LogDamage
from interlock.projections.checks import log, messages, provider, subagents, tools, turns, workflows
from interlock.projections.checks.case import Case, Check, CheckStatus
from interlock.projections.turn_evidence import dossiers_of
from interlock.vocabulary.actions import NextAction
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import SessionId, SubagentId, WorkflowId

CHECKS: Final[tuple[Callable[[Case], Check], ...]] = (
    log.check_log,
    log.check_sequence,
    turns.check_turn_evidence,
    turns.check_turn_completion,
    messages.check_assistant_canonicalization,
    turns.check_turn_failure_evidence,
    turns.check_continuation,
    tools.check_tool_pairing,
    tools.check_parent_waits,
    subagents.check_subagent_timeouts,
    subagents.check_subagent_terminal_states,
    subagents.check_subagent_staleness,
    subagents.check_subagent_manager_runtime,
    workflows.check_workflow_events,
    workflows.check_workflow_checkpoints,
    provider.check_provider_replay,
    provider.check_provider_output_truncation,
    provider.check_provider_output_completeness,
    log.check_session_tree,
    log.check_anomalies,
)


class ReportStatus(StrEnum):
    """Whether a session can go on as it is."""

    READY = "ready"
    READY_WITH_WARNINGS = "ready_with_warnings"
    BLOCKED = "blocked"


class DiagnosisReport(Struct, frozen=True, kw_only=True):
    """What was found. `turns` holds every turn with its state; `next_actions` all advice, each once."""

    session_id: SessionId | None
    ok: bool
    status: ReportStatus
    turns: tuple[TurnRecord, ...]
    checks: tuple[Check, ...]
    next_actions: tuple[NextAction, ...]


_NOBODY: Final[Mapping[SessionId, datetime | None]] = MappingProxyType({})


def diagnose(
    events: Iterable[Event],
    damage: Iterable[LogDamage] = (),
    *,
    owner_alive: bool,
    now: datetime | None = None,
    child_activity: Mapping[SessionId, datetime | None] = _NOBODY,
    live_children: frozenset[SubagentId] | None = None,
    live_workflows: frozenset[WorkflowId] | None = None,
) -> DiagnosisReport:
    """Check a session's whole log.

    `child_activity`: when the log of each child was last written, None for one that has no log. `live_children`
    and `live_workflows`: those that the owner says it runs; None if it was not asked.
    """
    known, broken = tuple(events), tuple(damage)
    named: list[Event | LogDamage] = [*known[:1], *broken[:1]]
    case = Case(
        session_id=next((one.session_id for one in named), None),
        events=known,
        damage=broken,
        owner_alive=owner_alive,
        now=now,
        child_activity=child_activity,
        live_children=live_children,
        live_workflows=live_workflows,
        by_key={turn.key: turn for turn in dossiers_of(known, broken, owner_alive=owner_alive)},
    )
    return _report(case, tuple(check(case) for check in CHECKS))


def _report(case: Case, checks: tuple[Check, ...]) -> DiagnosisReport:
    statuses = {check.status for check in checks}
    status = ReportStatus.READY
    if CheckStatus.WARNING in statuses:
        status = ReportStatus.READY_WITH_WARNINGS
    if CheckStatus.FAILED in statuses:
        status = ReportStatus.BLOCKED
    advice = (action for check in checks for issue in check.issues for action in issue.next_actions)
    return DiagnosisReport(
        session_id=case.session_id,
        ok=status is not ReportStatus.BLOCKED,
        status=status,
        turns=tuple(turn.record for turn in case.turns),
        checks=checks,
        next_actions=tuple(dict.fromkeys(advice)),
    )
