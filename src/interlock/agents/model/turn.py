"""One turn of the model loop: ask, tell, run tools, judge, ask again.

Laws:
1. A turn ends with exactly one `TurnEnded`, told last, however it ends: interrupted at any await, or by the wall clock
   during a call, a tool or a wait. By then every call that was told has its result, and no task of the turn lives.
2. What the model is asked is the history, the prompt and what was told since, in that order and nothing else; only the
   request to go on after a cut answer is said and not kept.
3. Text of a message counts once its answer is whole. A dead attempt's text is voided.
4. A natural end is natural, also on the last round. An empty answer is told as it is; somebody else judges it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from interlock.agents.model.approvals import Approvals
from interlock.agents.model.attempts import Attempts, RetryPolicy
from interlock.agents.model.calls import (
    CallFault,
    CallUsage,
    FaultKind,
    ModelAnswer,
    ModelCaller,
    ModelQuestion,
    ToolOffer,
)
from interlock.agents.model.channel import LoopChannel
from interlock.agents.model.compaction import compact, is_critical
from interlock.agents.model.round import Rounds
from interlock.agents.model.tools.tool import Tool
from interlock.agents.observations import (
    ContextFilled,
    MessageEnded,
    PromptReached,
    ReasoningKept,
    TurnEnded,
    TurnEnding,
    UsageReported,
    UsageScope,
    Warned,
)
from interlock.lifecycle.decisions.permissions import is_unconditional_deny
from interlock.lifecycle.decisions.toolcall import EndKind
from interlock.lifecycle.stop_conditions import (
    DEFAULT_CONDITIONS,
    LoopProgress,
    Stop,
    StopCondition,
    after_round,
    judge,
    wall_clock_seconds,
)
from interlock.projections.replay.items import AssistantText, ReasoningItem, ReplayItem, UserText
from interlock.vocabulary.events.audit import DeliveryStage
from interlock.vocabulary.events.conversation import CompactionTrigger
from interlock.vocabulary.run import StopCode

MAX_CONTINUATIONS: Final = 3
CONTINUE: Final = "Your answer was cut off. Go on exactly where it stopped, without repeating anything."


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopPolicy:
    """What holds for every turn of a spawn."""

    instructions: str = ""
    conditions: tuple[StopCondition, ...] = DEFAULT_CONDITIONS
    retry: RetryPolicy = field(default_factory=RetryPolicy)


class Turn:
    """One prompt. `run` it in one task; `interrupt` may be called from any."""

    def __init__(
        self,
        *,
        turn_id: str,
        history: list[ReplayItem],
        prompt: str,
        caller: ModelCaller,
        tools: Mapping[str, Tool],
        policy: LoopPolicy,
        approvals: Approvals,
        channel: LoopChannel,
        used_tokens: int | None = None,
    ) -> None:
        """`used_tokens`: how full the context was at the end of the turn before."""
        self._turn_id = turn_id
        self._older = len(history)
        self._items: list[ReplayItem] = [*history, UserText(text=prompt)]
        self._caller = caller
        self._policy = policy
        self._channel = channel
        self._approvals = approvals
        self._tools = tools
        self._attempts = Attempts(caller, policy.retry, channel)
        self._rounds = Rounds(turn_id, tools, approvals, channel, self._items)
        self._progress = LoopProgress()
        self._tokens = 0
        self._began_seconds = 0.0
        self._work: asyncio.Task[TurnEnded] | None = None
        self._is_interrupted = False
        self.used_tokens = used_tokens

    async def run(self) -> None:
        """Run to the end. Raises only where the task itself is cancelled, after all is told."""
        self._work = asyncio.create_task(self._within_time())
        if self._is_interrupted:
            self._work.cancel()
        try:
            await asyncio.wait((self._work,))
        except asyncio.CancelledError:
            self._work.cancel()
            await asyncio.wait((self._work,))
            raise
        finally:
            self._end(_ending(self._work))

    def interrupt(self) -> None:
        """End the turn at the await where it stands. The second time does nothing."""
        if self._work is not None and not self._is_interrupted:
            self._work.cancel()
        self._is_interrupted = True

    def _end(self, ended: TurnEnded) -> None:
        match ended:
            case TurnEnded(stop_code=StopCode.TIMEOUT):
                self._rounds.settle(EndKind.RUN_TIMED_OUT, "the turn's time was over")
            case TurnEnded(ending=TurnEnding.INTERRUPTED):
                self._rounds.settle(EndKind.RUN_CANCELLED, "the turn was interrupted")
            case _:
                self._rounds.settle(EndKind.OUTCOME_UNKNOWN, "the turn ended before the call did")
        self._channel.tell_now(ended)

    async def _within_time(self) -> TurnEnded:
        limit = wall_clock_seconds(self._policy.conditions)
        self._began_seconds = asyncio.get_running_loop().time()
        clock = asyncio.timeout(limit)
        try:
            async with clock:
                return await self._loop()
        except TimeoutError:
            if not clock.expired():
                raise
            return self._stopped(Stop(StopCode.TIMEOUT, f"{limit:g} seconds are over"))

    async def _loop(self) -> TurnEnded:
        await self._channel.tell(PromptReached(stage=DeliveryStage.STARTED))
        while True:
            answer = await self._answer()
            await self._tell_answer(answer)
            calls = await self._rounds.run(answer.calls)
            self._progress = after_round(self._progress, calls=calls, text=answer.text, tokens=self._tokens)
            self._tokens = 0
            stop = judge(self._policy.conditions, self._progress, self._elapsed_seconds)
            if stop is not None:
                return self._stopped(stop)
            if self._progress.is_natural_end:
                return TurnEnded(ending=TurnEnding.NATURAL, text=answer.text)

    def _stopped(self, stop: Stop) -> TurnEnded:
        progress = self._progress
        return TurnEnded(
            ending=TurnEnding.STOPPED,
            stop_code=stop.code.value,
            error_message=stop.detail,
            text=progress.text if stop.code in (StopCode.TOOL_CALLED, StopCode.CONTENT_MATCHED) else None,
            details={
                "rounds": progress.rounds,
                "tokens": progress.tokens + self._tokens,
                "elapsed_seconds": self._elapsed_seconds,
                "budget_seconds": wall_clock_seconds(self._policy.conditions),
            },
        )

    @property
    def _elapsed_seconds(self) -> float:
        return asyncio.get_running_loop().time() - self._began_seconds

    async def _answer(self) -> ModelAnswer:
        """The next whole answer. Room is made first where it is short, and once where the provider says so."""
        if is_critical(self.used_tokens, self._caller.window_tokens):
            await self._make_room(CompactionTrigger.CRITICAL_PRESSURE)
        try:
            return await self._whole_answer()
        except CallFault as fault:
            if fault.kind is not FaultKind.CONTEXT_OVERFLOW or not self._older:
                raise
        await self._make_room(CompactionTrigger.OVERFLOW_RECOVERY)
        return await self._whole_answer()

    async def _make_room(self, trigger: CompactionTrigger) -> None:
        if not self._older:
            return
        made = await compact(self._caller, self._items[: self._older], trigger)
        if made.usage is not None:
            await self._tell_usage(made.usage, "")
        await self._channel.tell(made.told())
        self._items[: self._older] = [made.memory]
        self._older = 0  # what stands there now is a summary already
        self.used_tokens = None

    async def _whole_answer(self) -> ModelAnswer:
        """An answer; one that was cut by its length is continued, as far as that is allowed."""
        message_id = f"{self._turn_id}.{self._progress.rounds + 1}"
        answer = await self._ask(self._items, message_id, "")
        for _ in range(MAX_CONTINUATIONS):
            if not answer.is_truncated or answer.calls or not answer.text.strip():
                break
            items = [*self._items, AssistantText(text=answer.text), UserText(text=CONTINUE)]
            more = await self._ask(items, message_id, answer.text)
            answer = replace(more, text=answer.text + more.text)
        if answer.is_truncated:
            await self._channel.tell(Warned(kind="output_truncated", message="the answer was cut at its length limit"))
        return answer

    async def _ask(self, items: list[ReplayItem], message_id: str, so_far: str) -> ModelAnswer:
        question = ModelQuestion(items=tuple(items), instructions=self._policy.instructions, tools=self._offers())
        answer = await self._attempts.ask(question, message_id, so_far)
        await self._tell_usage(answer.usage, answer.model)
        return answer

    def _offers(self) -> tuple[ToolOffer, ...]:
        rules = self._approvals.rules
        return tuple(tool.offer for tool in self._tools.values() if not is_unconditional_deny(rules, tool.name))

    async def _tell_usage(self, usage: CallUsage, model: str) -> None:
        self._tokens += usage.total
        await self._channel.tell(
            UsageReported(
                scope=UsageScope.CALL,
                model=model or self._caller.name,
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cached_input_tokens=usage.cached_input_tokens,
                cost_usd=usage.cost_usd,
            )
        )
        window = self._caller.window_tokens
        if usage.input_tokens is not None and window is not None:
            self.used_tokens = usage.total
            await self._channel.tell(ContextFilled(used_tokens=usage.total, window_tokens=window))

    async def _tell_answer(self, answer: ModelAnswer) -> None:
        """Tell a whole answer. The order is that of the items, which the log will repeat."""
        for item in answer.reasoning:
            self._items.append(ReasoningItem(item=item))
            await self._channel.tell(ReasoningKept(item=item, model=self._caller.name))
        if answer.text.strip():
            self._items.append(AssistantText(text=answer.text))
            message_id = f"{self._turn_id}.{self._progress.rounds + 1}"
            await self._channel.tell(MessageEnded(text=answer.text, message_id=message_id, model=answer.model))


def _ending(work: asyncio.Task[TurnEnded]) -> TurnEnded:
    """How the work ended, in words."""
    if work.cancelled():
        return TurnEnded(ending=TurnEnding.INTERRUPTED)
    wrong = work.exception()
    match wrong:
        case None:
            return work.result()
        case CallFault(kind=kind):
            return TurnEnded(ending=TurnEnding.ERROR, error_kind=kind.value, error_message=str(wrong))
        case _:
            message = f"{type(wrong).__name__}: {wrong}"
            return TurnEnded(ending=TurnEnding.ERROR, error_kind="internal", error_message=message)
