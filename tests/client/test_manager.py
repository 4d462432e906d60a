"""Every open task has its machine, and hears what concerns it."""

from __future__ import annotations

import msgspec

from interlock.client.machine.inputs import (
    CheckAnswered,
    CheckReason,
    EnsureConnected,
    Join,
    JoinAcked,
    Leave,
    PullRuntime,
)
from interlock.client.machine.manager import Outputs, TaskStateManager
from interlock.client.machine.state import SyncState, TaskState
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.wire.frames import RuntimeCheck, TaskFrame, TaskSnapshot
from interlock.vocabulary.wire.requests import TaskBehind
from tests.task_scenarios import words
from tests.task_scenarios.words import A, check, chunk, snapshot

ONE, TWO = SessionId("one"), SessionId("two")


def of(task: SessionId, what: RuntimeCheck) -> RuntimeCheck:
    return msgspec.structs.replace(what, task_id=task)


def known(manager: TaskStateManager, task: SessionId) -> TaskState:
    state = manager.state(task)
    assert state is not None
    return state


def joined(manager: TaskStateManager, task: SessionId, status: str = "RUNNING") -> None:
    ((_, pull),) = manager.open(task, 0)
    assert isinstance(pull, PullRuntime)
    ((_, join),) = manager.step(task, CheckAnswered(pull.generation, of(task, check(status, 5))), 0)
    assert isinstance(join, Join)
    whole: TaskSnapshot = msgspec.structs.replace(snapshot(status, 5, 10), task_id=task)
    assert manager.step(task, JoinAcked(join.generation, whole), 0) == []


def reasons(outputs: Outputs) -> list[tuple[SessionId, CheckReason]]:
    return [(task, output.reason) for task, output in outputs if isinstance(output, PullRuntime)]


def test_each_task_is_opened_checked_and_closed_by_itself() -> None:
    manager = TaskStateManager()
    assert reasons(manager.open(ONE, 0)) == [(ONE, CheckReason.TASK_SELECTED)]
    assert reasons(manager.open(TWO, 1)) == [(TWO, CheckReason.TASK_SELECTED)]
    assert manager.deadline == 10
    assert manager.close(ONE, 2) == []
    assert (manager.state(ONE), list(manager.machines)) == (None, [TWO])
    assert manager.deadline == 11
    assert manager.close(ONE, 2) == []
    assert manager.dropped == 0


def test_a_machine_that_is_made_later_knows_of_the_socket() -> None:
    manager = TaskStateManager()
    manager.open(ONE, 0)
    answer = CheckAnswered(1, of(ONE, check("RUNNING", 5)))
    assert manager.step(ONE, answer, 0) == [(ONE, EnsureConnected())]
    assert reasons(manager.connected(1)) == [(ONE, CheckReason.WEBSOCKET_RECONNECT)]
    manager.open(TWO, 1)
    assert known(manager, TWO).is_connected
    manager.disconnected(2, "net")
    assert not known(manager, ONE).is_connected
    assert not known(manager, TWO).is_connected
    assert not manager.is_connected


def test_frames_go_to_their_own_task_and_others_are_counted() -> None:
    manager = TaskStateManager(is_connected=True)
    joined(manager, ONE)
    joined(manager, TWO)
    frame: TaskFrame = msgspec.structs.replace(chunk(11, 5, "s1", 0, "Hi"), task_id=TWO)
    assert manager.route(frame, 1) == []
    assert known(manager, TWO).stream is not None
    assert known(manager, ONE).stream is None
    assert manager.route(msgspec.structs.replace(frame, task_id=SessionId("three")), 1) == []
    assert manager.dropped == 1
    ((task, resume),) = manager.route(TaskBehind(task_id=ONE, version=7, tick=20), 1)
    assert task == ONE
    assert isinstance(resume, Join)
    assert resume.is_resume


def test_no_answer_to_a_closed_task_fits_the_reopened_one() -> None:
    manager = TaskStateManager(is_connected=True)
    joined(manager, ONE)
    assert manager.close(ONE, 1) == [(ONE, Leave())]
    ((_, pull),) = manager.open(ONE, 2)
    assert isinstance(pull, PullRuntime)
    assert pull.generation > 2
    for old in range(pull.generation):
        assert manager.step(ONE, CheckAnswered(old, of(ONE, check("FAILED", 9))), 2) == []
        assert manager.step(ONE, JoinAcked(old, snapshot("FAILED", 9, 1)), 2) == []
    assert known(manager, ONE).status is None


def test_closing_asks_for_nothing_even_if_something_was_due() -> None:
    manager = TaskStateManager()
    manager.open(ONE, 0)
    manager.request_runtime_check(ONE, CheckReason.MANUAL_REFRESH, 1)
    assert manager.close(ONE, 100) == []


def test_the_page_and_the_network_are_told_to_all() -> None:
    manager = TaskStateManager(is_connected=True)
    joined(manager, ONE, "COMPLETED")
    joined(manager, TWO, "COMPLETED")
    assert reasons(manager.page_visible(1)) == [(ONE, CheckReason.PAGE_VISIBLE), (TWO, CheckReason.PAGE_VISIBLE)]
    assert reasons(manager.network_online(1)) == []
    assert known(manager, ONE).follow_up is CheckReason.NETWORK_ONLINE
    assert reasons(manager.request_runtime_check(TWO, CheckReason.MANUAL_REFRESH, 1)) == []


def test_detail_and_status_are_fed_by_name() -> None:
    manager = TaskStateManager(is_connected=True)
    joined(manager, ONE)
    manager.sync_task_detail(ONE, task_status="CANCELLING", version=6, turn_id=A, status_updated_at=words.AT, now=1)
    assert (known(manager, ONE).status, known(manager, ONE).status_updated_at) == ("CANCELLING", words.AT)
    manager.handle_task_status(ONE, task_status="CANCELLED", version=7, turn_id=A, now=1)
    assert known(manager, ONE).status == "CANCELLED"
    assert manager.handle_task_status(TWO, task_status="RUNNING", version=7, now=1) == []
    assert manager.dropped == 1


def test_only_what_is_due_is_fired() -> None:
    manager = TaskStateManager(is_connected=True)
    joined(manager, TWO, "COMPLETED")
    manager.open(ONE, 5)
    assert manager.deadline == 15
    assert manager.fire(14.9) == []
    assert known(manager, ONE).check is not None
    assert manager.fire(15) == []
    assert known(manager, ONE).check is None
    assert reasons(manager.fire(21)) == [(ONE, CheckReason.RUNTIME_INSTABILITY_PROBE)]
    assert known(manager, TWO).sync is SyncState.JOINED


def test_nothing_is_due_where_nothing_is_open() -> None:
    manager = TaskStateManager()
    assert manager.deadline is None
    assert manager.fire(1e9) == []
