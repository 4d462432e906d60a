"""A real server with agents of three kinds, each reached by three doors: the command line, HTTP and a model's tool.

What an agent is told to do has the same name for every kind, as in `ways`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from interlock import connect
from interlock.testing.scripted_agent import command, write_program
from interlock.testing.scripted_model import ScriptedCall, ScriptedModel, Text
from tests.bodies import Body
from tests.cli.fleet import Fleet, agent_section
from tests.cli.serving import STREAM, serving, until
from tests.gauntlet import ways
from tests.gauntlet.ways import DEEDS, steps_of_deed

AGENTS: Final[Mapping[str, str]] = {"stream": "helper", "terminal": "codex", "model": "worker"}
"""The agent of each kind, as the configuration names it."""

TELL: Final[Mapping[str, Callable[[str], str]]] = {
    "stream": ways._stream_script,
    "terminal": ways._slow_script,
    "model": lambda deed: f"SCN:{deed}",
}
ENDED: Final = ("completed", "failed", "timed_out", "interrupted")
_PROFILE: Final = Path(__file__).parents[2] / "src/interlock/screen/profiles/scripted.toml"
_ALLOWED: Final = '["allow spawn_agent", "allow run_plan"]'


@contextmanager
def fleet_of_all_kinds(folder: Path) -> Iterator[Fleet]:
    """The lead may start every agent, and run every plan of `plans`."""
    (folder / "config" / "plans").mkdir(parents=True)
    (folder / "work").mkdir()
    (folder / "codex").mkdir()
    profiles = folder / "config" / "interlock" / "profiles"
    profiles.mkdir(parents=True)
    # Its screen is that of the scripted agent, and its transcript that of Codex.
    scripted = _PROFILE.read_text(encoding="utf-8").replace('cli = "scripted"', 'cli = "codex"')
    (profiles / "codex.toml").write_text(scripted, encoding="utf-8")
    config = folder / "config" / "interlock.toml"
    with ScriptedModel({name: steps_of_deed(deed) for name, deed in DEEDS.items()}) as model:
        config.write_text(_config(folder, model.url), encoding="utf-8")
        environment = {"INTERLOCK_CONFIG": str(config), "XDG_CONFIG_HOME": str(folder / "config")}
        with serving(folder, **environment) as served:
            yield Fleet(served, model, folder / "work", config)


def _config(folder: Path, url: str) -> str:
    stream = write_program(folder / "agent", command(STREAM, gates=folder / "gates", lifetime_seconds=300))
    terminal = [sys.executable, str(Path(ways.__file__).with_name("transcribing_agent.py")), str(folder / "codex")]
    names = json.dumps(list(AGENTS.values()))
    plans = json.dumps([plan_name(way, item) for way in AGENTS for item in PLANS])
    retry = "{ first_pause_seconds = 0, max_pause_seconds = 0, max_attempts = 2 }"
    return "\n".join(
        (
            f'[agents.helper]\nargv = ["{stream}"]\ndriver = "claude-stream"',
            f'[agents.codex]\nargv = {json.dumps(terminal)}\ndriver = "terminal"',
            f"[agents.codex.environment]\nset = {{ CODEX_HOME = {json.dumps(str(folder / 'codex'))} }}",
            agent_section("worker", url, {"tools": "[]", "retry": retry}),
            agent_section("lead", url, {"children": names, "plans": plans, "permissions": _ALLOWED}),
        )
    )


# Children


def by_command(fleet: Fleet, parent: str, agent: str, task: str, seconds: float) -> None:
    done = fleet.cli(
        "run", agent, task, "--parent", parent, "--time-limit", str(seconds), "--cwd", str(fleet.work), "--json"
    )
    assert done.returncode == 0, done.stderr


def by_http(fleet: Fleet, parent: str, agent: str, task: str, seconds: float) -> None:
    with _client(fleet) as il:
        il.task(parent).children.start(agent, task, cwd=fleet.work, timeout_seconds=seconds)


def by_tool(fleet: Fleet, parent: str, agent: str, task: str, seconds: float) -> None:
    call = ScriptedCall("spawn_agent", {"agent": agent, "task": task, "timeout_seconds": seconds})
    fleet.again(parent, f"spawn-{parent}", call, Text("It began."))
    told = fleet.results(parent, "spawn_agent")[-1]
    assert told["ok"], told


STARTS: Final = {"command": by_command, "http": by_http, "tool": by_tool}


@contextmanager
def _client(fleet: Fleet) -> Iterator[Body]:
    import os

    before = os.environ.get("INTERLOCK_CONFIG")
    os.environ["INTERLOCK_CONFIG"] = str(fleet.config)
    try:
        with connect(fleet.served.home) as il:
            yield il
    finally:
        del os.environ["INTERLOCK_CONFIG"]
        if before is not None:
            os.environ["INTERLOCK_CONFIG"] = before


def end_of_child(fleet: Fleet, parent: str) -> Body:
    """The only child of a session, at its end."""

    def look() -> Body | None:
        (child,) = fleet.children(parent)
        return child if child["status"] in ENDED else None

    return until(look, "the child is at its end", lambda: str(fleet.children(parent)))


# Workflows

PLANS: Final[Mapping[str, tuple[str, ...]]] = {
    "completed": ("answer",),
    "partial": ("answer", "half"),
    "failed": ("break",),
    "held": ("answer",),
}
"""What the steps of a plan that ends so are told. Steps after the first are not checked: words alone."""


def plan_name(way: str, item: str) -> str:
    return f"{way}-{item}"


def write_plans(fleet: Fleet) -> None:
    for way, agent in AGENTS.items():
        for item, deeds in PLANS.items():
            lines = ["plan = 1", f'name = "{item}"']
            for at, deed in enumerate(deeds):
                lines += ["[[step]]", f'id = "s{at}"', f'agent = "{agent}"']
                lines += [f"prompt = {json.dumps(TELL[way](deed))}"]
                lines += ['checks = [["true"]]'] if at == 0 else []
            if item == "held":
                lines += ["[[step]]", 'id = "ask"', 'needs = ["s0"]', 'gate = "Go on?"']
            place = fleet.config.parent / "plans" / f"{plan_name(way, item)}.plan.toml"
            place.write_text("\n".join(lines), encoding="utf-8")


def plan_by_command(fleet: Fleet, plan: str) -> str:
    done = fleet.cli("plan", "run", plan, "--cwd", str(fleet.work))
    assert done.returncode == 0, done.stderr
    return str(done.stdout.strip())


def plan_by_http(fleet: Fleet, plan: str) -> str:
    with _client(fleet) as il:
        return str(il.plans.run(plan, cwd=fleet.work).workflow_id)


def plan_by_tool(fleet: Fleet, plan: str) -> str:
    call = ScriptedCall("run_plan", {"plan": plan, "timeout_seconds": 0})
    session = fleet.lead(f"run-{plan}", call, Text("It began."))
    fleet.ended(session)
    (told,) = fleet.results(session, "run_plan")
    assert told["ok"], told
    return str(told["output"]["workflow_id"])


BEGINS: Final = {"command": plan_by_command, "http": plan_by_http, "tool": plan_by_tool}
