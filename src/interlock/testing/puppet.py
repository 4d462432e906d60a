"""An agent without a process, whose every word and silence a test decides. It implements the driver port.

puppets = PuppetDriver()
async with Runtime(MemoryLog(), [puppets]) as runtime:
    await runtime.send(session_id, "hello")
    ...  # until `puppets.puppets` is not empty
    puppets.latest.say(TextArrived(text="done"), TurnEnded(ending=TurnEnding.NATURAL))
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

from interlock.agents.observations import BecameReady, Exited, Observation
from interlock.agents.port import (
    AgentSpec,
    Capabilities,
    Decision,
    NotDelivered,
    ProcessIdentity,
    Prompt,
    StopReport,
)
from interlock.vocabulary.errors import InterlockError
from interlock.vocabulary.events.audit import DeliveryStage
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import SpawnId
from interlock.vocabulary.states import DriverKind

EVERYTHING = Capabilities(reports_approvals=True, streams_text=True, reports_usage=True, can_resume=True)


class Puppet:
    """One spawn. `prompts`, `decisions`, `interrupts` and `stops` are what it was told; `say` is what it does."""

    def __init__(self, spec: AgentSpec, spawn_id: SpawnId, capabilities: Capabilities) -> None:
        self.spec = spec
        self._spawn_id = spawn_id
        self._capabilities = capabilities
        self._said: asyncio.Queue[Observation] = asyncio.Queue()
        self.prompts: list[Prompt] = []
        self.decisions: list[Decision] = []
        self.interrupts = 0
        self.stops = 0
        self.is_released = False
        self.is_gone = False
        self.next_submit: DeliveryStage | InterlockError = DeliveryStage.TYPED
        self.next_decide: InterlockError | None = None
        self.refusals = 0  # how many of the next decisions do not reach it

    @property
    def spawn_id(self) -> SpawnId:
        return self._spawn_id

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    @property
    def argv(self) -> tuple[str, ...]:
        return self.spec.argv

    @property
    def process(self) -> ProcessIdentity | None:
        return None

    @property
    def where(self) -> Json:
        return {"puppet": self._spawn_id} if self._capabilities.outlives_runtime else None

    def say(self, *what: Observation) -> None:
        """Make it say or show something."""
        for one in what:
            self.is_gone |= isinstance(one, Exited)
            self._said.put_nowait(one)

    async def observations(self) -> AsyncIterator[Observation]:
        while True:
            one = await self._said.get()
            yield one
            if isinstance(one, Exited):
                return

    async def submit(self, prompt: Prompt) -> DeliveryStage:
        if self.is_gone:
            raise NotDelivered("the puppet is gone")
        self.prompts.append(prompt)
        outcome, self.next_submit = self.next_submit, DeliveryStage.TYPED
        if isinstance(outcome, InterlockError):
            raise outcome
        return outcome

    async def interrupt(self) -> None:
        self.interrupts += 1

    async def decide(self, decision: Decision) -> None:
        problem, self.next_decide = self.next_decide, None
        if self.refusals:
            self.refusals -= 1
            raise NotDelivered("the puppet does not take it")
        if problem is not None:
            raise problem
        self.decisions.append(decision)

    async def stop(self) -> StopReport:
        self.stops += 1
        if not self.is_gone:
            self.say(Exited(signal=15))
        return StopReport()

    async def release(self) -> None:
        if self._capabilities.outlives_runtime:
            self.is_released = True
        else:
            await self.stop()


class PuppetDriver:
    """Starts puppets. `is_ready_at_once`: each says that it is ready as soon as it is started."""

    def __init__(
        self,
        capabilities: Capabilities = EVERYTHING,
        *,
        name: str = "puppet",
        kind: DriverKind = DriverKind.STREAM,
        is_ready_at_once: bool = True,
    ) -> None:
        self._name = name
        self._kind = kind
        self._capabilities = capabilities
        self._is_ready_at_once = is_ready_at_once
        self.puppets: list[Puppet] = []
        self.next_failure: InterlockError | None = None

    @property
    def name(self) -> str:
        return self._name

    @property
    def kind(self) -> DriverKind:
        return self._kind

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    async def spawn(self, spec: AgentSpec, spawn_id: SpawnId) -> Puppet:
        failure, self.next_failure = self.next_failure, None
        if failure is not None:
            raise failure
        puppet = Puppet(spec, spawn_id, self._capabilities)
        self.puppets.append(puppet)
        if self._is_ready_at_once:
            puppet.say(BecameReady())
        return puppet

    async def adopt(self, spec: AgentSpec, spawn_id: SpawnId, where: Json) -> Puppet:
        """Find a released puppet again: another handle on the same agent."""
        for index, puppet in enumerate(self.puppets):
            if puppet.spawn_id == spawn_id and not puppet.is_gone and where == puppet.where:
                again = Puppet(replace(spec), spawn_id, self._capabilities)
                again.prompts = puppet.prompts
                self.puppets[index] = again
                return again
        raise NotDelivered(f"no puppet lives as {spawn_id}")

    @property
    def latest(self) -> Puppet:
        return self.puppets[-1]
