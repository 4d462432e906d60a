"""Codex starts daemons that outlive it. A stop ends them too."""

from __future__ import annotations

import asyncio
import os
import shlex
from pathlib import Path

import pytest

from interlock.agents.processes.child import ChildProcess
from interlock.agents.processes.identity import command_of, read_table
from interlock.testing.scripted_model import ScriptedModel
from interlock.vocabulary.ids import SpawnId
from tests.agents.processes.trees import living_of, new_spawn_id, until
from tests.real.recipes import CODEX, LabFolder
from tools.agent_clis import install

pytestmark = pytest.mark.real


def daemons_of(spawn_id: SpawnId) -> list[str]:
    commands = [command_of(seen) for seen in read_table().values() if spawn_id in seen.spawn_ids]
    return [command for command in commands if "daemon" in command.split("/")[-1] or "--managed-daemon" in command]


async def start_codex(executable: Path, place: LabFolder, url: str, spawn_id: SpawnId) -> ChildProcess:
    """Codex as a person starts it, with its daemon, in a terminal of its own."""
    environment = {**os.environ, **CODEX.environment(place, url), "HOME": str(place.home), "TERM": "xterm-256color"}
    argv = ["script", "-qfec", shlex.quote(str(executable)), "/dev/null"]
    return await ChildProcess.start(argv, cwd=str(place.project), environment=environment, spawn_id=spawn_id)


def test_the_daemons_of_codex_end_with_it(tmp_path: Path) -> None:
    executable = install("codex")

    async def run(url: str) -> None:
        place, spawn_id = LabFolder(tmp_path), new_spawn_id()
        place.make()
        CODEX.seed(place, url)
        child = await start_codex(executable, place, url, spawn_id)
        try:
            await until(lambda: len(daemons_of(spawn_id)) >= 2, seconds=60.0)
        finally:
            report = await child.stop()
        # One of them may have handed over to the other and ended by itself meanwhile: what counts is that none lives.
        assert any("daemon" in one.command for one in report.ended)
        assert report.survivors == ()
        assert living_of(spawn_id) == []

    with ScriptedModel() as model:
        asyncio.run(run(model.url))
