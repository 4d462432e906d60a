"""Codex by `exec --json`: one process for one prompt.

Laws:
1. The process starts with the spawn and waits; the prompt comes by its standard input, so that no process listing shows
   it, whatever it begins with and however long it is.
2. A process that ends without ending the turn ends it `silent`, or by the error that it told last.
3. It asks nothing and cannot be interrupted: whoever wants that runs the app-server.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Final

from interlock.agents.observations import BecameReady, Observation, TurnEnded
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
from interlock.agents.streams.codex.exec_lines import CodexLines
from interlock.agents.streams.codex.options import SANDBOX, check_resume, is_stale, options_of, program
from interlock.vocabulary.events.audit import DeliveryStage
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import SpawnId
from interlock.vocabulary.states import DriverKind

CAPABILITIES: Final = Capabilities(
    reports_usage=True, reports_thoughts=True, can_interrupt=False, can_resume=True, is_one_shot=True
)


def exec_argv(spec: AgentSpec) -> tuple[str, ...]:
    """What is started for a spec. `UsageError` or `StaleResume` for one that cannot work."""
    options = options_of(spec, {"sandbox": SANDBOX})
    check_resume(spec.resume)
    model = ("--model", spec.model) if spec.model else ()
    sandbox = ("--sandbox", options["sandbox"]) if "sandbox" in options else ()
    resume = ("resume", spec.resume) if spec.resume else ()
    return (*program(spec), "exec", "--json", "--skip-git-repo-check", *model, *sandbox, *resume, "-")


class CodexExecDriver:
    """Starts `codex exec --json`. Option: `sandbox`."""

    name = "codex-exec"
    kind = DriverKind.STREAM
    capabilities = CAPABILITIES

    async def spawn(self, spec: AgentSpec, spawn_id: SpawnId) -> CodexExec:
        """Start it. That a session to resume is unknown shows only at its exit, as `is_stale_resume`."""
        argv = exec_argv(spec)
        environment = inherited_environment(spec.environment)
        child = await ChildProcess.start(argv, cwd=spec.cwd, environment=environment, spawn_id=spawn_id)
        return CodexExec(child, spawn_id, argv, spec.resume)


class CodexExec:
    """One run. Made by the driver; see `AgentHandle`."""

    capabilities = CAPABILITIES
    where: Json = None

    def __init__(self, child: ChildProcess, spawn_id: SpawnId, argv: tuple[str, ...], resume: str) -> None:
        self.spawn_id = spawn_id
        self.argv = argv
        self._child = child
        self._resume = resume
        self._lines = CodexLines(resume=resume)
        self._has_prompt = False

    @property
    def process(self) -> ProcessIdentity:
        return self._child.identity

    async def observations(self) -> AsyncIterator[Observation]:
        yield BecameReady()
        async for line in self._child.lines():
            for seen in self._lines.read(line):
                if self._has_prompt or not isinstance(seen, TurnEnded):  # the end of its input alone begins no turn
                    yield seen
        ended = await self._child.exited()
        if self._has_prompt:
            for seen in self._lines.ended():
                yield seen
        has_failed = ended.code not in (0, None)
        is_stale_resume = bool(self._resume) and has_failed and is_stale(ended.stderr_tail)
        yield replace(ended, is_stale_resume=is_stale_resume)

    async def submit(self, prompt: Prompt) -> DeliveryStage:
        """Write the prompt, once. `typed`: it is in the pipe."""
        if self._has_prompt:
            raise NotDelivered("this process has its prompt already, and takes no other")
        self._has_prompt = True
        try:
            await self._child.write(prompt.text.encode("utf-8", "replace"))
        except NotDelivered:
            self._has_prompt = False
            raise
        self._child.end_input()
        return DeliveryStage.TYPED

    async def interrupt(self) -> None:
        raise NotDelivered("codex exec cannot be interrupted; stop it")

    async def decide(self, decision: Decision) -> None:
        raise NotDelivered("codex exec asks nothing")

    async def stop(self) -> StopReport:
        return await self._child.stop()

    async def release(self) -> None:
        await self.stop()
