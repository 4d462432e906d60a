"""How fast the pure parts are: steps a second of each machine, codec, fold. `make bench` runs this.

Each figure stands beside the same work done with plain dicts, measured in the same run and interleaved with it:
absolute figures of a shared machine mean little. A ratio above 1 is faster than the plain dicts.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from statistics import median
from typing import Any, Final, NamedTuple

from interlock.lifecycle import process, run
from interlock.lifecycle.children import subagent
from interlock.lifecycle.decisions import toolcall
from interlock.lifecycle.decisions.toolcall import CallKey, DecideCall, Succeed, Suspend, ToolCallState, ToolStarted
from interlock.lifecycle.process import AgentEvent, AgentEventType, ProcessState
from interlock.lifecycle.turns import TurnFold, fold_turns
from interlock.testing.scribe import EPOCH, endless_history
from interlock.vocabulary.events.audit import DecisionAction, ToolCallDecided
from interlock.vocabulary.events.codec import decode_event, encode_event
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import CallId, SessionId, SubagentId, TurnId
from interlock.vocabulary.run import NATURAL_END

ROUNDS: Final = 5
FOLDED: Final = 100_000
SAMPLE: Final = 20_000
YES: Final = ToolCallDecided(target_id="c", action=DecisionAction.RESUME)


class Case(NamedTuple):
    """The same operations done by us and by plain dicts."""

    name: str
    operations: int
    ours: Callable[[], object]
    plain: Callable[[], object]


def main() -> None:
    events = list(islice(endless_history(), FOLDED))
    print(f"{'what':<34}{'a second':>12}{'plain dicts':>14}{'ratio':>8}")
    for case in cases(events):
        ours, plain = measure(case)
        print(f"{case.name:<34}{case.operations / ours:>12,.0f}{case.operations / plain:>14,.0f}{plain / ours:>8.2f}")
    print(f"\nfold of {FOLDED:,} events into turn states: {timed(lambda: fold_turns(events)):.2f} s (goal: 1 s)")
    early, late = next_event_cost(events, 1_000), next_event_cost(events, FOLDED - SAMPLE)
    print(f"the next event after {FOLDED - SAMPLE:,} others costs {late / early:.2f}x the next one after 1,000")


def measure(case: Case) -> tuple[float, float]:
    """Median seconds of each side, taken in turns so that a noisy moment hits both."""
    pairs = [(timed(case.ours), timed(case.plain)) for _ in range(ROUNDS)]
    return median(ours for ours, _ in pairs), median(plain for _, plain in pairs)


def timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def cases(events: list[Event]) -> Iterator[Case]:
    sample = events[:SAMPLE]
    lines = [encode_event(event) for event in sample]
    raw = [json.loads(line) for line in lines]
    yield Case("decode_event", SAMPLE, lambda: [*map(decode_event, lines)], lambda: [*map(json.loads, lines)])
    yield Case("encode_event (verified)", SAMPLE, lambda: [*map(encode_event, sample)], lambda: [*map(json.dumps, raw)])
    yield Case("turn: fold of events", SAMPLE, lambda: fold_turns(sample), lambda: plain_turns(raw))
    kinds = [*islice(cycle(["thinking", "tool_use", "tool_result", "text_delta", "done"]), SAMPLE)]
    given = [AgentEvent(AgentEventType(kind), tool_use_id="t") for kind in kinds]
    yield Case("process: step", SAMPLE, lambda: step_process(given), lambda: plain_process(kinds))
    for name, lap in LAPS.items():
        length, laps = lap(), SAMPLE // lap()
        yield Case(f"{name}: step", laps * length, repeat(lap, laps), repeat(plain_lap(length), laps))


def repeat(lap: Callable[[], int], laps: int) -> Callable[[], object]:
    return lambda: [lap() for _ in range(laps)]


def plain_lap(length: int) -> Callable[[], int]:
    """A machine as a dict of dicts would be: look up, copy, change."""
    table = {place: {"go": place + 1} for place in range(length)}

    def lap() -> int:
        state: dict[str, Any] = {"at": 0, "id": "x", "reason": None, "updated_at": 0}
        for now in range(length):
            state = {**state, "at": table[state["at"]]["go"], "updated_at": now}
        return length

    return lap


# One life of each machine, by its usual path. Each returns how many steps it took.


def lap_run() -> int:
    state = run.RunLifecycleState("run_1")
    path: list[run.RunInput] = [run.Suspended(), run.Resumed(), run.Ended(NATURAL_END)]
    for given in path:
        state, _ = run.step(state, given, 0)
    return len(path)


def lap_toolcall() -> int:
    call = ToolCallState(CallKey(TurnId("t"), CallId("c")), "tool")
    path: list[toolcall.ToolCallInput] = [ToolStarted(), Suspend(), DecideCall(YES), ToolStarted(), Succeed()]
    for given in path:
        call, _ = toolcall.step(call, given)
    return len(path)


def lap_subagent() -> int:
    child = subagent.queue_child(SubagentId("sub_1"), agent="a", task="t", model_visible=True)
    child, _ = subagent.step(child, subagent.StartChild(SessionId("ses_1")), EPOCH)
    subagent.step(child, subagent.ChildFinished(child.fact.attempt, "done"), EPOCH)
    return 2


LAPS: Final = {"run": lap_run, "toolcall": lap_toolcall, "subagent": lap_subagent}


def next_event_cost(events: list[Event], after: int) -> float:
    """Seconds for one more event, once `after` events are folded."""
    fold = TurnFold()
    for event in events[:after]:
        fold.add(event)
    more = events[after : after + SAMPLE]
    gc.collect()
    gc.disable()  # the collector walks all that is kept; that is not the fold's cost
    try:
        return timed(lambda: [fold.add(event) for event in more]) / len(more)
    finally:
        gc.enable()


def step_process(given: list[AgentEvent]) -> ProcessState:
    state = ProcessState(last_active=0.0)
    for now, event in enumerate(given):
        state, _ = process.step(state, event, float(now))
    return state


# What a quick script would write: no types, no checks, no laws.


def plain_process(kinds: list[str]) -> dict[str, Any]:
    table = {"thinking": "thinking", "tool_use": "running_tool", "text_delta": "responding"}
    state: dict[str, Any] = {"substate": "idle", "lifecycle": "spawning", "last_active": 0}
    for now, kind in enumerate(kinds):
        ended = kind in ("done", "error")
        following = "idle" if ended else table.get(kind, "responding")
        state = {"substate": following, "lifecycle": "idle" if ended else "working", "last_active": now}
    return state


def plain_turns(raw: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    turns: dict[str, dict[str, Any]] = {}
    for event in raw:
        turn = turns.setdefault(event["turn_id"], {"state": "running", "open": set(), "answer": None})
        data = event["data"]
        match event["type"]:
            case "tool_call":
                turn["open"].add(data["call_id"])
            case "tool_result":
                turn["open"].discard(data["call_id"])
            case "assistant_message":
                turn["answer"] = event["seq"]
            case "run_state" if data["status"] == "done":
                turn["state"] = "completed" if turn["answer"] is not None else "failed"
    return turns


if __name__ == "__main__":
    main()
