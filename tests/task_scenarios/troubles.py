"""The reviewed scenarios behind `vectors/`: what was known to go wrong, and what the probe, a send and a stop do.

`weakness_a` to `weakness_j` are the ten faults that were measured in the system behind the page.
"""

from __future__ import annotations

from typing import Final

from interlock.client.machine.inputs import (
    CancelAcked,
    CancelFailed,
    CheckAnswered,
    CheckReason,
    CheckRequested,
    Closed,
    Connected,
    DetailSynced,
    Disconnected,
    JoinAcked,
    Opened,
    QueueHeld,
    SendAccepted,
    StopPressed,
    TimerFired,
)
from interlock.vocabulary.events.audit import DeliveryStage
from interlock.vocabulary.ids import PromptId
from interlock.vocabulary.wire.frames import ChatReceipt
from tests.task_scenarios import words
from tests.task_scenarios.vectors import Book, Script
from tests.task_scenarios.words import (
    A,
    B,
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

TROUBLES: Final = Book()


# The ten weaknesses


@TROUBLES.story()
def weakness_a(script: Script) -> None:
    """A check that is never answered fails at its deadline, and the probe looks again; its answer is late then."""
    script.do(0, Opened(), words.SELECTED, deadline=10)
    script.do(9.9, TimerFired(), is_checking=True)
    script.do(10, TimerFired(), is_checking=False, connection="disconnected", is_verified=False, deadline=16)
    script.do(12, CheckAnswered(1, check("RUNNING", 5)), status=None, deadline=16)
    script.do(16, TimerFired(), words.PROBE)
    script.answer(16, check("COMPLETED", 5), "join", status="COMPLETED", is_verified=True)


@TROUBLES.story()
def weakness_b(script: Script) -> None:
    """A join that is never acknowledged fails at its deadline, and is tried again after a check."""
    script.do(0, Opened(), words.SELECTED)
    script.answer(0, check("RUNNING", 5), "join", deadline=10)
    script.do(10, TimerFired(), sync="idle", is_joining=False, deadline=16)
    script.do(11, JoinAcked(2, snapshot("RUNNING", 5, 10)), sync="idle", tick=None)
    script.do(16, TimerFired(), words.PROBE)
    script.answer(16, check("RUNNING", 5), "join", sync="joining")
    script.ack(17, snapshot("RUNNING", 5, 10), sync="joined")


@TROUBLES.story()
def weakness_c(script: Script) -> None:
    """A check says that there is no stream; one began while it was under way: it lives, and is asked about again."""
    in_room(script)
    script.do(1, words.REFRESH, words.MANUAL)
    frame(script, 1, start(11, 5, "s1"))
    frame(script, 1, chunk(12, 5, "s1", 0, "Hi"))
    script.answer(2, check("RUNNING", 5), words.MANUAL, stream=["s1", "Hi"], interrupted=[])
    script.answer(3, check("RUNNING", 5, A, "s1", 2), stream=["s1", "Hi"], sync="joined", deadline=None)
    frame(script, 4, chunk(13, 5, "s1", 2, "!"), stream=["s1", "Hi!"])


@TROUBLES.story()
def weakness_c_insisting(script: Script) -> None:
    """A server that keeps denying a stream whose text keeps coming is not asked without end."""
    in_room(script)
    script.do(1, words.REFRESH, words.MANUAL)
    frame(script, 1, chunk(11, 5, "s1", 0, "a"))
    script.answer(2, check("RUNNING", 5), words.MANUAL)
    frame(script, 2, chunk(12, 5, "s1", 1, "b"))
    script.answer(3, check("RUNNING", 5), stream=["s1", "ab"], is_checking=False)


@TROUBLES.story()
def weakness_d(script: Script) -> None:
    """A stream begins while the join is under way; the ack is of a moment before that: the stream is kept."""
    script.do(0, Opened(), words.SELECTED)
    script.answer(0, check("RUNNING", 5), "join")
    frame(script, 1, start(11, 5, "s1"), stream=None, early=[11])
    frame(script, 1, chunk(12, 5, "s1", 0, "Hi"), early=[11, 12])
    script.ack(2, snapshot("RUNNING", 5, 10), stream=["s1", "Hi"], tick=12, early=[], phase="streaming")
    frame(script, 3, chunk(13, 5, "s1", 2, "!"), stream=["s1", "Hi!"])


@TROUBLES.story()
def weakness_e(script: Script) -> None:
    """What is answered after the task was closed changes nothing, and joins nothing."""
    script.do(0, Opened(), words.SELECTED)
    script.do(1, Closed(), sync="closed", deadline=None)
    script.do(2, CheckAnswered(1, check("RUNNING", 5)), sync="closed", status=None)
    script.do(3, Opened(), words.SELECTED)
    script.do(4, CheckAnswered(1, check("RUNNING", 5)), status=None, is_checking=True)
    script.answer(5, check("COMPLETED", 6), "join", status="COMPLETED")
    script.do(6, Closed(), "leave", sync="closed")
    script.do(7, JoinAcked(3, snapshot("COMPLETED", 6, 2)), sync="closed", tick=None, messages=[])


@TROUBLES.story()
def weakness_f(script: Script) -> None:
    """What is asked while a check is in flight is asked once more after it, and once only."""
    in_room(script, "COMPLETED")
    script.do(1, words.REFRESH, words.MANUAL)
    script.do(1, CheckRequested(CheckReason.PAGE_VISIBLE), follow_up="page-visible")
    script.do(1, CheckRequested(CheckReason.NETWORK_ONLINE), follow_up="network-online")
    script.answer(2, check("COMPLETED", 5), "pull network-online", follow_up=None, is_checking=True)
    script.answer(3, check("COMPLETED", 5), is_checking=False)


@TROUBLES.story()
def weakness_g(script: Script) -> None:
    """Text whose beginning is missing is not glued on: the rest is asked for from where the text ends."""
    in_room(script, stream=piece("s1", "Hel"))
    frame(script, 1, chunk(11, 5, "s1", 5, "world"), "resume 5 s1:3", stream=["s1", "Hel"], sync="joining")
    script.ack(
        1,
        snapshot("RUNNING", 5, 11, stream=piece("s1", "loworld", 3), is_whole=False),
        stream=["s1", "Helloworld"],
        messages=[[2, "completed", "go"]],
        deadline=None,
    )


@TROUBLES.story()
def weakness_h(script: Script) -> None:
    """A finished task is taken up by another client: another turn with a higher version reopens it."""
    in_room(script, "COMPLETED")
    frame(script, 1, words.status(11, 6, "PENDING", None), status="PENDING", blocks_queued_dispatch=True)
    frame(script, 1, words.status(12, 8, "RUNNING", B), status="RUNNING", phase="running", is_streaming=True)
    frame(script, 1, start(13, 8, "s2", B), phase="streaming", is_terminal=False)


@TROUBLES.story()
def weakness_h_by_check(script: Script) -> None:
    """The same, out of the room and by a check."""
    in_room(script, "COMPLETED")
    script.do(1, Disconnected())
    script.do(2, Connected(), words.RECONNECT)
    script.answer(2, check("RUNNING", 8, B, "s2", 4), "resume 5", status="RUNNING", is_terminal=False)
    script.ack(2, snapshot("RUNNING", 8, 3, B, stream=piece("s2", "text", turn=B), is_whole=False), phase="streaming")


@TROUBLES.story()
def weakness_i(script: Script) -> None:
    """Clocks order nothing: at one and the same time the higher version holds, and an older one never."""
    in_room(script)
    script.do(1, words.REFRESH, words.MANUAL)
    frame(script, 1, words.status(11, 9, "COMPLETED"), status="COMPLETED")
    script.answer(1, check("RUNNING", 8), status="COMPLETED", version=9, is_verified=True)
    script.do(1, DetailSynced(task_status="RUNNING", version=7, turn_id=A), status="COMPLETED", version=9)


@TROUBLES.story()
def weakness_j(script: Script) -> None:
    """A message that stays blocked is asked about again, also after a check that failed."""
    in_room(script)
    script.do(0, QueueHeld(2), deadline=3)
    script.do(3, TimerFired(), words.BLOCKED)
    script.fail(3, deadline=9, is_verified=False)
    script.do(9, TimerFired(), words.BLOCKED)
    script.answer(9, check("RUNNING", 5), deadline=12, is_verified=True)
    script.do(12, TimerFired(), words.BLOCKED)
    script.answer(12, check("COMPLETED", 7), "resume 5", blocks_queued_dispatch=False)
    script.do(13, QueueHeld(0), queued_here=0)


# The probe


@TROUBLES.story()
def the_probe_waits_one_window(script: Script) -> None:
    """A running task without a stream is looked at after three seconds, not before; events do not extend that."""
    in_room(script, "COMPLETED")
    frame(script, 1, words.status(11, 7, "RUNNING", B), deadline=4)
    frame(script, 3, told(12, 7, said(7, "hello", turn=B), B), deadline=4)
    script.do(3.999, TimerFired(), is_checking=False)
    script.do(4, TimerFired(), words.PROBE)
    script.answer(4, check("RUNNING", 7, B), server_confirmed_no_stream=True, is_streaming=False, deadline=None)


@TROUBLES.story()
def a_stream_in_time_needs_no_probe(script: Script) -> None:
    """The stream begins within the window: nothing is asked."""
    in_room(script, "COMPLETED")
    frame(script, 1, words.status(11, 7, "RUNNING", B), deadline=4)
    frame(script, 3.9, start(12, 7, "s1", B), deadline=None)
    script.do(60, TimerFired(), is_checking=False)


@TROUBLES.story()
def the_probe_backs_off(script: Script) -> None:
    """While checks fail the window doubles, up to thirty seconds; one that works makes it short again."""
    script.do(0, Opened(), words.SELECTED)
    script.fail(0, deadline=6)
    now = 6.0
    for window in (12, 24, 30, 30):
        script.do(now, TimerFired(), words.PROBE)
        script.fail(now, deadline=now + window)
        now += window
    script.do(now, TimerFired(), words.PROBE)
    script.answer(now, check("RUNNING", 5), "join")
    script.ack(now, snapshot("RUNNING", 5, 10))
    frame(script, now, words.status(11, 6, "CANCELLING"), deadline=now + 3)


@TROUBLES.story()
def pending_and_cancelling_are_probed(script: Script) -> None:
    """PENDING and CANCELLING without a stream are doubtful too."""
    in_room(script, "COMPLETED")
    frame(script, 1, words.status(11, 6, "PENDING", None), deadline=4)
    script.do(4, TimerFired(), words.PROBE)
    script.answer(4, check("PENDING", 6, None), deadline=None)
    frame(script, 5, words.status(12, 7, "CANCELLING", B), deadline=8)
    script.do(8, TimerFired(), words.PROBE)


@TROUBLES.story()
def a_check_in_the_window_takes_its_place(script: Script) -> None:
    """A check that somebody asks for within the window is the check."""
    in_room(script, "COMPLETED")
    frame(script, 1, words.status(11, 7, "RUNNING", B), deadline=4)
    script.do(2, words.REFRESH, words.MANUAL, deadline=12)
    script.answer(2, check("RUNNING", 7, B), deadline=None)


# Send and stop


@TROUBLES.story()
def send_accepted_invents_no_status(script: Script) -> None:
    """An accepted prompt blocks and is doubtful until something newer is heard; the status stays the server's."""
    in_room(script, "COMPLETED")
    script.do(
        1,
        SendAccepted(PromptId("p1")),
        status="COMPLETED",
        awaiting_send=True,
        blocks_queued_dispatch=True,
        receipts=[["p1", "queued"]],
        deadline=4,
    )
    frame(script, 2, words.status(11, 6, "PENDING", None), awaiting_send=False, status="PENDING", deadline=4)


@TROUBLES.story()
def send_accepted_and_nothing_heard(script: Script) -> None:
    """Nothing comes of an accepted prompt: the probe looks, and a check of a later moment settles it."""
    in_room(script, "COMPLETED")
    script.do(1, SendAccepted(PromptId("p1")), deadline=4)
    script.do(4, TimerFired(), words.PROBE)
    script.answer(4, check("COMPLETED", 5), awaiting_send=False, blocks_queued_dispatch=False, deadline=None)


@TROUBLES.story()
def a_check_from_before_the_send_settles_nothing(script: Script) -> None:
    """A check that was under way when the prompt was accepted knows nothing of it."""
    in_room(script, "COMPLETED")
    script.do(1, words.REFRESH, words.MANUAL)
    script.do(1, SendAccepted(PromptId("p1")), awaiting_send=True)
    script.answer(2, check("COMPLETED", 5), awaiting_send=True, blocks_queued_dispatch=True, deadline=5)


@TROUBLES.story()
def a_receipt_may_come_before_the_answer(script: Script) -> None:
    """The room tells of a prompt before its sender is answered: then nothing is awaited."""
    in_room(script, "COMPLETED")
    one = ChatReceipt(
        task_id=script.state.task_id, tick=11, version=6, prompt_id=PromptId("p1"), stage=DeliveryStage.TYPED
    )
    frame(script, 1, one)
    script.do(1, SendAccepted(PromptId("p1")), awaiting_send=False, receipts=[["p1", "typed"]])


@TROUBLES.story()
def a_stop_is_settled_by_the_probe(script: Script) -> None:
    """A stop is pressed and nothing is heard: looked at after three seconds, settled when no stream is left."""
    in_room(script, stream=piece("s1", "Hi"))
    script.do(1, StopPressed(), is_stopping=True, deadline=4)
    script.do(1, CancelAcked(True), is_stopping=True)
    script.do(3.999, TimerFired(), is_checking=False)
    script.do(4, TimerFired(), words.PROBE)
    script.answer(4, check("CANCELLING", 5), is_stopping=False, stream=None, interrupted=[["s1", "Hi"]])


@TROUBLES.story()
def a_stop_outlives_a_failed_check(script: Script) -> None:
    """A check that fails settles no stop; the next one does."""
    in_room(script, stream=piece("s1", "Hi"))
    script.do(1, StopPressed(), deadline=4)
    script.do(4, TimerFired(), words.PROBE)
    script.fail(4, is_stopping=True, deadline=10)
    script.do(10, TimerFired(), words.PROBE)
    script.answer(10, check("CANCELLED", 7), "resume 5", is_stopping=False, status="CANCELLED")


@TROUBLES.story()
def a_stop_goes_on_while_text_flows(script: Script) -> None:
    """The stream still runs on the server: the stop is not settled, and looked at again."""
    in_room(script, stream=piece("s1", "Hi"))
    script.do(1, StopPressed(), deadline=4)
    frame(script, 2, chunk(11, 5, "s1", 2, "!"), is_stopping=True, deadline=4)
    script.do(4, TimerFired(), words.PROBE)
    script.answer(4, check("CANCELLING", 5, A, "s1", 3), is_stopping=True, deadline=7)


@TROUBLES.story()
def a_stop_confirmed_in_time(script: Script) -> None:
    """`chat:cancelled` within the window: nothing is asked on account of the stop."""
    in_room(script, stream=piece("s1", "Hi"))
    script.do(1, StopPressed(), is_stopping=True)
    frame(script, 2, cancelled(11, 6, "s1"), is_stopping=False)
    frame(script, 2, words.status(12, 6, "CANCELLED"), deadline=None)


@TROUBLES.story()
def a_stop_that_failed(script: Script) -> None:
    """A stop that was not taken, or did not reach the agent, is none; why is kept."""
    in_room(script, stream=piece("s1", "Hi"))
    script.do(1, StopPressed(), is_stopping=True)
    script.do(1, CancelFailed("forbidden"), is_stopping=False, problem="forbidden", deadline=None)
    script.do(2, StopPressed(), is_stopping=True)
    script.do(2, CancelAcked(False, "the agent is gone"), is_stopping=False, problem="the agent is gone")


@TROUBLES.story()
def a_stop_of_nothing(script: Script) -> None:
    """There is nothing to stop in a task that ended."""
    in_room(script, "COMPLETED")
    script.do(1, StopPressed(), is_stopping=False, deadline=None)


@TROUBLES.story()
def a_check_from_before_the_stop_settles_nothing(script: Script) -> None:
    """A check that was under way when the stop was pressed knows nothing of it."""
    in_room(script)
    script.do(1, words.REFRESH, words.MANUAL)
    script.do(1, StopPressed(), is_stopping=True)
    script.answer(2, check("RUNNING", 5), is_stopping=True, deadline=5)


@TROUBLES.story()
def another_turn_ends_the_stopping(script: Script) -> None:
    """The turn that was to stop gave way to another."""
    in_room(script, stream=piece("s1", "Hi"))
    script.do(1, StopPressed(), is_stopping=True)
    frame(script, 2, words.status(11, 8, "RUNNING", B), is_stopping=False, stream=None, turn_id=B)


@TROUBLES.story()
def a_stop_from_before_the_turn_had_a_name(script: Script) -> None:
    """The server took the stop; what it says of a later moment, unless that is CANCELLING, is of something else."""
    script.do(0, Opened(), words.SELECTED)
    script.do(1, StopPressed(), is_stopping=True)
    script.do(1, CancelAcked(True), is_stopping=True)
    script.answer(2, check("RUNNING", 5, A, "s1", 2), "join", status="RUNNING", is_stopping=True)
    script.ack(2, snapshot("RUNNING", 5, 10, stream=piece("s1", "Hi")), is_stopping=False, deadline=None)


@TROUBLES.story()
def a_stop_that_was_taken_goes_on(script: Script) -> None:
    """While the server says CANCELLING, the stop that it took is not settled."""
    in_room(script, stream=piece("s1", "Hi"))
    script.do(1, StopPressed(), is_stopping=True)
    script.do(1, CancelAcked(True), is_stopping=True)
    script.do(4, TimerFired(), words.PROBE)
    script.answer(4, check("CANCELLING", 6, A, "s1", 2), "resume 5 s1:2", is_stopping=True)


@TROUBLES.story()
def chat_done_does_not_end_the_stopping(script: Script) -> None:
    """The end of a stream is no sign that the task stopped: that is for the probe to find out."""
    in_room(script, stream=piece("s1", "Hi"))
    script.do(1, StopPressed(), deadline=4)
    frame(script, 2, done(11, 6, "s1"), is_stopping=True, deadline=4)
    script.do(4, TimerFired(), words.PROBE)
    script.answer(4, check("RUNNING", 6), is_stopping=False)


@TROUBLES.story()
def a_join_from_before_the_act_settles_nothing(script: Script) -> None:
    """A join that was under way when the stop was pressed and the prompt accepted knows nothing of either."""
    script.do(0, Opened(), words.SELECTED)
    script.answer(0, check("RUNNING", 5), "join")
    script.do(1, StopPressed(), is_stopping=True)
    script.do(1, SendAccepted(PromptId("p1")), awaiting_send=True)
    script.ack(2, snapshot("RUNNING", 5, 10), is_stopping=True, awaiting_send=True, deadline=5)
    script.do(5, TimerFired(), words.PROBE)
    script.answer(5, check("RUNNING", 5), is_stopping=False, awaiting_send=False, deadline=None)


@TROUBLES.story()
def a_stream_of_a_turn_that_was_not_told(script: Script) -> None:
    """Text of another turn flows in a task that ended: it is shown, no status is made of it, and it is asked about."""
    in_room(script, "COMPLETED")
    frame(script, 1, start(11, 6, "s2", B), status="COMPLETED", stream=["s2", ""], is_unstable=True, deadline=4)
    script.do(4, TimerFired(), words.PROBE)
    script.answer(4, check("RUNNING", 6, B, "s2", 0), status="RUNNING", phase="streaming", deadline=None)
