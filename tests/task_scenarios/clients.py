"""Scenarios of a whole client: the board it follows, the tasks it has open, and what it sends and asks."""

from __future__ import annotations

from typing import Final

import msgspec

from interlock.client.machine.board import BoardRefused, BoardRetryDue, BoardWanted
from interlock.client.machine.client_machine import (
    CheckRefused,
    CheckSucceeded,
    FramePushed,
    LookedAgain,
    RequestAnswered,
    RequestFailed,
    TaskFollowed,
    TaskLeft,
    TaskTold,
    TimePassed,
)
from interlock.client.machine.inputs import (
    CheckAnswered,
    CheckReason,
    Connected,
    Disconnected,
    JoinAcked,
    StopPressed,
)
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.states import TaskStatus
from interlock.vocabulary.wire.frames import RuntimeCheck, TaskFrame, TaskSnapshot, TaskSummary
from interlock.vocabulary.wire.requests import BoardBehind, BoardJoined, BoardTask, TaskBehind, TaskJoined
from tests.task_scenarios.client_vectors import ClientBook, ClientScript
from tests.task_scenarios.vectors import TASK
from tests.task_scenarios.words import A, asked, check, chunk, piece, said, snapshot, start, status, told

BOARD: Final = ClientBook("board")
MANAGER: Final = ClientBook("manager")
SHELL: Final = ClientBook("shell")

ONE, TWO = TASK, SessionId("task_2")
VISIBLE: Final = LookedAgain(CheckReason.PAGE_VISIBLE)


def line(task: SessionId, version: int, word: str = "RUNNING", title: str = "") -> TaskSummary:
    return TaskSummary(task_id=task, version=version, task_status=TaskStatus(word), turn_id=A, title=title)


def all_lines(tick: int, *lines: TaskSummary) -> BoardJoined:
    return BoardJoined(id="r1", tick=tick, tasks=lines)


def changed(tick: int, one: TaskSummary) -> BoardTask:
    return BoardTask(tick=tick, task=one)


def of_two(what: RuntimeCheck) -> RuntimeCheck:
    return msgspec.structs.replace(what, task_id=TWO)


# The board


def on_board(script: ClientScript, *lines: TaskSummary) -> None:
    """Up to here: wanted, connected, and joined at tick 10."""
    script.do(0, BoardWanted(), "connect")
    script.do(0, Connected(), "join board")
    news = [" ".join(["lines", *(one.task_id for one in lines)])] if lines else []
    script.do(0, all_lines(10, *lines), *news, tick=10)


@BOARD.story
def it_is_joined_when_it_is_wanted_and_connected(script: ClientScript) -> None:
    """A socket is asked for at once, and the board when there is one. Every line is news then."""
    script.do(0, BoardWanted(), "connect", is_wanted=True, is_asked=False)
    script.do(1, Connected(), "join board", is_asked=True)
    script.do(2, all_lines(7, line(ONE, 3), line(TWO, 5)), "lines task_1 task_2", tick=7, is_asked=False)


@BOARD.story
def a_board_that_is_not_wanted_is_not_joined(script: ClientScript) -> None:
    """A connection that is there for tasks is no reason to follow the board."""
    script.do(0, Connected(), is_connected=True, is_asked=False)
    script.do(1, BoardWanted(), "connect", "join board")
    script.do(2, BoardWanted(), "connect", is_asked=True)
    script.do(3, all_lines(0), tick=0, lines=[])
    script.do(4, BoardWanted(), "connect", tick=0)


@BOARD.story
def the_next_tick_is_taken_and_an_earlier_one_is_a_double(script: ClientScript) -> None:
    """A line of the next tick is news if it changed; one of an earlier tick, or of this one, is dropped."""
    on_board(script, line(ONE, 3))
    script.do(1, changed(11, line(ONE, 4, title="a")), "lines task_1", tick=11)
    script.do(1, changed(11, line(ONE, 5, title="b")), tick=11, lines=[["task_1", 4, "RUNNING", "a"]])
    script.do(1, changed(4, line(TWO, 5)), tick=11, lines=[["task_1", 4, "RUNNING", "a"]])
    script.do(2, changed(12, line(ONE, 4, title="a")), tick=12)
    script.do(3, changed(13, line(TWO, 9)), "lines task_2", tick=13)


@BOARD.story
def a_gap_asks_for_the_whole_board(script: ClientScript) -> None:
    """A later tick shows that a line was lost. It is not taken; what the whole board then says in other words is."""
    on_board(script, line(ONE, 3), line(TWO, 5))
    script.do(1, changed(12, line(TWO, 6)), "join board", tick=None, lines=[
        ["task_1", 3, "RUNNING", ""], ["task_2", 5, "RUNNING", ""],
    ])  # fmt: skip
    script.do(1, changed(13, line(TWO, 7)), tick=None)
    script.do(2, all_lines(13, line(ONE, 3), line(TWO, 7, "COMPLETED")), "lines task_2", tick=13)


@BOARD.story
def one_that_was_too_slow_asks_for_the_whole_board(script: ClientScript) -> None:
    """`board:behind` means the same as a gap; outside the board it means nothing."""
    script.do(0, BoardBehind(tick=4), tick=None)
    on_board(script, line(ONE, 3))
    script.do(1, BoardBehind(tick=20), "join board", tick=None)
    script.do(2, all_lines(20, line(ONE, 3)), tick=20)


@BOARD.story
def of_two_lines_the_higher_version_holds(script: ClientScript) -> None:
    """An older line changes nothing, in a whole board or alone. One of the same version that differs is taken."""
    on_board(script, line(ONE, 9, title="new"))
    script.do(1, changed(11, line(ONE, 8, title="old")), tick=11, lines=[["task_1", 9, "RUNNING", "new"]])
    script.do(1, changed(12, line(ONE, 9, title="newer")), "lines task_1")
    script.do(2, BoardBehind(tick=14), "join board")
    script.do(2, all_lines(14, line(ONE, 8)), tick=14, lines=[["task_1", 9, "RUNNING", "newer"]])


@BOARD.story
def a_task_that_the_whole_board_does_not_name_is_gone(script: ClientScript) -> None:
    """It leaves without a word: nothing is told of it, and were it to come back it would be news."""
    on_board(script, line(ONE, 3), line(TWO, 5))
    script.do(1, BoardBehind(tick=11), "join board")
    script.do(1, all_lines(11, line(TWO, 5)), lines=[["task_2", 5, "RUNNING", ""]])
    script.do(2, changed(12, line(ONE, 3)), "lines task_1")


@BOARD.story
def a_question_that_failed_is_asked_again_later(script: ClientScript) -> None:
    """Each failure in a row makes the delay longer; meanwhile nothing else asks. A success begins the count anew."""
    script.do(0, Connected())
    script.do(0, BoardWanted(), "connect", "join board")
    script.do(1, BoardRefused(), "retry 1", is_asked=False, is_delayed=True, failures=1)
    script.do(1, BoardWanted(), "connect", is_asked=False)
    script.do(2, BoardRetryDue(), "join board", is_delayed=False)
    script.do(3, BoardRefused(), "retry 2", failures=2)
    script.do(5, BoardRetryDue(), "join board")
    script.do(6, all_lines(1), failures=0, tick=1)
    script.do(7, BoardBehind(tick=2), "join board")
    script.do(8, BoardRefused(), "retry 1")


@BOARD.story
def a_lost_connection_leaves_the_lines_as_they_were(script: ClientScript) -> None:
    """What was asked or delayed is void. The next connection joins at once, and only what changed is told."""
    on_board(script, line(ONE, 3), line(TWO, 5))
    script.do(1, Disconnected("gone"), tick=None, is_connected=False)
    script.do(
        1, changed(11, line(ONE, 4)), tick=None, lines=[["task_1", 3, "RUNNING", ""], ["task_2", 5, "RUNNING", ""]]
    )
    script.do(2, Connected(), "join board")
    script.do(2, BoardRefused(), "retry 1", is_delayed=True)
    script.do(3, Disconnected("gone"), is_delayed=False, failures=0)
    script.do(4, BoardRetryDue(), is_asked=False)
    script.do(5, Connected(), "join board")
    script.do(5, all_lines(2, line(ONE, 4), line(TWO, 5)), "lines task_1", tick=2)


@BOARD.story
def an_answer_to_no_question_changes_nothing(script: ClientScript) -> None:
    """An answer or a failure that comes after its connection was lost is dropped, as is a delay that is over twice."""
    script.do(0, BoardWanted(), "connect")
    script.do(0, Connected(), "join board")
    script.do(1, Disconnected("gone"), is_asked=False)
    script.do(1, all_lines(9, line(ONE, 3)), tick=None, lines=[])
    script.do(1, BoardRefused(), failures=0)
    script.do(2, Connected(), "join board")
    script.do(2, BoardRetryDue(), is_asked=True)
    script.do(3, all_lines(1, line(ONE, 3)), "lines task_1")
    script.do(3, all_lines(5, line(ONE, 4)), tick=1, lines=[["task_1", 3, "RUNNING", ""]])


@BOARD.story
def a_whole_board_may_name_a_task_twice(script: ClientScript) -> None:
    """Each line is taken in its turn, by the same rule."""
    script.do(0, Connected())
    script.do(0, BoardWanted(), "connect", "join board")
    lines = (line(ONE, 3, title="a"), line(ONE, 4, title="b"), line(ONE, 2, title="c"))
    script.do(1, all_lines(1, *lines), "lines task_1 task_1", lines=[["task_1", 4, "RUNNING", "b"]])


# The manager


def answered(generation: int, what: RuntimeCheck) -> CheckAnswered:
    return CheckAnswered(generation, what)


def of(task: SessionId, what: TaskSnapshot) -> TaskSnapshot:
    replaced: TaskSnapshot = msgspec.structs.replace(what, task_id=task)
    return replaced


def entered(script: ClientScript, task: SessionId, generation: int, word: str = "RUNNING") -> None:
    """The manager's way into a room: opened, checked at version 5 and joined at tick 10."""
    found = msgspec.structs.replace(check(word, 5), task_id=task)
    script.do(0, TaskFollowed(task), f"{task}: pull task-selected")
    script.do(0, TaskTold(task, answered(generation, found)), f"{task}: join")
    script.do(0, TaskTold(task, JoinAcked(generation + 1, of(task, snapshot(word, 5, 10)))))


@MANAGER.story
def each_task_has_its_own_machine(script: ClientScript) -> None:
    """Tasks are opened, checked and closed by themselves. To open one again is to look again."""
    script.do(0, TaskFollowed(ONE), "task_1: pull task-selected", deadline=10)
    script.do(1, TaskFollowed(TWO), "task_2: pull task-selected", deadline=10)
    script.do(2, TaskFollowed(ONE), tasks__task_1__follow_up="task-selected")
    script.do(3, TaskLeft(ONE), deadline=11)
    script.do(4, TaskLeft(ONE), dropped=0)
    script.do(5, TaskTold(ONE, StopPressed()), dropped=1)


@MANAGER.story
def every_task_hears_of_the_socket(script: ClientScript) -> None:
    """So does one that is opened later."""
    script.do(0, TaskFollowed(ONE), "task_1: pull task-selected")
    script.do(0, TaskTold(ONE, answered(1, check("RUNNING", 5))), "task_1: connect")
    script.do(1, Connected(), "task_1: pull websocket-reconnect", is_connected=True)
    script.do(1, TaskFollowed(TWO), "task_2: pull task-selected", tasks__task_2__is_connected=True)
    script.do(2, Disconnected("net"), tasks__task_1__is_connected=False, tasks__task_2__is_connected=False)


@MANAGER.story
def a_frame_goes_to_its_own_task(script: ClientScript) -> None:
    """A frame of a task that is not open is counted, and dropped."""
    script.do(0, Connected())
    entered(script, ONE, 1)
    entered(script, TWO, 1)
    text: TaskFrame = msgspec.structs.replace(chunk(11, 5, "s1", 0, "Hi"), task_id=TWO)
    script.do(1, FramePushed(text), tasks__task_2__stream=["s1", "Hi"], tasks__task_1__stream=None)
    other: TaskFrame = msgspec.structs.replace(text, task_id=SessionId("task_3"))
    script.do(1, FramePushed(other), dropped=1)
    script.do(2, FramePushed(TaskBehind(task_id=ONE, version=7, tick=20)), "task_1: resume 5")


@MANAGER.story
def no_answer_to_a_closed_task_fits_the_one_opened_again(script: ClientScript) -> None:
    """Generations go on: a machine begins where the highest of those that were closed ended."""
    script.do(0, Connected())
    entered(script, ONE, 1)
    script.do(1, TaskLeft(ONE), "task_1: leave", tasks={})
    script.do(2, TaskFollowed(ONE), "task_1: pull task-selected")
    script.do(2, TaskTold(ONE, answered(1, check("FAILED", 9))), tasks__task_1__status=None)
    script.do(2, TaskTold(ONE, JoinAcked(2, snapshot("FAILED", 9, 1))), tasks__task_1__status=None)
    script.do(2, TaskTold(ONE, answered(3, check("RUNNING", 6))), "task_1: join", tasks__task_1__status="RUNNING")


@MANAGER.story
def what_happens_to_the_page_happens_to_every_task(script: ClientScript) -> None:
    """Each is checked. Where a check is under way one more follows."""
    script.do(0, Connected())
    entered(script, ONE, 1, "COMPLETED")
    entered(script, TWO, 1, "COMPLETED")
    script.do(1, VISIBLE, "task_1: pull page-visible", "task_2: pull page-visible")
    script.do(1, LookedAgain(CheckReason.NETWORK_ONLINE), tasks__task_1__follow_up="network-online")


@MANAGER.story
def only_what_is_due_is_fired(script: ClientScript) -> None:
    """The earliest deadline is the manager's; a task whose deadline is later notices nothing."""
    script.do(0, Connected())
    entered(script, TWO, 1, "COMPLETED")
    script.do(5, TaskFollowed(ONE), "task_1: pull task-selected", deadline=15)
    script.do(14, TimePassed(), tasks__task_1__is_checking=True)
    script.do(15, TimePassed(), tasks__task_1__is_checking=False, deadline=21)
    script.do(21, TimePassed(), "task_1: pull runtime-instability-probe", tasks__task_2__sync="joined")


# The shell


def in_room(script: ClientScript, word: str = "RUNNING", *, stream: str = "") -> None:
    """Up to here: connected, opened, checked at version 5 and joined at tick 10."""
    script.do(0, Connected())
    script.do(0, TaskFollowed(ONE), "check task_1")
    live = None if not stream else "s1"
    script.do(0, CheckSucceeded(ONE, 1, check(word, 5, A, live, len(stream))), "send task:join task_1")
    text = piece("s1", stream) if stream else None
    whole = snapshot(word, 5, 10, messages=(asked(2, "go"),), stream=text)
    script.do(0, RequestAnswered(ONE, 2, TaskJoined(id="r1", snapshot=whole)), tasks__task_1__sync="joined")


@SHELL.story
def a_task_is_followed_from_its_opening_to_its_end(script: ClientScript) -> None:
    """First a check, then the socket that it shows to be needed, a check and a join by it, then what the room says."""
    script.do(0, TaskFollowed(ONE), "check task_1", deadline=10)
    script.do(1, CheckSucceeded(ONE, 1, check("RUNNING", 5)), "connect", tasks__task_1__sync="waiting_socket")
    script.do(2, Connected(), "check task_1")
    script.do(3, CheckSucceeded(ONE, 2, check("RUNNING", 5)), "send task:join task_1", deadline=13)
    whole = snapshot("RUNNING", 5, 10, messages=(asked(2, "go"),))
    script.do(4, RequestAnswered(ONE, 3, TaskJoined(id="r1", snapshot=whole)), tasks__task_1__tick=10)
    for frame in (
        start(11, 5, "s1"),
        chunk(12, 5, "s1", 0, "Hi"),
        told(13, 6, said(6, "Hi", stream="s1")),
        status(14, 7, "COMPLETED"),
    ):
        script.do(5, FramePushed(frame))
    script.do(6, TaskLeft(ONE), "send task:leave task_1", tasks={})


@SHELL.story
def what_is_here_is_not_asked_for_again(script: ClientScript) -> None:
    """After a loss the task resumes: messages after the version, and the stream after its cursor, in code points."""
    in_room(script, stream="né🙂")
    script.do(1, Disconnected("gone"), tasks__task_1__tick=None, deadline=4)
    script.do(2, Connected(), "check task_1")
    script.do(2, CheckSucceeded(ONE, 3, check("RUNNING", 5, A, "s1", 4)), "send task:resume task_1")
    rest = snapshot("RUNNING", 5, 2, stream=piece("s1", "!", 3), is_whole=False)
    script.do(3, RequestAnswered(ONE, 4, TaskJoined(id="r2", snapshot=rest)), tasks__task_1__stream=["s1", "né🙂!"])


@SHELL.story
def a_refusal_that_is_final_is_not_asked_again(script: ClientScript) -> None:
    """401, 403 and 404 are final, for a check and for a join, until somebody looks again."""
    script.do(0, Connected())
    script.do(0, TaskFollowed(ONE), "check task_1")
    script.do(1, CheckRefused(ONE, 1, "no such task", 404), tasks__task_1__sync="error", deadline=None)
    script.do(2, LookedAgain(CheckReason.MANUAL_REFRESH), "revive", "check task_1")
    script.do(3, CheckSucceeded(ONE, 2, check("RUNNING", 5)), "send task:join task_1")
    script.do(4, RequestFailed(ONE, 3, "not for you", 403), tasks__task_1__sync="error", deadline=None)


@SHELL.story
def any_other_failure_is_asked_again(script: ClientScript) -> None:
    """A refusal of another status, a loss and a deadline alike: the probe looks again, later and later."""
    script.do(0, Connected())
    script.do(0, TaskFollowed(ONE), "check task_1")
    script.do(1, CheckRefused(ONE, 1, "too busy", 503), tasks__task_1__sync="idle", deadline=7)
    script.do(7, TimePassed(), "check task_1")
    script.do(8, CheckSucceeded(ONE, 2, check("RUNNING", 5)), "send task:join task_1")
    script.do(9, RequestFailed(ONE, 3, "too much at once", 429), deadline=21)
    script.do(21, TimePassed(), "check task_1")
    script.do(22, CheckSucceeded(ONE, 4, check("RUNNING", 5)), "send task:join task_1")
    script.do(23, RequestFailed(ONE, 5, "the connection was lost"), deadline=47)
    script.do(47, TimePassed(), "check task_1")
    script.do(57, TimePassed(), tasks__task_1__is_checking=False, deadline=87)
    script.do(58, CheckSucceeded(ONE, 6, check("COMPLETED", 9)), tasks__task_1__status="RUNNING")


@SHELL.story
def a_line_of_the_board_is_a_word_on_an_open_task(script: ClientScript) -> None:
    """The task hears of it before whoever follows the board. A task that is not open makes only a line."""
    in_room(script, "COMPLETED")
    script.do(1, BoardWanted(), "connect", "send board:join")
    lines = all_lines(3, line(ONE, 5, "COMPLETED"), line(TWO, 4))
    script.do(1, RequestAnswered(None, None, lines), "lines task_1 task_2", dropped=0, board__tick=3)
    moved = msgspec.structs.replace(line(ONE, 8), turn_id="turn_b")
    script.do(2, FramePushed(changed(4, moved)), "lines task_1", tasks__task_1__status="RUNNING")
    script.do(3, FramePushed(changed(6, line(TWO, 6))), "send board:join", board__tick=None)
    script.do(4, RequestFailed(None, None, "too busy", 503), "retry 1", board__failures=1)
    script.do(5, BoardRetryDue(), "send board:join")


@SHELL.story
def a_loss_of_the_socket_is_a_loss_for_all(script: ClientScript) -> None:
    """With the next socket the tasks are checked first, in the order of their opening, and then the board is joined."""
    in_room(script)
    script.do(0, TaskFollowed(TWO), "check task_2")
    script.do(0, CheckSucceeded(TWO, 1, of_two(check("COMPLETED", 0))), tasks__task_2__sync="idle")
    script.do(1, BoardWanted(), "connect", "send board:join")
    script.do(2, Disconnected("gone"), board__is_asked=False, tasks__task_1__sync="idle")
    script.do(3, Connected(), "check task_1", "check task_2", "send board:join")


@SHELL.story
def a_client_looks_again(script: ClientScript) -> None:
    """The connection is tried at once, and every task is checked; one that is under way is followed by one more."""
    script.do(0, VISIBLE, "revive")
    script.do(0, TaskFollowed(ONE), "check task_1")
    script.do(1, VISIBLE, "revive", tasks__task_1__follow_up="page-visible")
    script.do(2, CheckSucceeded(ONE, 1, check("COMPLETED", 0)), "check task_1")


@SHELL.story
def what_is_for_no_open_task_is_dropped(script: ClientScript) -> None:
    """Frames and answers of a task that is not open, and answers of other generations, change nothing."""
    script.do(0, Connected())
    script.do(0, FramePushed(chunk(11, 5, "s1", 0, "Hi")), dropped=1)
    script.do(0, FramePushed(TaskBehind(task_id=ONE, version=7, tick=20)), dropped=2)
    script.do(0, CheckSucceeded(ONE, 1, check("RUNNING", 5)), dropped=3)
    script.do(1, TaskFollowed(ONE), "check task_1")
    script.do(1, CheckSucceeded(ONE, 9, check("RUNNING", 5)), tasks__task_1__status=None)
    script.do(2, TaskTold(ONE, StopPressed()), tasks__task_1__is_stopping=True)
    script.do(3, FramePushed(changed(1, line(ONE, 9))), board__lines=[])
