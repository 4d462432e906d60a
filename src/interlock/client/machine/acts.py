"""What a person does with a task, as far as it changes what is known of it: not at all, until the server has spoken.

Laws:
1. A prompt that was accepted makes the task doubtful until something newer is heard. It is no status.
2. A stop that was pressed is a wish. What takes it back is a refusal, or the server's word that it is settled.
3. An answer that was under way when somebody acted may know nothing of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from interlock.client.machine.frames import take_receipt
from interlock.client.machine.inputs import CancelAcked, CancelFailed, QueueHeld, SendAccepted, StopPressed
from interlock.client.machine.state import TaskState
from interlock.lifecycle.task_status import StatusClass, classify
from interlock.vocabulary.events.audit import DeliveryStage


def take_own_act(
    state: TaskState, input: SendAccepted | StopPressed | CancelAcked | CancelFailed | QueueHeld
) -> TaskState:
    match input:
        case SendAccepted():
            return _await_send(state, input)
        case StopPressed():
            is_over = classify(state.status) is StatusClass.TERMINAL
            pressed = replace(state, is_stopping=True, is_stop_taken=False)
            return state if is_over else _mark_flights(pressed, has_stop=True)
        case CancelAcked(is_delivered=True):
            return _mark_flights(replace(state, is_stop_taken=state.is_stopping), has_stop=True)
        case CancelAcked(problem=problem) | CancelFailed(problem=problem):
            return replace(state, is_stopping=False, problem=problem or "the stop did not reach the agent")
        case QueueHeld(count=count):
            return replace(state, queued_here=max(0, count))
        case unreachable:
            assert_never(unreachable)


def _await_send(state: TaskState, input: SendAccepted) -> TaskState:
    """The server took a prompt. Where the room has told of it already, there is nothing to wait for."""
    if any(one.prompt_id == input.prompt_id for one in state.receipts):
        return state
    state = take_receipt(state, input.prompt_id, DeliveryStage.QUEUED)
    return _mark_flights(replace(state, awaiting_after=state.version), has_send=True)


def _mark_flights(state: TaskState, *, has_send: bool = False, has_stop: bool = False) -> TaskState:
    """What is under way was asked before this, and its answer may know nothing of it."""
    check, joining = state.check, state.joining
    if check is not None:
        check = replace(check, saw_send=check.saw_send or has_send, saw_stop=check.saw_stop or has_stop)
    if joining is not None:
        joining = replace(joining, saw_send=joining.saw_send or has_send, saw_stop=joining.saw_stop or has_stop)
    return replace(state, check=check, joining=joining)
