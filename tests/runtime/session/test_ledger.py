"""The log against the agent's own ledger: what stands as decided is what the agent heard, and nothing else.

Each driver is driven through the runtime, with an agent that writes down every answer that it received. What cannot be
delivered is so for real: the agent closes its input, dies, stands still, refuses, or its pane takes no keys.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from interlock.agents.drivers import DRIVERS, driver
from interlock.agents.model.driver import ModelDriver
from interlock.agents.terminal.launch import Where, read_where
from interlock.log.memory import MemoryLog
from interlock.projections.task.view import TaskView
from interlock.runtime.runtime import Runtime
from interlock.runtime.session.inputs import AnswerQuestion
from interlock.runtime.session.questions.question import Question, QuestionState
from interlock.runtime.session.router import SessionMachine
from interlock.testing.scripted_agent import read_ledger
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import (
    Anomaly,
    DecisionAction,
    DecisionUndelivered,
    DialogAnswered,
    ProcessEvent,
    ProcessEventKind,
    ToolCallDecided,
)
from interlock.vocabulary.events.conversation import ToolResult
from interlock.vocabulary.events.envelope import Event, new_event
from interlock.vocabulary.ids import EventId, PromptId, SessionId
from interlock.vocabulary.states import Attention
from interlock.vocabulary.wire.approval import ApprovalState
from tests.agents.model.harness import PlayedModel, calls
from tests.agents.model.harness import spec as model_spec
from tests.contract.harness import run
from tests.projections.whole_logs import approvals
from tests.runtime.session.ledger_ways import BY_PIPE, VALVE, WAYS, Heard, Way

UNSURE: Final = frozenset({"decision_delivery_unknown", "decision_unconfirmed"})


def decided_in(events: tuple[Event, ...]) -> list[Heard]:
    """The decisions that stand as given: neither taken back, nor said to be unsure, in the words of the ledgers."""
    standing: dict[str, Heard] = {}
    for event in events:
        match event.data:
            case ToolCallDecided(target_id=target, action=action, option=option, reason=text):
                standing[target] = Heard(action is DecisionAction.RESUME, option, text)
            case DialogAnswered(dialog_id=target, is_allowed=is_allowed, option=option, text=text):
                assert is_allowed is not None
                standing[target] = Heard(is_allowed, option, text)
            case DecisionUndelivered(target_id=target):
                del standing[target]
            case Anomaly(kind=kind, details={"approval_id": str(target)}) if kind in UNSURE:
                standing.pop(target, None)
            case _:
                pass
    return list(standing.values())


@dataclass
class Stage:
    """One session of one agent, which asks something."""

    way: Way
    folder: Path
    log: MemoryLog
    runtime: Runtime
    session_id: SessionId
    prompt_id: PromptId

    def heard(self) -> list[Heard]:
        return [self.way.read(entry.data["answer"]) for entry in read_ledger(self.folder / "ledger", "answer")]

    async def events(self) -> tuple[Event, ...]:
        return (await self.log.read(self.session_id)).events

    async def question(self, *, is_again: bool = False) -> Question:
        def look(machine: SessionMachine) -> Question | None:
            asked = (one for one in machine.questions.questions.values() if one.state is QuestionState.OPEN)
            return next((one for one in asked if bool(one.problem) is is_again), None)

        return await self.runtime.until(self.session_id, look)

    async def decide(self, answer: AnswerQuestion, asked: Question, decision_id: str = "dec_1") -> None:
        given = replace(answer, approval_id=asked.approval_id, decision_id=decision_id)
        await self.runtime.decide(self.session_id, given)

    async def end(self) -> None:
        await self.runtime.wait_turn(self.session_id, self.prompt_id)

    async def pid(self) -> int:
        started = [event.data for event in await self.events() if isinstance(event.data, ProcessEvent)]
        return next(one.pid for one in started if one.kind is ProcessEventKind.SPAWNED and one.pid is not None)

    async def where(self) -> Where:
        """The agent's pane, as the log has it."""
        started = [event.data for event in await self.events() if isinstance(event.data, ProcessEvent)]
        return read_where(next(one.where for one in started if one.kind is ProcessEventKind.SPAWNED))

    async def is_asked_again(self, asked: Question) -> None:
        """Nothing stands as decided, and every surface asks again, with the reason."""
        events = await self.events()
        assert decided_in(events) == []
        assert len([event for event in events if isinstance(event.data, DecisionUndelivered)]) == 1
        (shown,) = [one for one in approvals(events) if one.approval_id == asked.approval_id]
        assert (shown.state, bool(shown.problem)) == (ApprovalState.OPEN, True)
        assert shown.problem in asked.problem
        status = self.runtime.status(self.session_id)
        assert status.attention is not Attention.NONE
        view = TaskView(self.session_id)
        for event in events:
            view.add(event)
        live = new_event(status, id=EventId("live"), session_id=self.session_id, ts=events[-1].ts)
        view.add(live)
        summary = view.summary(datetime.now(UTC))
        assert (summary.approval_id, summary.open_approvals) == (asked.approval_id, 1)
        assert [one.approval_id for one in view.snapshot().approvals] == [asked.approval_id]
        assert summary.badge is not None
        assert (summary.badge.needs_person, summary.badge.attention) == (True, shown.attention)


@asynccontextmanager
async def stage(
    way: Way, folder: Path, prompt: str, before: tuple[str, ...] = (), **environment: str
) -> AsyncIterator[Stage]:
    log = MemoryLog()
    spec = way.spec(folder, before)
    spec = replace(spec, environment={**spec.environment, **environment})
    async with way.driving() as made, Runtime(log, [made]) as runtime:
        session_id = await runtime.open_session(spec)
        try:
            prompt_id = await runtime.send(session_id, prompt)
            yield Stage(way, folder, log, runtime, session_id, prompt_id)
        finally:
            await runtime.shutdown(stop_agents=True)


def given(*, is_allowed: bool, option: str = "", text: str = "") -> AnswerQuestion:
    return AnswerQuestion(approval_id="", is_allowed=is_allowed, option=option, text=text, decided_by="test")


SHAPES: Final[dict[str, tuple[Callable[[Way], str], AnswerQuestion]]] = {
    "allow": (lambda way: way.request, given(is_allowed=True)),
    "deny": (lambda way: way.request, given(is_allowed=False)),
    "deny with words": (lambda way: way.request, given(is_allowed=False, text="not here")),
    "option": (lambda way: way.ask, given(is_allowed=True, option="green")),
    "first option": (lambda way: way.ask, given(is_allowed=True, option="red")),
}


def test_every_driver_that_asks_is_driven_here() -> None:
    asking = {name for name in DRIVERS if driver(name, Path("unused")).capabilities.reports_approvals}
    assert asking | {"terminal"} == {*WAYS, "model"}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", WAYS)
def test_what_is_decided_is_what_the_agent_heard(name: str, shape: str, tmp_path: Path) -> None:
    way, (prompt, answer) = WAYS[name], SHAPES[shape]

    async def story() -> None:
        async with stage(way, tmp_path, prompt(way)) as on:
            await on.decide(answer, await on.question())
            await on.end()
            events, (heard,) = await on.events(), on.heard()
            assert heard.is_allowed is answer.is_allowed
            assert answer.option in ("", heard.option)
            assert way.has_words is False or not answer.text or heard.text == answer.text
            (decided,) = decided_in(events)
            assert decided.is_allowed is heard.is_allowed
            assert decided.option == heard.option
            assert decided.text == answer.text
            assert not [event for event in events if isinstance(event.data, DecisionUndelivered)]

    run(story())


@pytest.mark.parametrize("name", [name for name in WAYS if name != "acp"])  # there each of the two is a plain yes
def test_a_yes_that_chooses_nothing_decides_nothing(name: str, tmp_path: Path) -> None:
    """Which of red and green is asked: a driver would have to make something up."""
    way = WAYS[name]

    async def story() -> None:
        async with stage(way, tmp_path, way.ask) as on:
            asked = await on.question()
            with pytest.raises(UsageError, match=r"needs an answer.*red.*green"):
                await on.decide(given(is_allowed=True), asked)
            assert decided_in(await on.events()) == []
            await on.decide(given(is_allowed=True, option="red"), asked)
            await on.end()
            assert [one.option for one in on.heard()] == ["red"]

    run(story())


LOSABLE: Final = ("allow", "deny", "option")


@pytest.mark.parametrize("shape", LOSABLE)
@pytest.mark.parametrize("name", BY_PIPE)
def test_an_agent_that_closed_its_input_is_told_nothing(name: str, shape: str, tmp_path: Path) -> None:
    way, (prompt, answer) = WAYS[name], SHAPES[shape]

    async def story() -> None:
        async with stage(way, tmp_path, prompt(way), VALVE) as on:
            asked, pid = await on.question(), await on.pid()
            os.kill(pid, signal.SIGUSR1)
            standard_input = Path(f"/proc/{pid}/fd/0")
            while await asyncio.to_thread(standard_input.is_symlink):  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0.01)
            await on.decide(answer, asked)
            await on.is_asked_again(await on.question(is_again=True))
            assert on.heard() == []

    run(story())


@pytest.mark.parametrize("shape", LOSABLE)
def test_a_server_that_refuses_has_not_heard(shape: str, tmp_path: Path) -> None:
    way, (prompt, answer) = WAYS["opencode-serve"], SHAPES[shape]

    async def story() -> None:
        async with stage(way, tmp_path, prompt(way), FAKE_REFUSALS="409 404 400") as on:
            await on.decide(answer, await on.question())
            again = await on.question(is_again=True)
            await on.is_asked_again(again)
            assert on.heard() == []
            await on.decide(answer, again, "dec_2")
            await on.end()
            assert [one.is_allowed for one in decided_in(await on.events())] == [answer.is_allowed]
            assert [(one.is_allowed, one.option) for one in on.heard()] == [
                (one.is_allowed, one.option) for one in decided_in(await on.events())
            ]

    run(story())


def test_a_server_that_fails_may_have_heard(tmp_path: Path) -> None:
    """It did, here: the decision is not given again, and does not stand as given either."""
    way = WAYS["opencode-serve"]

    async def story() -> None:
        async with stage(way, tmp_path, way.request, FAKE_FAILS_LATE="1") as on:
            asked = await on.question()
            await on.decide(given(is_allowed=True), asked)
            await on.runtime.until(on.session_id, lambda machine: machine.questions.problem or None)
            assert len(on.heard()) == 1
            assert decided_in(await on.events()) == []
            assert not [event for event in await on.events() if isinstance(event.data, DecisionUndelivered)]

    run(story())


@pytest.mark.parametrize("shape", LOSABLE)
def test_a_pane_that_takes_no_keys_is_asked_again(shape: str, tmp_path: Path) -> None:
    """Somebody scrolls in it: keys go to tmux, and not to the agent."""
    way, (prompt, answer) = WAYS["terminal"], SHAPES[shape]

    async def story() -> None:
        async with stage(way, tmp_path, prompt(way)) as on:
            asked, where = await on.question(), await on.where()
            await where.server.run(["copy-mode", "-t", where.pane_id])
            await on.decide(answer, asked)
            again = await on.question(is_again=True)
            await on.is_asked_again(again)
            assert on.heard() == []
            await where.server.run(["send-keys", "-t", where.pane_id, "-X", "cancel"])
            await on.decide(answer, again, "dec_2")
            await on.end()
            (heard,) = on.heard()
            assert (heard.is_allowed, heard.option) == (answer.is_allowed, decided_in(await on.events())[0].option)

    run(story())


async def until_over(on: Stage) -> None:
    """The turn, and everything that follows from the death of its agent, is in the log."""
    await on.end()
    await on.runtime.until(on.session_id, lambda machine: True if not machine.questions.questions else None)


@pytest.mark.parametrize("name", WAYS)
def test_an_agent_that_dies_at_that_moment_leaves_no_decision_that_it_did_not_hear(name: str, tmp_path: Path) -> None:
    way = WAYS[name]

    async def story() -> None:
        async with stage(way, tmp_path, way.request) as on:
            asked, pid = await on.question(), await on.pid()
            if name == "terminal":
                where = await on.where()
                await where.server.run(["kill-pane", "-t", where.pane_id])
            else:
                os.kill(pid, signal.SIGKILL)
            with suppress(UsageError):  # its death may be seen first
                await on.decide(given(is_allowed=True), asked)
            await until_over(on)
            assert decided_in(await on.events()) == []
            assert on.heard() == []

    run(story())


@pytest.mark.parametrize("is_allowed", [True, False])
@pytest.mark.parametrize("name", BY_PIPE)
def test_what_was_written_and_never_read_does_not_stand(name: str, is_allowed: bool, tmp_path: Path) -> None:
    """The agent stands still while the decision is written into its pipe, and dies there."""
    way = WAYS[name]

    async def story() -> None:
        async with stage(way, tmp_path, way.request) as on:
            asked, pid = await on.question(), await on.pid()
            os.kill(pid, signal.SIGSTOP)
            await on.decide(given(is_allowed=is_allowed), asked)
            await on.runtime.until(on.session_id, lambda machine: _has_been_given(machine, asked))
            os.kill(pid, signal.SIGKILL)
            await until_over(on)
            assert on.heard() == []
            assert decided_in(await on.events()) == []

    run(story())


def _has_been_given(machine: SessionMachine, asked: Question) -> bool | None:
    found = machine.questions.questions.get(asked.approval_id)
    return True if found is None or found.state is QuestionState.GIVEN else None


@pytest.mark.parametrize("is_allowed", [True, False])
def test_what_is_decided_about_a_models_tool_is_what_it_did(is_allowed: bool, tmp_path: Path) -> None:
    """Its ledger is what the command wrote: a line each time that it ran."""
    events, runs = tell_model(tmp_path, is_allowed=is_allowed, is_cancelled=False)
    (decided,) = decided_in(events)
    assert decided.is_allowed is is_allowed
    assert runs == ("ran\n" if is_allowed else "")
    (result,) = [event.data for event in events if isinstance(event.data, ToolResult)]
    assert result.ok is is_allowed


def test_a_model_whose_turn_is_cancelled_at_that_moment_has_not_heard(tmp_path: Path) -> None:
    """Its question is taken back by the interrupt: either the tool ran, or no decision stands."""
    events, runs = tell_model(tmp_path, is_allowed=True, is_cancelled=True)
    assert (runs == "ran\n") is bool(decided_in(events))


def tell_model(folder: Path, *, is_allowed: bool, is_cancelled: bool) -> tuple[tuple[Event, ...], str]:
    model = PlayedModel([calls("shell", command="echo ran >> runs")])

    async def story() -> tuple[tuple[Event, ...], str]:
        log = MemoryLog()
        async with Runtime(log, [ModelDriver(caller=model)]) as runtime:
            session_id = await runtime.open_session(model_spec(str(folder)))
            prompt_id = await runtime.send(session_id, "go")
            on = Stage(WAYS["acp"], folder, log, runtime, session_id, prompt_id)
            asked = await on.question()
            if is_cancelled:
                await runtime.cancel(session_id)
            try:
                await on.decide(given(is_allowed=is_allowed), asked)
            except UsageError:
                assert is_cancelled
            await on.end()
            runs = folder / "runs"
            return await on.events(), runs.read_text() if runs.exists() else ""

    return run(story())
