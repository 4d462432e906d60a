"""What an agent in a terminal is given, by the doors of a person: a server with secrets, a configuration, `run`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.testing.scripted_agent import command, write_program
from tests.any_route import any_route
from tests.cli.serving import Served, serving

SECRETS = {"OTHER_API_KEY": "sk-of-another-home", "DATABASE_PASSWORD": "hunter22"}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path) as running:
        yield running


def environment_of(served: Served, task_id: str) -> dict[str, str]:
    pid = list(served.api.items(any_route(f"/api/tasks/{task_id}/spawns")))[-1]["pid"]
    given = Path(f"/proc/{pid}/environ").read_bytes().decode().rstrip("\0").split("\0")
    return dict(one.split("=", 1) for one in given)


def test_an_agent_gets_what_is_configured_and_no_secret_of_its_server(served: Served) -> None:
    program = served.folder / "bin" / "only-here"
    program.parent.mkdir()
    write_program(program, command("tui", gates=served.folder / "gates"))
    config = served.folder / "config.toml"
    path = f"{program.parent}:/usr/bin:/bin"
    config.write_text(
        f"[agents.mine]\nargv = ['only-here']\noptions.cli = 'scripted'\n"
        f"environment.take = ['TAKEN']\nenvironment.set.PATH = {json.dumps(path)}\n"
    )
    served.stop()
    served.start(**SECRETS)
    begun = served.cli("run", "mine", INTERLOCK_CONFIG=str(config), TAKEN="yes", NOT_TAKEN="no")
    assert begun.returncode == 0, begun.stderr
    task_id = begun.stdout.strip()
    assert served.cli("start", task_id).returncode == 0
    found = environment_of(served, task_id)
    assert (found["PATH"], found["TAKEN"]) == (path, "yes")
    assert not {*SECRETS, "NOT_TAKEN", "INTERLOCK_HOME"} & set(found)
    socket = served.json("attach", task_id)["argv"][3]
    assert socket == str(served.home / "run" / "tmux")
    assert Path(socket).stat().st_mode & 0o077 == 0
    assert Path(socket).parent.stat().st_mode & 0o077 == 0
    own = json.loads(served.cli("debug", "inspect", "--socket", "@home", "--json").stdout.splitlines()[0])
    assert own["socket"] == socket
