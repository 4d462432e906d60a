"""Rounds of chaos: some work is given, and the runtime, an agent or both are killed in the middle of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random
from typing import Final

from tests.chaos.living import wait_until
from tests.chaos.verdict import judge
from tests.chaos.world import World, kill_agent

# What asyncio says where a closed transport has reaped its process before asyncio's own thread could.
_HARMLESS: Final = "Unknown child process pid"
FINISH_SECONDS: Final = 250.0
_MOMENT_SECONDS: Final = 1.0
# Points of the runtime's own work at which it can kill itself, with how often each may be passed before that.
POINTS: Final = (
    ("append.before", 6),
    ("append.after", 6),
    ("spawn.before", 2),
    ("spawn.after", 2),
    ("submit.before", 2),
    ("submit.after", 2),
    ("decide.before", 1),
    ("decide.after", 1),
    ("interrupt.before", 1),
    ("interrupt.after", 1),
    ("stop.before", 1),
    ("stop.after", 1),
    ("spawned.written", 2),
    ("exited.written", 1),
    ("user_message.written", 2),
    ("run_state.written", 4),
)
RECOVERY_POINTS: Final = (
    ("settle.before", 2),
    ("settle.after", 2),
    ("append.before", 2),
    ("append.after", 2),
    ("adopt.before", 1),
    ("adopt.after", 1),
)
_SCRIPTS: Final = (
    "say {answer}",
    "say {answer}",
    "pace 0.005; words 20; say {answer}",
    "think 0.02; call Bash; say {answer}",
    "request Bash; say {answer}",
    "ask Which way? | Left | Right; say {answer}",
    "say half; gate {gate}; say {answer}",
    "call Read; gate {gate}; say {answer}",
    "spawn daemon; say {answer}",
    "spawn orphan; spawn child; say half; gate {gate}; say {answer}",
)
_ENDS: Final = ("say half; crash", "say half; cut 3", "fail 500", "spawn daemon; say half; crash")
# Each costs seconds, until a cancel or a kill ends it.
_SLOW_ENDS: Final = ("hang", "spawn daemon stubborn; exit 4")
_OTHER: Final = ("cancel", "start", "decide", "decide", "stop", "remove")


def run_world(world: World, rounds: int) -> str:
    """Kill so many times, let everything finish, and give the verdict."""
    try:
        assert world.open_host() is not None
        world.open_sessions()
        while world.counts["rounds"] < rounds:
            _play_round(world)
        finish(world)
        problems = judge(world)
        assert not problems, "\n".join(problems)
    except BaseException as error:
        error.add_note(f"seed {world.seed}, round {world.counts['rounds']}, {dict(world.counts)}")
        raise
    return f"{dict(sorted(world.counts.items()))}, {len(world.acknowledged)} prompts acknowledged (seed {world.seed})"


def _play_round(world: World) -> None:
    kind = world.chance.choices(
        (_kill_host_at_a_moment, _kill_host_at_a_point, _kill_in_recovery, _kill_an_agent, _kill_both),
        weights=(3, 4, 2, 2, 1),
    )[0]
    kind(world)


def _kill_host_at_a_moment(world: World) -> None:
    if world.open_host() is None:
        return
    give_work(world)
    await_moment(world)
    _count_host_kill(world, "runtime")


def _kill_host_at_a_point(world: World) -> None:
    """Between an append and what follows from it, and at other moments that chance would hardly find."""
    if world.host is not None:
        _count_host_kill(world, "runtime")
    point, most = world.chance.choice(POINTS)
    if world.open_host(f"{point}:{world.chance.randint(1, most)}") is None:
        world.counts["rounds"] += 1
        world.counts["in recovery"] += 1
        return
    give_work(world)
    if point.startswith("decide"):
        _answer(world)
    elif point.startswith("interrupt"):
        world.order("cancel", _session(world))
    elif point.startswith("stop"):
        world.order("stop", _session(world))
    host = world.host
    assert host is not None
    wait_until(lambda: not host.is_alive, _MOMENT_SECONDS)
    _count_host_kill(world, f"at {point}" if not host.is_alive else "runtime")


def _kill_in_recovery(world: World) -> None:
    """Twice: something has to be there to recover."""
    if world.open_host() is None:
        return
    give_work(world)
    await_moment(world)
    _count_host_kill(world, "runtime")
    if world.chance.random() < 0.5:
        host = world.begin_host()
        wait_until(lambda: host.is_open, world.chance.uniform(0.2, 0.6))
        _count_host_kill(world, "runtime" if host.is_open else "in recovery")
        return
    point, most = world.chance.choice(RECOVERY_POINTS)
    if world.open_host(f"{point}:{world.chance.randint(1, most)}") is None:
        world.counts["rounds"] += 1
        world.counts["in recovery"] += 1
    else:
        _count_host_kill(world, "runtime")


def _kill_an_agent(world: World) -> None:
    if world.open_host() is None:
        return
    give_work(world)
    await_moment(world)
    if kill_agent(world):
        world.counts["rounds"] += 1
        world.counts["agents"] += 1


def _kill_both(world: World) -> None:
    """The agent first, and the runtime while it finds out."""
    _kill_an_agent(world)
    if world.host is not None:
        time.sleep(world.chance.uniform(0, 0.1))  # not waiting for anything: the moment of death is the input
        _count_host_kill(world, "runtime after agent")


def _count_host_kill(world: World, what: str) -> None:
    world.kill_host()
    world.counts["rounds"] += 1
    world.counts[what] += 1


def give_work(world: World) -> None:
    """A few prompts, and perhaps something else."""
    chance = world.chance
    world.send_again()
    for _ in range(chance.randint(2, 5)):
        script, answer = write_script(chance, len(world.sent), _ENDS + _SLOW_ENDS * world.is_patient)
        world.send(_session(world), script, answer)
    if chance.random() < 0.6:
        world.hear()
    if chance.random() < 0.4:
        _do_something_else(world, chance.choice(_OTHER))
    if chance.random() < 0.5:
        for at in range(len(world.sent)):
            if chance.random() < 0.5:
                world.gates.open(f"g{at}")


def _do_something_else(world: World, do: str) -> None:
    session_id = _session(world)
    if do == "remove":
        world.remove(session_id)
    elif do == "decide":
        _answer(world)
    else:
        world.order(do, session_id)


def _answer(world: World) -> None:
    """Wait for a question in some session, and answer it."""
    for session_id in world.sessions:
        if _has_question(world, session_id):
            world.order("decide", session_id, is_allowed=world.chance.random() < 0.7)


def write_script(chance: Random, at: int, ends: tuple[str, ...]) -> tuple[str, str]:
    """What the next agent does, and what it then says; blank where it does not come to that."""
    if chance.random() < 0.15:
        return chance.choice(ends), ""
    answer = f"answer{at}"
    return chance.choice(_SCRIPTS).format(answer=answer, gate=f"g{at}"), answer


def _session(world: World) -> str:
    return world.chance.choice(list(world.sessions))


def await_moment(world: World) -> None:
    """One of the moments at which a death is interesting."""
    before = len(world.received())
    moments: tuple[Callable[[], bool], ...] = (
        lambda: True,
        lambda: len(world.received()) > before,
        lambda: any(world.gates.reached_by(f"g{at}") for at in range(len(world.sent))),
        lambda: any(_has_question(world, session_id) for session_id in world.sessions),
    )
    moment = world.chance.choice(moments)
    wait_until(moment, _MOMENT_SECONDS)
    time.sleep(world.chance.uniform(0, 0.1))  # not waiting for anything: the moment of death is the input


def _has_question(world: World, session_id: str) -> bool:
    host = world.host
    if host is None or not host.is_alive:
        return True
    told = host.wait_for(world.order("asked", session_id))
    return told is None or told.asked > 0


def finish(world: World) -> None:
    """No more kills: every gate opens, every question is answered, and at last every agent is stopped."""
    for at in range(len(world.sent)):
        world.gates.open(f"g{at}")
    if world.host is not None and not world.host.is_alive:
        world.kill_host()
    host = world.open_host()
    assert host is not None
    world.send_again()
    world.hear()
    told = host.wait_for(world.order("finish"), FINISH_SECONDS)
    assert told is not None, f"it did not come to rest: {host.join(0)}"
    for session_id in world.sessions:
        told = host.wait_for(world.order("stop", session_id))
        assert told is not None, f"{session_id} did not stop"
        assert not told.problem, told.problem
    host.wait_for(world.order("shutdown"))
    errors = "\n".join(line for line in host.join().splitlines() if _HARMLESS not in line)
    assert host.process.returncode == 0, errors
    assert not errors, errors
    world.host = None
