"""What a line says of the sessions below it: who waits there, and how a workflow stands. No badge changes by it."""

from __future__ import annotations

from datetime import timedelta

from interlock.projections.task.workflow import WorkflowFold
from interlock.server.live.rooms import Rooms
from interlock.testing.scribe import EPOCH
from interlock.vocabulary.events.audit import SessionOpened, WorkflowEvent, WorkflowEventKind
from interlock.vocabulary.events.envelope import new_event
from interlock.vocabulary.events.registry import Json, Payload
from interlock.vocabulary.ids import EventId, SessionId, StepId, WorkflowId
from interlock.vocabulary.states import DriverKind, StepState, WorkflowState
from interlock.vocabulary.wire.frames import WorkflowCounts
from interlock.vocabulary.wire.requests import BoardJoin
from tests.server.socket_harness import Reader

ROOT, PLAN, BELOW = SessionId("ses_root"), SessionId("ses_wf_1"), SessionId("ses_wf_2")
K = WorkflowEventKind


class Logs:
    """Events of several sessions, published in order."""

    def __init__(self, rooms: Rooms) -> None:
        self.rooms = rooms
        self.seqs: dict[SessionId, int] = {}

    def tell(self, session: SessionId, *payloads: Payload) -> None:
        for one in payloads:
            seq = self.seqs[session] = self.seqs.get(session, 0) + 1
            at = EPOCH + timedelta(seconds=seq)
            event = new_event(one, id=EventId(f"{session}.{seq}"), session_id=session, ts=at, seq=seq)
            self.rooms.publish(event)

    def open(self, session: SessionId, parent: SessionId | None = None, depth: int = 0) -> None:
        root = None if parent is None else ROOT
        opened = SessionOpened(
            agent="a", driver="d", kind=DriverKind.STREAM, parent_id=parent, root_id=root, depth=depth
        )
        self.tell(session, opened)


def started(workflow: str, steps: int) -> WorkflowEvent:
    plan: Json = {"spec": {"steps": [{"id": f"s{at}"} for at in range(steps)]}}
    return WorkflowEvent(kind=K.WORKFLOW_STARTED, workflow_id=WorkflowId(workflow), plan=plan)


def moved(workflow: str, step: str, state: StepState, question: str = "") -> WorkflowEvent:
    kind = K.STEP_HELD if state is StepState.HELD else K.CHECKPOINT_DECIDED
    choices = ("go", "stop") if question else ()
    return WorkflowEvent(
        kind=kind,
        workflow_id=WorkflowId(workflow),
        step_id=StepId(step),
        step_state=state,
        question=question,
        choices=choices,
        summary="x" if state is StepState.CHECKPOINT_READY else "",
        reason="gate_reached" if state is StepState.HELD else "",
    )


def finished(workflow: str, status: WorkflowState) -> WorkflowEvent:
    return WorkflowEvent(kind=K.WORKFLOW_FINISHED, workflow_id=WorkflowId(workflow), status=status)


def counts(status: WorkflowState, ready: int, held: int, *, name: str = "wf_1", total: int = 2) -> WorkflowCounts:
    return WorkflowCounts(id=WorkflowId(name), status=status, ready=ready, total=total, held=held)


def test_a_root_is_told_of_who_waits_at_any_depth_and_its_own_badge_stays() -> None:
    rooms = Rooms()
    logs, reader = Logs(rooms), Reader(rooms)
    logs.open(ROOT)
    rooms.join_board(reader, BoardJoin(id="b"))
    before = rooms.views[ROOT].summary()
    logs.open(PLAN, ROOT, 1)
    logs.open(BELOW, PLAN, 2)
    logs.tell(PLAN, started("wf_1", 2), moved("wf_1", "s0", StepState.CHECKPOINT_READY))
    reader.read()
    assert reader.board is not None
    assert (reader.board[ROOT].waits_below, reader.board[ROOT].workflow) == (0, counts(WorkflowState.RUNNING, 1, 0))
    logs.tell(PLAN, moved("wf_1", "s1", StepState.HELD, "Go on?"))
    logs.tell(BELOW, started("wf_2", 1), moved("wf_2", "s0", StepState.HELD, "And here?"))
    reader.read()
    root = reader.board[ROOT]
    assert (root.waits_below, root.workflow) == (2, counts(WorkflowState.HELD, 1, 1))
    assert (root.badge, root.task_status) == (before.badge, before.task_status)
    assert (reader.board[PLAN].waits_below, reader.board[BELOW].waits_below) == (1, 0)
    logs.tell(BELOW, moved("wf_2", "s0", StepState.CHECKPOINT_READY), finished("wf_2", WorkflowState.COMPLETED))
    logs.tell(PLAN, moved("wf_1", "s1", StepState.FAILED), finished("wf_1", WorkflowState.PARTIAL))
    reader.read()
    assert reader.board[ROOT].waits_below == 0
    assert reader.board[ROOT].workflow == counts(WorkflowState.PARTIAL, 1, 0)
    rooms.forget(PLAN)  # it is at rest: what became of it is still a word on the line above
    assert rooms.line(rooms.views[ROOT], None).workflow == counts(WorkflowState.PARTIAL, 1, 0)


def test_of_several_workflows_the_one_that_waits_for_somebody_is_shown() -> None:
    rooms = Rooms()
    logs = Logs(rooms)
    logs.open(ROOT)
    for at, (status, step) in enumerate(
        ((WorkflowState.COMPLETED, StepState.CHECKPOINT_READY), (WorkflowState.FAILED, StepState.FAILED))
    ):
        name = f"wf_{at}"
        logs.open(SessionId(f"ses_{name}"), ROOT, 1)
        logs.tell(SessionId(f"ses_{name}"), started(name, 1), moved(name, "s0", step), finished(name, status))
    shown = rooms.line(rooms.views[ROOT], None).workflow
    assert shown == counts(WorkflowState.FAILED, 0, 0, name="wf_1", total=1)
    logs.open(SessionId("ses_wf_0b"), ROOT, 1)
    logs.tell(SessionId("ses_wf_0b"), started("wf_0b", 3), moved("wf_0b", "s0", StepState.HELD, "Go?"))
    shown = rooms.line(rooms.views[ROOT], None).workflow
    assert shown == counts(WorkflowState.HELD, 0, 1, name="wf_0b", total=3)


def test_the_workflow_of_a_log_is_the_open_one_or_else_the_last() -> None:
    fold = WorkflowFold()
    for fact in (started("wf_a", 2), started("wf_b", 1), finished("wf_b", WorkflowState.COMPLETED)):
        fold.add(fact)
    assert fold.shown == counts(WorkflowState.RUNNING, 0, 0, name="wf_a")
    fold.add(finished("wf_a", WorkflowState.FAILED))
    assert fold.shown == counts(WorkflowState.COMPLETED, 0, 0, name="wf_b", total=1)
    fold.add(moved("wf_c", "s0", StepState.RUNNING))  # its start, and its plan, are lost
    assert fold.shown == counts(WorkflowState.RUNNING, 0, 0, name="wf_c", total=1)
