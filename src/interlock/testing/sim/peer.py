"""A client of a simulation: the real `TaskStateManager`, and the least transport that one could have.

It sends what the machines ask for, hands them what comes, fires their timers, and reconnects once a socket was wanted.
It sleeps: then its timers stand still, and what comes waits, or is lost with the socket.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import Final, Protocol

import msgspec

from interlock.client.machine.inputs import (
    CancelAcked,
    CancelFailed,
    CheckAnswered,
    CheckFailed,
    Connected,
    Disconnected,
    EnsureConnected,
    FellBehind,
    Join,
    JoinAcked,
    JoinFailed,
    Leave,
    Output,
    PullRuntime,
    QueueHeld,
    SendAccepted,
    StopPressed,
    TaskInput,
)
from interlock.client.machine.manager import TaskStateManager
from interlock.client.machine.state import TaskState
from interlock.testing.clock import VirtualClock
from interlock.testing.sim.network import Network, SimulatedLink
from interlock.testing.sim.weather import Fault
from interlock.vocabulary.ids import PromptId, SessionId
from interlock.vocabulary.wire.frames import RuntimeCheck, TaskSummary
from interlock.vocabulary.wire.requests import (
    Ack,
    ApprovalDecide,
    BoardBehind,
    BoardJoin,
    BoardJoined,
    BoardTask,
    ChatCancel,
    ChatSend,
    Hello,
    Refused,
    Request,
    ServerClosing,
    ServerFrame,
    TaskBehind,
    TaskJoin,
    TaskJoined,
    TaskLeave,
    TaskResume,
)

ANSWER_SECONDS: Final = 10.0
_FRAMES: Final[msgspec.json.Decoder[ServerFrame]] = msgspec.json.Decoder(ServerFrame)


class Uplink(Protocol):
    """What a client needs of the world."""

    network: Network

    def dial(self, peer: Peer) -> SimulatedLink | None: ...
    def serve(self, link: SimulatedLink, request: Request) -> None: ...
    def check(self, task_id: SessionId) -> RuntimeCheck | None: ...
    def observe(self, peer: Peer, task_id: SessionId, input: TaskInput | None) -> None: ...
    def trace(self, line: str) -> None: ...


class Peer:
    """One client. `number` names it; `has_board`: it also follows the board, so that it hears of every task."""

    def __init__(self, number: int, uplink: Uplink, clock: VirtualClock, chance: Random, *, has_board: bool) -> None:
        self.number = number
        self.manager = TaskStateManager()
        self.link: SimulatedLink | None = None
        self.has_socket = False  # as far as the machines were told
        self.is_asleep = False
        self.has_board = has_board
        self.checks: Counter[str] = Counter()
        self.joins = 0
        self.sent = 0
        self._uplink = uplink
        self._clock = clock
        self._chance = chance
        self._is_wanted = False
        self._is_dialling = False
        self._failures = 0
        self._numbers = 0
        self._joins: dict[str, tuple[SessionId, int]] = {}
        self._acts: dict[str, tuple[SessionId, Request]] = {}
        self._board_tick = 0
        self._timer: int | None = None
        self._pillow: list[Callable[[], None]] = []

    # What a person does

    @property
    def open_tasks(self) -> tuple[SessionId, ...]:
        return tuple(task_id for task_id, state in self.states().items() if state.is_open)

    def states(self) -> dict[SessionId, TaskState]:
        return {task_id: machine.state for task_id, machine in self.manager.machines.items()}

    def open(self, task_id: SessionId) -> None:
        self._do(self.manager.open(task_id, self._clock()))
        self._after(task_id, None)

    def close(self, task_id: SessionId) -> None:
        self._do(self.manager.close(task_id, self._clock()))
        self._after(task_id, None)

    def look(self) -> None:
        """The page is visible again."""
        self._hurry()
        self._do(self.manager.page_visible(self._clock()))
        self._after_all()

    def be_online(self) -> None:
        self._hurry()
        self._do(self.manager.network_online(self._clock()))
        self._after_all()

    def send(self, task_id: SessionId) -> None:
        prompt_id = PromptId(f"prm_c{self.number}_{self._numbers}")
        self._act(task_id, ChatSend(id=self._new_id(), task_id=task_id, text="go", prompt_id=prompt_id))

    def stop(self, task_id: SessionId) -> None:
        self._tell(task_id, StopPressed())
        if not self._act(task_id, ChatCancel(id=self._new_id(), task_id=task_id)):
            self._tell(task_id, CancelFailed("not connected"))

    def decide(self, task_id: SessionId) -> None:
        asked = ApprovalDecide(id=self._new_id(), task_id=task_id, approval_id="whatever is open", is_allowed=True)
        self._act(task_id, asked)

    def hold(self, task_id: SessionId, count: int) -> None:
        self._tell(task_id, QueueHeld(count))

    def hear_detail(self, summary: TaskSummary) -> None:
        """Some other page told of the task, as it was when it was asked."""
        self._when_awake(lambda: self._take_summary(summary, is_detail=True))

    # Sleep

    def fall_asleep(self) -> None:
        self.is_asleep = True
        self._disarm()

    def wake(self, *, is_late_first: bool) -> None:
        """Timers that were due fire before or after what waited: a browser promises neither."""
        self.is_asleep = False
        waited, self._pillow = self._pillow, []
        if is_late_first:
            self._fire()
        for one in waited:
            one()
        self._fire()

    def forget_pillow(self) -> int:
        """What waited is lost."""
        lost, self._pillow = len(self._pillow), []
        return lost

    def _when_awake(self, do: Callable[[], None]) -> None:
        if self.is_asleep:
            self._pillow.append(do)
        else:
            do()

    # What comes

    def hear(self, link: SimulatedLink, frame: bytes) -> None:
        """A frame of a socket."""
        self._when_awake(lambda: self._take(frame) if link is self.link else None)

    def lose(self, link: SimulatedLink, reason: str) -> None:
        """The socket is gone."""
        self._when_awake(lambda: self._lose(link, reason))

    def _lose(self, link: SimulatedLink, reason: str) -> None:
        if link is not self.link:
            return
        link.is_held_here = False
        link.is_up = False
        self.link = None
        self._uplink.trace(f"c{self.number} lost its socket: {reason}")
        for request_id in (*self._joins, *self._acts):
            self._fail(request_id, "the connection was lost")
        self.has_socket = False
        self._do(self.manager.disconnected(self._clock(), reason))
        self._after_all(Disconnected(reason))
        self._dial_later()

    def _take(self, data: bytes) -> None:
        frame = _FRAMES.decode(data)
        match frame:
            case TaskJoined(id=request_id, snapshot=snapshot):
                joined = self._joins.pop(request_id, None)
                if joined is not None:
                    self._tell(joined[0], JoinAcked(joined[1], snapshot))
            case Ack():
                self._take_ack(frame)
            case Refused(id=request_id):
                self._fail(request_id, "refused")
            case BoardJoined(tick=tick, tasks=tasks):
                self._board_tick = tick
                for summary in tasks:
                    self._take_summary(summary)
            case BoardTask() | BoardBehind():
                self._take_board(frame)
            case TaskBehind(task_id=task_id, version=version, tick=tick):
                self._tell(task_id, FellBehind(version, tick))
            case Hello() | ServerClosing():
                pass
            case _:
                self._do(self.manager.route(frame, self._clock()))
                self._after(frame.task_id, None)

    def _take_ack(self, ack: Ack) -> None:
        task_id, request = self._acts.pop(ack.id, (None, None))
        if task_id is None:
            return
        if isinstance(request, ChatSend) and request.prompt_id is not None:
            self._tell(task_id, SendAccepted(request.prompt_id))
        elif isinstance(request, ChatCancel):
            self._tell(task_id, CancelAcked(is_delivered=ack.result is True))

    def _take_board(self, frame: BoardTask | BoardBehind) -> None:
        if isinstance(frame, BoardBehind) or frame.tick > self._board_tick + 1:
            self._ask(BoardJoin(id=self._new_id()))
        elif frame.tick == self._board_tick + 1:
            self._board_tick = frame.tick
            self._take_summary(frame.task)

    def _take_summary(self, summary: TaskSummary, *, is_detail: bool = False) -> None:
        take = self.manager.sync_task_detail if is_detail else self.manager.handle_task_status
        told = take(
            summary.task_id,
            task_status=summary.task_status,
            version=summary.version,
            turn_id=summary.turn_id,
            status_updated_at=summary.status_updated_at,
            now=self._clock(),
        )
        self._do(told)
        self._after(summary.task_id, None)

    # What the machines ask for

    def _tell(self, task_id: SessionId, input: TaskInput) -> None:
        self._do(self.manager.step(task_id, input, self._clock()))
        self._after(task_id, input)

    def _do(self, outputs: Iterable[tuple[SessionId, Output]]) -> None:
        for task_id, output in outputs:
            match output:
                case PullRuntime():
                    self._pull(task_id, output)
                case Join():
                    self._join(task_id, output)
                case Leave():
                    self._ask(TaskLeave(id=self._new_id(), task_id=task_id))
                case EnsureConnected():
                    self._is_wanted = True
                    self._dial_later()

    def _pull(self, task_id: SessionId, pull: PullRuntime) -> None:
        self.checks[pull.reason.value] += 1
        self.sent += 1
        uplink, network = self._uplink, self._uplink.network

        def ask() -> None:
            check = uplink.check(task_id)
            network.fetch(self.number, lambda: self._when_awake(lambda: hear(check)))

        def hear(check: RuntimeCheck | None) -> None:
            if check is None:
                network.tally[Fault.CHECK_FAILED] += 1
                self._tell(task_id, CheckFailed(pull.generation, "nobody answers"))
                return
            newest = uplink.check(task_id)
            if newest is not None and newest != check:
                network.tally[Fault.CHECK_OVERTAKEN] += 1
            self._tell(task_id, CheckAnswered(pull.generation, check))

        network.fetch(self.number, ask)

    def _join(self, task_id: SessionId, join: Join) -> None:
        self.joins += 1
        request_id = self._new_id()
        self._joins[request_id] = (task_id, join.generation)
        request: TaskJoin | TaskResume
        if join.is_resume and join.after_version is not None:
            request = TaskResume(
                id=request_id,
                task_id=task_id,
                version=join.after_version,
                stream_id=join.stream_id,
                cursor=join.cursor,
            )
        else:
            request = TaskJoin(id=request_id, task_id=task_id, after_version=join.after_version)
        if not self._ask(request):
            self._when_awake(lambda: self._fail(request_id, "not connected"))

    def _act(self, task_id: SessionId, request: Request) -> bool:
        """A command. It fails by itself when no answer comes."""
        if not self._ask(request):
            return False
        self._acts[request.id] = (task_id, request)
        self._uplink.network.later(
            ANSWER_SECONDS, lambda: self._when_awake(lambda: self._fail(request.id, "no answer came"))
        )
        return True

    def _ask(self, request: Request) -> bool:
        link = self.link
        if link is None:
            return False
        self.sent += 1
        self._uplink.trace(f"c{self.number} asks {request}")
        link.ask(lambda: self._uplink.serve(link, request))
        return True

    def _fail(self, request_id: str, problem: str) -> None:
        joined = self._joins.pop(request_id, None)
        if joined is not None:
            self._tell(joined[0], JoinFailed(joined[1], problem))
        task_id, request = self._acts.pop(request_id, (None, None))
        if task_id is not None and isinstance(request, ChatCancel):
            self._tell(task_id, CancelFailed(problem))

    def _new_id(self) -> str:
        self._numbers += 1
        return f"c{self.number}_{self._numbers}"

    # The socket

    def _hurry(self) -> None:
        if self._is_wanted and self.link is None and not self.is_asleep:
            self._failures = 0
            self._dial()

    def _dial_later(self) -> None:
        if self._is_wanted and self.link is None and not self._is_dialling:
            self._is_dialling = True
            delay = self._chance.random() * min(5.0, 0.2 * 2**self._failures)
            self._uplink.network.later(delay, lambda: self._when_awake(self._dial))

    def _dial(self) -> None:
        self._is_dialling = False
        if self.link is not None:
            return
        self.link = self._uplink.dial(self)
        if self.link is None:
            self._failures += 1
            self._dial_later()
            return
        self._failures = 0
        if self.has_board:
            self._ask(BoardJoin(id=self._new_id()))
        self.has_socket = True
        self._do(self.manager.connected(self._clock()))
        self._after_all(Connected())

    # Timers

    def _after_all(self, input: TaskInput | None = None) -> None:
        for task_id in tuple(self.manager.machines):
            self._uplink.observe(self, task_id, input)
        self._arm()

    def _after(self, task_id: SessionId, input: TaskInput | None) -> None:
        self._uplink.observe(self, task_id, input)
        self._arm()

    def _arm(self) -> None:
        self._disarm()
        due = self.manager.deadline
        if due is not None and not self.is_asleep:
            self._timer = self._clock.call_at(max(due, self._clock()), self._fire)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._clock.cancel(self._timer)
            self._timer = None

    def _fire(self) -> None:
        self._timer = None
        if not self.is_asleep:
            self._do(self.manager.fire(self._clock()))
            self._after_all()
