"""Claude Code as a long-lived process that speaks stream-json on its pipes.

Laws:
1. Ready is proven: the first thing written is an `initialize` request, and `BecameReady` is its answer. (Claude Code
   says nothing else before its first prompt, and a session that cannot be resumed ends without answering.)
2. Each prompt carries an id that follows from its `prompt_id`, by which the agent says when it queued the prompt and
   when it began. A prompt that was answered in this session, before a resume too, is not taken again: it ends at once,
   `silent`, of the kind `prompt_known_already`. One whose turn died unanswered is taken again and done again, so that
   giving a prompt a second time is never safe in silence.
3. No command waits for the agent. What became of an interrupt or a decision is among the observations.
4. A turn that is open when the output ends is `silent`; then comes `Exited`.

Options of a spec: `permission_mode` (text: Claude Code's `--permission-mode`) and `max_rounds` (a number: its
`--max-turns`). Anything else of the program's own goes into `argv`, behind its name. Without a `permission_mode` the
person's own setting holds, and Claude Code's default asks for little.

An interrupt between turns ends the agent's background work. A session is on disk only some time after it was named: the
resume of one that was killed in its first second is stale.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import count
from typing import Final
from uuid import UUID, uuid5

import msgspec

from interlock.agents.observations import ChannelLost, Observation, Warned, traced
from interlock.agents.port import (
    AgentSpec,
    Capabilities,
    Decision,
    NotDelivered,
    ProcessIdentity,
    Prompt,
    StopReport,
)
from interlock.agents.processes.child import ChildProcess, inherited_environment
from interlock.agents.processes.lines import Line
from interlock.agents.processes.stopping import StopPolicy
from interlock.agents.streams.claude.lines import STALE_RESUME, ClaudeLines
from interlock.agents.streams.claude.questions import DECIDED, INITIALIZE, INTERRUPT, answer
from interlock.vocabulary.errors import PeerFault, UsageError
from interlock.vocabulary.events.audit import DeliveryStage
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import PromptId, SpawnId
from interlock.vocabulary.states import DriverKind

CAPABILITIES: Final = Capabilities(
    reports_approvals=True, streams_text=True, reports_usage=True, reports_thoughts=True, can_resume=True
)
_MODE: Final = (
    "-p",
    "--verbose",
    "--input-format",
    "stream-json",
    "--output-format",
    "stream-json",
    "--include-partial-messages",
    "--permission-prompt-tool",
    "stdio",
)
_OURS: Final = frozenset({"--input-format", "--output-format", "--permission-prompt-tool", "--resume", "-r"})
_PROMPT_SPACE: Final = UUID("6b0a2a3e-3c5f-5e0e-9a57-2f6d7e1c4b11")
# Set by Claude Code for what it starts; with it a Claude Code refuses to start.
_NESTED: Final = "CLAUDECODE"
# Claude Code then says when it works, waits for a person, and comes to rest.
_TELL_STATE: Final = "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS"
_EXIT_AFTER_OUTPUT_SECONDS: Final = 5.0


def prompt_uuid(prompt_id: PromptId) -> str:
    """The id by which the agent knows a prompt."""
    return str(uuid5(_PROMPT_SPACE, prompt_id))


class ClaudeStreamDriver:
    """Starts Claude Code in its stream-json mode."""

    name: Final = "claude-stream"
    kind: Final = DriverKind.STREAM
    capabilities: Final = CAPABILITIES

    def __init__(self, stop_policy: StopPolicy | None = None) -> None:
        self._stop_policy = stop_policy

    async def spawn(self, spec: AgentSpec, spawn_id: SpawnId) -> ClaudeStream:
        """Start an agent. Without an `argv` the program is `claude`, wherever the path finds it."""
        argv = command_line(spec)
        environment = inherited_environment({_TELL_STATE: "1", **spec.environment})
        if _NESTED not in spec.environment:
            environment.pop(_NESTED, None)
        child = await ChildProcess.start(argv, cwd=spec.cwd, environment=environment, spawn_id=spawn_id)
        try:
            await child.write(_control(INITIALIZE, {"subtype": "initialize"}))
        except PeerFault:
            pass  # It is over already, and its end will tell why.
        except BaseException:
            await child.stop(self._stop_policy)
            raise
        return ClaudeStream(child, spec, spawn_id, argv, self._stop_policy)


def command_line(spec: AgentSpec) -> tuple[str, ...]:
    """The program with what its mode needs. `UsageError` for options that are not known or are not the user's."""
    program, *own = spec.argv or ("claude",)
    taken = sorted({word.partition("=")[0] for word in own} & _OURS)
    if taken:
        raise UsageError(f"{', '.join(taken)} is set by the driver", remedy="leave it out, or use `resume` of the spec")
    # Behind the user's own words, which may begin with a launcher such as `npx` or `python -m`.
    words = [program, *own, *_MODE]
    for name, given in spec.options.items():
        words += _option(name, given)
    if spec.model:
        words += ["--model", spec.model]
    if spec.resume:
        words += ["--resume", spec.resume]
    return tuple(words)


def _option(name: str, given: Json) -> list[str]:
    match name, given:
        case "permission_mode", str():
            return ["--permission-mode", given]
        case "max_rounds", int() if given > 0 and not isinstance(given, bool):
            return ["--max-turns", str(given)]
        case _:
            remedy = "it knows permission_mode (a text) and max_rounds (a number above zero)"
            raise UsageError(f"claude-stream does not take the option {name!r} so", remedy=remedy)


class ClaudeStream:
    """One living Claude Code: an `AgentHandle`."""

    def __init__(
        self, child: ChildProcess, spec: AgentSpec, spawn_id: SpawnId, argv: tuple[str, ...], policy: StopPolicy | None
    ) -> None:
        self._child, self._policy = child, policy
        self._lines = ClaudeLines(is_resumed=bool(spec.resume))
        self._is_resumed = bool(spec.resume)
        self._interrupts = count(1)
        self._decided: set[str] = set()
        self._stopping = asyncio.Lock()
        self._report: StopReport | None = None
        self.spawn_id: Final = spawn_id
        self.capabilities: Final = CAPABILITIES
        self.argv: Final = argv
        self.process: Final[ProcessIdentity | None] = child.identity
        self.where: Final[Json] = None

    async def observations(self) -> AsyncIterator[Observation]:
        while (line := await self._child.next_line()) is not None:
            for seen in self._read(line):
                yield seen
            if refused := self._lines.asking.take_refusals():
                await self._refuse(refused)
        for seen in self._lines.end():
            yield seen
        exiting = asyncio.ensure_future(self._child.exited())
        try:
            await asyncio.wait((exiting,), timeout=_EXIT_AFTER_OUTPUT_SECONDS)
            if not exiting.done():
                yield ChannelLost(message="it closed its output and lives on")
            exited = await exiting
        finally:
            exiting.cancel()
        is_stale = self._lines.is_stale_resume or STALE_RESUME in exited.stderr_tail
        yield replace(exited, is_stale_resume=self._is_resumed and is_stale)

    async def submit(self, prompt: Prompt) -> DeliveryStage:
        """Write the prompt. `NotDelivered` also while a turn is open: the agent would mix the two."""
        if self._lines.has_open_turn:
            raise NotDelivered("a turn is open")
        uuid = prompt_uuid(prompt.prompt_id)
        message: Json = {"role": "user", "content": prompt.text}
        # First, since the agent may answer before the write returns.
        self._lines.prompt_written(uuid)
        try:
            await self._child.write(_line({"type": "user", "message": message, "uuid": uuid}))
        except NotDelivered:
            self._lines.prompt_withdrawn()
            raise
        return DeliveryStage.TYPED

    async def interrupt(self) -> None:
        await self._child.write(_control(f"{INTERRUPT}{next(self._interrupts)}", {"subtype": "interrupt"}))

    async def decide(self, decision: Decision) -> None:
        """Answer, and ask something harmless after it: the reply shows that the answer was read."""
        question = self._lines.asking.question(decision.request_id)
        if question is None or decision.request_id in self._decided:
            raise NotDelivered(f"no question {decision.request_id!r} is open")
        body: Json = {"subtype": "success", "request_id": decision.request_id, "response": answer(question, decision)}
        self._decided.add(decision.request_id)
        probe = _control(f"{DECIDED}{decision.request_id}", {"subtype": "mcp_status"})
        try:
            await self._child.write(_line({"type": "control_response", "response": body}) + probe)
        except NotDelivered:
            self._decided.discard(decision.request_id)
            raise

    async def stop(self) -> StopReport:
        async with self._stopping:
            if self._report is None:
                self._report = await self._child.stop(self._policy)
            return self._report

    async def release(self) -> None:
        """It cannot live without our pipes."""
        await self.stop()

    def _read(self, line: Line) -> list[Observation]:
        if line.is_cut:
            return [Warned(kind="line_too_long", message="its rest was skipped"), traced(line.data)]
        return self._lines.feed(line.data)

    async def _refuse(self, request_ids: list[str]) -> None:
        """Say no to what nobody here can answer. An agent that is over needs no answer."""
        for request_id in request_ids:
            body: Json = {"subtype": "error", "request_id": request_id, "error": "this client does not support it"}
            try:
                await self._child.write(_line({"type": "control_response", "response": body}))
            except PeerFault:
                return


def _control(request_id: str, request: Json) -> bytes:
    return _line({"type": "control_request", "request_id": request_id, "request": request})


def _line(frame: Json) -> bytes:
    return msgspec.json.encode(frame) + b"\n"
