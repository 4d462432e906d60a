"""The run, its tool calls and the turn that is folded from what they write: three machines that must tell one story."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from interlock.lifecycle import run
from interlock.lifecycle.closing import Ending, closing_batch
from interlock.lifecycle.decisions import approvals
from interlock.lifecycle.decisions.approvals import (
    CallDecided,
    CallFinished,
    CallRequested,
    CallsInput,
    CallSuspended,
    Output,
    Persist,
    StartCall,
    open_suspended,
)
from interlock.lifecycle.decisions.decisions import ToolCalls
from interlock.lifecycle.decisions.toolcall import CallKey, EndKind
from interlock.lifecycle.run import Ended, RunLifecycleState, run_input
from interlock.lifecycle.turn import TurnFacts, step
from interlock.testing.explore import explore
from interlock.testing.scribe import EPOCH, Scribe
from interlock.vocabulary.events.audit import DecisionAction, RunState, ToolCallDecided, TurnStarted
from interlock.vocabulary.events.conversation import ToolResult
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.ids import CallId, RunId, SessionId, TurnId
from interlock.vocabulary.run import CANCELLED, NATURAL_END, RunStatus, TerminationReason
from interlock.vocabulary.states import DriverKind, TurnState

TURN, RUN, CALLS = TurnId("t"), RunId("r"), (CallId("c1"), CallId("c2"))
KEYS = tuple(CallKey(TURN, call_id) for call_id in CALLS)
ENDS = (NATURAL_END, CANCELLED, TerminationReason.error("x"), TerminationReason.stopped("timeout"))


@dataclass(frozen=True, slots=True)
class World:
    """What a runtime would hold for one turn. `results` counts the results written for each call."""

    run: RunLifecycleState
    calls: ToolCalls
    turn: TurnFacts = field(hash=False)  # its failure may hold details, which have no hash; they still count as equal
    results: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class Ends:
    """The agent, or the clock, or a person, ends the run; with an answer in hand or without."""

    reason: TerminationReason
    text: str = ""


Input = CallsInput | Ends


def write(world: World, payload: Payload) -> World:
    """Append, as far as the turn is concerned: fold what was written. One place for all, as proofs go."""
    (event,) = Scribe().write(payload, turn=TURN)
    turn, _ = step(world.turn, event)
    results = world.results
    if isinstance(payload, ToolResult):
        at = CALLS.index(payload.call_id)
        results = (results[0] + (at == 0), results[1] + (at == 1))
    return replace(world, turn=turn, results=results)


def settle_run(world: World, ends: Ends | None = None) -> World:
    """Tell the run what follows from the calls, or from an end, and write what it says."""
    reason = None if ends is None else ends.reason
    told = run_input(world.run.status, reason, len(open_suspended(world.calls)))
    if told is None:
        return world
    if isinstance(told, Ended):
        ending = Ending(
            run_id=RUN, reason=told.reason, text=ends.text if ends else "", budget_seconds=1, elapsed_seconds=2
        )
        batch = closing_batch(world.turn, ending)
        calls, _ = approvals.cancel_open(world.calls, EndKind.RUN_CANCELLED, "the run is over")
        record, _ = run.step(world.run, told, 0)
        for payload in batch:
            world = write(world, payload)
        return replace(world, run=record, calls=calls)
    record, (event,) = run.step(world.run, told, 0)
    return write(replace(world, run=record), event)


def happen(world: World, given: Input) -> World:
    if isinstance(given, Ends):
        return settle_run(world, given)
    calls, outputs = approvals.step(world.calls, given, EPOCH)
    world = replace(world, calls=calls)
    for record in written(outputs):
        world = write(world, record)
    return settle_run(world)


def written(outputs: Iterable[Output]) -> Iterable[Payload]:
    return (output.record for output in outputs if isinstance(output, Persist))


def inputs(world: World) -> Iterable[Input]:
    if world.run.status is RunStatus.DONE:
        return
    for call_id, key in zip(CALLS, KEYS, strict=True):
        if world.calls.find(key) is None:
            yield CallRequested(TURN, call_id, "tool")
            continue
        yield StartCall(key)
        yield CallSuspended(key)
        yield CallFinished(key, "output")
        for action in DecisionAction:
            yield CallDecided(ToolCallDecided(target_id=call_id, action=action, decision_id=f"d-{call_id}"))
    for reason in ENDS:
        yield Ends(reason)
        yield Ends(reason, "an answer")


def begin() -> World:
    record = RunLifecycleState("r")
    world = World(record, ToolCalls(TURN), TurnFacts(session_id=SessionId("s"), turn_id=TURN))
    world = write(world, TurnStarted(driver=DriverKind.STREAM))
    return write(world, RunState(run_id=RUN, status=RunStatus.RUNNING))


STORY = {RunStatus.RUNNING: {TurnState.RUNNING}, RunStatus.WAITING: {TurnState.WAITING}}


def tell_one_story(world: World) -> bool:
    return world.turn.state in STORY.get(world.run.status, {state for state in TurnState if state.is_terminal})


def same_open_calls(world: World) -> bool:
    still_open = {(call.key.call_id, call.key.occurrence) for call in world.calls.calls if call.is_open}
    return still_open == {call[:2] for call in world.turn.open_calls}


def test_run_calls_and_turn_tell_one_story(record_property: Callable[[str, object], None]) -> None:
    found = explore(
        start=[begin()],
        inputs=inputs,
        step=happen,
        label=lambda world: world.turn.state.value,
        named=lambda given: type(given).__name__,
        state_laws={
            "run and turn tell one story": tell_one_story,
            "both know the same open calls": same_open_calls,
            "one result a call": lambda world: max(world.results) <= 1,
            "waiting means an open question": lambda world: (
                (world.run.status is RunStatus.WAITING) == bool(open_suspended(world.calls))
            ),
            "an end pairs every call": lambda world: not world.turn.is_terminal or not world.turn.open_calls,
            "nothing about an end is odd": lambda world: world.turn.findings == (),
        },
        step_laws={"the end is the end": lambda before, _, after: not before.turn.is_terminal or before == after},
    )
    record_property("explored", found.summary("run x tool calls x turn"))
    assert found.stuck(lambda world: world.turn.is_terminal) == []
    assert {TurnState.COMPLETED, TurnState.FAILED, TurnState.PARTIAL_FAILED, TurnState.INTERRUPTED} <= {
        world.turn.state for world in found.parents
    }
