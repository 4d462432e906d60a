"""How many observations a second the kernels take, and what ReactiveX adds. `make bench` runs this.

Each figure stands beside a loop that judges the same observations with plain dicts, measured in the same run and
interleaved with it: absolute figures of a shared machine mean little. A ratio above 1 is faster than the plain dicts.
Time is that of our own process, since the goal is for one core.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import cycle, islice
from statistics import median
from typing import Any, Final, NamedTuple

from reactivex.subject import Subject
from reactivex.testing import TestScheduler

from interlock.monitor import completion, readiness, rx
from interlock.monitor.completion import CompletionState
from interlock.monitor.observation import ShadowObservation
from interlock.monitor.observer.reply import json_reply, sentinel_reply
from interlock.monitor.post_submit_evidence import Observer, Submit
from interlock.monitor.readiness import ReadinessState
from interlock.screen.assessment import Availability, BusinessState, InputMode, SurfaceAssessment
from interlock.screen.projection import MASK, DialogProjection, project_dialog
from interlock.vocabulary.ids import TurnId

ROUNDS: Final = 5
TAKEN: Final = 20_000
GOAL: Final = 100_000
DISTINCT: Final = 64
POLL_SECONDS: Final = 0.01
PROMPT: Final = "find out why the parser drops the last row, mend it, and run the tests of that folder"
TRANSCRIPT: Final = tuple(f"  {number:>3} what a tool printed while it worked, about so long" for number in range(44))

IDLE: Final = SurfaceAssessment(Availability.SUPPORTED, BusinessState.IDLE, InputMode.FREEFORM)
WORKING: Final = SurfaceAssessment(Availability.SUPPORTED, BusinessState.WORKING, InputMode.FREEFORM)
UNKNOWN: Final = SurfaceAssessment(Availability.SUPPORTED)


class Case(NamedTuple):
    """The same observations judged by a kernel and by plain dicts."""

    name: str
    ours: Callable[[], object]
    plain: Callable[[], object]


def frame(*live: str, draft: str = "") -> DialogProjection:
    """A screen of 52 rows: what was printed, what is live, the composer and the footer."""
    filler = TRANSCRIPT[len(live) :]
    rows = [*filler, *live, "", "─" * 80, f"❯ {draft}", "─" * 80, "  ? for shortcuts", "", "", ""]
    text = "\n".join(rows)
    return project_dialog(text, text, composer_rows=[len(TRANSCRIPT) + 2])


BASELINE: Final = frame()
ECHO: Final = f"❯ {PROMPT}"


def seen(surface: SurfaceAssessment, *frames: DialogProjection) -> list[ShadowObservation]:
    return [*islice(cycle([ShadowObservation(surface, shown) for shown in frames]), TAKEN)]


def same(*live: str) -> list[DialogProjection]:
    """Captures of one unchanged screen: equal, and each an object of its own."""
    return [frame(*live) for _ in range(DISTINCT)]


def observed() -> Iterator[tuple[str, list[ShadowObservation]]]:
    yield "idle", seen(IDLE, *same())
    yield "working, its counter masked", seen(WORKING, *same(ECHO, f"✻ Working… ({MASK})"))
    yield "working, a new row each time", seen(WORKING, *(frame(ECHO, f"● row {n}") for n in range(DISTINCT)))
    yield "the echo of the prompt", seen(IDLE, *same(ECHO))
    yield "the echo, and a draft that grows", seen(IDLE, *(frame(ECHO, draft="x" * n) for n in range(DISTINCT)))
    yield "unknown", seen(UNKNOWN, *same())


def main() -> None:
    print(f"{'observations':<52}{'a second':>12}{'plain dicts':>14}{'ratio':>8}{'goal':>10}")
    for case in cases():
        ours, plain = measure(case)
        rate = TAKEN / ours
        verdict = "kept" if rate >= GOAL else "missed"
        print(f"{case.name:<52}{rate:>12,.0f}{TAKEN / plain:>14,.0f}{plain / ours:>8.2f}{verdict:>10}")
    print(f"\nthe goal is {GOAL:,} a second on one core; a screen has 52 rows\n")
    for name, observations in (("one verdict", seen(WORKING, BASELINE)), ("a new verdict each time", alternating())):
        bare, piped = measure(Case(name, partial(watch, observations), partial(pipe, observations)))
        print(
            f"rx.readiness, {name:<24}{TAKEN / piped:>9,.0f} a second, {piped / bare:.2f} times the bare kernel's time"
        )


def cases() -> Iterator[Case]:
    for name, observations in observed():
        texts = [observation.projection.key for observation in observations]
        states = [observation.assessment.business_state.value for observation in observations]
        plain = plain_loop(states, texts)
        yield Case(f"readiness: {name}", partial(watch, observations), plain)
        yield Case(f"completion: {name}", partial(follow, observations, None), plain)
    for name, observer in (("sentinel", sentinel_reply("<BEGIN>", "<END>")), ("json", json_reply({}))):
        observations = seen(WORKING, *(frame(ECHO, f"● row {n}") for n in range(DISTINCT)))
        plain = plain_loop(["working"] * TAKEN, [observation.projection.key for observation in observations])
        yield Case(
            f"completion: {name} contract, a new row each time",
            partial(follow, observations, observer),
            plain,
        )


def alternating() -> list[ShadowObservation]:
    ready, working = ShadowObservation(IDLE, BASELINE), ShadowObservation(WORKING, BASELINE)
    return [*islice(cycle([ready, working]), TAKEN)]


def measure(case: Case) -> tuple[float, float]:
    """Median seconds of each side, taken in turns so that a noisy moment hits both."""
    pairs = [(timed(case.ours), timed(case.plain)) for _ in range(ROUNDS)]
    return median(ours for ours, _ in pairs), median(plain for _, plain in pairs)


def timed(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def watch(observations: Sequence[ShadowObservation]) -> ReadinessState:
    state, step = ReadinessState(), readiness.step
    for number, observation in enumerate(observations):
        state, _ = step(state, observation, number * POLL_SECONDS)
    return state


def follow(observations: Sequence[ShadowObservation], observer: Observer | None) -> CompletionState:
    step = completion.step
    state, _ = step(CompletionState(), Submit(TurnId("turn_1"), BASELINE, PROMPT, observer), 0)
    for number, observation in enumerate(observations):
        state, _ = step(state, observation, number * POLL_SECONDS)
    return state


def pipe(observations: Sequence[ShadowObservation]) -> None:
    source: Subject[Any] = Subject()
    source.pipe(rx.readiness()).subscribe(scheduler=TestScheduler())
    for observation in observations:
        source.on_next(observation)


def plain_loop(states: list[str], texts: list[str]) -> Callable[[], object]:
    """What a quick script would write: a dict of verdicts, the last text, no deadline, no evidence, no laws."""
    table = {"idle": "ready", "working": "waiting", "awaiting_operator": "blocked", "unknown": "unknown"}

    def loop() -> dict[str, Any]:
        state: dict[str, Any] = {"verdict": "waiting", "text": "", "changed": False, "at": 0.0}
        for number, (business, text) in enumerate(zip(states, texts, strict=True)):
            changed = state["changed"] or text != state["text"]
            state = {"verdict": table[business], "text": text, "changed": changed, "at": number * POLL_SECONDS}
        return state

    return loop


if __name__ == "__main__":
    main()
