"""One schedule: a server, its clients, what happens between them, and whether they end in the same place.

    report = simulate(seed=7)

Everything comes from the seed: two runs of it are the same, line by line. A schedule has three parts. First everything
goes wrong for a while. Then the network heals, the server lives, the agents are quiet; each client is looked at once.
After that it stands where the server stands, waits for nothing, and says nothing more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from random import Random
from typing import Final

from interlock.client.machine.inputs import TaskInput
from interlock.client.machine.state import Digest, SyncState, TaskState, digest_of
from interlock.lifecycle.task_status import StatusClass, classify
from interlock.testing.clock import VirtualClock
from interlock.testing.sim.laws import SimulationLawBroken, Witness, settled
from interlock.testing.sim.network import Network, SimulatedLink
from interlock.testing.sim.peer import Peer
from interlock.testing.sim.server import SimulatedServer
from interlock.testing.sim.weather import CALM, SLUGGISH, Fault, Weather, draw_weather
from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.states import TaskStatus
from interlock.vocabulary.wire.encoding import encode
from interlock.vocabulary.wire.frames import RuntimeCheck
from interlock.vocabulary.wire.requests import (
    Ack,
    ApprovalDecide,
    BoardJoin,
    ChatCancel,
    ChatSend,
    Problem,
    Refused,
    Request,
    TaskJoin,
    TaskLeave,
    TaskResume,
)

STORM_SECONDS: Final = 40.0
DRAIN_SECONDS: Final = 8.0  # longer than any message takes, in any weather
SETTLE_SECONDS: Final = 70.0
QUIET_SECONDS: Final = 120.0
LOOK_EVERY: Final = 4  # a look at the whole costs more than a step
MAX_CHECKS_TO_SETTLE: Final = 6
MAX_MESSAGES_TO_SETTLE: Final = 40
_MAX_STEPS: Final = 50_000


class SimulationFailed(AssertionError):
    """A law did not hold in a schedule. The message ends with the line that shows it again."""


@dataclass(slots=True)
class Report:
    """What happened in one schedule, or in many: reports can be added up."""

    schedules: int = 0
    faults: Counter[Fault] = field(default_factory=Counter)
    acts: Counter[str] = field(default_factory=Counter)
    checks: Counter[str] = field(default_factory=Counter)
    joins: int = 0
    messages: int = 0
    waited: int = 0
    converged_alone: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    clients: int = 0
    trace: list[str] = field(default_factory=list)

    def add(self, other: Report) -> None:
        self.schedules += other.schedules
        self.faults.update(other.faults)
        self.acts.update(other.acts)
        self.checks.update(other.checks)
        self.joins += other.joins
        self.messages += other.messages
        self.waited += other.waited
        self.converged_alone += other.converged_alone
        self.ends.update(other.ends)
        self.clients += other.clients

    def summary(self) -> str:
        faults = ", ".join(f"{count} {fault.value}" for fault, count in sorted(self.faults.items()))
        ends = ", ".join(f"{count} {end}" for end, count in sorted(self.ends.items()))
        return (
            f"simulation: {self.schedules} schedules, {self.clients} clients ({self.converged_alone} of {self.waited} "
            f"that nobody looked at converged alone), {self.messages} messages, {sum(self.checks.values())} checks, "
            f"{self.joins} joins and resumes; faults: {faults}; ended in: {ends}"
        )


class World:
    """Everything that one schedule consists of."""

    def __init__(self, seed: int, *, is_traced: bool = False) -> None:
        self.seed = seed
        self.clock = VirtualClock()
        self.chance = Random(seed)
        self.report = Report(schedules=1)
        self.weather: Weather = draw_weather(self.chance)
        self.network = Network(self.clock, self.chance, self.weather, self.report.faults)
        self._is_traced = is_traced
        self._is_stormy = True
        self._looks = 0
        self._witnesses: dict[tuple[int, SessionId], Witness] = {}
        self._links: dict[SimulatedLink, Peer] = {}
        self.server = SimulatedServer(self.clock, self.chance, self.report.faults, self.trace)
        self.tasks = tuple(SessionId(f"ses_{n}") for n in range(self.chance.choice((1, 1, 2))))
        self.server.start()
        for task_id in self.tasks:
            self.server.open_session(task_id)
        self.server.recover()
        self.peers = [
            Peer(n, self, self.clock, self.chance, has_board=self.chance.random() < 0.5)
            for n in range(self.chance.randint(1, 4))
        ]

    def trace(self, line: str) -> None:
        if self._is_traced:
            self.report.trace.append(f"{self.clock():9.3f} {line}")

    # What clients need of it

    def dial(self, peer: Peer) -> SimulatedLink | None:
        if self.server.rooms is None or peer.number in self.network.cut_off:
            self.report.faults[Fault.CONNECT_REFUSED] += 1
            return None
        capacity = self.chance.choice((2, 4, 8)) if self.weather.is_slow and self._is_stormy else 1000
        link = SimulatedLink(self.network, peer.number, self, capacity)
        self._links[link] = peer
        self.trace(f"c{peer.number} connected")
        return link

    def check(self, task_id: SessionId) -> RuntimeCheck | None:
        return self.server.check(task_id)

    def serve(self, link: SimulatedLink, request: Request) -> None:
        """What the server does with a request that reached it."""
        rooms = self.server.rooms
        if rooms is None or not link.is_held_there:
            return
        match request:
            case TaskJoin() | TaskResume():
                rooms.join(link, request)
                return
            case BoardJoin():
                rooms.join_board(link, request)
                return
            case TaskLeave():
                rooms.leave(link, request.task_id)
            case _:
                pass
        link.answer(encode(self._command(request)))

    def _command(self, request: Request) -> Ack | Refused:
        result: bool | None = None
        match request:
            case ChatSend(task_id=task_id, prompt_id=prompt_id, text=text) if prompt_id is not None:
                if self.server.sessions[task_id].is_deleted:
                    return Refused(id=request.id, problem=Problem(title="deleted", status=410, code="deleted"))
                self.server.sessions[task_id].send(prompt_id, text)
            case ChatCancel(task_id=task_id):
                result = self.server.sessions[task_id].cancel()
            case ApprovalDecide(task_id=task_id):
                result = self.server.sessions[task_id].decide()
            case _:
                pass
        return Ack(id=request.id, result=result)

    def observe(self, peer: Peer, task_id: SessionId, input: TaskInput | None) -> None:
        """Hold what a client shows against the laws."""
        state = peer.manager.state(task_id)
        witness = self._witnesses.setdefault((peer.number, task_id), Witness(self.server, task_id))
        if self._is_traced:
            self.trace(f"c{peer.number} {task_id} {_spell(input)} -> {_brief(state)}")
        try:
            witness.see(state, input, has_socket=peer.has_socket)
            if state is not None:
                self._hold_against_room(peer, state)
        except SimulationLawBroken as broken:
            raise self._failure(f"client {peer.number}, {task_id}: {broken}") from broken

    def _hold_against_room(self, peer: Peer, state: TaskState) -> None:
        """Whoever has heard all that the room has said stands where the room stands."""
        link, rooms = peer.link, self.server.rooms
        if rooms is None or link is None or not link.is_up or state.tick is None:
            return
        if self.weather.is_tcp and not link.was_behind and state.early and state.early[0].tick > state.tick + 1:
            raise SimulationLawBroken(f"nothing was lost, and after tick {state.tick} comes tick {state.early[0].tick}")
        if state.sync is not SyncState.JOINED:
            return
        view = rooms.views[state.task_id]
        self._looks += 1
        if state.tick != view.tick or state.early or self._looks % LOOK_EVERY:
            return
        theirs, mine = replace(self._truth(state.task_id), version=0), replace(state.digest(), version=0)
        if theirs != mine:
            raise SimulationLawBroken(
                f"it has heard everything up to tick {view.tick}, and {_difference(theirs, mine)}"
            )

    # Ends of links

    def hear(self, link: SimulatedLink, frame: bytes) -> None:
        if self._is_traced:
            self.trace(f"c{link.owner} hears {frame.decode()[:160]}")
        self._links[link].hear(link, frame)

    def lose(self, link: SimulatedLink, reason: str) -> None:
        self._links[link].lose(link, reason)

    def drain(self, link: SimulatedLink) -> None:
        if self.server.rooms is not None and link.is_held_there:
            self.server.rooms.catch_up(link)

    def drop(self, link: SimulatedLink) -> None:
        if self.server.rooms is not None:
            self.server.rooms.drop(link)

    # The storm

    def storm(self) -> None:
        """Let everything go wrong for a while."""
        weather = self.weather
        for peer in self.peers:
            self._every(1.5, lambda peer=peer: self._act_as_person(peer))  # type: ignore[misc]
        for task_id in self.tasks:
            self._every(self.chance.choice((0.3, 1.0, 4.0)), lambda task_id=task_id: self._let_work(task_id))  # type: ignore[misc]
        self._every(weather.cut_every, self._cut)
        self._every(weather.half_open_every, self._silence)
        self._every(weather.partition_every, self._partition)
        self._every(weather.sleep_every, self._put_to_sleep)
        self._every(weather.kill_every, self._kill)
        self.clock.run_until(self.clock() + STORM_SECONDS, _MAX_STEPS)

    def _every(self, seconds: float, do: Callable[[], None]) -> None:
        """At random times, so often on average; never, if zero."""
        if seconds <= 0:
            return

        def happen() -> None:
            if self._is_stormy:
                do()
                self.network.later(self.chance.expovariate(1 / seconds), happen)

        self.network.later(self.chance.expovariate(1 / seconds), happen)

    def _let_work(self, task_id: SessionId) -> None:
        if self.server.rooms is not None and self.server.is_recovered:
            act = self.server.sessions[task_id].act()
            self.report.acts[act] += 1
            self.trace(f"{task_id} {act}")

    def _act_as_person(self, peer: Peer) -> None:
        if peer.is_asleep:
            return
        task_id = self.chance.choice(self.tasks)
        summary = None if self.server.rooms is None else self.server.rooms.views[task_id].summary()
        acts: dict[str, Callable[[], None]] = {
            "open": lambda: peer.open(task_id),
            "open again": lambda: peer.open(task_id),
            "close": lambda: peer.close(task_id),
            "send": lambda: peer.send(task_id),
            "stop": lambda: peer.stop(task_id),
            "decide": lambda: peer.decide(task_id),
            "hold": lambda: peer.hold(task_id, self.chance.randint(0, 1)),
            "look": peer.look,
            "be online": peer.be_online,
            "detail": lambda: None if summary is None else peer.hear_detail(summary),
        }
        name = self.chance.choice(tuple(acts))
        self.trace(f"c{peer.number} does {name} {task_id}")
        if name == "detail" and summary is not None:
            self.network.later(self.network.delay(), acts[name])
        else:
            acts[name]()

    def _some_link(self) -> SimulatedLink | None:
        links = [peer.link for peer in self.peers if peer.link is not None and peer.link.is_up]
        return self.chance.choice(links) if links else None

    def _cut(self) -> None:
        link = self._some_link()
        if link is not None:
            self.report.faults[Fault.SOCKET_CUT] += 1
            link.end("cut")

    def _silence(self) -> None:
        link = self._some_link()
        if link is not None:
            self.report.faults[Fault.SOCKET_HALF_OPEN] += 1
            link.fall_silent()

    def _partition(self) -> None:
        self.report.faults[Fault.PARTITION] += 1
        lost = {peer.number for peer in self.peers if self.chance.random() < 0.6}
        self.network.cut_off |= lost
        self.trace(f"partition {sorted(lost)}")
        self.network.later(self.chance.uniform(0.5, 12), lambda: self.network.cut_off.difference_update(lost))

    def _put_to_sleep(self) -> None:
        peer = self.chance.choice(self.peers)
        if peer.is_asleep:
            return
        self.report.faults[Fault.CLIENT_SLEPT] += 1
        self.trace(f"c{peer.number} falls asleep")
        peer.fall_asleep()
        self.network.later(self.chance.uniform(1, 60), lambda: self._wake(peer))

    def _wake(self, peer: Peer) -> None:
        if not peer.is_asleep:
            return
        self.trace(f"c{peer.number} wakes")
        link = peer.link
        if link is not None and self.chance.random() < 0.4:
            # The system gave the socket up meanwhile, with all that it held.
            if peer.forget_pillow():
                self.report.faults[Fault.SLEEP_LOST_FRAMES] += 1
            link.end("given up in sleep")
        peer.wake(is_late_first=self.chance.random() < 0.5)
        if self.chance.random() < 0.5:
            peer.look()

    def _kill(self) -> None:
        if self.server.rooms is None:
            return
        self.server.kill()
        for link in tuple(self._links):
            if link.is_held_here or link.is_held_there:
                link.end("the server is gone")
        self.network.later(self.chance.uniform(0.1, 8), self._restart)

    def _restart(self) -> None:
        if self.server.rooms is None:
            self.trace("server starts")
            self.server.start()
            self.network.later(self.chance.uniform(0, self.chance.choice((1, 12))), self.server.recover)

    # Afterwards

    def heal(self) -> None:
        """No more faults. Clients are awake and look at something; agents rest, before that or after it."""
        self.trace("heal")
        self._is_stormy = False
        self._restart()
        self.server.recover()
        if self.chance.random() < 0.5:
            self._rest_agents()  # what they say last may be lost
        self.network.weather = SLUGGISH
        self.network.cut_off.clear()
        for peer in self.peers:
            self._wake(peer)
        self._run(DRAIN_SECONDS)
        for peer in self.peers:
            if self.chance.random() < 0.5:
                peer.look()  # what this asks may be answered with what holds before the agents rest
        self._run(self.chance.random())
        self._rest_agents()
        self.network.weather = CALM
        for task_id in self.tasks:
            truth = self._truth(task_id)
            self.report.ends[f"{truth.status}{'' if truth.stream is None else ' with a stream'}"] += 1
        for peer in self.peers:
            for task_id in peer.open_tasks:
                if self.chance.random() < 0.7:
                    peer.hold(task_id, 0)
            if not peer.open_tasks:
                peer.open(self.chance.choice(self.tasks))

    def _rest_agents(self) -> None:
        for session in self.server.sessions.values():
            session.settle()
        self.server.flush()

    def settle(self) -> None:
        """One look each, at once or after a while, and all is well."""
        if self.chance.random() < 0.5:
            self._run(SETTLE_SECONDS)
            for peer in self.peers:
                self._await_alone(peer)
        self.report.clients += len(self.peers)
        checks = {peer.number: sum(peer.checks.values()) for peer in self.peers}
        sent = {peer.number: peer.sent for peer in self.peers}
        for peer in self.peers:
            self.trace(f"c{peer.number} looks")
            peer.look()
        self._run(SETTLE_SECONDS)
        for peer in self.peers:
            self._require_equal(peer)
            self._require_few(peer, sum(peer.checks.values()) - checks[peer.number], peer.sent - sent[peer.number])

    def _await_alone(self, peer: Peer) -> None:
        """Nobody looked, and time passed. On real sockets nothing is lost without a word, so whoever is in the room, or
        follows the board, is there by now. Its version may be lower: not every event has something to tell."""
        self.report.waited += 1
        self.report.converged_alone += not self._differences(peer)
        for task_id, state in peer.states().items():
            if self.weather.is_tcp and (peer.has_board or state.tick is not None):
                theirs = replace(self._truth(task_id), version=state.version)
                if theirs != state.digest() and theirs.status != TaskStatus.DELETE:
                    raise self._failure(
                        f"client {peer.number} lost nothing and did not converge: {task_id}: "
                        f"{_difference(theirs, state.digest())}; {_brief(state)}"
                    )

    def rest(self) -> None:
        """Whoever has nothing to doubt says nothing."""
        sent = {peer.number: peer.sent for peer in self.peers}
        self._run(QUIET_SECONDS)
        for peer in self.peers:
            self._require_equal(peer)
            is_blocked = any(state.is_blocked_here for state in peer.states().values())
            if peer.sent != sent[peer.number] and not is_blocked:
                raise self._failure(f"client {peer.number} said {peer.sent - sent[peer.number]} things for no reason")
            if self.weather.is_tcp:
                self._require_no_ghost(peer)

    def _require_no_ghost(self, peer: Peer) -> None:
        """The server has in its rooms who looks, and nobody else."""
        rooms = self.server.rooms
        if rooms is None or peer.link is None:
            return
        for task_id in self.tasks:
            state = peer.manager.state(task_id)
            is_in = state is not None and state.tick is not None
            if rooms.is_in(peer.link, task_id) is not is_in:
                raise self._failure(f"client {peer.number} is in the room of {task_id} for one side only")

    def _run(self, seconds: float) -> None:
        self.clock.run_until(self.clock() + seconds, _MAX_STEPS)

    def _truth(self, task_id: SessionId) -> Digest:
        if self.server.rooms is None:
            raise ContractError("a server that is down has no digest: heal first")
        return digest_of(self.server.rooms.views[task_id].snapshot())

    def _differences(self, peer: Peer) -> list[str]:
        found = []
        for task_id, state in peer.states().items():
            theirs = self._truth(task_id)
            mine = state.digest()
            if mine.status == theirs.status == TaskStatus.DELETE:
                continue  # nobody enters the room of what is deleted: that it is, is all there is to know
            if mine != theirs:
                found.append(f"{task_id}: {_difference(theirs, mine)}; {_brief(state)}")
            elif (pending := settled(state)) != "":
                found.append(f"{task_id}: waits for {pending}")
            elif state.flags.blocks_queued_dispatch is (
                theirs.status is None or classify(theirs.status) is StatusClass.TERMINAL
            ):
                found.append(f"{task_id}: {theirs.status}, and blocks_queued_dispatch is wrong")
        return found

    def _require_equal(self, peer: Peer) -> None:
        found = self._differences(peer)
        if found:
            raise self._failure(f"client {peer.number} did not converge: {'; '.join(found)}")

    def _require_few(self, peer: Peer, checks: int, sent: int) -> None:
        is_blocked = any(state.is_blocked_here for state in peer.states().values())
        tasks = len(peer.open_tasks)
        if not is_blocked and (checks > MAX_CHECKS_TO_SETTLE * tasks or sent > MAX_MESSAGES_TO_SETTLE * tasks):
            raise self._failure(f"client {peer.number} needed {checks} checks and {sent} messages to settle")

    def _failure(self, message: str) -> SimulationFailed:
        repro = f"python -m interlock.testing.sim {self.seed}"
        return SimulationFailed(f"seed {self.seed} at {self.clock():.3f} s: {message}\nagain, with its trace: {repro}")


def _difference(theirs: Digest, mine: Digest) -> str:
    """What two digests differ in, and no more: whole transcripts are long."""
    found = []
    for one in fields(Digest):
        server, client = getattr(theirs, one.name), getattr(mine, one.name)
        if server == client:
            continue
        if one.name == "messages":
            server, client = (tuple(m for m in a if m not in b) for a, b in ((server, client), (client, server)))
        found.append(f"{one.name} is {server} for the server and {client} for the client")
    return ", ".join(found)


def _spell(input: TaskInput | None) -> str:
    return "" if input is None else repr(input)[:200]


def _brief(state: TaskState | None) -> str:
    if state is None:
        return "closed"
    stream = None if state.stream is None else (state.stream.stream_id, state.stream.text)
    versions = f"v{state.version}/{state.room_version}/{state.synced_version}"
    return (
        f"{state.sync.value} {state.status} {state.turn_id} {versions} "
        f"tick {state.tick} stream {stream} verified {state.is_verified} check {state.check is not None} "
        f"joining {state.joining is not None} due {state.deadline}"
    )


def simulate(seed: int, *, is_traced: bool = False) -> Report:
    """Run one schedule. Raises `SimulationFailed` where a law is broken; the trace so far is then its note."""
    world = World(seed, is_traced=is_traced)
    try:
        world.storm()
        world.heal()
        world.settle()
        world.rest()
    except Exception as error:
        if is_traced:
            error.add_note("\n".join(world.report.trace))
        if not isinstance(error, SimulationFailed):
            error.add_note(f"in seed {seed}; again: python -m interlock.testing.sim {seed}")
        raise
    for peer in world.peers:
        world.report.checks.update(peer.checks)
        world.report.joins += peer.joins
    world.report.messages = world.network.messages
    return world.report
