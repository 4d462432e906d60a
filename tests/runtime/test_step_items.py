"""Steps for each item of what a step wrote: added by a fact, once, and as the plan allows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from interlock.lifecycle.plans.plan_file import read_plan
from interlock.log.memory import MemoryLog
from interlock.runtime.children.stored_plan import StoredPlan, digest_of
from interlock.vocabulary.events.audit import WorkflowEvent
from interlock.vocabulary.ids import StepId
from interlock.vocabulary.states import StepState, WorkflowState
from tests.contract.harness import run
from tests.runtime.conducting import soon
from tests.runtime.test_child_owner import AGENTS, ROOT, SPEC, WF, Owned, owned, prompted
from tests.runtime.test_step_proof import say

TEXT = """
plan = 1
defaults.agent = "puppet"
params.prefix = { type = "text" }
[[step]]
id = "find"
prompt = "list them"
write = ["list.json"]
outputs.list = { type = "json", path = "list.json", list = true }
[[step]]
id = "fix"
needs = ["find"]
for_each = "steps.find.outputs.list"
max = 3
run = ["sh", "-c", "echo $0 >> ran; echo $0 > $0.txt", "{{ params.prefix }}{{ item }}"]
write = ["{{ params.prefix }}{{ item }}.txt"]
outputs.file = { type = "file", path = "{{ params.prefix }}{{ item }}.txt" }
[[step]]
id = "sum"
needs = ["fix"]
prompt = "They are:{{ steps.fix.outputs.file }}"
"""
FIX = StepId("fix")


async def begin(on: Owned, folder: Path) -> None:
    params = {"prefix": "x-"}
    spec = read_plan(TEXT, params, WF)
    agents = {"puppet": AGENTS[""]}
    stored = StoredPlan(
        spec=spec, folder=str(folder), agents=agents, text=TEXT, params=dict(params), digest=digest_of(TEXT)
    )
    await on.owner.workflows.begin(ROOT, spec, lambda _: replace(SPEC, cwd=str(folder)), stored=stored)


async def find(on: Owned, folder: Path, items: object) -> None:
    puppet = await prompted(on)
    (folder / "list.json").write_text(json.dumps(items))
    say(puppet, "Done.")


def states(on: Owned) -> dict[StepId, StepState]:
    return dict(on.owner.workflows.record(WF).states)


def test_a_step_is_made_for_each_item_and_what_needs_them_sees_them_together(tmp_path: Path) -> None:
    async def story() -> None:
        async with owned() as on:
            await begin(on, tmp_path)
            await find(on, tmp_path, ["a", "b"])
            told = (await prompted(on)).prompts[-1].text
            assert "fix:0:\nx-a" in told
            assert "fix:1:\nx-b" in told
            assert states(on)[FIX] is StepState.CHECKPOINT_READY
            assert sorted((tmp_path / "ran").read_text().split()) == ["x-a", "x-b"]

    run(story())


@pytest.mark.parametrize(
    ("items", "problem"),
    [
        (["a", "b", "c", "d"], "4 items, and max is 3"),
        (["../../etc"], "relative to the workspace"),
        (["a", "a"], "the same output"),
    ],
)
def test_items_that_the_plan_does_not_allow_start_nothing(tmp_path: Path, items: object, problem: str) -> None:
    async def story() -> None:
        async with owned() as on:
            await begin(on, tmp_path)
            await find(on, tmp_path, items)
            assert (await on.owner.workflows.wait(WF)).status is WorkflowState.HELD
            assert problem in on.shown(WF, FIX).reason
            assert not (tmp_path / "ran").exists()

    run(story())


def test_no_items_are_ready_at_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with owned() as on:
            await begin(on, tmp_path)
            await find(on, tmp_path, [])
            await prompted(on)
            assert states(on)[FIX] is StepState.CHECKPOINT_READY

    run(story())


def test_steps_that_were_added_are_not_added_again_after_a_crash_and_run_once(tmp_path: Path) -> None:
    copy = MemoryLog()

    async def story() -> None:
        async with owned() as on:
            await begin(on, tmp_path)
            await find(on, tmp_path, ["a", "b"])
            await prompted(on)  # all of it ran; the log is cut where the steps had just been added
            for one in (await on.log.sessions()).sessions:
                events = (await on.log.read(one.session_id)).events
                kinds = [event.data.kind.value if isinstance(event.data, WorkflowEvent) else "" for event in events]
                if "steps_added" in kinds:
                    events = events[: kinds.index("steps_added") + 1]
                elif one.session_id != ROOT and "They are:" in str(events):
                    continue
                await copy.append(one.session_id, events)
        (tmp_path / "ran").unlink()
        (tmp_path / "list.json").write_text('["c"]')  # what is in the log holds
        async with owned(copy) as on:
            await soon(lambda: states(on)[FIX] is StepState.CHECKPOINT_READY)
            assert sorted((tmp_path / "ran").read_text().split()) == ["x-a", "x-b"]
            told = [one for one in await on.told(WorkflowEvent) if isinstance(one, WorkflowEvent)]
            assert [one.kind.value for one in told].count("steps_added") == 1

    run(story())
