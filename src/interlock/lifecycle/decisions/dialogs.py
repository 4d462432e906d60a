"""Dialogs: questions of an agent that are not known to be about one of its tool calls, such as those on a terminal.

Laws:
1. The state is a fold over `dialog_opened`, `dialog_answered`, `decision_undelivered` and `dialog_closed`; a dialog is
   closed once.
2. A dialog is answered once: the answer is persisted before anything is done about it, a repeat of it changes nothing,
   and another one is refused.
3. An option is chosen by its text. One that the dialog does not offer is refused, and so is a text where it takes none.
4. An answer that did not reach the agent is none: the dialog is open again.
5. An answer is confirmed only by evidence that the dialog is gone, which closes it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from interlock.lifecycle.table import Edge, Machine, from_each
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import DecisionUndelivered, DialogAnswered, DialogClosed, DialogOpened
from interlock.vocabulary.events.registry import Payload


class DialogState(StrEnum):
    """Where one dialog stands."""

    OPEN = "open"
    ANSWERED = "answered"
    CLOSED = "closed"


ANSWER, REOPEN, CLOSE = "answer", "reopen", "close"
TRANSITIONS: Final[tuple[Edge[DialogState, None], ...]] = (
    Edge(DialogState.OPEN, ANSWER, DialogState.ANSWERED),
    Edge(DialogState.ANSWERED, REOPEN, DialogState.OPEN),
    *from_each((DialogState.OPEN, DialogState.ANSWERED), CLOSE, DialogState.CLOSED),
)

MACHINE: Final = Machine(
    name="dialog",
    title="Dialog: asked, answered once, and gone by evidence",
    states=DialogState,
    initial=DialogState.OPEN,
    edges=TRANSITIONS,
    laws=__doc__,
    commands=frozenset({ANSWER}),
    observations=frozenset({REOPEN, CLOSE}),
    terminal=frozenset({DialogState.CLOSED}),
)


@dataclass(frozen=True, slots=True)
class Dialog:
    """One dialog, with its answer if it has one."""

    opened: DialogOpened
    state: DialogState = DialogState.OPEN
    answer: DialogAnswered | None = None


class Dialogs:
    """The dialogs of one session that are not closed, by id."""

    def __init__(self) -> None:
        self.open: dict[str, Dialog] = {}

    def add(self, data: Payload) -> None:
        """Fold one event. Total: what does not fit changes nothing."""
        match data:
            case DialogOpened(dialog_id=dialog_id):
                self.open.setdefault(dialog_id, Dialog(data))
            case DialogAnswered(dialog_id=dialog_id) if dialog_id in self.open:
                dialog = self.open[dialog_id]
                if dialog.state is DialogState.OPEN:
                    state = MACHINE.next_state(dialog.state, ANSWER, None)
                    self.open[dialog_id] = replace(dialog, state=state, answer=data)
            case DecisionUndelivered(target_id=dialog_id) if dialog_id in self.open:
                dialog = self.open[dialog_id]
                state = MACHINE.next_state(dialog.state, REOPEN, None)
                self.open[dialog_id] = replace(dialog, state=state, answer=None)
            case DialogClosed(dialog_id=dialog_id):
                self.open.pop(dialog_id, None)
            case _:
                pass

    def answer(self, given: DialogAnswered) -> DialogAnswered | None:
        """The event to append for an answer; None for a repeat. Refuses what the dialog does not take."""
        dialog = self.open.get(given.dialog_id)
        if dialog is None:
            raise UsageError(f"there is no open dialog {given.dialog_id}", remedy="look at what is asked now")
        if dialog.answer is not None:
            if (dialog.answer.option, dialog.answer.text) == (given.option, given.text):
                return None
            raise UsageError(f"dialog {given.dialog_id} was answered before", remedy="wait for the agent to move on")
        labels = [option.label for option in dialog.opened.options]
        if given.option and given.option not in labels:
            offered = ", ".join(repr(label) for label in labels) or "none"
            raise UsageError(f"dialog {given.dialog_id} has no option {given.option!r}", remedy=f"it offers {offered}")
        if not given.option and not given.text.strip():
            raise UsageError("an answer names an option or has a text", remedy="choose one of the options by its text")
        return given
