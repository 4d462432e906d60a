"""The tools of one round.

Laws:
1. Every call is told before any of them runs, in the model's order; then they run side by side.
2. A call that was told gets exactly one result that is told: from its tool, from a rule, from a person, or, where the
   turn ends first, from `settle`.
3. One call that waits for a person holds up no other call of its round.
4. What the model will be given is noted in the order in which it is told, so that the log says the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from interlock.agents.model.approvals import Approvals, is_allowed
from interlock.agents.model.calls import RequestedCall
from interlock.agents.model.channel import LoopChannel
from interlock.agents.model.tools.tool import Arguments, Tool, ToolCallOutcome, run_tool, settle_arguments
from interlock.agents.observations import ToolCalled, ToolReturned
from interlock.lifecycle.decisions.permissions import PermissionVerdict
from interlock.lifecycle.decisions.toolcall import EndKind
from interlock.lifecycle.stop_conditions import CallMade
from interlock.projections.replay.items import CallItem, ReplayItem, ResultItem
from interlock.vocabulary.events.audit import PermissionBehavior
from interlock.vocabulary.events.conversation import ToolError
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import CallId

_WHAT_IF_RUNNING: Final = "; it had begun, and may have had effects"


@dataclass(slots=True)
class _Open:
    """A call without a result."""

    is_running: bool = False


class Rounds:
    """The tool rounds of one turn. `items` is the turn's conversation, which grows by each call and result."""

    def __init__(
        self,
        turn_id: str,
        tools: Mapping[str, Tool],
        approvals: Approvals,
        channel: LoopChannel,
        items: list[ReplayItem],
    ) -> None:
        self._turn_id = turn_id
        self._tools = tools
        self._approvals = approvals
        self._channel = channel
        self._items = items
        self._seen_ids: set[str] = set()
        self._open: dict[str, _Open] = {}

    async def run(self, calls: Sequence[RequestedCall]) -> tuple[CallMade, ...]:
        """Run the calls of one answer, and say what became of each."""
        named = [(self._own_id(call), call) for call in calls]
        for call_id, call in named:
            args = call.args if not call.unreadable else call.unreadable
            self._open[call_id] = _Open()
            self._items.append(CallItem(call_id=CallId(call_id), name=call.name, args=args))
            await self._channel.tell(ToolCalled(call_id=call_id, name=call.name, args=args))
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._perform(call_id, call)) for call_id, call in named]
        return tuple(task.result() for task in tasks)

    def settle(self, kind: EndKind, message: str) -> None:
        """Give every call that is still open its result, because the turn is over. Tells without waiting."""
        self._approvals.withdraw()
        for call_id in list(self._open):
            told = message + (_WHAT_IF_RUNNING if self._open[call_id].is_running else "")
            self._channel.tell_now(
                self._close(call_id, ToolCallOutcome(error=ToolError(kind=kind.value, message=told)))
            )

    def _own_id(self, call: RequestedCall) -> str:
        """The call's id, made unique within the turn: some models use one again, or give none."""
        wanted = call.call_id.strip() or f"call_{len(self._seen_ids) + 1}"
        own, count = wanted, 1
        while own in self._seen_ids:
            count += 1
            own = f"{wanted}.{count}"
        self._seen_ids.add(own)
        return own

    async def _perform(self, call_id: str, call: RequestedCall) -> CallMade:
        outcome = await self._outcome(call_id, call)
        await self._channel.tell(self._close(call_id, outcome))
        return CallMade(name=call.name, args=call.args, is_failed=outcome.error is not None)

    def _close(self, call_id: str, outcome: ToolCallOutcome) -> ToolReturned:
        del self._open[call_id]
        is_ok = outcome.error is None
        self._items.append(ResultItem(call_id=CallId(call_id), ok=is_ok, output=outcome.output, error=outcome.error))
        return ToolReturned(call_id=call_id, output=outcome.output, error=outcome.error)

    async def _outcome(self, call_id: str, call: RequestedCall) -> ToolCallOutcome:
        tool = self._tools.get(call.name)
        if tool is None:
            return _failed("unknown_tool", f"there is no tool {call.name!r}; there are {', '.join(self._tools)}")
        if call.unreadable:
            return _failed("invalid_arguments", "the arguments are not a JSON object")
        arguments = settle_arguments(tool, call.args)
        if isinstance(arguments, ToolError):
            return ToolCallOutcome(error=arguments)
        refusal = await self._refusal(call_id, tool, arguments)
        if refusal is not None:
            return refusal
        self._open[call_id].is_running = True
        return await run_tool(tool, arguments)

    async def _refusal(self, call_id: str, tool: Tool, arguments: Arguments) -> ToolCallOutcome | None:
        """Why the call may not run; None where it may."""
        verdict = self._approvals.judge(tool, arguments, call_id)
        if verdict.behavior is PermissionBehavior.ALLOW:
            return None
        if verdict.behavior is PermissionBehavior.DENY:
            return _failed(EndKind.RULE_DENIED, _denied_by(verdict))
        decision = await self._approvals.ask(f"{self._turn_id}:{call_id}", tool, arguments, call_id)
        if is_allowed(decision):
            return None
        return _failed(EndKind.APPROVAL_DENIED, decision.text or "the user denied it")


def _failed(kind: str, message: str, details: Json = None) -> ToolCallOutcome:
    return ToolCallOutcome(error=ToolError(kind=str(kind), message=message, details=details))


def _denied_by(verdict: PermissionVerdict) -> str:
    rule = "" if verdict.rule is None else f" `{verdict.rule}`"
    return f"a rule forbids it{rule}"
