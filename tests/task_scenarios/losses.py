"""The reviewed scenarios behind `vectors/`: what gets lost, late, doubled, refused, or comes in another order."""

from __future__ import annotations

from typing import Final

from interlock.client.machine.inputs import (
    CheckAnswered,
    CheckFailed,
    CheckReason,
    CheckRequested,
    Closed,
    Connected,
    DetailSynced,
    Disconnected,
    FellBehind,
    JoinAcked,
    JoinFailed,
    Opened,
    StatusHeard,
    TimerFired,
)
from interlock.vocabulary.wire.frames import MessageStatus, Role
from tests.task_scenarios import words
from tests.task_scenarios.vectors import Book, Script
from tests.task_scenarios.words import (
    A,
    B,
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

LOSSES: Final = Book()


# Order: doubles, gaps, early frames, too slow


@LOSSES.story()
def doubles_are_nothing(script: Script) -> None:
    """A frame that was taken before is a double."""
    in_room(script)
    one = chunk(11, 5, "s1", 0, "Hi")
    frame(script, 1, one, stream=["s1", "Hi"], tick=11)
    frame(script, 1, one, stream=["s1", "Hi"], tick=11)
    frame(script, 1, chunk(10, 5, "s1", 0, "xx"), stream=["s1", "Hi"], tick=11)


@LOSSES.story()
def a_gap_is_asked_for_once(script: Script) -> None:
    """A tick is missing: what came early waits, the rest is asked for, once; the ack fills it."""
    in_room(script, stream=piece("s1", "a"))
    frame(script, 1, chunk(12, 5, "s1", 2, "c"), "resume 5 s1:1", sync="joining", early=[12], phase="streaming")
    frame(script, 1, chunk(14, 5, "s1", 4, "e"), early=[12, 14])
    frame(script, 1, chunk(13, 5, "s1", 3, "d"), early=[12, 13, 14])
    script.ack(
        2,
        snapshot("RUNNING", 5, 13, stream=piece("s1", "bcd", 1), is_whole=False),
        stream=["s1", "abcde"],
        tick=14,
        early=[],
        deadline=None,
    )


@LOSSES.story()
def frames_that_change_places(script: Script) -> None:
    """What comes in another order while joining is put into order."""
    script.do(0, Opened(), words.SELECTED)
    script.answer(0, check("RUNNING", 5), "join")
    frame(script, 1, chunk(13, 5, "s1", 1, "b"))
    frame(script, 1, chunk(12, 5, "s1", 0, "a"))
    frame(script, 1, start(11, 5, "s1"), early=[11, 12, 13])
    script.ack(1, snapshot("RUNNING", 5, 10), stream=["s1", "ab"], tick=13)


@LOSSES.story()
def a_hole_that_stays_is_asked_for_again(script: Script) -> None:
    """An ack of a later tick leaves another hole: asked again at once. One of no later tick: by the probe."""
    in_room(script, stream=piece("s1", "a"))
    frame(script, 1, chunk(12, 5, "s1", 2, "c"), "resume 5 s1:1")
    frame(script, 1, chunk(15, 5, "s1", 5, "f"), early=[12, 15])
    script.ack(2, snapshot("RUNNING", 5, 12, stream=piece("s1", "bc", 1), is_whole=False), "resume 5 s1:3", early=[15])
    script.ack(
        3,
        snapshot("RUNNING", 5, 12, stream=piece("s1", "", 3), is_whole=False),
        sync="joined",
        is_unstable=True,
        deadline=9,
    )
    frame(script, 4, chunk(13, 5, "s1", 3, "d"), "resume 5 s1:4", stream=["s1", "abcd"])


@LOSSES.story()
def too_slow_for_the_room(script: Script) -> None:
    """The server left frames out: a gap like any other."""
    in_room(script, stream=piece("s1", "a"))
    script.do(1, FellBehind(5, 20), "resume 5 s1:1", sync="joining")
    script.ack(2, snapshot("RUNNING", 7, 20, stream=piece("s1", "bc", 1), is_whole=False), tick=20, deadline=None)
    script.do(3, FellBehind(7, 20), sync="joined")


@LOSSES.story()
def too_slow_while_joining(script: Script) -> None:
    """Left behind while the join is under way, and the ack is of before that: resumed again."""
    script.do(0, Opened(), words.SELECTED)
    script.answer(0, check("RUNNING", 5), "join")
    script.do(1, FellBehind(6, 14))
    script.ack(1, snapshot("RUNNING", 5, 10), "resume 5", sync="joining")
    script.ack(2, snapshot("RUNNING", 6, 14, is_whole=False), sync="joined", deadline=None)


@LOSSES.story()
def a_new_connection_has_other_ticks(script: Script) -> None:
    """After a reconnect nothing is left of the old ticks, and frames before the new join mean nothing."""
    in_room(script, stream=piece("s1", "Hi"))
    script.do(1, Disconnected("net"), sync="idle", tick=None, is_verified=False, status="RUNNING", deadline=4)
    script.do(2, Connected(), words.RECONNECT, connection="connected", is_verified=False)
    frame(script, 2, chunk(11, 5, "s1", 2, "!"), stream=["s1", "Hi"])
    script.answer(2, check("RUNNING", 5, A, "s1", 4), "resume 5 s1:2")
    script.ack(2, snapshot("RUNNING", 5, 2, stream=piece("s1", "!!", 2), is_whole=False), stream=["s1", "Hi!!"], tick=2)
    frame(script, 3, chunk(3, 5, "s1", 4, "?"), stream=["s1", "Hi!!?"])


@LOSSES.story()
def a_connection_replaced(script: Script) -> None:
    """A new socket without word of the old one's end: the join under way is void."""
    script.do(0, Opened(), words.SELECTED)
    script.answer(0, check("RUNNING", 5), "join")
    script.do(1, Connected(), words.RECONNECT, sync="idle", is_joining=False)
    script.do(1, JoinAcked(2, snapshot("RUNNING", 5, 10)), sync="idle", tick=None)
    script.answer(1, check("RUNNING", 5), "join")


# What a join may find


@LOSSES.story()
def a_stream_that_is_gone_is_interrupted(script: Script) -> None:
    """The ack knows neither stream nor message of it: the live text is kept as broken off until the message comes."""
    in_room(script, stream=piece("s1", "Hi"))
    script.do(1, Disconnected())
    script.do(2, Connected(), words.RECONNECT)
    script.answer(2, check("RUNNING", 6), "resume 5", stream=None, interrupted=[["s1", "Hi"]])
    script.ack(2, snapshot("RUNNING", 6, 3, is_whole=False), interrupted=[["s1", "Hi"]])
    frame(script, 3, told(4, 7, said(7, "Hi all", stream="s1")), interrupted=[])


@LOSSES.story()
def a_missed_end_is_recovered(script: Script) -> None:
    """The end was missed: the check shows it, the resume brings the message, and nothing is shown twice."""
    in_room(script, stream=piece("s1", "Hel"))
    script.do(1, Disconnected())
    script.do(2, Connected(), words.RECONNECT)
    script.answer(2, check("COMPLETED", 9), "resume 5", status="COMPLETED", blocks_queued_dispatch=False)
    script.ack(
        2,
        snapshot("COMPLETED", 9, 3, messages=(said(8, "Hello", stream="s1"),), is_whole=False),
        messages=[[2, "completed", "go"], [8, "completed", "Hello"]],
        interrupted=[],
        stream=None,
        deadline=None,
    )


@LOSSES.story()
def the_servers_text_wins(script: Script) -> None:
    """Where both know text of a stream, the server's holds from its offset on."""
    in_room(script, stream=piece("s1", "Hello"))
    script.do(1, FellBehind(5, 11), "resume 5 s1:5")
    script.ack(1, snapshot("RUNNING", 5, 11, stream=piece("s1", "Help", 0), is_whole=False), stream=["s1", "Help"])


@LOSSES.story()
def text_that_was_left_out_is_asked_for(script: Script) -> None:
    """The ack begins beyond what is here: the whole is asked for; if that is not whole either, the join failed."""
    in_room(script, stream=piece("s1", "ab"))
    script.do(1, FellBehind(5, 11), "resume 5 s1:2")
    beyond = snapshot("RUNNING", 5, 11, stream=piece("s1", "z", 7), is_whole=False)
    script.ack(1, beyond, "resume 5", stream=["s1", "ab"])
    script.ack(2, beyond, sync="idle", stream=["s1", "ab"], anomalies=1, is_unstable=True, deadline=8)


@LOSSES.story()
def a_whole_snapshot_forgets(script: Script) -> None:
    """A whole snapshot takes the place of every message."""
    in_room(script)
    script.do(1, FellBehind(9, 11), "resume 5")
    script.ack(
        1, snapshot("RUNNING", 9, 11, messages=(said(8, "new"),), history_before=8), messages=[[8, "completed", "new"]]
    )


@LOSSES.story()
def an_ack_older_than_the_status(script: Script) -> None:
    """The ack is older than what was heard of the status: its messages count, its status does not; it is asked."""
    script.do(0, Opened(), words.SELECTED)
    script.answer(0, check("RUNNING", 5), "join")
    script.do(0, StatusHeard(task_status="COMPLETED", version=9, turn_id=A), status="COMPLETED")
    script.ack(
        1,
        snapshot("RUNNING", 5, 10, messages=(said(2, "go"),)),
        words.PROBE,
        status="COMPLETED",
        messages=[[2, "completed", "go"]],
    )
    script.answer(1, check("COMPLETED", 9), "resume 5")
    script.ack(2, snapshot("COMPLETED", 9, 14, is_whole=False), is_verified=True, deadline=None)


@LOSSES.story()
def a_join_is_refused(script: Script) -> None:
    """A refusal for now is tried again after a check; one for good is not, until somebody asks."""
    script.do(0, Opened(), words.SELECTED)
    script.answer(0, check("RUNNING", 5), "join")
    script.refuse(0, sync="idle", problem="refused", deadline=6)
    script.do(6, TimerFired(), words.PROBE)
    script.answer(6, check("RUNNING", 5), "join")
    script.refuse(6, is_final=True, sync="error", phase="error", is_verified=False, deadline=None)
    script.do(7, Connected(), sync="error", deadline=None)
    script.do(8, words.REFRESH, words.MANUAL)
    script.answer(8, check("RUNNING", 5), "join", problem="")
    script.ack(8, snapshot("RUNNING", 5, 10), sync="joined", phase="running")


@LOSSES.story()
def a_task_that_is_gone(script: Script) -> None:
    """The server knows no such task: that is said, no status is made of it, and nobody asks again."""
    in_room(script)
    script.do(1, words.REFRESH, words.MANUAL)
    script.do(
        1,
        CheckFailed(3, "no such task", is_gone=True),
        "leave",
        sync="error",
        status="RUNNING",
        is_verified=False,
        problem="no such task",
        can_queue_message=False,
        deadline=None,
    )


@LOSSES.story()
def a_stale_refusal_changes_nothing(script: Script) -> None:
    """The refusal of a join from before a close is no refusal of the one after it."""
    script.do(0, Opened(), words.SELECTED)
    script.answer(0, check("RUNNING", 5), "join")
    script.do(1, Closed(), "leave")
    script.do(1, Opened(), words.SELECTED)
    script.answer(1, check("RUNNING", 5), "join")
    script.do(2, JoinFailed(2, "gone", True), sync="joining")
    script.ack(2, snapshot("RUNNING", 5, 10), sync="joined")


# Status: versions, turns, words from elsewhere


@LOSSES.story()
def terminal_is_final_for_its_turn(script: Script) -> None:
    """The same turn does not run again, whatever its version: kept, counted, and asked about once."""
    in_room(script, "COMPLETED")
    frame(script, 1, words.status(11, 9, "RUNNING", A), words.PROBE, status="COMPLETED", anomalies=1, is_verified=False)
    frame(script, 1, words.status(12, 9, "FAILED", A), status="COMPLETED", anomalies=2, follow_up=None)
    script.answer(1, check("COMPLETED", 9), status="COMPLETED", is_verified=True, deadline=None)


@LOSSES.story()
def a_server_that_contradicts_itself(script: Script) -> None:
    """The check says the same impossible thing: nothing is claimed to be known, and looking backs off."""
    in_room(script, "COMPLETED")
    frame(script, 1, words.status(11, 9, "RUNNING", A), words.PROBE)
    script.answer(1, check("RUNNING", 9, A), status="COMPLETED", is_verified=False, deadline=7, anomalies=2)
    script.do(7, TimerFired(), words.PROBE)
    script.answer(7, check("RUNNING", 9, A), deadline=19)


@LOSSES.story()
def deleted_is_never_left(script: Script) -> None:
    """A finished task may be deleted; a deleted one stays so, even for another turn."""
    in_room(script, "COMPLETED")
    frame(script, 1, words.status(11, 6, "DELETE", A), status="DELETE", can_queue_message=False)
    frame(script, 2, words.status(12, 9, "RUNNING", B), words.PROBE, status="DELETE", anomalies=1)


@LOSSES.story()
def a_withdrawn_prompt_shows_the_old_end(script: Script) -> None:
    """A prompt was accepted and taken back: the task shows again how its last turn ended."""
    in_room(script, "COMPLETED")
    frame(script, 1, words.status(11, 6, "PENDING", None), status="PENDING")
    frame(script, 2, words.status(12, 7, "COMPLETED", A), status="COMPLETED", turn_id=A, deadline=None)


@LOSSES.story()
def equal_versions_are_one_truth(script: Script) -> None:
    """At one version a frame may change the status, as when no server runs the session any more; a list may not."""
    in_room(script, stream=piece("s1", "Hi"))
    script.do(1, DetailSynced(task_status="COMPLETED", version=5, turn_id=A), status="RUNNING")
    frame(script, 1, words.status(11, 5, "UNKNOWN", A), status="UNKNOWN", phase="unknown", blocks_queued_dispatch=True)


@LOSSES.story()
def a_check_overtaken_at_its_own_version(script: Script) -> None:
    """The status changed while the check was under way, at the same version: it is asked again."""
    in_room(script, stream=piece("s1", "Hi"))
    script.do(1, words.REFRESH, words.MANUAL)
    frame(script, 1, words.status(11, 5, "UNKNOWN", A), status="UNKNOWN")
    script.answer(2, check("RUNNING", 5, A, "s1", 2), words.MANUAL, status="UNKNOWN")
    script.answer(3, check("UNKNOWN", 5, A), status="UNKNOWN", is_verified=True)


@LOSSES.story()
def news_from_outside_the_room(script: Script) -> None:
    """Another page tells that a task which is not in its room runs again: checked at once, then connected."""
    in_room(script, "COMPLETED")
    script.do(1, Disconnected())
    script.do(4, TimerFired(), words.PROBE)
    script.answer(4, check("COMPLETED", 5), sync="idle", deadline=None)
    script.do(5, StatusHeard(task_status="RUNNING", version=8, turn_id=B), words.PROBE, status="RUNNING")
    script.answer(5, check("RUNNING", 8, B), "connect", sync="waiting_socket")


@LOSSES.story()
def news_ahead_of_the_room(script: Script) -> None:
    """The board is ahead of the room: what the room still says is taken in its order, its older status is not."""
    in_room(script, stream=piece("s1", "Hi"))
    script.do(1, StatusHeard(task_status="COMPLETED", version=9, turn_id=A), status="COMPLETED", deadline=4)
    frame(script, 1, words.status(11, 6, "CANCELLING"), status="COMPLETED", tick=11)
    frame(script, 1, told(12, 8, said(8, "Hi!", stream="s1")), interrupted=[], deadline=4)
    frame(script, 1, words.status(13, 9, "COMPLETED"), deadline=None, is_verified=True)


@LOSSES.story()
def a_quiet_loss_is_found(script: Script) -> None:
    """The last frames of a room were lost and nothing follows: the board's word shows it, the probe mends it."""
    in_room(script, stream=piece("s1", "Hi"))
    script.do(1, StatusHeard(task_status="COMPLETED", version=9, turn_id=A), deadline=4)
    script.do(4, TimerFired(), words.PROBE)
    script.answer(4, check("COMPLETED", 9), "resume 5")
    script.ack(
        4,
        snapshot("COMPLETED", 9, 14, messages=(said(8, "Hi!", stream="s1"),), is_whole=False),
        messages=[[2, "completed", "go"], [8, "completed", "Hi!"]],
        interrupted=[],
        deadline=None,
    )


@LOSSES.story()
def a_silent_stream_is_caught_up(script: Script) -> None:
    """The check knows more text than came: resumed from what is here. While text comes, nothing is done."""
    in_room(script, stream=piece("s1", "Hi"))
    script.do(1, words.REFRESH, words.MANUAL)
    frame(script, 1, chunk(11, 5, "s1", 2, "!"))
    script.answer(1, check("RUNNING", 5, A, "s1", 9), sync="joined")
    script.do(2, words.REFRESH, words.MANUAL)
    script.answer(2, check("RUNNING", 5, A, "s1", 9), "resume 5 s1:3")


@LOSSES.story()
def a_stream_unknown_here(script: Script) -> None:
    """The check knows a stream that is not here: resumed."""
    in_room(script)
    script.do(1, words.REFRESH, words.MANUAL)
    script.answer(1, check("RUNNING", 5, A, "s7", 3), "resume 5")
    script.ack(1, snapshot("RUNNING", 5, 12, stream=piece("s7", "abc"), is_whole=False), stream=["s7", "abc"])


# Unreachable, asleep, closed


@LOSSES.story()
def unreachable_is_not_idle(script: Script) -> None:
    """Without socket and without an answer the last word stays, and is called what it is: not known."""
    in_room(script, "COMPLETED")
    script.do(1, Disconnected("net"), status="COMPLETED", is_verified=False, deadline=4)
    script.do(4, TimerFired(), words.PROBE)
    script.fail(
        4,
        status="COMPLETED",
        connection="disconnected",
        is_verified=False,
        blocks_queued_dispatch=True,
        can_queue_message=False,
        problem="no route",
    )


@LOSSES.story()
def reachable_without_a_socket(script: Script) -> None:
    """The socket is gone and the check works all the same: reachable, and known."""
    in_room(script, "COMPLETED")
    script.do(1, Disconnected(), connection="disconnected")
    script.do(4, TimerFired(), words.PROBE)
    script.answer(4, check("COMPLETED", 5), connection="connected", is_connected=False, is_verified=True, deadline=None)


@LOSSES.story()
def after_a_long_sleep(script: Script) -> None:
    """An hour later everything that was under way has failed, in order; the first thing to do is to look."""
    script.do(0, Opened(), words.SELECTED)
    script.answer(0, check("RUNNING", 5), "join")
    script.do(1, words.REFRESH, words.MANUAL)
    script.do(3600, TimerFired(), is_checking=False, is_joining=False, sync="idle", is_verified=False, deadline=3612)
    script.do(3601, CheckRequested(CheckReason.PAGE_VISIBLE), "pull page-visible")
    script.answer(3601, check("COMPLETED", 9), "join", status="COMPLETED")


@LOSSES.story()
def asleep_with_a_question_to_follow(script: Script) -> None:
    """The check that was in flight when the machine slept has failed; what was to follow it is asked now."""
    in_room(script)
    script.do(1, words.REFRESH, words.MANUAL)
    script.do(2, CheckRequested(CheckReason.NETWORK_ONLINE), follow_up="network-online")
    script.do(3600, TimerFired(), "pull network-online", follow_up=None)


@LOSSES.story()
def a_late_answer_is_no_answer(script: Script) -> None:
    """An answer at its deadline is too late, even if no timer fired before it."""
    script.do(0, Opened(), words.SELECTED)
    script.do(10, CheckAnswered(1, check("RUNNING", 5)), status=None, is_checking=False, deadline=16)


@LOSSES.story()
def close_and_reopen(script: Script) -> None:
    """Closing forgets, leaves the room and asks nothing; reopening begins anew."""
    in_room(script, stream=piece("s1", "Hi"))
    script.do(1, Closed(), "leave", sync="closed", messages=[], stream=None, status=None, deadline=None)
    frame(script, 2, chunk(11, 5, "s1", 2, "!"), sync="closed", stream=None)
    script.do(2, CheckRequested(CheckReason.PAGE_VISIBLE), is_checking=False)
    script.do(3, Opened(), words.SELECTED, sync="idle")
    script.answer(3, check("RUNNING", 5, A, "s1", 3), "join")
    script.ack(3, snapshot("RUNNING", 5, 11, stream=piece("s1", "Hi!")), stream=["s1", "Hi!"], tick=11)


@LOSSES.story()
def waiting_for_a_person_keeps_us_in_the_room(script: Script) -> None:
    """A task that waits for a person is joined again after a reconnect: somebody else may answer."""
    in_room(script, "PENDING_CONFIRMATION")
    script.do(1, Disconnected())
    script.do(2, Connected(), words.RECONNECT)
    script.answer(2, check("PENDING_CONFIRMATION", 5), "resume 5")
    script.ack(
        2, snapshot("PENDING_CONFIRMATION", 5, 3, is_whole=False, approvals=(words.question("q1"),)), approvals=["q1"]
    )


@LOSSES.story()
def done_twice_and_out_of_order(script: Script) -> None:
    """The end comes before the last chunk, and twice: put into order, taken once."""
    in_room(script, stream=piece("s1", "a"))
    frame(script, 1, done(13, 6, "s1"), "resume 5 s1:1", early=[13])
    frame(script, 1, done(13, 6, "s1"), early=[13])
    frame(script, 1, told(12, 6, said(6, "ab", stream="s1")), early=[12, 13])
    script.ack(
        1,
        snapshot("RUNNING", 5, 11, stream=piece("s1", "b", 1), is_whole=False),
        tick=13,
        stream=None,
        messages=[[2, "completed", "go"], [6, "completed", "ab"]],
        interrupted=[],
    )


@LOSSES.story()
def a_server_that_began_anew(script: Script) -> None:
    """What waited for its turn, and what was said to be lost, belong to the ticks of the connection before."""
    in_room(script, stream=piece("s1", "a"))
    script.do(1, FellBehind(5, 20), "resume 5 s1:1")
    frame(script, 1, chunk(3, 5, "s1", 1, "old"), early=[])
    frame(script, 1, chunk(21, 5, "s1", 1, "old"), early=[21])
    script.do(2, Disconnected("restart"), early=[], sync="idle")
    script.do(3, Connected(), words.RECONNECT)
    script.answer(3, check("RUNNING", 5, A, "s1", 1), "resume 5 s1:1")
    script.ack(3, snapshot("RUNNING", 5, 2, stream=piece("s1", "", 1), is_whole=False), sync="joined", deadline=None)
    frame(script, 4, chunk(3, 5, "s1", 1, "new"), stream=["s1", "anew"], tick=3, early=[])


@LOSSES.story()
def what_waited_is_not_of_the_new_connection(script: Script) -> None:
    """A frame that waited for its turn is not taken for one of the next connection with the same tick."""
    in_room(script, stream=piece("s1", "a"))
    frame(script, 1, chunk(12, 5, "s1", 1, "old"), "resume 5 s1:1", early=[12])
    script.do(2, Disconnected("restart"))
    script.do(3, Connected(), words.RECONNECT)
    script.answer(3, check("RUNNING", 5, A, "s1", 1), "resume 5 s1:1")
    script.ack(3, snapshot("RUNNING", 5, 11, stream=piece("s1", "", 1), is_whole=False), stream=["s1", "a"], tick=11)


@LOSSES.story()
def a_stream_that_was_thought_to_be_over(script: Script) -> None:
    """A check denied the stream, the next one knows it: it is asked for, and its text is live again."""
    in_room(script, stream=piece("s1", "Hi"))
    script.do(1, words.REFRESH, words.MANUAL)
    script.answer(1, check("RUNNING", 5), stream=None, interrupted=[["s1", "Hi"]])
    script.do(2, words.REFRESH, words.MANUAL)
    script.answer(2, check("RUNNING", 5, A, "s1", 2), "resume 5")
    script.ack(
        2, snapshot("RUNNING", 5, 10, stream=piece("s1", "Hi"), is_whole=False), stream=["s1", "Hi"], interrupted=[]
    )
    frame(script, 3, chunk(11, 5, "s1", 2, "!"), stream=["s1", "Hi!"])


@LOSSES.story()
def a_check_that_outran_a_join(script: Script) -> None:
    """Text began after the join was answered, its push was lost, and a check told of it before that answer came."""
    script.do(0, Opened(), words.SELECTED)
    script.answer(0, check("RUNNING", 5), "join")
    script.do(1, words.REFRESH, words.MANUAL)
    script.answer(1, check("RUNNING", 5, A, "s1", 2), is_joining=True)
    script.ack(1, snapshot("RUNNING", 5, 10), "resume 5", stream=None, is_joining=True)
    script.ack(
        1,
        snapshot("RUNNING", 5, 11, stream=piece("s1", "Hi"), is_whole=False),
        stream=["s1", "Hi"],
        sync="joined",
        deadline=None,
    )


@LOSSES.story()
def an_answer_that_names_no_stream(script: Script) -> None:
    """An answer that names no stream takes the place of none: what was live stays, as text that broke off."""
    in_room(script, stream=piece("s1", "Hi"))
    frame(script, 1, told(11, 6, said(6, "Hi all")), stream=["s1", "Hi"], interrupted=[])
    frame(script, 1, done(12, 6, "s1"), stream=None, interrupted=[["s1", "Hi"]])
    frame(script, 1, words.status(13, 6, "COMPLETED"), interrupted=[["s1", "Hi"]], deadline=None)


@LOSSES.story()
def a_late_message_of_a_stream_that_broke_off(script: Script) -> None:
    """Live text that broke off gives way to the message that names its stream, and to no other."""
    in_room(script, stream=piece("s1", "Hi"))
    script.do(1, Disconnected())
    script.do(2, Connected(), words.RECONNECT)
    script.answer(2, check("RUNNING", 6), "resume 5", interrupted=[["s1", "Hi"]])
    others = (said(6, "so", role=Role.COMMENTARY), said(7, "Hi", stream="s2"), said(8, "Hi"))
    script.ack(2, snapshot("RUNNING", 8, 3, messages=others, is_whole=False), interrupted=[["s1", "Hi"]])
    frame(script, 3, told(4, 9, said(9, "Hi", MessageStatus.PARTIAL, stream="s1")), interrupted=[])
