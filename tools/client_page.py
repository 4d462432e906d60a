"""`docs/machines/client.md`: the client's machine of one task, from its code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, get_args

from interlock.client.machine import task_machine as machine
from interlock.client.machine.inputs import CheckReason, Output, TaskInput
from interlock.client.machine.probe import PROBE
from interlock.client.machine.state import SYNC_MOVES, SyncState
from interlock.client.machine.task_machine import CHECK_SECONDS, JOIN_SECONDS, MAX_EARLY
from tools.markdown import page, table, told

STATES: Final[Mapping[SyncState, str]] = {
    SyncState.IDLE: "open, and outside the room: nothing is missing, or a check has yet to say what is",
    SyncState.WAITING_SOCKET: "something is missing that only the room can give, and there is no socket",
    SyncState.JOINING: "a join or a resume is under way, with a deadline",
    SyncState.JOINED: "in the room: what is shown is what the room said up to the last tick",
    SyncState.ERROR: "the server refused, and asking again is for a person",
    SyncState.CLOSED: "nobody looks at the task; nothing is asked",
}
"""What each state means. A state without words here is a mistake, and stops the build."""


def client_page() -> str:
    """The whole page."""
    figures = (
        ("a check is given up after", f"{CHECK_SECONDS:g} s"),
        ("a join is given up after", f"{JOIN_SECONDS:g} s"),
        ("the probe looks after", f"{PROBE.grace_seconds:g} s of doubt"),
        ("while looking fails, it waits up to", f"{PROBE.cap_seconds:g} s, twice as long each time"),
        ("frames that came too early and wait for their turn", f"{MAX_EARLY} at most"),
    )
    return page(
        "client",
        told(machine),
        "Why it is made like this is told in [clients that converge](../explanation/clients-that-converge.md). Its"
        " semantics are also data: [the vectors](../../vectors/README.md) list inputs, outputs and every field of its"
        " state.",
        "## Its side of the room",
        f"```mermaid\n{diagram()}\n```",
        table(("State", "Means", "One input may lead to"), (_state_row(state) for state in SyncState)),
        "Every input may also leave the state as it is. The status of the task is not in this diagram: it is the"
        " server's, which folds it from the log: [states](../reference/states.md).",
        "## Inputs",
        table(("Input", "What it says"), ((f"`{one.__name__}`", told(one)) for one in _members(TaskInput))),
        "## Outputs",
        table(("Output", "What is asked for"), ((f"`{one.__name__}`", told(one)) for one in _members(Output))),
        "## Reasons for a check",
        told(CheckReason),
        ", ".join(f"`{reason.value}`" for reason in CheckReason) + ".",
        "## Figures",
        table(("What", "How much"), figures),
    )


def diagram() -> str:
    """The moves as Mermaid, in the order of the enum."""
    arrows = [f"    {source} --> {target}" for source in SyncState for target in _targets(source)]
    return "\n".join(("stateDiagram-v2", f"    [*] --> {SyncState.CLOSED}", *arrows))


def _targets(source: SyncState) -> list[SyncState]:
    return [state for state in SyncState if state in SYNC_MOVES[source]]


def _state_row(state: SyncState) -> tuple[str, str, str]:
    return f"`{state}`", STATES[state], ", ".join(f"`{target}`" for target in _targets(state))


def _members(union: object) -> tuple[type, ...]:
    return get_args(union)
