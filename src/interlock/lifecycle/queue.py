"""The send queue of one session: prompts that were accepted and not yet given to the agent.

Laws:
1. The queue is a fold over `queue_event`, `queue_gate` and `delivery_receipt`: what is not in the log is not queued.
2. Prompts leave in the order in which they came. An id that was ever used is never queued again: a repeat is the same
   prompt, and the same id with other words is refused.
3. A prompt is edited or removed only while it is queued. What is dispatched is never queued again: whoever wants it
   sent twice sends another one.
4. A receipt never goes back, except that `unknown` gives way to whatever is known. `not_delivered` is an end. What was
   accepted did arrive: it never becomes `unknown` or `not_delivered`.
5. While the gate is closed nothing is dispatched; prompts are still accepted.
6. A prompt that was read back from the log without a secret that it held (`is_redacted`) is not dispatched as it is:
   the gate stays closed until it is edited or removed. A repeat of it is the same prompt if it agrees with all that
   the log kept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from interlock.lifecycle.table import Edge, Machine
from interlock.vocabulary.errors import ContractError, UsageError
from interlock.vocabulary.events.audit import (
    DeliveryReceipt,
    DeliveryStage,
    QueueEvent,
    QueueEventKind,
    QueueGate,
    ReplyContract,
)
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.ids import PromptId
from interlock.vocabulary.states import PromptState

TRANSITIONS: Final[tuple[Edge[PromptState, None], ...]] = (
    Edge(PromptState.QUEUED, QueueEventKind.EDITED, PromptState.QUEUED),
    Edge(PromptState.QUEUED, QueueEventKind.REMOVED, PromptState.REMOVED),
    Edge(PromptState.QUEUED, QueueEventKind.DISPATCHED, PromptState.DISPATCHED),
)

MACHINE: Final = Machine(
    name="prompt",
    title="Prompt: from its acceptance to the agent, once",
    states=PromptState,
    initial=PromptState.QUEUED,
    edges=TRANSITIONS,
    laws=__doc__,
    commands=frozenset({QueueEventKind.EDITED, QueueEventKind.REMOVED, QueueEventKind.DISPATCHED}),
    terminal=frozenset({PromptState.DISPATCHED, PromptState.REMOVED}),
)

_LOST: Final = "prompt {} held a secret, which the log does not keep"
_MEND: Final = "edit it with its whole text, or remove it"
_PROGRESS: Final = (DeliveryStage.QUEUED, DeliveryStage.TYPED, DeliveryStage.ACCEPTED, DeliveryStage.STARTED)


@dataclass(frozen=True, slots=True)
class QueuedPrompt:
    """One prompt. `stage` is how far it is known to have got. `is_redacted`: the secret in its text is lost.
    `waits_for`: what keeps it from an agent that is ready."""

    prompt_id: PromptId
    text: str
    state: PromptState = PromptState.QUEUED
    stage: DeliveryStage = DeliveryStage.QUEUED
    is_redacted: bool = False
    waits_for: str = ""
    reply: ReplyContract | None = None

    def says(self, text: str) -> bool:
        """Whether this is the same text, as far as it is known."""
        if not self.is_redacted or len(text) != len(self.text):
            return text == self.text
        return all(kept in (given, "*") for kept, given in zip(self.text, text, strict=True))


class SendQueue:
    """Every prompt of a session, oldest first. Commands give the event to append, and change nothing themselves."""

    def __init__(self) -> None:
        self.prompts: dict[PromptId, QueuedPrompt] = {}
        self._queued: dict[PromptId, None] = {}  # in order, so that the head costs the same however long the history
        self.is_open = True
        self.gate_reason = ""
        self.is_paused = False  # a person closed the gate; otherwise a limit or a failure did
        self._kept: PromptId | None = None  # the prompt of the last receipt that said what keeps it

    def add(self, data: Payload) -> None:
        """Fold one event. Total: what does not fit changes nothing."""
        match data:
            case QueueEvent(kind=QueueEventKind.QUEUED, prompt_id=prompt_id, text=text):
                if prompt_id not in self.prompts:
                    self.prompts[prompt_id] = QueuedPrompt(
                        prompt_id, text, is_redacted=data.is_redacted, reply=data.reply
                    )
                    self._queued[prompt_id] = None
            case QueueEvent(prompt_id=prompt_id) if prompt_id in self.prompts:
                self._move(self.prompts[prompt_id], data)
            case DeliveryReceipt(prompt_id=prompt_id, stage=stage, waits_for=waits_for) if prompt_id in self.prompts:
                prompt = self.prompts[prompt_id]
                if is_progress(prompt.stage, stage):
                    self.prompts[prompt_id] = replace(prompt, stage=stage, waits_for="")
                elif prompt.stage is stage is DeliveryStage.QUEUED:
                    self._kept = prompt_id
                    self.prompts[prompt_id] = replace(prompt, waits_for=waits_for)
            case QueueGate(is_open=is_open, reason=reason, decided_by=who):
                self.is_open, self.gate_reason = is_open, "" if is_open else reason
                self.is_paused = not is_open and bool(who)
            case _:
                pass

    def _move(self, prompt: QueuedPrompt, event: QueueEvent) -> None:
        if prompt.state is PromptState.QUEUED:
            state = MACHINE.next_state(prompt.state, event.kind, None)
            if event.kind is QueueEventKind.EDITED:
                prompt = replace(prompt, text=event.text, is_redacted=event.is_redacted)
            waits_for = prompt.waits_for if state is PromptState.QUEUED else ""
            self.prompts[prompt.prompt_id] = replace(prompt, state=state, waits_for=waits_for)
            if state is not PromptState.QUEUED:
                del self._queued[prompt.prompt_id]

    @property
    def waiting(self) -> tuple[QueuedPrompt, ...]:
        """What is to be sent, in order."""
        return tuple(self.prompts[prompt_id] for prompt_id in self._queued)

    @property
    def head(self) -> QueuedPrompt | None:
        """What is to be sent next, whether or not the gate is open."""
        for prompt_id in self._queued:
            return self.prompts[prompt_id]
        return None

    @property
    def waits_for(self) -> str:
        """What keeps a prompt from an agent that is ready; blank: nothing."""
        return "" if self._kept is None else self.prompts[self._kept].waits_for

    def accept(self, prompt_id: PromptId, text: str, reply: ReplyContract | None = None) -> QueueEvent | None:
        """Queue a prompt; None if it was accepted before, word for word."""
        known = self.prompts.get(prompt_id)
        if known is None:
            if not text.strip():
                raise UsageError("a prompt must not be blank", remedy="write something for the agent to do")
            return QueueEvent(kind=QueueEventKind.QUEUED, prompt_id=prompt_id, text=text, reply=reply)
        if known.state is PromptState.REMOVED:
            raise UsageError(f"prompt {prompt_id} was removed from the queue", remedy="send it under another id")
        if not known.says(text):
            raise UsageError(
                f"prompt {prompt_id} was accepted before with other words", remedy="give every prompt an id of its own"
            )
        return None

    def edit(self, prompt_id: PromptId, text: str) -> QueueEvent:
        """Change a prompt that was not sent yet."""
        self._refuse_unless_queued(prompt_id, "edited")
        if not text.strip():
            raise UsageError("a prompt must not be blank", remedy="remove it from the queue instead")
        return QueueEvent(kind=QueueEventKind.EDITED, prompt_id=prompt_id, text=text)

    def remove(self, prompt_id: PromptId) -> QueueEvent:
        """Take back a prompt that was not sent yet."""
        self._refuse_unless_queued(prompt_id, "removed")
        return QueueEvent(kind=QueueEventKind.REMOVED, prompt_id=prompt_id)

    def gate(self, *, is_open: bool, reason: str = "", decided_by: str = "") -> QueueGate:
        """Hold back what waits, or let it go."""
        if is_open and self._lost is not None:
            raise UsageError(_LOST.format(self._lost.prompt_id), remedy=_MEND)
        return QueueGate(is_open=is_open, reason=reason, decided_by=decided_by)

    def hold_redacted(self) -> QueueGate | None:
        """After the log was read back: close the gate for a prompt whose secret is lost. None: there is none."""
        lost = self._lost if self.is_open else None
        return None if lost is None else QueueGate(is_open=False, reason=f"{_LOST.format(lost.prompt_id)}: {_MEND}")

    @property
    def _lost(self) -> QueuedPrompt | None:
        return next((prompt for prompt in self.waiting if prompt.is_redacted), None)

    def dispatch(self, prompt_id: PromptId) -> QueueEvent:
        """Our own command: the prompt goes out. Only the head, and only through an open gate."""
        if not self.is_open or self.head is None or self.head.prompt_id != prompt_id:
            raise ContractError(f"prompt {prompt_id} cannot be dispatched: it is not the head of an open queue")
        return QueueEvent(kind=QueueEventKind.DISPATCHED, prompt_id=prompt_id)

    def _refuse_unless_queued(self, prompt_id: PromptId, done: str) -> None:
        known = self.prompts.get(prompt_id)
        if known is None:
            raise UsageError(f"there is no prompt {prompt_id} in this queue", remedy="list the queue")
        if known.state is not PromptState.QUEUED:
            raise UsageError(
                f"prompt {prompt_id} is {known.state.value} and cannot be {done}",
                remedy="send another, or cancel the turn",
            )


def is_progress(before: DeliveryStage, now: DeliveryStage) -> bool:
    """Whether a receipt tells more than the one before it."""
    if before is DeliveryStage.NOT_DELIVERED or before is now:
        return False
    if before is DeliveryStage.UNKNOWN:
        return now is not DeliveryStage.QUEUED
    if now in (DeliveryStage.UNKNOWN, DeliveryStage.NOT_DELIVERED):
        return before in (DeliveryStage.QUEUED, DeliveryStage.TYPED)
    return _PROGRESS.index(now) > _PROGRESS.index(before)
