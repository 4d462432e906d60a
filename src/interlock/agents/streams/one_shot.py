"""Programs that take one prompt on their standard input, print lines until it is answered, and end.

Laws:
1. The process starts with the spawn and waits; the prompt comes by its input, so that no process listing shows it.
2. A process that ends without ending its turn ends it `silent`.
3. What a reader says after the end of the turn is told, except a second end of it, which is a warning.
4. It asks nothing and cannot be interrupted: whoever wants that drives the same agent by ACP.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, Protocol

from interlock.agents.observations import BecameReady, Exited, Observation, TurnEnded, TurnEnding, Warned, traced
from interlock.agents.port import AgentSpec, Capabilities, Decision, NotDelivered, Prompt
from interlock.agents.processes.child import ChildProcess, inherited_environment
from interlock.agents.processes.handle import ChildHandle
from interlock.agents.processes.lines import Line
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import DeliveryStage
from interlock.vocabulary.ids import SpawnId

CAPABILITIES: Final = Capabilities(
    streams_text=True, reports_usage=True, can_interrupt=False, can_resume=True, is_one_shot=True
)


class LineReader(Protocol):
    """What a program's lines mean. It never raises, whatever a line holds."""

    def feed(self, line: bytes) -> list[Observation]: ...


def choice(spec: AgentSpec, name: str, offered: frozenset[str]) -> str:
    """The one option that a driver has, or a blank. `UsageError` for another, or for a value that is not offered."""
    unknown = sorted(set(spec.options) - {name})
    if unknown:
        raise UsageError(f"{spec.driver} has no option {unknown[0]!r}", remedy=f"it has: {name}")
    value = spec.options.get(name, "")
    if value and value not in offered:
        raise UsageError(f"{name} cannot be {value!r}", remedy=f"choose from: {', '.join(sorted(offered))}")
    return str(value)


async def start(
    spec: AgentSpec, spawn_id: SpawnId, argv: tuple[str, ...], reader: LineReader, is_stale: Callable[[str], bool]
) -> OneShot:
    """Start the program. `is_stale` tells from its last words that the session to resume is unknown to it."""
    environment = inherited_environment(spec.environment)
    child = await ChildProcess.start(argv, cwd=spec.cwd, environment=environment, spawn_id=spawn_id)
    return OneShot(child, spawn_id, argv, reader, is_stale if spec.resume else None)


class OneShot(ChildHandle):
    """One run of such a program; see `AgentHandle`."""

    capabilities = CAPABILITIES

    def __init__(
        self,
        child: ChildProcess,
        spawn_id: SpawnId,
        argv: tuple[str, ...],
        reader: LineReader,
        is_stale: Callable[[str], bool] | None,
    ) -> None:
        super().__init__(child, spawn_id, argv)
        self._reader, self._is_stale = reader, is_stale
        self._has_prompt = self._has_ended = False
        self._reading = self._start_reader(self._read())

    async def submit(self, prompt: Prompt) -> DeliveryStage:
        """Write the prompt, once, and end the input."""
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
        raise NotDelivered("a program for one prompt cannot be interrupted; stop it")

    async def decide(self, decision: Decision) -> None:
        del decision
        raise NotDelivered("a program for one prompt asks nothing")

    async def _told_all(self) -> None:
        await self._reading

    async def _read(self) -> None:
        await self._outlet.put([BecameReady()])
        async for line in self._child.lines():
            await self._outlet.put(self._only_one_end(self._meaning(line)))
        is_silent = self._has_prompt and not self._has_ended
        last = [TurnEnded(ending=TurnEnding.SILENT)] if is_silent else []
        self._outlet.close([*last, self._explained(await self._child.exited())])

    def _meaning(self, line: Line) -> list[Observation]:
        if line.is_cut:
            return [Warned(kind="line_too_long", message=f"a line of over {len(line.data)} bytes"), traced(line.data)]
        if not line.is_whole:
            return [Warned(kind="line_not_ended", message="the agent died in mid-line"), traced(line.data)]
        return self._reader.feed(line.data)

    def _only_one_end(self, seen: list[Observation]) -> list[Observation]:
        kept: list[Observation] = []
        for one in seen:
            if isinstance(one, TurnEnded) and not self._has_prompt:  # its input ended, by our stop or its own
                kept.append(
                    Warned(
                        kind="result_without_prompt", message="the agent reported the end of a turn that had not begun"
                    )
                )
                continue
            if isinstance(one, TurnEnded) and self._has_ended:
                kept.append(Warned(kind="second_result", message=f"the agent ended its turn again: {one.ending}"))
                continue
            self._has_ended = self._has_ended or isinstance(one, TurnEnded)
            kept.append(one)
        return kept

    def _explained(self, exited: Exited) -> Exited:
        is_stale = self._is_stale is not None and exited.code != 0 and self._is_stale(exited.stderr_tail)
        return replace(exited, is_stale_resume=is_stale)
