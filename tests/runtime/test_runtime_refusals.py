"""What the runtime refuses of prompts and children: the sentence, the remedy, and that nothing is recorded."""

from __future__ import annotations

import math

import pytest

from interlock.lifecycle.children.subagent import MAX_TIMEOUT_MS
from interlock.lifecycle.turns import turn_states
from interlock.log.memory import MemoryLog
from interlock.runtime.children.child_results import ChildResult, report_of
from interlock.runtime.children.subagents import Subagents
from interlock.runtime.children.tree_limits import TreeLimits
from interlock.runtime.runtime import Runtime
from interlock.testing.puppet import PuppetDriver
from interlock.vocabulary.errors import ContractError, UsageError
from interlock.vocabulary.ids import PromptId, SubagentId
from tests.contract.harness import run
from tests.runtime.test_subagents import SPEC, TASK, done, stage

TASKLESS = "a child needs a task; say what it is to do"
NAMELESS = "cannot name a new child; choose another id"


def test_a_child_that_cannot_be_is_refused_in_words_that_say_what_to_give() -> None:
    longest = MAX_TIMEOUT_MS / 1000
    wrong: list[tuple[str, dict[str, object]]] = [
        (TASKLESS, {"task": " \n"}),
        (f"'not an id' {NAMELESS}", {"subagent_id": SubagentId("not an id")}),
    ]
    for seconds in (0, -1, longest + 1, math.inf):
        said = f"a child cannot have {seconds} s; give it more than 0 s, and not years"
        wrong.append((said, {"timeout_seconds": seconds}))

    async def story() -> None:
        async with stage() as on:
            for said, given in wrong:
                with pytest.raises(UsageError) as refused:
                    await on.subagents.start(on.parent, SPEC, **{"task": TASK, **given})  # type: ignore[arg-type]
                assert str(refused.value) == said
            assert await on.facts() == []
            child = await on.subagents.start(on.parent, SPEC, TASK, timeout_seconds=longest)
            with pytest.raises(UsageError) as twice:
                await on.subagents.start(on.parent, SPEC, TASK, subagent_id=child)
            assert str(twice.value) == f"{child!r} {NAMELESS}"

    run(story())


def test_commands_to_a_child_name_what_is_wrong_with_them() -> None:
    async def story() -> None:
        async with stage() as on:
            nobody = SubagentId("sub_nobody")
            for command in (on.subagents.cancel(nobody), on.subagents.detach(nobody)):
                with pytest.raises(UsageError, match=r"^there is no child sub_nobody; look at the parent's log$"):
                    await command
            child = await on.subagents.start(on.parent, SPEC, TASK)
            puppet = await on.given()
            for command in (on.subagents.cancel(child, " "), on.subagents.detach(child, "")):
                with pytest.raises(UsageError, match=r"^a child is not ended without a reason; say why$"):
                    await command
            puppet.say(done())
            await on.subagents.wait(child)
            with pytest.raises(UsageError, match=f"^{TASKLESS}$"):
                await on.subagents.send_input(child, "\t")
            with pytest.raises(
                UsageError, match=f"^child {child} is completed; look at its facts in the parent's log$"
            ):
                await on.subagents.cancel(child)

    run(story())


@pytest.mark.parametrize(("reason", "ended"), [("", "cancelled by the parent"), ("too slow", "too slow")])
def test_a_cancelled_child_keeps_the_reason(reason: str, ended: str) -> None:
    async def story() -> None:
        async with stage() as on:
            child = await on.subagents.start(on.parent, SPEC, TASK)
            await on.given()
            fact = await (on.subagents.cancel(child, reason) if reason else on.subagents.cancel(child))
            assert fact.reason == ended

    run(story())


def test_a_detached_child_keeps_the_reason_and_is_spoken_to_in_its_session() -> None:
    async def story() -> None:
        async with stage() as on:
            child = await on.subagents.start(on.parent, SPEC, TASK)
            await on.given()
            fact = await on.subagents.detach(child)
            assert fact.reason == "detached by the parent"
            with pytest.raises(
                UsageError, match=f"^child {child} was detached; send to session {fact.child_session_id} itself$"
            ):
                await on.subagents.send_input(child, "more")

    run(story())


def test_children_that_are_closed_take_nothing_while_the_runtime_goes_on() -> None:
    async def story() -> None:
        log, driver = MemoryLog(), PuppetDriver()
        async with Runtime(log, [driver]) as runtime:
            parent = await runtime.open_session(SPEC)
            async with Subagents(runtime, log) as some:
                child = await some.start(parent, SPEC, TASK)
            before = len((await log.read(parent)).events)
            with pytest.raises(UsageError, match=r"^children cannot be started any more; open the runtime again$"):
                await some.start(parent, SPEC, TASK)
            with pytest.raises(
                UsageError, match=f"^child {child} takes no input; wait for its end, or start another child$"
            ):
                await some.send_input(child, "more")
            assert len((await log.read(parent)).events) == before
            assert some.fact(child).reason == "the runtime was closed"

    run(story())


def test_at_least_one_child_may_run() -> None:
    async def story() -> None:
        log = MemoryLog()
        async with Runtime(log, [PuppetDriver()]) as runtime:
            with pytest.raises(UsageError, match=r"^max_running is 0; let at least one child run$"):
                Subagents(runtime, log, limits=TreeLimits(max_running=0))
            Subagents(runtime, log, limits=TreeLimits(max_running=1))

    run(story())


def test_a_turn_without_an_end_is_no_report_of_a_child() -> None:
    async def story() -> None:
        async with stage() as on:
            await on.runtime.start(on.parent)
            await on.runtime.send(on.parent, "go")
            await on.given()
            events = await on.events()
            turn = turn_states(events)[-1]
            with pytest.raises(ContractError, match=f"^turn {turn.turn_id} is running, which is no end$"):
                report_of(turn, events, 1, lambda _: ChildResult())

    run(story())


def test_a_prompt_with_a_name_that_is_no_id_is_refused_and_not_queued() -> None:
    async def story() -> None:
        async with stage() as on:
            with pytest.raises(
                UsageError, match=r"^'two words' cannot name a prompt; use letters, digits and . _ : -$"
            ):
                await on.runtime.send(on.parent, "go", prompt_id=PromptId("two words"))
            assert on.runtime.queue(on.parent) == ()

    run(story())
