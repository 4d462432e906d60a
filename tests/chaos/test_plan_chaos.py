"""The server is killed at any moment while it runs plans: each step and child ends once, no command runs twice by
itself, no prompt of a child runs before its parent's schedule, nothing is lost or doubled, and no process is left.

A failure names its seed; `INTERLOCK_SEED=SEED` plays that schedule again.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from interlock.agents.processes.identity import read_table
from interlock.cli.server.api import ServerApi, ServerRefusal
from interlock.log.home_identity import look_at_home
from interlock.runtime.children.step_work import mark_of_home
from interlock.testing.scripted_agent import command, prompts_in, read_ledger, write_program
from interlock.vocabulary.errors import InterlockError, Unreachable
from tests.any_route import any_route
from tests.bodies import Body
from tests.chaos.living import MARK, ROOT, wait_until
from tests.chaos.world import marked_by
from tests.cli.serving import STREAM, UnhurriedApi
from tests.seeds import seed_of

DEEP_WORLDS: Final = 4
DEEP_ROUNDS: Final = 16
_DEATH_SECONDS: Final = 4.0
_END_SECONDS: Final = 60.0
_OVER: Final = ("completed", "partial", "failed", "timed_out")
_ENDED: Final = ("completed", "failed", "interrupted", "timed_out", "detached")
# Points of the server's own work, with how often each may be passed before it is the one.
POINTS: Final = (
    ("append.before", 14),
    ("append.after", 14),
    ("workflow_event.written", 8),
    ("subagent_event.written", 4),
    ("child_ended.written", 1),
    ("session_opened.written", 2),
    ("spawn.before", 1),
    ("spawn.after", 1),
    ("submit.before", 1),
    ("submit.after", 1),
    ("user_message.written", 1),
    ("run_state.written", 2),
    ("stop.before", 1),
    ("stop.after", 1),
)
RECOVERY_POINTS: Final = (("append.before", 4), ("append.after", 4), ("subagent_event.written", 1))
PLAN: Final = """
plan = 1
limits = {{ timeout = "10m" }}
[[step]]
id = "make"
run = ["sh", "-c", "echo make {name} >> ran; {in_command}"]
[[step]]
id = "think"
needs = ["make"]
agent = "helper"
prompt = "say done {name}"
write = ["."]
checks = [["sh", "-c", "{in_check}"]]
[[step]]
id = "go"
needs = ["think"]
gate = "go on?"
[[step]]
id = "ship"
needs = ["go"]
run = ["sh", "-c", "echo ship {name} >> ran"]
"""
_KILL: Final = "kill -9 $(cat pid); sleep 300"
_KILL_ONCE: Final = "test -e {name} || {{ touch {name}; kill -9 $(cat pid); sleep 300; }}"


class PlanWorld:
    """A home whose server is killed again and again, and one workflow a round."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.chance = random.Random(seed)
        self.mark = f"chaos-{secrets.token_hex(8)}"
        self.home, self.fate, self.work = folder / "home", folder / "fate", folder / "work"
        self.home.mkdir(mode=0o700)
        self.work.mkdir()
        argv = command(STREAM, ledger=folder / "ledger", lifetime_seconds=300)
        self.agent = write_program(folder / "agent", argv)
        self.server: subprocess.Popen[bytes] | None = None
        self.released: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()

    # The server

    def start(self) -> None:
        if self.server is not None and self.server.poll() is None:
            return
        with (self.folder / "stderr").open("ab") as stderr:
            self.server = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.plan_host", str(self.home), str(self.fate)],
                cwd=ROOT,
                env={**os.environ, "INTERLOCK_HOME": str(self.home), MARK: self.mark},
                stdout=subprocess.DEVNULL,
                stderr=stderr,
            )
        (self.work / "pid").write_text(str(self.server.pid))

    def kill(self, why: str) -> None:
        assert self.server is not None
        self.counts[why] += 1
        self.server.kill()
        assert self.server.wait(_END_SECONDS) == -signal.SIGKILL

    def is_dead(self) -> bool:
        return self.server is None or self.server.poll() is not None

    def say_fate(self, point: str) -> None:
        draft = self.folder / "fate.draft"
        draft.write_text(point)
        draft.replace(self.fate)

    def point_of(self, points: tuple[tuple[str, int], ...]) -> str:
        point, most = self.chance.choice(points)
        return f"{point}:{self.chance.randint(1, most)}"

    @property
    def api(self) -> ServerApi:
        return UnhurriedApi.of_home(self.home)

    # One workflow

    def play(self, number: int) -> None:
        name = f"wf_{number}"
        kind = self.chance.choice(("moment", "point", "point", "point", "command", "check", "gate", "stop", "agent"))
        plan = PLAN.format(
            name=name,
            in_command=_KILL if kind == "command" else "true",
            in_check=_KILL_ONCE.format(name=f"checked-{name}") if kind == "check" else "true",
        )
        self.start()
        if kind in ("point", "stop"):
            self.say_fate(self.point_of(POINTS))
        elif kind == "moment":
            began, wait = time.monotonic(), self.chance.uniform(0.0, 1.2)
        self._drive(name, plan, lambda standing: self._is_due(kind, standing, began + wait if kind == "moment" else 0))
        if kind == "stop" and not self.is_dead():
            with suppress(InterlockError):
                self.api.ask("POST", f"/api/workflows/{name}/stop", {"reason": "enough"})
            wait_until(self.is_dead, 1.0)
        if kind == "agent":
            self._kill_agents()
        self.kill(f"at {kind}")
        self.say_fate("")
        if self.chance.random() < 0.3:
            self.say_fate(self.point_of(RECOVERY_POINTS))
            self.start()
            wait_until(self.is_dead, 2.0)
            self.kill("in recovery")
            self.say_fate("")
        self.counts["rounds"] += 1
        self.start()
        standing = self._drive(name, plan, lambda standing: standing["status"] in _OVER)
        assert standing is not None
        assert standing["status"] in _OVER, (name, kind, standing)

    def _kill_agents(self) -> None:
        living = set(marked_by(self.mark))
        for entry in read_ledger(self.folder / "ledger", "start"):
            if entry.pid in living:
                with suppress(ProcessLookupError):
                    os.kill(entry.pid, signal.SIGKILL)

    def _is_due(self, kind: str, standing: Body, at: float) -> bool:
        if kind == "moment":
            return time.monotonic() >= at
        if kind == "gate":
            return any(step["reason"] == "gate_reached" for step in standing["steps"])
        if kind == "stop":
            return any(step["state"] == "running" for step in standing["steps"])
        if kind == "agent":
            return any(step["state"] == "running" and step["kind"] == "prompt" for step in standing["steps"])
        return bool(standing["status"] in _OVER)

    def _drive(self, name: str, plan: str, is_done: Callable[[Body], bool]) -> Body | None:
        """Begin it, the same each time, and decide what waits, until it is so far or the server is dead."""
        until, standing = time.monotonic() + _END_SECONDS, None
        while time.monotonic() < until and not self.is_dead():
            with suppress(Unreachable):
                try:
                    standing = self._begin(name, plan)
                    if is_done(standing):
                        return standing
                    self._decide(name, standing)
                except ServerRefusal as refused:
                    if refused.status == 500:
                        raise
            time.sleep(0.02)
        assert self.is_dead(), (name, standing)
        return standing

    def _begin(self, name: str, plan: str) -> Body:
        agent = {"agent": "helper", "driver": "claude-stream", "argv": [self.agent], "cwd": str(self.work)}
        body = {"plan": plan, "folder": str(self.work), "agents": {"helper": agent}}
        begun: Body = self.api.ask("POST", "/api/workflows", body, key=name)
        found: Body = begun["workflow"]
        return found

    def _decide(self, name: str, standing: Body) -> None:
        for step in standing["steps"]:
            path = f"/api/workflows/{name}/steps/{step['step_id']}"
            if step["reason"] == "gate_reached":
                self.api.ask("POST", f"{path}/answer", {"choice": "go"})
            elif step["state"] == "needs_orchestrator" and step["kind"] == "prompt":
                self.api.ask("POST", f"{path}/release", {"reason": "again"})
            elif step["state"] == "needs_orchestrator":
                self.api.ask("POST", f"{path}/give-up", {"reason": "it may have run"})

    # The verdict

    def judge(self) -> list[str]:
        problems: list[str] = []
        ran = Counter((self.work / "ran").read_text().splitlines()) if (self.work / "ran").exists() else Counter()
        problems += [f"{line} ran {count} times" for line, count in ran.items() if count > 1]
        prompts = Counter(prompts_in(self.folder / "ledger"))
        problems += [f"a prompt was given {count} times: {text[:200]}" for text, count in prompts.items() if count > 1]
        for task in self.api.items(any_route("/api/tasks")):
            if str(task["task_id"]).startswith("ses_wf_"):
                problems += self._judge_workflow(str(task["task_id"]), ran)
        return problems

    def _events(self, session: str) -> list[Body]:
        return [json.loads(line) for line in self.api.ask_raw("GET", f"/api/tasks/{session}/log").splitlines()]

    def _judge_workflow(self, session: str, ran: Counter[str]) -> Iterator[str]:
        name = session.removeprefix("ses_")
        events = self._events(session)
        facts = [one["data"] for one in events if one["type"] == "workflow_event"]
        kinds = Counter(fact["kind"] for fact in facts)
        if (kinds["workflow_started"], kinds["workflow_finished"]) != (1, 1):
            yield f"{name} began and ended {kinds}"
        ends = Counter(
            fact["step_id"] for fact in facts if fact.get("step_state") in ("checkpoint_ready", "partial", "failed")
        )
        yield from (f"{name}: step {step} ended {count} times" for step, count in ends.items() if count > 1)
        for step in ("make", "ship"):
            is_ready = any(f.get("step_id") == step and f.get("step_state") == "checkpoint_ready" for f in facts)
            if is_ready and not ran[f"{step} {name}"]:
                yield f"{name}: {step} is ready and never ran"
        children: dict[str, list[Body]] = {}
        for event in events:
            if event["type"] == "subagent_event":
                children.setdefault(event["data"]["subagent_id"], []).append(event)
        for child, told in children.items():
            yield from self._judge_child(child, told, events)

    def _judge_child(self, child: str, told: list[Body], events: list[Body]) -> Iterator[str]:
        ends = [event["data"]["status"] for event in told if event["data"]["status"] in _ENDED]
        if len(ends) != 1:
            yield f"child {child} ended {ends}"
        started = next((event["ts"] for event in told if event["data"]["status"] == "running"), None)
        scheduled = next(event["ts"] for event in events if event["data"].get("subagent_id") == child)
        session = next((e["data"]["child_session_id"] for e in told if e["data"].get("child_session_id")), None)
        if session is None:
            return
        prompted = [event["ts"] for event in self._events(session) if event["type"] == "user_message"]
        if prompted and (started is None or not scheduled <= started <= prompted[0]):
            yield f"child {child} was prompted at {prompted[0]}, scheduled at {scheduled} and started at {started}"

    def end(self) -> None:
        """An operator's end: what is left after it is left for ever."""
        assert self.server is not None
        self.server.terminate()
        assert self.server.wait(_END_SECONDS) == 0, (self.folder / "stderr").read_text()[-3_000:]
        assert wait_until(lambda: not self.left(), 20), self.left()

    def left(self) -> list[int]:
        """Every living process of this world: its servers and agents by the mark, its commands by that of the home."""
        commands = mark_of_home(look_at_home(self.home).home_id)
        of_steps = [
            pid for pid, seen in read_table().items() if any(one.startswith(commands) for one in seen.spawn_ids)
        ]
        return marked_by(self.mark) + of_steps


@contextmanager
def plan_world(seed: int) -> Iterator[PlanWorld]:
    with tempfile.TemporaryDirectory(prefix="il-") as folder:
        world = PlanWorld(Path(folder), seed)
        try:
            yield world
        except BaseException as error:
            error.add_note(f"seed {seed}, {dict(world.counts)}")
            raise
        finally:
            if world.server is not None:
                world.server.kill()
                world.server.wait(_END_SECONDS)
            for pid in world.left():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def explore(name: str, rounds: int) -> str:
    with plan_world(seed_of(f"plans {name}")) as world:
        for number in range(rounds):
            world.play(number)
        problems = world.judge()
        assert not problems, "\n".join(problems)
        world.end()
        return f"{dict(sorted(world.counts.items()))}"


@pytest.mark.deep
@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", range(DEEP_WORLDS))
def test_deaths_of_the_server_lose_and_double_nothing_of_plans(
    number: int, record_property: Callable[[str, object], None]
) -> None:
    record_property("explored", f"plans: {explore(f'deep {number}', DEEP_ROUNDS)}")
