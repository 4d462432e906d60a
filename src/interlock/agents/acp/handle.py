"""One living ACP agent."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from interlock.agents.acp.link import Gone, Link, Refused
from interlock.agents.acp.opening import Opened, open_session
from interlock.agents.acp.questions import answer, cancelled
from interlock.agents.acp.translate import AcpTranslator
from interlock.agents.acp.wire import Wire
from interlock.agents.observations import BecameReady
from interlock.agents.port import (
    AgentSpec,
    Capabilities,
    Decision,
    NotDelivered,
    Prompt,
)
from interlock.agents.processes.child import Child
from interlock.agents.processes.handle import ChildHandle
from interlock.vocabulary.audit import DeliveryStage
from interlock.vocabulary.ids import SpawnId
from interlock.vocabulary.registry import Json

# After a session was loaded its past may still be on the way; a prompt is taken when the agent has fallen silent.
_QUIET_SECONDS: Final = 0.3
_QUIET_LIMIT_SECONDS: Final = 5.0


class AcpHandle(ChildHandle):
    """See `AgentHandle`. Made by the driver, which opens the session before anybody else gets hold of it."""

    def __init__(self, child: Child, argv: tuple[str, ...], spawn_id: SpawnId, capabilities: Capabilities) -> None:
        super().__init__(child, spawn_id, argv)
        self.capabilities = capabilities
        self._translator = AcpTranslator()
        self._wire = Wire(child, self._translator, self._outlet)
        self._link = Link(self._wire)
        self._session_id = ""
        self._prompting: asyncio.Task[None] | None = None
        self._following = self._start_reader(self._follow())

    async def open(self, spec: AgentSpec, cwd: str) -> None:
        """Begin the session. Until this has returned, no prompt may be given."""
        opened: Opened = await open_session(self._link, spec, cwd)
        self._session_id = opened.session_id
        self.capabilities = replace(self.capabilities, can_resume=opened.can_resume)
        if self._translator.is_replaying:
            await self._wire.quiet(_QUIET_SECONDS, _QUIET_LIMIT_SECONDS)
            self._translator.is_replaying = False
        await self._outlet.put([BecameReady()])

    async def submit(self, prompt: Prompt) -> DeliveryStage:
        """Written is as far as is known at once: that the agent works on it shows later. One prompt at a time."""
        if self._translator.is_turn_open:
            raise NotDelivered("the agent is busy with the prompt before")
        self._wire.prompt_written.clear()
        self._prompting = asyncio.create_task(self._prompt(prompt.text))
        written = asyncio.create_task(self._wire.prompt_written.wait())
        try:
            await asyncio.wait((self._prompting, written), return_when=asyncio.FIRST_COMPLETED)
        finally:
            written.cancel()
        if not self._wire.prompt_written.is_set() and self._prompting.done():
            self._prompting.result()
        return DeliveryStage.TYPED

    async def _prompt(self, text: str) -> None:
        """One prompt to its end. How it ended is told where its answer passes; here only the writing can go wrong."""
        try:
            await self._link.prompt(self._session_id, text)
        except Refused:
            return
        except Gone as error:
            if not self._wire.prompt_written.is_set():
                raise NotDelivered("the agent is gone") from error

    async def interrupt(self) -> None:
        """Cancel the turn, and take back the questions that it left open, as the protocol wants it."""
        if not self._translator.is_turn_open:
            raise NotDelivered("no turn is open")
        await self._link.cancel(self._session_id)
        for question in list(self._translator.questions.values()):
            if not question.is_answered:
                await self._wire.write({"jsonrpc": "2.0", "id": question.rpc_id, "result": cancelled()})

    async def decide(self, decision: Decision) -> None:
        question = self._translator.questions.get(decision.request_id)
        if question is None or question.is_answered:
            raise NotDelivered(f"no question {decision.request_id!r} is open")
        reply: dict[str, Json] = {"jsonrpc": "2.0", "id": question.rpc_id, "result": answer(question, decision)}
        self._translator.answering(question, is_allowed=decision.is_allowed)
        try:
            await self._wire.write(reply)
        except NotDelivered:
            question.is_answered = False
            raise

    async def _told_all(self) -> None:
        await self._following
        if self._prompting is not None:
            await asyncio.gather(self._prompting, return_exceptions=True)

    async def _follow(self) -> None:
        """Tell the end, once everything before it is told."""
        await self._wire.over.wait()
        exited = await self._child.exited()
        self._outlet.close([*self._translator.ended(), exited])
        await self._link.close()
