"""Rules in a session: one decision and one delivery, whatever a person does at the same time."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from datetime import date
from functools import partial
from typing import Self

import pytest

from interlock.agents.observations import ApprovalAsked, ApprovalOption, OptionKind, ToolCalled
from interlock.agents.port import AgentSpec
from interlock.lifecycle.rules.rule import Layer
from interlock.lifecycle.rules.rule_file import parse_rules
from interlock.lifecycle.rules.verdict import AskedCall, RuleVerdict, judge
from interlock.log.memory import MemoryLog
from interlock.runtime.runtime import Runtime
from interlock.runtime.session.inputs import AnswerQuestion
from interlock.runtime.session.questions.by_rule import MOST_OF_THE_SAME
from interlock.testing.puppet import Puppet, PuppetDriver
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import Anomaly, DecisionUndelivered, PermissionDecision, ToolCallDecided
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.states import Attention, DriverKind
from tests.contract.harness import run
from tests.runtime.conducting import soon
from tests.seeds import seed_of

TEXT = """
[[rule]]
id = "ls"
then = "allow"
command = ["ls", "..."]
[[rule]]
id = "no-curl"
then = "deny"
command = ["curl", "..."]
"""
FILE = parse_rules(TEXT.encode(), Layer.USER, "rules.toml")
OPTIONS = (
    ApprovalOption(label="Yes", id="y", kind=OptionKind.ALLOW_ONCE),
    ApprovalOption(label="Always", id="a", kind=OptionKind.ALLOW_ALWAYS),
    ApprovalOption(label="No", id="n", kind=OptionKind.REJECT_ONCE),
)


def rules(session_id: SessionId, call: AskedCall, today: date) -> RuleVerdict:
    return judge((FILE,), call, today)


def asked(number: int = 1, command: str = "ls") -> ApprovalAsked:
    args: Json = {"command": command}
    return ApprovalAsked(request_id=f"r{number}", call_id=f"c{number}", name="Bash", args=args, options=OPTIONS)


class Scene:
    """A session whose agent has a prompt, by a runtime with rules."""

    def __init__(self, kind: DriverKind = DriverKind.STREAM) -> None:
        self.log, self.driver = MemoryLog(), PuppetDriver(kind=kind)
        self.runtime = Runtime(self.log, [self.driver], rules=rules)

    async def __aenter__(self) -> Self:
        await self.runtime.__aenter__()
        self.session_id = await self.runtime.open_session(AgentSpec(agent="puppet", driver="puppet"))
        await self.runtime.send(self.session_id, "hello")
        self.puppet: Puppet = await soon(lambda: next((one for one in self.driver.puppets if one.prompts), None))
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.runtime.shutdown()

    def ask(self, question: ApprovalAsked) -> None:
        self.puppet.say(
            ToolCalled(call_id=question.call_id or "c0", name="Bash", args=question.args),
            question,
        )

    async def events(self) -> tuple[Event, ...]:
        return (await self.log.read(self.session_id)).events

    async def open_question(self) -> str:
        return await self.runtime.until(self.session_id, lambda machine: next(iter(machine.questions.questions), None))


def of_rules(events: tuple[Event, ...]) -> list[str]:
    return [one.data.rule for one in events if isinstance(one.data, PermissionDecision)]


def test_a_rule_answers_once_with_the_option_for_once_and_the_log_has_both_before_the_agent() -> None:
    async def story() -> None:
        async with Scene() as scene:
            scene.ask(asked())
            told = await soon(lambda: scene.puppet.decisions or None)
            assert [(one.request_id, one.is_allowed, one.option_id) for one in told] == [("r1", True, "y")]
            events = await scene.events()
            assert of_rules(events) == ["ls"]
            (decided,) = [one.data for one in events if isinstance(one.data, ToolCallDecided)]
            assert decided.decided_by == "rule:ls"
            scene.ask(asked(2, "curl x"))
            await soon(lambda: len(scene.puppet.decisions) == 2 or None)
            assert (scene.puppet.decisions[1].is_allowed, scene.puppet.decisions[1].option_id) == (False, "n")
            assert "no-curl" in scene.puppet.decisions[1].text

    run(story())


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        (replace(asked(), attention=Attention.PLAN), DriverKind.STREAM),
        (replace(asked(), attention=Attention.QUESTION), DriverKind.STREAM),
        (replace(asked(), attention=Attention.AUTH), DriverKind.STREAM),
        (replace(asked(), call_id=""), DriverKind.STREAM),
        (replace(asked(), problem="asked again"), DriverKind.STREAM),
        (replace(asked(), response_schema={"type": "object"}), DriverKind.STREAM),
        (replace(asked(), args=["ls"]), DriverKind.STREAM),
        (replace(asked(), name=""), DriverKind.STREAM),
        (replace(asked(), options=(*OPTIONS, OPTIONS[0])), DriverKind.STREAM),
        (replace(asked(), options=(*OPTIONS, ApprovalOption(label="other"))), DriverKind.STREAM),
        (replace(asked(), options=OPTIONS[1:]), DriverKind.STREAM),
        (asked(), DriverKind.TERMINAL),
        (asked(command="ls > f"), DriverKind.STREAM),
    ],
)
def test_what_is_never_answered_by_a_rule_waits_for_a_person(question: ApprovalAsked, kind: DriverKind) -> None:
    async def story() -> None:
        async with Scene(kind) as scene:
            scene.ask(question)
            approval = await scene.open_question()
            assert (scene.puppet.decisions, of_rules(await scene.events())) == ([], [])
            assert approval

    run(story())


def test_a_decision_that_did_not_arrive_is_a_person_s_from_then_on() -> None:
    async def story() -> None:
        async with Scene() as scene:
            scene.puppet.refusals = 99
            scene.ask(asked())

            async def taken_back() -> bool:
                return any(isinstance(one.data, DecisionUndelivered) for one in await scene.events())

            for _ in range(10_000):
                if await taken_back():
                    break
                await asyncio.sleep(0)
            assert await taken_back()
            scene.puppet.refusals = 0
            approval = await scene.open_question()
            await scene.runtime.decide(scene.session_id, AnswerQuestion(approval_id=approval, is_allowed=False))
            await soon(lambda: scene.puppet.decisions or None)
            assert scene.puppet.decisions[-1].is_allowed is False
            assert of_rules(await scene.events()) == ["ls"]

    run(story())


def test_the_same_call_again_and_again_is_asked_in_the_end() -> None:
    async def story() -> None:
        async with Scene() as scene:
            for number in range(MOST_OF_THE_SAME + 1):
                scene.ask(asked(number))
            await soon(lambda: len(scene.puppet.decisions) == MOST_OF_THE_SAME or None)
            look = f"r{MOST_OF_THE_SAME}"
            await scene.runtime.until(scene.session_id, lambda machine: machine.questions.of_request(look))
            events = await scene.events()
            assert len(of_rules(events)) == MOST_OF_THE_SAME
            assert [one.data.kind for one in events if isinstance(one.data, Anomaly)] == ["rules_stopped"]
            assert len(scene.puppet.decisions) == MOST_OF_THE_SAME

    run(story())


def _has_more(puppet: Puppet, before: int) -> bool | None:
    return len(puppet.decisions) > before or None


async def _race(times: int, random_: random.Random) -> None:
    """A person answers each question, of which a rule answers some, at any moment that the loop gives."""
    async with Scene() as scene:
        for number in range(times):
            command = random_.choice((f"ls {number}", f"curl {number}", f"make {number}"))
            wanted, before = random_.random() < 0.5, len(scene.puppet.decisions)

            async def person(number: int = number, *, is_allowed: bool = wanted) -> str:
                for _ in range(random_.randint(0, 6)):
                    await asyncio.sleep(0)
                look = f"r{number}"
                found = await scene.runtime.until(scene.session_id, lambda machine: machine.questions.of_request(look))
                answer = AnswerQuestion(approval_id=found.approval_id, is_allowed=is_allowed, decided_by="person")
                try:
                    await scene.runtime.decide(scene.session_id, answer)
                except UsageError as late:
                    return str(late)
                return ""

            people = [asyncio.create_task(person()) for _ in range(2)]
            scene.ask(asked(number, command))
            said = await asyncio.gather(*people)
            await soon(partial(_has_more, scene.puppet, before))
            (given,) = scene.puppet.decisions[before:]
            is_by_rule = not command.startswith("make")
            assert given.is_allowed == (command.startswith("ls") if is_by_rule else wanted)
            assert all("decided already" in one for one in said if one)
            assert not is_by_rule or wanted == given.is_allowed or all(said)
        decided = [one.data for one in await scene.events() if isinstance(one.data, ToolCallDecided)]
        assert len(decided) == times == len({one.target_id for one in decided})
        assert len(scene.puppet.decisions) == times
        by_rule = [one for one in decided if one.decided_by.startswith("rule:")]
        assert len(by_rule) == len(of_rules(await scene.events()))


def test_a_person_and_a_rule_at_once_make_one_decision_and_one_delivery() -> None:
    run(_race(40, random.Random(seed_of("race of a rule"))))


@pytest.mark.deep
@pytest.mark.parametrize("part", range(20))
def test_a_thousand_races_make_one_decision_and_one_delivery_each(part: int) -> None:
    """Trap 27 of the plan."""
    run(_race(50, random.Random(seed_of(f"race of a rule {part}"))))
