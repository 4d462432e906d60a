"""What a step of a plan costs us, against a plain session that does the same.

`make bench` runs this. A plan of many steps, some of them at a time, each a scripted agent in stream-json that
answers once; then as many plain sessions, as many at a time: opened, prompted, waited for and stopped. Each way runs
in a process of its own, over a log on disk. CPU is that of this process, without the agents and the commands, from
the first step until the last one is over. A step is a session, so a ratio of 1 would be a plan that costs nothing
beside it. In `checked` each step has a check, `true`, which is a process that we start and await.

`--steps 20` takes fewer of them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from interlock.agents.port import AgentSpec
from interlock.agents.streams.claude.driver import ClaudeStreamDriver
from interlock.lifecycle.children.workflow_plan import StepSpec, WorkflowSpec
from interlock.log.sqlite.store import SqliteLog
from interlock.runtime.children.owner import ChildOwner
from interlock.runtime.children.stored_plan import StoredPlan
from interlock.runtime.children.tree_limits import TreeLimits
from interlock.runtime.runtime import Runtime
from interlock.testing.scripted_agent import command, write_program
from interlock.vocabulary.ids import StepId, WorkflowId
from interlock.vocabulary.states import StepState, TurnState

PLAIN: Final = "plain"
PLAN: Final = "plan"
CHECKED: Final = "checked"
SIDES: Final = (PLAIN, PLAN, CHECKED)
LIMIT_SECONDS: Final = 300
PROMPT: Final = "say done"


class Load(NamedTuple):
    """So many steps, so many of them at a time."""

    steps: int = 200
    at_once: int = 12


class Figures(NamedTuple):
    """What one way took for all steps together."""

    cpu_seconds: float
    seconds: float


class Meter:
    """CPU and time since it was made."""

    def __init__(self) -> None:
        self._began = self._now()

    @staticmethod
    def _now() -> Figures:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return Figures(used.ru_utime + used.ru_stime, time.monotonic())

    def figures(self) -> Figures:
        now = self._now()
        return Figures(now.cpu_seconds - self._began.cpu_seconds, now.seconds - self._began.seconds)


async def one_session(runtime: Runtime, spec: AgentSpec) -> None:
    session = await runtime.open_session(spec)
    prompt = await runtime.send(session, PROMPT)
    turn = await runtime.wait_turn(session, prompt)
    assert turn.state is TurnState.COMPLETED, turn
    await runtime.stop(session)


async def by_sessions(runtime: Runtime, spec: AgentSpec, load: Load) -> Figures:
    """Plain sessions, so many at a time."""
    places = asyncio.Semaphore(load.at_once)

    async def one() -> None:
        async with places:
            await one_session(runtime, spec)

    meter = Meter()
    await asyncio.gather(*(one() for _ in range(load.steps)))
    return meter.figures()


async def by_plan(runtime: Runtime, log: SqliteLog, spec: AgentSpec, load: Load, *, is_checked: bool) -> Figures:
    """The steps of a plan, as the server runs them."""
    checks = (("true",),) if is_checked else ()
    steps = tuple(
        StepSpec(id=StepId(f"s{at}"), task=PROMPT, agent=spec.agent, checks=checks) for at in range(load.steps)
    )
    plan = WorkflowSpec(
        id=WorkflowId("wf_bench"), steps=steps, max_concurrency=load.at_once, timeout_ms=round(LIMIT_SECONDS * 1000)
    )
    limits = TreeLimits(max_running=load.at_once, max_open=load.steps, max_children=load.steps)
    async with ChildOwner(runtime, log, limits=limits) as owner:
        await owner.ready()
        parent = await runtime.open_session(spec)
        meter = Meter()
        stored = StoredPlan(spec=plan, folder=spec.cwd)
        await owner.workflows.begin(parent, plan, lambda _: spec, stored=stored)
        await owner.workflows.wait(plan.id)
        figures = meter.figures()
        states = set(owner.workflows.record(plan.id).states.values())
        wanted = StepState.CHECKPOINT_READY if is_checked else StepState.PARTIAL  # words alone prove nothing
        assert states == {wanted}, states
        return figures


async def measure(side: str, load: Load) -> Figures:
    with tempfile.TemporaryDirectory(prefix="interlock-bench-") as folder:
        driver = ClaudeStreamDriver()
        program = write_program(Path(folder, "agent"), command("stream-json", lifetime_seconds=LIMIT_SECONDS))
        spec = AgentSpec(agent="scripted", driver=driver.name, argv=(program,), cwd=folder)
        async with (
            asyncio.timeout(LIMIT_SECONDS),
            await SqliteLog.open(Path(folder, "home")) as log,
            Runtime(log, [driver]) as runtime,
        ):
            await one_session(runtime, spec)  # what is imported and made once is not a step's
            if side == PLAIN:
                return await by_sessions(runtime, spec, load)
            return await by_plan(runtime, log, spec, load, is_checked=side == CHECKED)


def measure_apart(side: str, load: Load) -> Figures:
    """One way in a process of its own."""
    words = ["--side", side, "--steps", load.steps, "--at-once", load.at_once]
    done = subprocess.run(
        [sys.executable, __file__, *map(str, words)], stdout=subprocess.PIPE, check=True, timeout=2 * LIMIT_SECONDS
    )
    return Figures(*json.loads(done.stdout))


def show(load: Load, taken: dict[str, Figures]) -> None:
    print(f"{load.steps} steps, {load.at_once} at a time\n")
    print(f"{'':<24}{'CPU a step, ms':>16}{'whole, s':>10}{'ratio of CPU':>14}")
    names = {PLAIN: "plain sessions", PLAN: "steps of a plan", CHECKED: "steps with a check"}
    for side in SIDES:
        figures = taken[side]
        ratio = figures.cpu_seconds / taken[PLAIN].cpu_seconds
        print(f"{names[side]:<24}{figures.cpu_seconds / load.steps * 1e3:>16.2f}{figures.seconds:>10.1f}{ratio:>14.2f}")


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What a step of a plan costs us.")
    usual = Load()
    parser.add_argument("--steps", type=int, default=usual.steps)
    parser.add_argument("--at-once", type=int, default=usual.at_once)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--side", choices=SIDES, help="measure one way here, and print the bare figures")
    return parser.parse_args()


def main() -> None:
    given = read_arguments()
    load = Load(given.steps, given.at_once)
    if given.side:
        print(json.dumps(asyncio.run(measure(given.side, load))))
        return
    rounds = [{side: measure_apart(side, load) for side in SIDES} for _ in range(given.rounds)]
    show(load, {side: Figures(*map(median, zip(*(one[side] for one in rounds), strict=True))) for side in SIDES})


if __name__ == "__main__":
    main()
