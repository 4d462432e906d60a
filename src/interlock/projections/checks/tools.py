"""Checks of tool calls: each has one result, and a wait for others claims no more than the log knows of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from interlock.lifecycle.children.subagents import SubagentFold, WaitStatus, wait_outcome
from interlock.projections.checks.case import Case, Check, CheckId, Issue, failure, judged, look_at, of_type, warning
from interlock.projections.replay.tool_outcomes import WAIT_TOOL, wait_status
from interlock.projections.turn_evidence import Dossier
from interlock.vocabulary.events.audit import ToolCallSuspended
from interlock.vocabulary.events.conversation import SubagentEvent, ToolCall, ToolResult
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import CallId, SubagentId
from interlock.vocabulary.states import SubagentState, TurnState

CallRef: TypeAlias = tuple[CallId, int]

# The least claim first: a wait may say less than the log knows, never more.
_CLAIMS: Final = (
    WaitStatus.NOTHING_TO_WAIT_FOR,
    WaitStatus.INCOMPLETE,
    WaitStatus.PARTIAL,
    WaitStatus.COMPLETED,
)


_AT_WORK: Final = frozenset({TurnState.RUNNING, TurnState.WAITING})


def check_tool_pairing(case: Case) -> Check:
    """Every call has one result that came after it; a call of a turn at work may still wait for its own."""
    applies = any(isinstance(event.data, ToolCall | ToolResult) for event in case.events)
    issues = [issue for turn in case.turns for issue in _pairing_issues(turn)]
    issues += _question_issues(case)
    waiting = sum(len(turn.facts.open_calls) for turn in case.turns if turn.state in _AT_WORK)
    passed = f"{waiting} calls wait for their result, every other has one" if waiting else "every call has its result"
    return judged(CheckId.TOOL_PAIRING, issues, applies=applies, passed=passed)


def _pairing_issues(turn: Dossier) -> Iterator[Issue]:
    name, look = turn.turn_id, look_at(turn)
    calls: dict[CallRef, Event] = {}
    unsettled: Counter[CallRef] = Counter()
    for event in turn.counted:
        if isinstance(event.data, ToolCall):
            ref = (event.data.call_id, event.data.occurrence)
            if ref in calls:
                message = f"call {_spell(ref)} of turn {name} was recorded twice"
                yield failure("repeated_tool_call", message, [calls[ref], event], turn_id=name, next_actions=look)
            calls[ref] = event
            unsettled[ref] += 1
        elif isinstance(event.data, ToolResult):
            yield from _result_issues(turn, event, event.data, calls, unsettled)
            ref = (event.data.call_id, event.data.occurrence)
            unsettled[ref] = max(unsettled[ref] - 1, 0)  # a result that came before its call does not answer it
    if turn.state is TurnState.UNKNOWN and (calls or unsettled):
        message = f"turn {name}: events are lost, so it is not known whether every call has its result"
        yield warning("calls_unknown", message, calls.values(), turn_id=name, next_actions=look)
    if turn.state in _AT_WORK or turn.state is TurnState.UNKNOWN:
        return
    make = warning if turn.state is TurnState.ABANDONED else failure  # recovery settles the calls of an abandoned turn
    for ref in (ref for ref in calls if unsettled[ref]):
        message = f"call {_spell(ref)} of turn {name}, which is {turn.state.value}, has no result"
        yield make("call_without_result", message, [calls[ref]], turn_id=name, next_actions=look)


def _result_issues(
    turn: Dossier, event: Event, result: ToolResult, calls: Mapping[CallRef, Event], unsettled: Counter[CallRef]
) -> Iterator[Issue]:
    name, look, ref = turn.turn_id, look_at(turn), (result.call_id, result.occurrence)
    if turn.state is TurnState.UNKNOWN:
        return  # its call, or another one of that name, may be among the lost events
    if ref not in calls:
        message = f"a result for call {_spell(ref)} of turn {name}, which was never made"
        yield warning("result_without_call", message, [event], turn_id=name, next_actions=look)
    elif not unsettled[ref]:
        message = f"call {_spell(ref)} of turn {name} has a second result"
        yield failure("second_result", message, [calls[ref], event], turn_id=name, next_actions=look)
    elif result.synthetic:
        message = f"call {_spell(ref)} of turn {name} never had a result; one was written in its place"
        yield warning("repaired_tool_call", message, [calls[ref], event], turn_id=name, next_actions=look)


def _question_issues(case: Case) -> Iterator[Issue]:
    """A decision can only be asked for about a call that was made."""
    called: set[tuple[object, ...]] = set()
    for event in case.events:
        if isinstance(event.data, ToolCall):
            called.add((event.session_id, event.turn_id, event.data.call_id, event.data.occurrence))
        elif isinstance(event.data, ToolCallSuspended):
            asked = event.data
            if (event.session_id, event.turn_id, asked.call_id, asked.occurrence) not in called:
                message = f"a decision was asked for about call {asked.call_id}, which was never made"
                look = case.look_at_log()
                yield warning("question_without_call", message, [event], turn_id=event.turn_id, next_actions=look)


def _spell(ref: CallRef) -> str:
    return ref[0] if ref[1] == 1 else f"{ref[0]} (occurrence {ref[1]})"


def check_parent_waits(case: Case) -> Check:
    """A wait for children says in so many words what it came to, and the facts of the log bear it out."""
    applies = any(call.name == WAIT_TOOL for _, call in of_type(case.events, ToolCall))
    return judged(CheckId.PARENT_WAITS, _wait_issues(case), applies=applies, passed="every wait told the truth")


def _wait_issues(case: Case) -> Iterator[Issue]:
    waits: dict[tuple[object, ...], tuple[Event, ToolCall]] = {}
    children = SubagentFold()
    for event in case.events:
        match event.data:
            case SubagentEvent() as fact:
                children.add(fact)
            case ToolCall(name=name) as call if name == WAIT_TOOL:
                waits[event.session_id, event.turn_id, call.call_id, call.occurrence] = event, call
            case ToolResult() as result:
                asked = waits.pop((event.session_id, event.turn_id, result.call_id, result.occurrence), None)
                if asked is not None:
                    yield from _judge_wait(case, asked, (event, result), children)
            case _:
                pass


def _judge_wait(
    case: Case, asked: tuple[Event, ToolCall], answered: tuple[Event, ToolResult], children: SubagentFold
) -> Iterator[Issue]:
    (call_event, call), (event, result) = asked, answered
    pair = [call_event, event]
    look = case.look_at_log()
    if result.synthetic:
        yield warning("synthetic_wait_result", f"wait {call.call_id} never came to an end", pair, next_actions=look)
    if result.error is not None:
        return
    said = wait_status(result.output)
    if said is None:
        message = f"wait {call.call_id} does not say what it came to"
        yield warning("missing_structured_wait_outcome", message, pair, next_actions=look)
        return
    named = _wanted(call)
    truth = children.wait_for_all() if named is None else wait_outcome(children.last, wanted=named).status
    # A wait that names no child may be for some of them, beside others: then it is false only if no child bears it out.
    some = children.waits_for_one() if named is None else ()
    is_borne_out = any(_CLAIMS.index(said) <= _CLAIMS.index(one) for one in some)
    if _CLAIMS.index(said) > _CLAIMS.index(truth) and not is_borne_out:
        message = f"wait {call.call_id} says {said.value}; the children that the log knows say {truth.value}"
        yield failure("inconsistent_wait_outcome", message, pair, next_actions=look)
    if said is WaitStatus.COMPLETED and (unfinished := _bad_counts(result)):
        message = f"wait {call.call_id} says completed, and counts {unfinished} children that are not"
        yield failure("inconsistent_wait_counts", message, pair, next_actions=look)


def _wanted(call: ToolCall) -> list[SubagentId] | None:
    """The children that a wait names; None if it names none in so many words."""
    args = call.args if isinstance(call.args, dict) else {}
    named = args.get("subagent_ids") or (None if args.get("all") else args.get("ids"))
    return [SubagentId(child) for child in named if isinstance(child, str)] if isinstance(named, list) else None


def _bad_counts(result: ToolResult) -> int:
    counts = result.output.get("counts") if isinstance(result.output, dict) else None
    if not isinstance(counts, dict):
        return 0
    bad = (count for state, count in counts.items() if state != SubagentState.COMPLETED)
    return sum(count for count in bad if isinstance(count, int))
