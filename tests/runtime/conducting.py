"""A conductor on a table: no loop, no agent, no log but a list. What it wants done is kept, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Final, TypeVar

from msgspec import structs

from interlock.agents.observations import BecameReady, Observation
from interlock.agents.port import AgentSpec, Capabilities
from interlock.lifecycle.turns import TurnRecord, turn_states
from interlock.runtime.policy import Instant, RunPolicy
from interlock.runtime.session.effects import Append, Confirm, Effect, Publish, Refuse, SpawnAgent, SubmitPrompt
from interlock.runtime.session.inputs import AgentStarted, Command, News, Observed, Send, SessionTimerFired, Submitted
from interlock.runtime.session.router import SessionMachine
from interlock.runtime.session_fold import SessionFold
from interlock.testing.puppet import EVERYTHING
from interlock.vocabulary.events.audit import DeliveryStage
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.ids import PromptId, SessionId, SpawnId
from interlock.vocabulary.states import Activity, DriverKind, TurnState
from tests.golden import told

BEGAN = datetime(2030, 1, 1, tzinfo=UTC)
SPEC = AgentSpec(agent="puppet", driver="puppet")
PayloadT = TypeVar("PayloadT", bound=Payload)
ActT = TypeVar("ActT")
FoundT = TypeVar("FoundT")


STAGES: Final[list[Stage]] = []
"""The stages of the test that runs: `conftest` holds their stories against the files in `golden/`."""


class Stage:
    """Everything that a conductor was told and wanted. Time stands still between calls."""

    def __init__(
        self,
        policy: RunPolicy | None = None,
        *,
        kind: DriverKind = DriverKind.STREAM,
        capabilities: Capabilities = EVERYTHING,
        book: SessionFold | None = None,
        seconds: float = 0.0,
    ) -> None:
        self.seconds = seconds
        self.acts: list[Effect] = []
        self.events: list[Event] = []
        self.capabilities = capabilities
        self._numbers = count(1)
        self.spawn_id: SpawnId | None = None
        self.story: list[str] = []
        self._standing: list[str] = []
        STAGES.append(self)
        book = book or SessionFold(SessionId("ses_stage"))
        self.version = book.version
        self.conductor = SessionMachine(book, SPEC, kind, self._new_id, policy or RunPolicy(), self.now)

    def _new_id(self, prefix: str) -> str:
        return f"{prefix}_{next(self._numbers)}"

    @property
    def now(self) -> Instant:
        return Instant(BEGAN + timedelta(seconds=self.seconds), self.seconds)

    def order(self, command: Command) -> tuple[Effect, ...]:
        return self._keep(self.conductor.order(command, self.now))

    def hear(self, news: News) -> tuple[Effect, ...]:
        return self._keep(self.conductor.hear(news, self.now))

    def _keep(self, acts: tuple[Effect, ...]) -> tuple[Effect, ...]:
        self.acts += acts
        self._tell(acts)
        for act in acts:
            if isinstance(act, Append):
                self.events += (structs.replace(event, seq=self.version + n) for n, event in enumerate(act.events, 1))
                self.version += len(act.events)
            elif isinstance(act, SpawnAgent):
                self.spawn_id = act.spawn_id
        return acts

    def _tell(self, acts: tuple[Effect, ...]) -> None:
        """Keep what was wanted, how the agent stands and the next deadline, in words."""
        said = [f"now {told(self.conductor.status)}", f"due {self.conductor.deadline}"]
        lines = [line for line in said if line not in self._standing]
        self._standing = said
        for act in acts:
            if isinstance(act, Append):
                lines += (
                    f"  {event.turn_id or '-'} {event.spawn_id or '-'} {told(event.data)}" for event in act.events
                )
            elif isinstance(act, Publish):
                lines.append(f"  shown {act.turn_id or '-'} {told(act.data)}")
            else:
                lines.append(f"  {told(act)}")
        self.story += lines

    def see(self, *what: Observation) -> tuple[Effect, ...]:
        assert self.spawn_id is not None
        return tuple(act for one in what for act in self.hear(Observed(spawn_id=self.spawn_id, seen=one)))

    def wait(self, seconds: float) -> tuple[Effect, ...]:
        """Let time pass, and fire every deadline on the way at its own time."""
        until = self.seconds + seconds
        done: list[Effect] = []
        for _ in range(1000):
            due = self.conductor.deadline
            if due is None or due > until:
                break
            self.seconds = max(self.seconds, due)
            done += self.hear(SessionTimerFired())
        else:
            raise AssertionError("a deadline that is due stays due: the conductor would spin")
        self.seconds = until
        return tuple(done)

    def hear_timer(self) -> tuple[Effect, ...]:
        return self.hear(SessionTimerFired())

    # The usual beginnings

    def send(self, text: str = "do it", prompt_id: str = "p1") -> tuple[Effect, ...]:
        return self.order(Send(prompt_id=PromptId(prompt_id), text=text))

    def started(self, *, is_adopted: bool = False) -> tuple[Effect, ...]:
        assert self.spawn_id is not None
        return self.hear(AgentStarted(spawn_id=self.spawn_id, capabilities=self.capabilities, is_adopted=is_adopted))

    def working(self, text: str = "do it", prompt_id: str = "p1") -> None:
        """A prompt was sent, an agent was started for it and has the prompt."""
        self.send(text, prompt_id)
        if self.conductor.agent is None:
            self.started()
            self.see(BecameReady())
        self.submitted(prompt_id)

    def submitted(self, prompt_id: str = "p1", stage: DeliveryStage = DeliveryStage.TYPED) -> tuple[Effect, ...]:
        return self.hear(Submitted(prompt_id=PromptId(prompt_id), stage=stage, message="because"))

    # What came of it

    @property
    def turns(self) -> list[TurnRecord]:
        return turn_states(self.events)

    @property
    def turn(self) -> TurnRecord:
        return self.turns[-1]

    # As calls, so that a type checker does not take an answer for the next one.

    def state(self) -> TurnState:
        return self.turn.state

    def activity(self) -> Activity:
        return self.conductor.status.activity

    def logged(self, kind: type[PayloadT]) -> list[PayloadT]:
        return [event.data for event in self.events if isinstance(event.data, kind)]

    def published(self, kind: type[PayloadT]) -> list[PayloadT]:
        return [act.data for act in self.acts if isinstance(act, Publish) and isinstance(act.data, kind)]

    def wanted(self, kind: type[ActT]) -> list[ActT]:
        return [act for act in self.acts if isinstance(act, kind)]

    @property
    def prompts(self) -> list[str]:
        return [act.prompt.text for act in self.acts if isinstance(act, SubmitPrompt)]


def refused(acts: Iterable[Effect]) -> str:
    """Why a command was refused; blank if it was confirmed."""
    for act in acts:
        if isinstance(act, Refuse):
            return act.message
        if isinstance(act, Confirm):
            return ""
    raise AssertionError("a command was neither confirmed nor refused")


async def soon(look: Callable[[], FoundT | None]) -> FoundT:
    """Wait for something that is about to be so, whoever does it: puppets ring no bell."""
    while not (found := look()):  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    return found
