"""pi by `--mode rpc`: one process for a whole session.

No options; the model is `provider/id`. Its tools run at once, without a question; only extensions ask. A prompt that is
a command of an extension (`/name`) is carried out without a run of the agent, and its end is not told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import msgspec

from interlock.agents.observations import (
    ApprovalAsked,
    ApprovalGone,
    BecameReady,
    Observation,
    SessionNamed,
    TurnEnded,
    TurnEnding,
    Warned,
    traced,
)
from interlock.agents.port import (
    AgentSpec,
    Capabilities,
    Decision,
    DeliveryUnknown,
    NotDelivered,
    Prompt,
)
from interlock.agents.processes.child import ChildProcess, inherited_environment
from interlock.agents.processes.handle import ChildHandle
from interlock.agents.processes.lines import Line
from interlock.agents.streams.pi.lines import PiLines, answer
from interlock.vocabulary.errors import PeerFault, UsageError
from interlock.vocabulary.events.audit import DeliveryStage
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.foreign_json import decode_object, string
from interlock.vocabulary.ids import SpawnId
from interlock.vocabulary.states import DriverKind

CAPABILITIES: Final = Capabilities(
    streams_text=True, reports_usage=True, reports_thoughts=True, reports_approvals=True, can_resume=True
)
_ACCEPT_SECONDS: Final = 30.0
_DECIDED: Final = "interlock:decided:"
_STALE: Final = "No session found matching"


def pi_argv(spec: AgentSpec) -> tuple[str, ...]:
    """What is started for a spec."""
    if spec.options:
        raise UsageError(f"{spec.driver} has no options", remedy="leave them out")
    return (
        *(spec.argv or ("pi",)),
        *("--mode", "rpc"),
        *(("--model", spec.model) if spec.model else ()),
        *(("--session", spec.resume) if spec.resume else ()),
    )


class PiDriver:
    """See `Driver`."""

    name = "pi-rpc"
    kind = DriverKind.STREAM

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    async def spawn(self, spec: AgentSpec, spawn_id: SpawnId) -> PiHandle:
        """Start it. That a session to resume is unknown shows at its exit, as `is_stale_resume`."""
        argv = pi_argv(spec)
        environment = inherited_environment(spec.environment)
        child = await ChildProcess.start(argv, cwd=spec.cwd, environment=environment, spawn_id=spawn_id)
        return PiHandle(child, spawn_id, argv, is_resumed=bool(spec.resume))


class PiHandle(ChildHandle):
    """One living pi; see `AgentHandle`."""

    capabilities = CAPABILITIES

    def __init__(self, child: ChildProcess, spawn_id: SpawnId, argv: tuple[str, ...], *, is_resumed: bool) -> None:
        super().__init__(child, spawn_id, argv)
        self._is_resumed = is_resumed
        self._lines = PiLines()
        self._is_turn_open = False
        self._accepting: dict[str, asyncio.Future[str]] = {}
        self._asked: dict[str, ApprovalAsked] = {}
        self._answered: set[str] = set()
        self._reading = self._start_reader(self._read())

    async def submit(self, prompt: Prompt) -> DeliveryStage:
        """Give a prompt, and wait for the agent's word that it has it. A prompt that it refuses is not delivered."""
        if self._is_turn_open:
            raise NotDelivered("the agent is busy with the prompt before")
        self._is_turn_open = True
        accepted = self._accepting[prompt.prompt_id] = asyncio.get_running_loop().create_future()
        try:
            await self._write({"id": prompt.prompt_id, "type": "prompt", "message": prompt.text})
            async with asyncio.timeout(_ACCEPT_SECONDS):
                refusal = await accepted
        except TimeoutError:
            return DeliveryStage.TYPED
        except NotDelivered:
            self._is_turn_open = False
            raise
        finally:
            self._accepting.pop(prompt.prompt_id, None)
        if refusal:
            self._is_turn_open = False
            raise NotDelivered(f"the agent refused the prompt: {refusal[:500]}")
        return DeliveryStage.ACCEPTED

    async def interrupt(self) -> None:
        if not self._is_turn_open:
            raise NotDelivered("no turn is open")
        await self._write({"type": "abort"})

    async def decide(self, decision: Decision) -> None:
        """Answer an extension. It says nothing back; pi reads its input in order, so that its reply to a request that
        is written behind the answer shows that the answer was read."""
        asked = self._asked.get(decision.request_id)
        if asked is None or decision.request_id in self._answered:
            raise NotDelivered(f"no question {decision.request_id!r} is open")
        self._answered.add(decision.request_id)
        probe = msgspec.json.encode({"id": f"{_DECIDED}{decision.request_id}", "type": "get_state"})
        try:
            await self._child.write(msgspec.json.encode(answer(asked, decision)) + b"\n" + probe + b"\n")
        except NotDelivered:
            self._answered.discard(decision.request_id)
            raise

    async def _told_all(self) -> None:
        await self._reading

    async def _write(self, message: Json) -> None:
        await self._child.write(msgspec.json.encode(message) + b"\n")

    async def _read(self) -> None:
        try:
            await self._ask_state()
            async for line in self._child.lines():
                await self._outlet.put(self._noted(self._meaning(line)))
                if self._lines.wants_state:
                    self._lines.wants_state = False
                    await self._ask_state()
            last = self._noted(self._lines.ended())
            if self._is_turn_open:
                last.append(TurnEnded(ending=TurnEnding.SILENT))
        finally:
            for accepted in [one for one in self._accepting.values() if not one.done()]:
                accepted.set_exception(DeliveryUnknown("the agent ended before it said that it has the prompt"))
        exited = await self._child.exited()
        is_stale = self._is_resumed and _STALE in exited.stderr_tail
        self._outlet.close([*last, replace(exited, is_stale_resume=is_stale)])

    async def _ask_state(self) -> None:
        """Its answer names the session, and proves that nothing of an earlier run is still to come."""
        try:
            await self._write({"type": "get_state"})
        except PeerFault as error:
            await self._outlet.put([Warned(kind="pi_state_not_asked", message=str(error))])

    def _meaning(self, line: Line) -> list[Observation]:
        if line.is_cut or not line.is_whole:
            return [Warned(kind="line_not_ended", message="a line without its end"), traced(line.data)]
        event = decode_object(line.data)
        if event is not None and event.get("type") == "response" and event.get("command") == "prompt":
            self._accept(event)
            return []
        return [*self._read_by(event), *self._lines.feed(line.data)]

    def _read_by(self, event: Mapping[str, Json] | None) -> list[Observation]:
        """The question whose answer was read before this reply was written."""
        own_id = "" if event is None or event.get("type") != "response" else string(event.get("id"))
        request_id = own_id.removeprefix(_DECIDED) if own_id.startswith(_DECIDED) else ""
        if not request_id or self._asked.pop(request_id, None) is None:
            return []
        self._answered.discard(request_id)
        return [ApprovalGone(request_id=request_id)]

    def _accept(self, event: Mapping[str, Json]) -> None:
        accepted = self._accepting.get(string(event.get("id")))
        if accepted is not None and not accepted.done():
            refusal = "" if event.get("success") is True else string(event.get("error")) or "it gave no reason"
            accepted.set_result(refusal)

    def _noted(self, seen: list[Observation]) -> list[Observation]:
        """Keep count of the turn and its questions. The first name of the session is the sign that it takes prompts."""
        kept: list[Observation] = []
        for one in seen:
            match one:
                case SessionNamed():
                    kept += [one, BecameReady()]
                case ApprovalAsked(request_id=name):
                    self._asked[name] = one
                    kept.append(one)
                case TurnEnded() if self._is_turn_open:
                    self._is_turn_open = False
                    is_clean = one.ending is TurnEnding.NATURAL  # what it was told it has read
                    kept += [
                        ApprovalGone(request_id=name, is_answered=is_clean and name in self._answered)
                        for name in self._asked
                    ]
                    self._asked.clear()
                    self._answered.clear()
                    kept.append(one)
                case TurnEnded():
                    kept.append(Warned(kind="pi_end_without_turn", message=f"a run ended by itself: {one.ending}"))
                case _:
                    kept.append(one)
        return kept
