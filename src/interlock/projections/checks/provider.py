"""Checks of what the model will see again, and of whether it said all that it had to say."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from interlock.projections.checks.case import Case, Check, CheckId, Issue, failure, judged, of_type, warning
from interlock.projections.replay.conversation import LeftOut
from interlock.projections.replay.items import ResultItem
from interlock.projections.replay.provider_input import fold_replay
from interlock.vocabulary.actions import NextAction, NextActionKind
from interlock.vocabulary.events.audit import ProviderUsage
from interlock.vocabulary.events.conversation import AssistantMessage, ToolCall, ToolResult, Truncation
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import TurnId
from interlock.vocabulary.states import TurnState

_DROPPED: Final = frozenset({LeftOut.REPEATED_CALL, LeftOut.LATE_RESULT, LeftOut.RESULT_WITHOUT_CALL})


def check_provider_replay(case: Case) -> Check:
    """What a model would be given is what the log says: no result is made up, and none is dropped."""
    applies = any(isinstance(event.data, ToolCall | ToolResult) for event in case.events)
    return judged(CheckId.PROVIDER_REPLAY, _replay_issues(case), applies=applies, passed="every call keeps its result")


def _replay_issues(case: Case) -> Iterator[Issue]:
    replay = fold_replay(case.events)
    for item, position in replay.placed():
        event = case.events[position]
        turn = case.turn(event)
        is_at_work = turn is not None and turn.state in (TurnState.RUNNING, TurnState.WAITING)
        if isinstance(item, ResultItem) and isinstance(event.data, ToolCall) and not is_at_work:
            message = f"the model is told that call {item.call_id} has no recorded result"
            make = failure if turn is not None and turn.state.is_terminal else warning
            yield make("synthetic_closure", message, [event], turn_id=event.turn_id, next_actions=case.look_at_log())
    for position, reason in replay.conversation().left_out:
        event = case.events[position]
        if reason in _DROPPED:
            message = f"the model is not given a {event.type}: {reason.value.replace('_', ' ')}"
            yield warning(reason.value, message, [event], turn_id=event.turn_id, next_actions=case.look_at_log())


def check_provider_output_truncation(case: Case) -> Check:
    """The provider cut none of its output short."""
    told = [(event, said) for event, said in _told(case) if said is not Truncation.UNKNOWN]
    cut = [event for event, said in told if said is Truncation.TRUNCATED]
    issues = [_truncated(event) for event in cut]
    return judged(CheckId.PROVIDER_OUTPUT_TRUNCATION, issues, applies=bool(told), passed="no output was cut")


def _truncated(event: Event) -> Issue:
    message = f"{event.type}: the provider cut its own output; the text may be incomplete"
    actions = (NextAction(NextActionKind.REDUCE_SCOPE),)
    return warning("provider_output_truncated", message, [event], turn_id=event.turn_id, next_actions=actions)


def _told(case: Case) -> Iterator[tuple[Event, Truncation]]:
    for event, usage in of_type(case.events, ProviderUsage):
        yield event, usage.truncation
    for event, message in of_type(case.events, AssistantMessage):
        yield event, message.metadata.truncation


def check_provider_output_completeness(case: Case) -> Check:
    """Where the provider says at all whether it cut its output, it says so of every call of the turn.

    Silence alone proves nothing, and most agents never tell: it is reported only against a provider that does tell.
    """
    calls: dict[TurnId | None, list[tuple[Event, ProviderUsage]]] = defaultdict(list)
    for event, usage in of_type(case.events, ProviderUsage):
        calls[event.turn_id].append((event, usage))
    issues = [issue for turn_id, made in calls.items() for issue in _unknown_issues(turn_id, made)]
    tells = any(usage.truncation is not Truncation.UNKNOWN for _, usage in of_type(case.events, ProviderUsage))
    return judged(CheckId.PROVIDER_OUTPUT_COMPLETENESS, issues, applies=tells, passed="every call tells")


def _unknown_issues(turn_id: TurnId | None, calls: list[tuple[Event, ProviderUsage]]) -> Iterator[Issue]:
    silent = [event for event, usage in calls if usage.truncation is Truncation.UNKNOWN]
    if silent and len(silent) < len(calls):
        message = f"{len(silent)} of {len(calls)} calls of a turn do not say whether their output is whole"
        yield warning("provider_output_completeness_unknown", message, silent, turn_id=turn_id)
