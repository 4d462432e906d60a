"""The page of states: every word that a surface may show, and what it claims.

Law: a word without a line here stops the build.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, TypeVar

from interlock.cli.exit_codes import exit_code_for_turn
from interlock.vocabulary.events.audit import DeliveryStage
from interlock.vocabulary.states import Activity, Attention, ExitReason, TaskStatus, TurnState
from tools.markdown import page, table

Word = TypeVar("Word", bound=StrEnum)

ACTIVITIES: Final[Mapping[Activity, str]] = {
    Activity.STARTING: "its process was asked for, and takes no prompt yet",
    Activity.WORKING: "a turn is open, and something shows that it goes on",
    Activity.SETTLING: "the turn ended, and work that it left in the background has not",
    Activity.QUIET: "no turn is open, and it would take a prompt",
    Activity.STALLED: "a turn is open, and nothing was heard of it for too long",
    Activity.GONE: "it is proven that no process runs",
    Activity.UNKNOWN: "nothing fresh says anything; it is never drawn as quiet",
}
ATTENTIONS: Final[Mapping[Attention, str]] = {
    Attention.NONE: "it needs nobody",
    Attention.APPROVAL: "it asks whether it may do something, or whether a folder is trusted",
    Attention.QUESTION: "it asks for an answer, or shows a dialog of another kind",
    Attention.PLAN: "it shows a plan, and waits for a yes",
    Attention.DECISION: "a step of its workflow waits for a decision; said of a badge only",
    Attention.AUTH: "it wants somebody to sign in",
    Attention.QUOTA: "a limit of its provider is reached",
    Attention.ERROR: "something went wrong that only a person can fix",
    Attention.HELD: "prompts wait, and the queue is paused; said of a badge only",
}
TURNS: Final[Mapping[TurnState, str]] = {
    TurnState.RUNNING: "it is open",
    TurnState.WAITING: "it is open, and waits for a person",
    TurnState.ABANDONED: "it is open, and it is proven that no server runs it any more; recovery will write its end",
    TurnState.UNKNOWN: "the log is damaged: events are lost that may have been its own, so nothing else is claimed;"
    " recovery writes no end over it",
    TurnState.COMPLETED: "a clean end, every tool call paired, and a clean answer after the last tool result;"
    " of an agent in a terminal only the end",
    TurnState.PARTIAL_FAILED: "it broke off or failed, and useful text was kept",
    TurnState.FAILED: "it broke off or failed, and nothing useful was kept",
    TurnState.INTERRUPTED: "somebody ended it; text that was there is kept as partial",
    TurnState.TIMED_OUT: "its budget of time ran out",
}
TASKS: Final[Mapping[TaskStatus, str]] = {
    TaskStatus.PENDING: "a prompt was accepted, and no turn is open",
    TaskStatus.RUNNING: "the turn is `running`",
    TaskStatus.PENDING_CONFIRMATION: "the turn is `waiting`, or the agent is blocked",
    TaskStatus.CANCELLING: "its end was asked for, and is not proven yet",
    TaskStatus.COMPLETED: "the last turn is `completed`",
    TaskStatus.FAILED: "the last turn is `partial_failed`, `failed` or `timed_out`",
    TaskStatus.CANCELLED: "the last turn is `interrupted`",
    TaskStatus.DELETE: "the session was deleted; nothing reopens it",
    TaskStatus.UNKNOWN: "the last turn is `abandoned` or `unknown`: no server runs it, or events of it are lost",
}
EXITS: Final[Mapping[ExitReason, str]] = {
    ExitReason.CLEAN: "it ended by itself, without an error",
    ExitReason.IDLE_TTL: "nobody used it for `idle_ttl_seconds`",
    ExitReason.STOPPED: "somebody stopped it, or the runtime did by a rule of its own",
    ExitReason.CRASHED: "it ended with an error or by a signal; it is started again, unless that happens too often",
    ExitReason.OOM: "the machine had no memory left for it",
    ExitReason.REPLACED: "another process of the same session took its place",
    ExitReason.UNCLEAN: "nobody saw its end",
}
RECEIPTS: Final[Mapping[DeliveryStage, str]] = {
    DeliveryStage.QUEUED: "it is in the log",
    DeliveryStage.TYPED: "it was written to the agent, or typed and entered",
    DeliveryStage.ACCEPTED: "the agent acknowledged it",
    DeliveryStage.STARTED: "the agent began to work on it",
    DeliveryStage.NOT_DELIVERED: "it provably had no effect",
    DeliveryStage.UNKNOWN: "it may have arrived, or not; it is not given again",
}


def states_page() -> str:
    """Every state that a surface may show."""
    turns = [(*row, _code_of(state)) for state, row in zip(TurnState, _rows(TurnState, TURNS), strict=True)]
    return page(
        "States",
        "Every word that a board, a command or a frame may show, and what it claims. A word is shown only while there"
        " is evidence for its claim: `interlock show` and `interlock why` print it. How one leads to another is drawn"
        " in [the machines](../machines/README.md).",
        "## Activity\n\nWhat an agent does: the first axis of a board.",
        table(("Activity", "Claims"), _rows(Activity, ACTIVITIES)),
        "## Attention\n\nWhat it needs: the second axis. *Blocked* is any attention but `none`, and *ready* is `quiet`"
        " and `none`.",
        table(("Attention", "Claims"), _rows(Attention, ATTENTIONS)),
        "## Turn\n\nHow one prompt stands, by the one classifier ([explained](../explanation/how-a-turn-ends.md)), and"
        " the exit code of a command that waits for it.",
        table(("Turn", "Claims", "Exit code"), turns),
        "## Task\n\nWhat clients are told of a session. Before its first prompt it has no status (null).",
        table(("Task", "When"), _rows(TaskStatus, TASKS)),
        "## Prompt\n\nThe receipts of a prompt, in the order in which it can get them.",
        table(("Receipt", "What is known"), _rows(DeliveryStage, RECEIPTS)),
        "## Exit\n\nWhy a process ended: the column END of `interlock session history`.",
        table(("Exit", "Means"), _rows(ExitReason, EXITS)),
    )


def _rows(words: type[Word], claims: Mapping[Word, str]) -> list[tuple[str, str]]:
    return [(f"`{word.value}`", claims[word]) for word in words]


def _code_of(state: TurnState) -> str:
    return str(int(exit_code_for_turn(state)))
