"""Which calls may run: permission rules, the tool's own say, and the questions that wait for a person."""

from __future__ import annotations

import asyncio
from typing import Final

from interlock.agents.model.channel import LoopChannel
from interlock.agents.model.tools.tool import Arguments, Tool
from interlock.agents.observations import ApprovalAsked, ApprovalGone, ApprovalOption, OptionKind
from interlock.agents.port import Decision, NotDelivered
from interlock.lifecycle.decisions.permissions import PermissionVerdict, Rule, decide, remember
from interlock.lifecycle.decisions.shell_commands import is_shell_tool
from interlock.vocabulary.events.audit import PermissionBehavior

_ALLOW_ONCE: Final = "allow_once"
_ALLOW_ALWAYS: Final = "allow_always"
_DENY: Final = "deny"
OPTIONS: Final = (
    ApprovalOption(id=_ALLOW_ONCE, label="Allow once", kind=OptionKind.ALLOW_ONCE),
    ApprovalOption(id=_ALLOW_ALWAYS, label="Allow this tool from now on", kind=OptionKind.ALLOW_ALWAYS),
    ApprovalOption(id=_DENY, label="Deny", kind=OptionKind.REJECT_ONCE),
)
# A shell can do anything: what is allowed from now on is written as a rule, or not at all.
ONCE_ONLY: Final = tuple(option for option in OPTIONS if option.kind is not OptionKind.ALLOW_ALWAYS)


class Approvals:
    """The rules of one spawn, and its open questions. `layers` are lists of rules, each by itself: its own, and those
    of the agents above it. The strictest verdict holds."""

    def __init__(self, layers: tuple[tuple[Rule, ...], ...], channel: LoopChannel) -> None:
        self._layers = layers
        self._channel = channel
        self._open: dict[str, asyncio.Future[Decision]] = {}

    @property
    def rules(self) -> tuple[Rule, ...]:
        return tuple(rule for layer in self._layers for rule in layer)

    def judge(self, tool: Tool, arguments: Arguments, call_id: str) -> PermissionVerdict:
        """What the rules say of a call, made stricter by the tool's own say."""
        verdicts = [decide(layer, tool.name, arguments, call_id) for layer in self._layers]
        verdict = max(verdicts, key=lambda one: _STRICTNESS.index(one.behavior))
        try:
            own = tool.gate(arguments)
        except Exception:  # a gate of somebody's own that fails is no gate; what is not clearly a yes is a no
            own = PermissionBehavior.DENY
        is_stricter = _STRICTNESS.index(own) > _STRICTNESS.index(verdict.behavior)
        return PermissionVerdict(own, verdict.ground) if is_stricter else verdict

    async def ask(self, request_id: str, tool: Tool, arguments: Arguments, call_id: str) -> Decision:
        """Ask a person, and wait for the answer however long that takes: the turn has the clock."""
        answer: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()
        self._open[request_id] = answer
        question = ApprovalAsked(
            request_id=request_id,
            call_id=call_id,
            name=tool.name,
            args=arguments,
            question=f"May {tool.name} run?",
            options=ONCE_ONLY if is_shell_tool(tool.name) else OPTIONS,
        )
        await self._channel.tell(question)
        decision = await answer
        del self._open[request_id]
        if is_allowed(decision) and decision.option_id == _ALLOW_ALWAYS and not is_shell_tool(tool.name):
            remembered = remember(PermissionBehavior.ALLOW, tool.name)
            self._layers = tuple((*layer, remembered) for layer in self._layers)
        await self._channel.tell(ApprovalGone(request_id=request_id))
        return decision

    def answer(self, decision: Decision) -> None:
        """Take an answer. `NotDelivered` if the question is not open, or has one already."""
        waiting = self._open.get(decision.request_id)
        if waiting is None or waiting.done():
            raise NotDelivered(f"the question {decision.request_id!r} is not open")
        waiting.set_result(decision)

    def withdraw(self) -> None:
        """Take back every question that is still open."""
        for request_id, waiting in self._open.items():
            waiting.cancel()
            self._channel.tell_now(ApprovalGone(request_id=request_id, is_answered=False))
        self._open.clear()


_STRICTNESS: Final = (PermissionBehavior.ALLOW, PermissionBehavior.ASK, PermissionBehavior.DENY)


def is_allowed(decision: Decision) -> bool:
    """Whether the call may run. An answer that contradicts itself is a no."""
    return decision.is_allowed and decision.option_id != _DENY
