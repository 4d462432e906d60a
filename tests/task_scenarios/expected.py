"""The reviewed scenarios behind `vectors/`: what the page asks for, where everything arrives as it should.

What goes wrong on the way is in `task_troubles`.
"""

from __future__ import annotations

from typing import Final

from interlock.client.machine.inputs import (
    CheckReason,
    CheckRequested,
    Connected,
    Disconnected,
    Opened,
    QueueHeld,
    StopPressed,
    TimerFired,
)
from interlock.vocabulary.events.audit import DeliveryStage
from interlock.vocabulary.events.presenter import Status
from interlock.vocabulary.ids import PromptId, StreamId
from interlock.vocabulary.states import Activity
from interlock.vocabulary.wire.approval import ApprovalState
from interlock.vocabulary.wire.frames import (
    AgentStatusChanged,
    ApprovalClosed,
    ApprovalDecided,
    ApprovalOpened,
    ChatReceipt,
    ChatThought,
    MessageStatus,
    QueueChanged,
)
from tests.task_scenarios import words
from tests.task_scenarios.vectors import TASK, Book, Script
from tests.task_scenarios.words import (
    A,
    B,
    broke,
    cancelled,
    check,
    chunk,
    done,
    frame,
    in_room,
    piece,
    said,
    snapshot,
    start,
    told,
)

PAGE: Final = Book()


# What the page says: classes, flags, opening


def _stands(script: Script, status: str | None, phases: tuple[str, str], **flags: bool) -> None:
    """The class of one status: its flags in the room without a stream, then the phase with one."""
    script.do(0, Opened(), words.SELECTED)
    script.answer(0, check(status, 5), "join")
    script.ack(0, snapshot(status, 5, 10), phase=phases[0], should_join_room=False, **flags)
    script.do(1, words.REFRESH, words.MANUAL)
    script.answer(1, check(status, 6), "resume 5")
    script.ack(1, snapshot(status, 6, 11, stream=piece("s1", "hi"), is_whole=False), phase=phases[1])


_BUSY: Final = ("running", "streaming")


@PAGE.story()
def status_pending(script: Script) -> None:
    """PENDING is active: it blocks, and can be cancelled."""
    _stands(script, "PENDING", _BUSY, is_terminal=False, blocks_queued_dispatch=True, can_cancel_task=True)


@PAGE.story()
def status_running(script: Script) -> None:
    """RUNNING is active: it blocks, and can be cancelled."""
    _stands(script, "RUNNING", _BUSY, is_terminal=False, blocks_queued_dispatch=True, can_cancel_task=True)


@PAGE.story()
def status_cancelling(script: Script) -> None:
    """CANCELLING is active: it blocks, and cannot be cancelled again."""
    _stands(script, "CANCELLING", _BUSY, is_terminal=False, blocks_queued_dispatch=True, can_cancel_task=False)


@PAGE.story()
def status_pending_confirmation(script: Script) -> None:
    """PENDING_CONFIRMATION waits for a person, with or without a stream."""
    phases = ("waiting_for_user", "waiting_for_user")
    _stands(
        script, "PENDING_CONFIRMATION", phases, is_terminal=False, blocks_queued_dispatch=True, can_cancel_task=True
    )


@PAGE.story()
def status_completed(script: Script) -> None:
    """COMPLETED is terminal even if a stream is told: nothing is blocked, nothing to cancel."""
    phases = ("terminal", "terminal")
    _stands(script, "COMPLETED", phases, is_terminal=True, blocks_queued_dispatch=False, can_cancel_task=False)
    script.do(2, TimerFired(), stream=None, is_unstable=False)


@PAGE.story()
def status_failed(script: Script) -> None:
    """FAILED is terminal."""
    phases = ("terminal", "terminal")
    _stands(script, "FAILED", phases, is_terminal=True, blocks_queued_dispatch=False, can_cancel_task=False)


@PAGE.story()
def status_cancelled(script: Script) -> None:
    """CANCELLED is terminal."""
    phases = ("terminal", "terminal")
    _stands(script, "CANCELLED", phases, is_terminal=True, blocks_queued_dispatch=False, can_cancel_task=False)


@PAGE.story()
def status_delete(script: Script) -> None:
    """DELETE is terminal, nothing can be queued for it, and nobody joins its room."""
    script.do(0, Opened(), words.SELECTED)
    script.answer(0, check("DELETE", 5), is_terminal=True, can_queue_message=False, sync="idle", is_unstable=False)


@PAGE.story()
def status_missing(script: Script) -> None:
    """No status: no prompt was ever accepted. Its phase is unknown, and once that is verified nothing is blocked."""
    phases = ("unknown", "unknown")
    _stands(script, None, phases, is_terminal=False, blocks_queued_dispatch=False, can_cancel_task=False)


@PAGE.story()
def status_unknown(script: Script) -> None:
    """UNKNOWN is verified, and still nothing may be dispatched on the strength of it."""
    phases = ("unknown", "unknown")
    _stands(script, "UNKNOWN", phases, is_terminal=False, blocks_queued_dispatch=True, can_cancel_task=False)


@PAGE.story(is_connected=False)
def open_an_empty_task_needs_no_socket(script: Script) -> None:
    """A task of which nothing was ever said is checked, and needs no socket."""
    script.do(0, Opened(), words.SELECTED, sync="idle", connection="disconnected", is_unstable=True)
    script.answer(0, check(None, 0, None), sync="idle", is_verified=True, connection="connected", is_unstable=False)


@PAGE.story()
def open_an_empty_task_needs_no_room(script: Script) -> None:
    """Nothing was ever said of it: there is nothing to join for, even with a socket there."""
    script.do(0, Opened(), words.SELECTED)
    script.answer(0, check(None, 0, None), sync="idle", deadline=None)


@PAGE.story()
def open_a_finished_task_fetches_its_messages(script: Script) -> None:
    """A finished task is joined once, for what was said; nothing is checked any more after that."""
    script.do(0, Opened(), words.SELECTED)
    script.answer(0, check("COMPLETED", 9), "join", sync="joining", phase="syncing", is_terminal=True)
    both = (said(2, "go"), said(8, "done"))
    script.ack(
        0,
        snapshot("COMPLETED", 9, 4, messages=both),
        sync="joined",
        phase="terminal",
        messages=[[2, "completed", "go"], [8, "completed", "done"]],
        synced_version=9,
        deadline=None,
    )


@PAGE.story()
def open_an_active_task_joins(script: Script) -> None:
    """An active task is joined, and the ack brings messages, stream, approvals and queue."""
    script.do(0, Opened(), words.SELECTED)
    script.answer(0, check("RUNNING", 5, A, "s1", 5), "join", should_join_room=True, blocks_queued_dispatch=True)
    script.ack(
        0,
        snapshot("RUNNING", 5, 10, stream=piece("s1", "Hello"), approvals=(words.question("q1"),), queue=("p1",)),
        should_join_room=False,
        phase="streaming",
        stream=["s1", "Hello"],
        approvals=["q1"],
        queue=["p1"],
        is_unstable=False,
        deadline=None,
    )


@PAGE.story(is_connected=False)
def check_before_connect(script: Script) -> None:
    """What needs the room is checked first; then a socket is asked for; once it is there, checked again and joined."""
    script.do(0, Opened(), words.SELECTED)
    script.answer(
        0, check("RUNNING", 5, A, "s1", 3), "connect", sync="waiting_socket", phase="syncing", is_verified=True
    )
    script.do(1, Connected(), words.RECONNECT, sync="waiting_socket")
    script.answer(1, check("RUNNING", 5, A, "s1", 3), "join", sync="joining")
    script.ack(1, snapshot("RUNNING", 5, 10, stream=piece("s1", "abc")), sync="joined", phase="streaming")


@PAGE.story(is_connected=False)
def a_task_that_ended_needs_no_socket_twice(script: Script) -> None:
    """Waiting for a socket, the task is heard to be gone: then none is needed any more."""
    script.do(0, Opened(), words.SELECTED)
    script.answer(0, check("RUNNING", 5), "connect", sync="waiting_socket", deadline=3)
    script.do(3, TimerFired(), words.PROBE)
    script.answer(3, check("DELETE", 6), sync="idle", is_terminal=True, deadline=None)


@PAGE.story(is_connected=False)
def waiting_for_a_socket_is_no_reason_to_stop_looking(script: Script) -> None:
    """Without a socket an active task is looked at by check, again and again; a terminal word is taken at once."""
    script.do(0, Opened(), words.SELECTED)
    script.answer(0, check("RUNNING", 5), "connect", deadline=3)
    script.do(3, TimerFired(), words.PROBE)
    script.answer(3, check("COMPLETED", 8), "connect", status="COMPLETED", sync="waiting_socket", is_verified=True)
    script.do(4, Connected(), words.RECONNECT)
    script.answer(4, check("COMPLETED", 8), "join")
    script.ack(4, snapshot("COMPLETED", 8, 3, messages=(said(7, "end"),)), phase="terminal", deadline=None)


@PAGE.story()
def reconnect_with_nothing_new(script: Script) -> None:
    """A finished task that was joined asks for no socket. With one there again its room is kept, for what may come."""
    in_room(script, "COMPLETED")
    script.do(1, Disconnected("gone"), is_verified=False, connection="disconnected", status="COMPLETED", tick=None)
    script.do(4, TimerFired(), words.PROBE)
    script.answer(4, check("COMPLETED", 5), sync="idle", is_verified=True, deadline=None)
    script.do(5, Connected(), words.RECONNECT)
    script.answer(5, check("COMPLETED", 5), "resume 5", is_verified=True)
    script.ack(5, snapshot("COMPLETED", 5, 2, is_whole=False), sync="joined", deadline=None)
    frame(script, 6, words.status(3, 6, "RUNNING", B), status="RUNNING", turn_id=B)


@PAGE.story()
def a_followed_task_that_ended_needs_no_further_socket(script: Script) -> None:
    """The status of a version comes last: with it, every message up to that version is here, and nothing is missing."""
    in_room(script)
    frame(script, 1, told(11, 6, said(6, "Hi")), synced_version=5)
    frame(script, 1, words.status(12, 6, "COMPLETED"), synced_version=6, deadline=None)
    script.do(2, Disconnected("gone"), tick=None, is_verified=False)
    script.do(5, TimerFired(), words.PROBE)
    script.answer(5, check("COMPLETED", 6), sync="idle", is_verified=True, deadline=None)


@PAGE.story()
def a_message_that_changed_at_the_same_version_comes_with_the_resume(script: Script) -> None:
    """A log that is found to be damaged may change a message of a version that was complete. The version that a resume
    names comes again, and of two copies with one version the later holds."""
    in_room(script)
    frame(script, 1, told(11, 6, said(6, "Hi")))
    frame(script, 1, words.status(12, 6, "COMPLETED"), synced_version=6)
    script.do(2, Disconnected("gone"))
    script.do(3, Connected(), words.RECONNECT)
    script.answer(3, check("COMPLETED", 6), "resume 6")
    again = snapshot("COMPLETED", 6, 4, messages=(said(6, "damaged"),), is_whole=False)
    script.ack(3, again, messages=[[2, "completed", "go"], [6, "completed", "damaged"]], deadline=None)


@PAGE.story()
def a_status_that_is_refused_completes_nothing(script: Script) -> None:
    """What contradicts itself is not believed to be complete either."""
    in_room(script, "COMPLETED")
    frame(script, 1, words.status(11, 7, "RUNNING"), words.PROBE, status="COMPLETED", synced_version=6, anomalies=1)


@PAGE.story()
def every_trigger_asks_for_a_check(script: Script) -> None:
    """Whatever makes somebody wonder comes in by the same door, and its reason is kept."""
    in_room(script, "COMPLETED")
    for at, reason in enumerate(CheckReason, start=1):
        script.do(at, CheckRequested(reason), f"pull {reason.value}", last_reason=reason.value)
        script.answer(at, check("COMPLETED", 5), is_unstable=False, sync="joined")


@PAGE.story()
def opening_twice_looks_again(script: Script) -> None:
    """To select the selected task is to ask again; the room is kept."""
    in_room(script, "COMPLETED")
    script.do(1, Opened(), words.SELECTED, sync="joined", tick=10)
    script.answer(1, check("COMPLETED", 5), sync="joined", tick=10)


# Streams and their ends


@PAGE.story()
def the_normal_path(script: Script) -> None:
    """Events arrive whole: nothing is ever checked."""
    in_room(script, "COMPLETED")
    frame(script, 1, words.status(11, 6, "PENDING", None), status="PENDING", phase="running")
    frame(script, 1, words.status(12, 7, "RUNNING", B), status="RUNNING", turn_id=B)
    frame(script, 2, start(13, 7, "s1", B), phase="streaming", deadline=None)
    frame(script, 2, chunk(14, 7, "s1", 0, "Hel", B), stream=["s1", "Hel"])
    frame(script, 2, chunk(15, 7, "s1", 3, "lo", B), stream=["s1", "Hello"])
    frame(script, 3, told(16, 8, said(8, "Hello", stream="s1", turn=B), B), stream=None)
    frame(script, 3, done(17, 9, "s1", B), status="RUNNING")
    frame(script, 3, words.status(18, 9, "COMPLETED", B), status="COMPLETED", interrupted=[], deadline=None)


@PAGE.story()
def chat_done_ends_the_stream_only(script: Script) -> None:
    """After `chat:done` the task is as it was: running, and blocking."""
    in_room(script, stream=piece("s1", "Hi"))
    frame(script, 1, told(11, 6, said(6, "Hi", stream="s1")))
    frame(
        script, 1, done(12, 6, "s1"), status="RUNNING", phase="running", blocks_queued_dispatch=True, is_terminal=False
    )


@PAGE.story()
def chat_error_ends_the_stream_only(script: Script) -> None:
    """After `chat:error` the task is as it was, and the text is kept as what it is: broken off."""
    in_room(script, stream=piece("s1", "Hi"))
    frame(script, 1, broke(11, 6, "s1"), status="RUNNING", stream=None, interrupted=[["s1", "Hi"]])


@PAGE.story()
def chat_cancelled_ends_the_stream_and_the_stopping(script: Script) -> None:
    """After `chat:cancelled` nothing is being stopped any more; the status waits for its own word."""
    in_room(script, stream=piece("s1", "Hi"))
    script.do(1, StopPressed(), is_stopping=True, deadline=4)
    frame(script, 2, cancelled(11, 6, "s1"), is_stopping=False, status="RUNNING", stream=None)


@PAGE.story()
def a_queued_message_asks_after_chat_done(script: Script) -> None:
    """A message is held back, the stream ends and the task still blocks: that is asked about at once, then again."""
    in_room(script, stream=piece("s1", "Hi"))
    script.do(1, QueueHeld(1), deadline=None)
    frame(script, 2, done(11, 6, "s1"), words.BLOCKED)
    script.answer(2, check("RUNNING", 6), server_confirmed_no_stream=True, blocks_queued_dispatch=True, deadline=5)
    script.do(5, TimerFired(), words.BLOCKED)
    script.answer(5, check("COMPLETED", 7), "resume 5", blocks_queued_dispatch=False)
    script.ack(5, snapshot("COMPLETED", 7, 13, is_whole=False), deadline=None)


@PAGE.story()
def terminal_clears_what_ran(script: Script) -> None:
    """A terminal status ends the stream, the stopping and the blocking, whatever was missed."""
    in_room(script, stream=piece("s1", "Hi"))
    script.do(1, StopPressed(), is_stopping=True)
    frame(
        script,
        2,
        words.status(11, 8, "COMPLETED"),
        is_stopping=False,
        stream=None,
        interrupted=[["s1", "Hi"]],
        blocks_queued_dispatch=False,
        can_cancel_task=False,
        deadline=None,
    )
    frame(
        script,
        3,
        told(12, 8, said(7, "Hi there", stream="s1")),
        interrupted=[],
        messages=[[2, "completed", "go"], [7, "completed", "Hi there"]],
    )


@PAGE.story()
def terminal_drops_its_questions(script: Script) -> None:
    """Nobody is asked anything by a turn that is over."""
    in_room(script, "PENDING_CONFIRMATION")
    frame(
        script,
        1,
        ApprovalOpened(task_id=TASK, tick=11, version=6, turn_id=A, approval=words.question("q1")),
        approvals=["q1"],
    )
    frame(script, 2, words.status(12, 8, "CANCELLED"), approvals=[])


@PAGE.story()
def questions_come_and_go(script: Script) -> None:
    """A question is open until somebody answers; it is gone when it is closed."""
    in_room(script, "PENDING_CONFIRMATION")
    opened, decided = words.question("q1"), words.question("q1", ApprovalState.DECIDED)
    frame(script, 1, ApprovalOpened(task_id=TASK, tick=11, version=6, turn_id=A, approval=opened), approvals=["q1"])
    frame(script, 2, ApprovalDecided(task_id=TASK, tick=12, version=7, turn_id=A, approval=decided), approvals=[])
    frame(script, 3, ApprovalClosed(task_id=TASK, tick=13, version=8, turn_id=A, approval=decided), approvals=[])


@PAGE.story()
def queue_and_receipts(script: Script) -> None:
    """The queue is told whole. A receipt never goes back."""
    in_room(script)
    frame(
        script, 1, QueueChanged(task_id=TASK, tick=11, version=6, queue=words.waiting("p1", "p2")), queue=["p1", "p2"]
    )
    for tick, stage, seen in ((12, "typed", "typed"), (13, "started", "started"), (14, "accepted", "started")):
        one = ChatReceipt(task_id=TASK, tick=tick, version=tick, prompt_id=PromptId("p1"), stage=DeliveryStage(stage))
        frame(script, 1, one, receipts=[["p1", seen]])


@PAGE.story()
def thoughts_and_agent_leave_the_text_alone(script: Script) -> None:
    """Thoughts and what the agent is seen to do change neither text nor status."""
    in_room(script, stream=piece("s1", "Hi"))
    thought = ChatThought(task_id=TASK, tick=11, version=5, turn_id=A, stream_id=StreamId("s1"), offset=0, text="hm")
    frame(script, 1, thought, tick=11, stream=["s1", "Hi"])
    working = AgentStatusChanged(task_id=TASK, tick=12, version=5, turn_id=A, status=Status(activity=Activity.WORKING))
    frame(script, 1, working, tick=12, status="RUNNING")


@PAGE.story()
def waiting_for_a_person_keeps_the_stream(script: Script) -> None:
    """PENDING_CONFIRMATION with a live stream: the stream stays, the phase is the person's."""
    in_room(script, stream=piece("s1", "Hi"))
    frame(
        script,
        1,
        words.status(11, 6, "PENDING_CONFIRMATION"),
        phase="waiting_for_user",
        stream=["s1", "Hi"],
        deadline=None,
        blocks_queued_dispatch=True,
    )
    frame(script, 2, done(12, 7, "s1"), status="PENDING_CONFIRMATION", deadline=None)


@PAGE.story()
def another_stream_takes_the_place(script: Script) -> None:
    """One stream is open at a time; more of the old one does not bring it back."""
    in_room(script, stream=piece("s1", "old"))
    frame(script, 1, start(11, 5, "s2"), stream=["s2", ""], interrupted=[])
    frame(script, 1, chunk(12, 5, "s2", 0, "new"), stream=["s2", "new"])
    frame(script, 1, chunk(13, 5, "s1", 3, "er"), stream=["s2", "new"])
    frame(script, 2, done(14, 5, "s1"), stream=["s2", "new"])


@PAGE.story()
def a_first_chunk_begins_a_stream(script: Script) -> None:
    """A first chunk at offset 0 is a beginning, even if its `chat:start` was not said."""
    in_room(script)
    frame(script, 1, chunk(11, 5, "s1", 0, "Hi"), stream=["s1", "Hi"], server_confirmed_no_stream=False)


@PAGE.story()
def text_is_put_at_its_place(script: Script) -> None:
    """Offsets count code points; text that contradicts what is here replaces it from there on."""
    in_room(script, stream=piece("s1", "né🙂"))
    frame(script, 1, chunk(11, 5, "s1", 3, "字"), stream=["s1", "né🙂字"])
    frame(script, 1, chunk(12, 5, "s1", 2, "🙂字!"), stream=["s1", "né🙂字!"])
    frame(script, 1, chunk(13, 5, "s1", 1, "o"), stream=["s1", "no"])


@PAGE.story()
def a_late_chunk_revives_nothing(script: Script) -> None:
    """More of a stream that ended changes nothing, nor does more of a turn that ended."""
    in_room(script, stream=piece("s1", "Hi"))
    frame(script, 1, told(11, 6, said(6, "Hi", stream="s1")))
    frame(script, 1, done(12, 6, "s1"))
    frame(script, 1, chunk(13, 6, "s1", 2, "!!"), stream=None)
    frame(script, 2, words.status(14, 8, "COMPLETED"), status="COMPLETED")
    frame(script, 2, chunk(15, 8, "s9", 0, "late"), stream=None)
    frame(script, 2, start(16, 8, "s9"), stream=None, phase="terminal")


@PAGE.story()
def a_finished_message_never_streams(script: Script) -> None:
    """Once its message is there, not even a new beginning opens a stream again."""
    in_room(script)
    frame(script, 1, told(11, 6, said(6, "Hi", stream="s1")))
    frame(script, 1, start(12, 6, "s1"), stream=None)
    frame(
        script, 1, chunk(13, 6, "s1", 0, "Hi"), stream=None, messages=[[2, "completed", "go"], [6, "completed", "Hi"]]
    )


@PAGE.story()
def a_stream_may_begin_again(script: Script) -> None:
    """A stream that broke off and is begun again, in order, is whole again."""
    in_room(script, stream=piece("s1", "Hi"))
    frame(script, 1, broke(11, 5, "s1"), stream=None, interrupted=[["s1", "Hi"]])
    frame(script, 1, start(12, 5, "s1"), stream=["s1", ""], interrupted=[])
    frame(script, 1, chunk(13, 5, "s1", 0, "Hi there"), stream=["s1", "Hi there"])


@PAGE.story()
def a_changed_message_replaces_itself(script: Script) -> None:
    """Of two copies of a message the higher version holds."""
    in_room(script)
    running = said(6, "ls", MessageStatus.RUNNING, version=7)
    frame(script, 1, told(11, 7, running), messages=[[2, "completed", "go"], [6, "running", "ls"]])
    frame(script, 1, told(12, 8, said(6, "ls", version=6)), messages=[[2, "completed", "go"], [6, "running", "ls"]])
    frame(script, 1, told(13, 9, said(6, "ls", version=9)), messages=[[2, "completed", "go"], [6, "completed", "ls"]])


@PAGE.story()
def late_words_of_an_old_turn(script: Script) -> None:
    """While a new turn streams, the end of an old one touches nothing."""
    in_room(script, "COMPLETED")
    frame(script, 1, words.status(11, 7, "RUNNING", B), turn_id=B)
    frame(script, 1, start(12, 7, "s2", B), stream=["s2", ""])
    script.do(1, StopPressed(), is_stopping=True)
    frame(script, 2, cancelled(13, 8, "s1", A), is_stopping=True, stream=["s2", ""])
    frame(script, 2, chunk(14, 8, "s1", 0, "old", A), stream=["s2", ""])
    frame(script, 2, start(15, 8, "s1", A), stream=["s2", ""])
