"""What a check gets to see, and what it gives back.

Laws:
1. A check whose subject is absent is `not_applicable`: it neither passes nor makes noise.
2. `failed`: the log cannot be taken at its word, or needs mending before the session goes on. `warning`: all is
   recorded as it should be, and a person should know of it.
3. Every issue says what is wrong, where to look (sequence numbers) and what to do next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TypedDict, TypeVar, Unpack

from msgspec import Struct

from interlock.log.port import LogDamage
from interlock.projections.turn_evidence import Dossier, TurnKey
from interlock.vocabulary.actions import NextAction, explain_turn, inspect_log
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.ids import SessionId, SubagentId, TurnId, WorkflowId


class CheckStatus(StrEnum):
    """How a check came out."""

    PASSED = "passed"
    WARNING = "warning"
    FAILED = "failed"
    NOT_APPLICABLE = "not_applicable"


class CheckId(StrEnum):
    """What is checked."""

    LOG = "log"
    SEQUENCE = "sequence"
    ANOMALIES = "anomalies"
    SESSION_TREE = "session_tree"
    TURN_EVIDENCE = "turn_evidence"
    TURN_COMPLETION = "turn_completion"
    ASSISTANT_CANONICALIZATION = "assistant_canonicalization"
    TURN_FAILURE_EVIDENCE = "turn_failure_evidence"
    CONTINUATION = "continuation"
    TOOL_PAIRING = "tool_pairing"
    PARENT_WAITS = "parent_waits"
    SUBAGENT_TIMEOUTS = "subagent_timeouts"
    SUBAGENT_TERMINAL_STATES = "subagent_terminal_states"
    SUBAGENT_STALENESS = "subagent_staleness"
    SUBAGENT_MANAGER_RUNTIME = "subagent_manager_runtime"
    WORKFLOW_EVENTS = "workflow_events"
    WORKFLOW_CHECKPOINTS = "workflow_checkpoints"
    PROVIDER_REPLAY = "provider_replay"
    PROVIDER_OUTPUT_TRUNCATION = "provider_output_truncation"
    PROVIDER_OUTPUT_COMPLETENESS = "provider_output_completeness"


class Issue(Struct, frozen=True, kw_only=True):
    """One thing that is wrong. `kind` is for programs, `message` for people, `seqs` for whoever wants to see it."""

    kind: str
    severity: CheckStatus
    message: str
    seqs: tuple[int, ...] = ()
    turn_id: TurnId | None = None
    next_actions: tuple[NextAction, ...] = ()


class Check(Struct, frozen=True, kw_only=True):
    """What one check found. `message` is one line for a table."""

    id: CheckId
    status: CheckStatus
    message: str
    issues: tuple[Issue, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A session as it is diagnosed.

    `now` is None where nobody told the time: nothing is stale then. `child_activity` says when each known child log was
    last written, None for one that is missing. `live_children`
    and `live_workflows` are what the owner says it runs; None: it was not asked.
    """

    session_id: SessionId | None
    events: tuple[Event, ...]
    damage: tuple[LogDamage, ...]
    owner_alive: bool
    now: datetime | None
    child_activity: Mapping[SessionId, datetime | None]
    live_children: frozenset[SubagentId] | None
    live_workflows: frozenset[WorkflowId] | None
    by_key: Mapping[TurnKey, Dossier]

    @property
    def turns(self) -> tuple[Dossier, ...]:
        """Every turn, in the order in which the turns began."""
        return tuple(self.by_key.values())

    def turn(self, event: Event) -> Dossier | None:
        """The turn that an event names."""
        return None if event.turn_id is None else self.by_key.get((event.session_id, event.turn_id))

    def look_at_log(self) -> tuple[NextAction, ...]:
        return () if self.session_id is None else (inspect_log(self.session_id),)


PayloadT = TypeVar("PayloadT", bound=Payload)


class _More(TypedDict, total=False):
    turn_id: TurnId | None
    next_actions: tuple[NextAction, ...]


def of_type(events: Iterable[Event], payload: type[PayloadT]) -> Iterator[tuple[Event, PayloadT]]:
    """The events that carry a payload of this class, each with it."""
    for event in events:
        if isinstance(event.data, payload):
            yield event, event.data


def seqs_of(events: Iterable[Event]) -> tuple[int, ...]:
    """Where events stand in the log."""
    return tuple(event.seq for event in events if event.seq is not None)


def look_at(turn: Dossier) -> tuple[NextAction, ...]:
    return (explain_turn(*turn.key),)


def warning(kind: str, message: str, events: Iterable[Event] = (), **more: Unpack[_More]) -> Issue:
    """Something that a person should know."""
    return Issue(kind=kind, severity=CheckStatus.WARNING, message=message, seqs=seqs_of(events), **more)


def failure(kind: str, message: str, events: Iterable[Event] = (), **more: Unpack[_More]) -> Issue:
    """Something that cannot be taken at its word, or that has to be mended first."""
    return Issue(kind=kind, severity=CheckStatus.FAILED, message=message, seqs=seqs_of(events), **more)


def judged(id: CheckId, issues: Iterable[Issue], *, applies: bool, passed: str) -> Check:
    """Turn issues into a check: the worst of them decides."""
    found = tuple(issues)
    if not found:
        status = CheckStatus.PASSED if applies else CheckStatus.NOT_APPLICABLE
        return Check(id=id, status=status, message=passed if applies else "nothing to check")
    is_failed = any(issue.severity is CheckStatus.FAILED for issue in found)
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    worst = next(issue for issue in found if not is_failed or issue.severity is CheckStatus.FAILED)
    status = CheckStatus.FAILED if is_failed else CheckStatus.WARNING
    return Check(id=id, status=status, message=f"{worst.message}{more}", issues=found)
