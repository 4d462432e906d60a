"""One spawn of the model loop.

Laws:
1. A spawn starts no process of its own; what its tools start carries its spawn id, and is ended with it.
2. One turn at a time: a prompt that comes while a turn is open is refused, and had no effect.
3. After `stop` nothing of the spawn runs, and `Exited` is the last observation, whether somebody reads or not.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

import msgspec

from interlock.agents.model.approvals import Approvals
from interlock.agents.model.calls import ModelCaller
from interlock.agents.model.channel import LoopChannel
from interlock.agents.model.tools.tool import Tool
from interlock.agents.model.turn import LoopPolicy, Turn
from interlock.agents.observations import BecameReady, Exited, Observation
from interlock.agents.port import Capabilities, Decision, NotDelivered, ProcessIdentity, Prompt, StopReport
from interlock.agents.processes.stopping import stop_tree
from interlock.lifecycle.decisions.permissions import Rule
from interlock.projections.replay.items import ReplayItem
from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.events.audit import DeliveryStage
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import SpawnId

DRIVER_NAME: Final = "model"
CAPABILITIES: Final = Capabilities(
    reports_approvals=True,
    streams_text=True,
    reports_usage=True,
    reports_thoughts=True,
    owns_text=True,
    can_interrupt=True,
    needs_history=True,
)


class ModelHandle:
    """One conversation partner. It remembers rules that a person added, and nothing of the conversation."""

    def __init__(
        self,
        spawn_id: SpawnId,
        caller: ModelCaller,
        tools: Mapping[str, Tool],
        *,
        rules: Sequence[Rule],
        policy: LoopPolicy,
    ) -> None:
        self._spawn_id = spawn_id
        self._caller = caller
        self._tools = tools
        self._policy = policy
        self._channel = LoopChannel()
        self._approvals = Approvals(tuple(rules), self._channel)
        self._turn: Turn | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[StopReport] | None = None
        self._used_tokens: int | None = None
        self._history_length = 0
        self._channel.tell_now(BecameReady())

    @property
    def spawn_id(self) -> SpawnId:
        return self._spawn_id

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    @property
    def argv(self) -> tuple[str, ...]:
        """No program: the driver's name and the model's."""
        return (DRIVER_NAME, self._caller.name)

    @property
    def process(self) -> ProcessIdentity | None:
        return None

    @property
    def where(self) -> Json:
        return None

    def observations(self) -> AsyncIterator[Observation]:
        """Everything, in order. The loop goes on only when the next one is asked for: see `LoopChannel`."""
        return self._channel.read()

    async def submit(self, prompt: Prompt) -> DeliveryStage:
        """Begin a turn. `NotDelivered` while another is open, or after `stop`."""
        if self._stopping is not None:
            raise NotDelivered("the agent was stopped")
        if self._task is not None and not self._task.done():
            raise NotDelivered("a turn is open")
        if len(prompt.history) < self._history_length:
            self._used_tokens = None  # somebody made room meanwhile
        self._history_length = len(prompt.history)
        turn = Turn(
            turn_id=prompt.turn_id,
            history=_history(prompt.history),
            prompt=prompt.text,
            caller=self._caller,
            tools=self._tools,
            policy=self._policy,
            approvals=self._approvals,
            channel=self._channel,
            used_tokens=self._used_tokens,
        )
        self._turn, self._task = turn, asyncio.create_task(self._run(turn))
        return DeliveryStage.ACCEPTED

    async def _run(self, turn: Turn) -> None:
        try:
            await turn.run()
        except Exception as error:  # it ends no turn by an error: this is one that nothing provides for
            self._channel.fail(error)
        finally:
            self._used_tokens = turn.used_tokens

    async def interrupt(self) -> None:
        """End the open turn; without one this does nothing."""
        if self._turn is not None:
            self._turn.interrupt()

    async def decide(self, decision: Decision) -> None:
        """Answer a question. `NotDelivered` if it is not open."""
        self._approvals.answer(decision)

    async def stop(self) -> StopReport:
        """Interrupt the turn, end what its tools started, let go of the connections. Safe to call twice."""
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop())
        return await asyncio.shield(self._stopping)

    async def release(self) -> None:
        """The same as `stop`: a model does not outlive us."""
        await self.stop()

    async def _stop(self) -> StopReport:
        if self._turn is not None and self._task is not None:
            self._turn.interrupt()
            await asyncio.wait((self._task,))
        try:
            return await stop_tree(None, self._spawn_id)
        finally:
            try:
                await self._caller.close()
            finally:
                self._channel.tell_now(Exited(code=0))


def _history(items: Sequence[Json]) -> list[ReplayItem]:
    """The conversation so far: items of the replay projection, as they are or as JSON."""
    try:
        return [msgspec.convert(msgspec.to_builtins(item), ReplayItem) for item in items]
    except msgspec.ValidationError as wrong:
        raise ContractError(f"the history is not that of the replay projection: {wrong}") from wrong
