"""Commands, whichever way they come: once, whole, in time, and seen in the hub before they are answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
from msgspec import structs

from interlock.agents.observations import ApprovalAsked, TurnEnded, TurnEnding
from interlock.log.memory import MemoryLog
from interlock.log.port import LogUnavailable
from interlock.runtime.recovery import Recovered
from interlock.runtime.runtime import Runtime
from interlock.server.commands.commands import Commands
from interlock.server.commands.idempotency import is_same_decision
from interlock.server.http.problems import (
    AlreadyDecided,
    Deadline,
    KeyReused,
    NotFound,
    NotSupervised,
    RequestRefusal,
    Unfit,
    UnknownTask,
)
from interlock.server.live.hub import Hub
from interlock.server.settings import ServerSettings
from interlock.testing.puppet import PuppetDriver
from interlock.vocabulary.errors import InterlockError
from interlock.vocabulary.events.audit import DecisionAction, DialogAnswered, DialogOption, ToolCallDecided
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import PromptId, SessionId, TurnId
from interlock.vocabulary.states import Attention
from interlock.vocabulary.wire.approval import Approval, ApprovalState
from interlock.vocabulary.wire.requests import (
    ApprovalDecide,
    BoardJoin,
    ChatCancel,
    ChatSend,
    Ping,
    QueueEdit,
    QueueRemove,
    QueueSetGate,
    TaskJoin,
    TaskSeen,
)
from interlock.vocabulary.wire.resources import OpenTask
from tests.contract.harness import AT, run
from tests.each_row import each_row
from tests.held_time import clock, run_with_jumps
from tests.runtime.conducting import soon

OPEN = OpenTask(agent="puppet", driver="puppet")
A = SessionId("ses_a")
COMMAND_SECONDS = 60.0


class SlowLog(MemoryLog):
    """A log whose appends wait until a test lets them go, before or after they are done, or fail as it says."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()
        self.told = asyncio.Event()
        self.told.set()
        self.appends = 0
        self.failures = 0

    async def append(
        self, session_id: SessionId, events: Sequence[Event], *, expected_version: int | None = None
    ) -> int:
        await self.gate.wait()
        if self.failures:
            self.failures -= 1
            raise LogUnavailable("the disk is full", next_action="make room")
        self.appends += 1
        version = await super().append(session_id, events, expected_version=expected_version)
        await self.told.wait()
        return version


@dataclass(frozen=True, slots=True)
class Bench:
    """Commands over a runtime, without a server."""

    commands: Commands
    runtime: Runtime
    hub: Hub
    driver: PuppetDriver
    log: SlowLog

    def status(self) -> str | None:
        view = self.hub.view(A)
        return None if view is None or view.status is None else view.status.value


@asynccontextmanager
async def bench(log: SlowLog | None = None, *, look_seconds: float = 0.05) -> AsyncIterator[Bench]:
    log, driver = log or SlowLog(), PuppetDriver()
    async with Runtime(log, [driver]) as runtime:
        hub = Hub(runtime, log, look_seconds=look_seconds)
        await hub.start()
        commands = Commands(runtime, hub, replace(ServerSettings(), command_seconds=COMMAND_SECONDS), log=log)
        try:
            yield Bench(commands, runtime, hub, driver, log)
        finally:
            log.gate.set()
            log.told.set()
            await commands.close()
            await hub.close("the test is over", patience_seconds=0.1)


async def too_late(command: Coroutine[Any, Any, object]) -> None:
    """The command stands still, and its time runs out."""
    doing = asyncio.create_task(command)
    await pass_on()
    clock().advance(COMMAND_SECONDS)
    with pytest.raises(Deadline):
        await doing


async def pass_on() -> None:
    """Let everybody else do what they can do now."""
    for _ in range(50):
        await asyncio.sleep(0)


def test_every_command_of_a_socket_and_what_its_ack_tells() -> None:
    async def story() -> None:
        async with bench() as on:
            perform, by = on.commands.perform, "somebody"
            await on.commands.open_task(OPEN, task_id=A)
            assert await perform(QueueSetGate(id="1", task_id=A, is_open=False), decided_by=by) == {"is_open": False}
            sent = await perform(ChatSend(id="2", task_id=A, text="x", prompt_id=PromptId("p")), decided_by=by)
            assert sent == {"prompt_id": "p", "state": "queued", "stage": "queued"}
            named = await perform(ChatSend(id="2", task_id=A, text="y"), decided_by=by)
            assert isinstance(named, dict)
            edited = await perform(QueueEdit(id="3", task_id=A, prompt_id=PromptId("p"), text="z"), decided_by=by)
            assert edited == sent
            other = PromptId(str(named["prompt_id"]))
            removed = await perform(QueueRemove(id="4", task_id=A, prompt_id=other), decided_by=by)
            assert removed == {"prompt_id": other, "state": "removed", "stage": "queued"}
            await perform(QueueSetGate(id="5", task_id=A, is_open=True), decided_by=by)
            puppet = (await soon(lambda: [one for one in on.driver.puppets if one.prompts]))[0]
            assert puppet.prompts[0].text == "z"
            puppet.say(ApprovalAsked(request_id="r", question="May I?"))
            await soon(lambda: on.status() == "PENDING_CONFIRMATION")
            approval_id = next(iter(on.hub.views[A].approvals.approvals))
            told = await perform(
                ApprovalDecide(id="6", task_id=A, approval_id=approval_id, is_allowed=True, text="ok"), decided_by=by
            )
            assert told == {"approval_id": approval_id, "state": "decided"}
            assert on.hub.views[A].approvals.approvals[approval_id].decided_by == by
            cancelled = await perform(ChatCancel(id="7", task_id=A), decided_by=by)
            assert isinstance(cancelled, dict)
            assert (cancelled["delivered"], cancelled["problem"]) == (True, "")
            puppet.say(TurnEnded(ending=TurnEnding.NATURAL, text="done"))
            await soon(lambda: on.status() in ("COMPLETED", "CANCELLED"))
            turn_id = on.hub.views[A].turn_id
            seen = await perform(TaskSeen(id="8", task_id=A), decided_by=by)
            assert seen == {"task_id": A, "turn_id": turn_id, "is_seen": True}

    run(story())


@pytest.mark.parametrize("request_", [TaskJoin(id="1", task_id=A), BoardJoin(id="1"), Ping(id="1")])
def test_what_is_no_command_is_refused(request_: TaskJoin | BoardJoin | Ping) -> None:
    async def story() -> None:
        async with bench() as on:
            with pytest.raises(RequestRefusal):
                await on.commands.perform(request_, decided_by="")

    run(story())


def test_commands_on_a_task_that_is_not_there() -> None:
    async def story() -> None:
        async with bench() as on:
            commands = on.commands
            for asked in (
                commands.send(A, "x"),
                commands.edit(A, PromptId("p"), "x"),
                commands.remove(A, PromptId("p")),
                commands.set_gate(A, is_open=True, decided_by=""),
                commands.cancel(A, None, decided_by=""),
                commands.start(A),
                commands.stop(A),
                commands.delete(A, decided_by=""),
                commands.decide(ApprovalDecide(id="1", task_id=A, approval_id="x", is_allowed=True), decided_by=""),
            ):
                with pytest.raises(UnknownTask):
                    await asked

    run(story())


def test_a_command_that_takes_too_long_is_told_and_is_done_all_the_same_once() -> None:
    async def story() -> None:
        async with bench() as on:
            await on.commands.open_task(OPEN, task_id=A)
            await on.commands.set_gate(A, is_open=False, decided_by="")
            on.log.gate.clear()
            for _ in range(2):
                await too_late(on.commands.send(A, "x", prompt_id="p"))
            on.log.gate.set()
            await soon(lambda: on.hub.views[A].queue.waiting)
            assert (await on.commands.send(A, "x", prompt_id="p")).prompt_id == "p"
            assert [one.text for one in on.hub.views[A].queue.waiting] == ["x"]

    run_with_jumps(story())


def test_an_opening_that_takes_too_long_leaves_no_task_that_nobody_runs() -> None:
    async def story() -> None:
        async with bench() as on:
            on.log.gate.clear()
            await too_late(on.commands.open_task(OPEN, task_id=A))
            on.log.gate.set()
            await soon(lambda: on.runtime.sessions)
            opened = await on.commands.open_task(OPEN, task_id=A)
            assert (opened.task_id, opened.is_new) == (A, False)
            await soon(lambda: on.hub.views[A].is_supervised)

    run_with_jumps(story())


def test_who_opens_what_another_has_all_but_opened_is_told_of_that_one() -> None:
    async def story() -> None:
        async with bench() as on:
            on.log.told.clear()  # it is in the log, and whoever put it there does not know it yet
            first = asyncio.create_task(on.commands.open_task(OPEN, task_id=A))
            await soon(lambda: on.log.appends)
            second = asyncio.create_task(on.commands.open_task(OPEN, task_id=A))
            await pass_on()
            assert not second.done()
            on.log.told.set()
            assert [(await one).is_new for one in (first, second)] == [True, False]

    run(story())


def test_whoever_goes_away_does_not_break_off_their_command() -> None:
    async def story() -> None:
        async with bench() as on:
            on.log.gate.clear()
            asking = asyncio.create_task(on.commands.open_task(OPEN, task_id=A))
            await pass_on()
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            on.log.gate.set()
            await soon(lambda: on.runtime.sessions == (A,))

    run(story())


def test_a_log_that_refuses_leaves_nothing_and_the_key_is_still_free() -> None:
    async def story() -> None:
        async with bench() as on:
            on.log.failures = 1
            with pytest.raises(LogUnavailable):
                await on.commands.open_task(OPEN, task_id=A)
            assert on.hub.view(A) is None
            assert (await on.commands.open_task(OPEN, task_id=A)).is_new

    run(story())


@each_row(
    "other",
    [
        {"agent": "other"},
        {"argv": ("a",)},
        {"cwd": "/"},
        {"model": "m"},
        {"title": "t"},
        {"environment": {"A": "b"}},
        {"options": {"a": 1}},
        {"policy": {"turn_budget_seconds": 5}},
    ],
    ids=lambda other: next(iter(other)),
)
def test_a_key_stands_for_every_part_of_its_task(other: dict[str, object]) -> None:
    async def story() -> None:
        changed = structs.replace(OPEN, **other)
        async with bench() as on:
            await on.commands.open_task(OPEN, task_id=A)
            with pytest.raises(KeyReused):
                await on.commands.open_task(changed, task_id=A)
            await on.commands.open_task(changed, task_id="ses_b")
            assert not (await on.commands.open_task(changed, task_id="ses_b")).is_new

    run(story())


def test_without_a_key_each_opening_is_another_task() -> None:
    async def story() -> None:
        async with bench() as on:
            made = {(await on.commands.open_task(OPEN)).task_id for _ in range(3)}
            assert len(made) == 3
            with pytest.raises(Unfit):
                await on.commands.open_task(OPEN, task_id="no id")

    run(story())


LATE: dict[str, Callable[[Commands], Awaitable[object]]] = {
    "send": lambda commands: commands.send(A, "x", prompt_id="p"),
    "edit": lambda commands: commands.edit(A, PromptId("w"), "other"),
    "remove": lambda commands: commands.remove(A, PromptId("w")),
    "gate": lambda commands: commands.set_gate(A, is_open=False, reason="other", decided_by=""),
    "cancel": lambda commands: commands.cancel(A, None, decided_by=""),
    "start": lambda commands: commands.start(A),
    "delete": lambda commands: commands.delete(A, decided_by=""),
}


@pytest.mark.parametrize("name", LATE)
def test_what_was_done_shows_before_it_is_answered_even_to_a_hub_that_is_late(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.server.commands.command_runner.SHOW_SECONDS", 3_600.0)

    async def story() -> None:
        async with bench(look_seconds=3_600.0) as on:
            await on.commands.open_task(OPEN, task_id=A)
            await on.commands.set_gate(A, is_open=False, decided_by="")
            await on.commands.send(A, "waits", prompt_id="w")
            book, view = on.runtime.supervisor(A).book, on.hub.views[A]
            before = view.version
            on.hub._aside[A] = []  # as while a session is being read: what comes is put aside
            doing = asyncio.ensure_future(LATE[name](on.commands))
            await soon(lambda: book.version > before)
            await pass_on()
            assert not doing.done()
            assert view.version == before
            on.hub._bell.set()
            await doing
            assert view.version > before

    run(story())


def test_a_cancel_of_what_waits_meets_the_prompt_that_is_dispatched_meanwhile() -> None:
    async def story() -> None:
        async with bench() as on:
            await on.commands.open_task(OPEN, task_id=A)
            await on.commands.set_gate(A, is_open=False, decided_by="")
            for name in ("a", "b", "c"):
                await on.commands.send(A, name, prompt_id=name)
            remove = on.runtime.remove

            async def late(session_id: SessionId, prompt_id: PromptId) -> None:
                if prompt_id == "b":  # the gate opens between two of them, and the head leaves
                    await on.runtime.set_gate(session_id, is_open=True)
                    await soon(lambda: on.driver.puppets and on.driver.latest.prompts)
                await remove(session_id, prompt_id)

            on.runtime.remove = late  # type: ignore[method-assign]
            told = await on.commands.cancel(A, None, decided_by="")
            assert told.removed == ("b", "c")
            assert (told.delivered, told.turn_id) == (True, on.hub.views[A].turn_id)
            assert on.driver.latest.interrupts == 1

    run(story())


def test_a_key_keeps_a_repeated_cancel_away_from_a_later_turn() -> None:
    async def story() -> None:
        async with bench() as on:
            await on.commands.open_task(OPEN, task_id=A)
            await on.commands.send(A, "one")
            puppet = (await soon(lambda: [one for one in on.driver.puppets if one.prompts]))[0]
            await soon(lambda: on.status() == "RUNNING")
            first = await on.commands.cancel(A, None, decided_by="", key="k")
            puppet.say(TurnEnded(ending=TurnEnding.INTERRUPTED))
            await soon(lambda: on.status() == "CANCELLED")
            await on.commands.send(A, "two")
            await soon(lambda: on.status() == "RUNNING")
            assert await on.commands.cancel(A, None, decided_by="", key="k") == first
            assert puppet.interrupts == 1
            with pytest.raises(KeyReused):
                await on.commands.cancel(A, first.turn_id, decided_by="", key="k")
            await on.commands.cancel(A, None, decided_by="", key="other")
            assert puppet.interrupts == 2

    run(story())


def test_a_turn_that_ends_in_the_moment_of_its_cancel_is_told_as_over() -> None:
    async def story() -> None:
        async with bench() as on:
            await on.commands.open_task(OPEN, task_id=A)
            await on.commands.send(A, "one")
            puppet = (await soon(lambda: [one for one in on.driver.puppets if one.prompts]))[0]
            await soon(lambda: on.status() == "RUNNING")
            cancel = on.runtime.cancel

            async def late(
                session_id: SessionId, turn_id: TurnId | None = None, *, decided_by: str = "", is_forced: bool = False
            ) -> None:
                puppet.say(TurnEnded(ending=TurnEnding.NATURAL, text="done"))
                await soon(lambda: on.status() == "COMPLETED")
                await cancel(session_id, turn_id, decided_by=decided_by, is_forced=is_forced)

            on.runtime.cancel = late  # type: ignore[method-assign]
            told = await on.commands.cancel(A, None, decided_by="")
            assert (told.delivered, told.problem) == (False, "the turn had ended already")

    run(story())


def test_a_turn_that_is_not_of_the_task_cannot_be_cancelled() -> None:
    async def story() -> None:
        async with bench() as on:
            await on.commands.open_task(OPEN, task_id=A)
            with pytest.raises(NotFound):
                await on.commands.cancel(A, TurnId("trn_none"), decided_by="")
            with pytest.raises(RequestRefusal, match="nothing to interrupt"):
                await on.commands.cancel(A, None, decided_by="")

    run(story())


def test_two_that_take_up_a_task_at_once_take_it_up_once() -> None:
    async def story() -> None:
        async with bench() as on:
            await on.commands.open_task(OPEN, task_id=A)

            async def fail(*_: object) -> None:
                raise RuntimeError("broken on purpose")

            on.runtime.supervisor(A)._perform = fail  # type: ignore[method-assign, assignment]
            with pytest.raises(InterlockError):
                await on.commands.send(A, "x")
            await soon(lambda: on.runtime.supervisor(A).is_over)
            reopened = 0
            reopen = on.runtime.reopen

            async def slowly(session_id: SessionId) -> Recovered | None:
                nonlocal reopened
                reopened += 1
                await pass_on()
                return await reopen(session_id)

            on.runtime.reopen = slowly  # type: ignore[method-assign]
            told = await asyncio.gather(*(on.commands.start(A) for _ in range(4)))
            assert reopened == 1
            assert {one.task_id for one in told} == {A}
            assert (await on.commands.send(A, "x", prompt_id="p")).prompt_id == "p"

    run(story())


def test_two_that_put_a_task_away_at_once_do_it_once() -> None:
    async def story() -> None:
        async with bench() as on:
            await on.commands.open_task(OPEN, task_id=A)
            await on.commands.start(A)
            await asyncio.gather(*(on.commands.delete(A, decided_by="x") for _ in range(4)))
            events = (await on.log.read(A)).events
            assert [one.type for one in events].count("session_deleted") == 1
            assert on.status() == "DELETE"

    run(story())


QUESTION = Approval(
    approval_id="q",
    session_id=A,
    turn_id=None,
    state=ApprovalState.CLOSED,
    attention=Attention.APPROVAL,
    question="May I?",
    options=(
        DialogOption(label="Yes", id="y", kind="allow_once"),
        DialogOption(label="No", id="n", kind="reject_once"),
        DialogOption(label="Blue", id="b", kind="choice"),
    ),
    asked_at=AT,
)
BARE = structs.replace(QUESTION, options=())
ASKED = ApprovalDecide(id="1", task_id=A, approval_id="q", is_allowed=True)
ALLOWED = ToolCallDecided(target_id="q", action=DecisionAction.RESUME, decision_id="d")
DENIED = ToolCallDecided(target_id="q", action=DecisionAction.CANCEL, decision_id="d", reason="no")
BLUE = structs.replace(ALLOWED, result="Blue")
YES, NO = DialogAnswered(dialog_id="q", option="Yes"), DialogAnswered(dialog_id="q", option="No")
SAID = DialogAnswered(dialog_id="q", text="perhaps")
SAME: tuple[tuple[Approval, ToolCallDecided | DialogAnswered, dict[str, object], bool], ...] = (
    (QUESTION, ALLOWED, {}, True),
    (QUESTION, structs.replace(ALLOWED, result=True), {}, True),
    (QUESTION, structs.replace(DENIED, result=False), {"is_allowed": False, "text": "no"}, True),
    (QUESTION, ALLOWED, {"is_allowed": False}, False),
    (QUESTION, ALLOWED, {"text": "why"}, False),
    (QUESTION, ALLOWED, {"data": 5}, False),
    (QUESTION, ALLOWED, {"option": "y"}, True),
    (QUESTION, ALLOWED, {"option": "n"}, False),
    (QUESTION, ALLOWED, {"option": "unheard"}, False),
    (QUESTION, DENIED, {"is_allowed": False, "text": "no"}, True),
    (QUESTION, DENIED, {"is_allowed": False, "option": "No", "text": "no"}, True),
    (QUESTION, structs.replace(ALLOWED, option="Yes"), {}, True),
    (QUESTION, structs.replace(ALLOWED, option="Yes, always"), {}, False),
    (QUESTION, DENIED, {"is_allowed": False}, False),
    (QUESTION, DENIED, {"text": "no"}, False),
    (QUESTION, BLUE, {"option": "b"}, True),
    (QUESTION, BLUE, {}, False),
    (QUESTION, YES, {"option": "Yes"}, True),
    (QUESTION, YES, {"option": "y"}, True),
    (QUESTION, YES, {"option": "n"}, False),
    (QUESTION, YES, {}, True),
    (QUESTION, YES, {"is_allowed": False}, False),
    (QUESTION, YES, {"text": "perhaps"}, False),
    (QUESTION, NO, {}, False),
    (QUESTION, NO, {"is_allowed": False}, True),
    (BARE, SAID, {"text": "perhaps"}, True),
    (BARE, SAID, {}, False),
    (BARE, SAID, {"option": "Yes"}, False),
    (BARE, DialogAnswered(dialog_id="q", text="no"), {"is_allowed": False}, True),
    (BARE, DialogAnswered(dialog_id="q", text="no"), {}, False),
)


@each_row(("question", "found", "asked", "is_same"), SAME)
def test_whether_an_answer_says_the_same(
    question: Approval, found: ToolCallDecided | DialogAnswered, asked: dict[str, object], is_same: bool
) -> None:
    assert is_same_decision(found, structs.replace(ASKED, **asked), question) is is_same


def test_what_nobody_runs_says_so_by_every_command() -> None:
    async def story() -> None:
        log = SlowLog()
        async with bench(log=log) as on:
            await on.commands.open_task(OPEN, task_id=A)
        async with Runtime(log, [PuppetDriver(name="another")]) as runtime:
            hub = Hub(runtime, log)
            await hub.start()
            commands = Commands(runtime, hub, ServerSettings(), log=log)
            for asked in (
                commands.send(A, "x"),
                commands.cancel(A, None, decided_by=""),
                commands.stop(A),
                commands.delete(A, decided_by=""),
                commands.start(A),
                commands.decide(ApprovalDecide(id="1", task_id=A, approval_id="x", is_allowed=True), decided_by=""),
            ):
                with pytest.raises(NotSupervised):
                    await asked
            await hub.close("over", patience_seconds=0.1)

    run(story())


def test_a_dialog_is_answered_once_and_a_repeat_after_its_end_is_the_same() -> None:
    async def story() -> None:
        async with bench() as on:
            await on.commands.open_task(OPEN, task_id=A)
            await on.commands.send(A, "x")
            puppet = (await soon(lambda: [one for one in on.driver.puppets if one.prompts]))[0]
            puppet.say(ApprovalAsked(request_id="r", question="May I?"))
            await soon(lambda: on.status() == "PENDING_CONFIRMATION")
            approval_id = next(iter(on.hub.views[A].approvals.approvals))
            asked = ApprovalDecide(id="1", task_id=A, approval_id=approval_id, is_allowed=False, decision_id="d")
            await on.commands.decide(asked, decided_by="")
            puppet.say(TurnEnded(ending=TurnEnding.NATURAL, text="done"))
            await soon(lambda: on.status() == "COMPLETED")
            assert (await on.commands.decide(asked, decided_by="")).state == "closed"
            other, late = structs.replace(asked, is_allowed=True), structs.replace(asked, decision_id="e")
            with pytest.raises(KeyReused):
                await on.commands.decide(other, decided_by="")
            assert (await on.commands.decide(late, decided_by="")).state == "closed", "the same decision, by another id"
            with pytest.raises(AlreadyDecided, match="decided already: no"):
                await on.commands.decide(structs.replace(late, is_allowed=True), decided_by="")
            unnamed = structs.replace(asked, decision_id="")
            assert (await on.commands.decide(unnamed, decided_by="")).state == "closed"

    run(story())
