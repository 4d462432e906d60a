"""The environment of an agent in a real tmux pane, read from the system: what its spec says, and a short list."""

from __future__ import annotations

import os
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import pytest

from interlock.agents.port import AgentSpec, ProcessIdentity
from interlock.agents.terminal.launch import PASSED_ON
from interlock.testing.scripted_agent import command, write_program
from interlock.vocabulary.errors import UsageError
from tests.agents.terminal.harness import driving, new_spawn, pane_count
from tests.contract.harness import run

SECRETS: Final = {
    "OTHER_API_KEY": "sk-of-another-home",
    "DATABASE_PASSWORD": "hunter22",
    "INTERLOCK_HOME": "/another/home",
    "SSH_AUTH_SOCK": "/tmp/agent.1",  # tmux takes it over from each client, unless told otherwise
    "DISPLAY": ":7",
    "TMUX_TMPDIR": "/another/folder",
}
BY_TMUX: Final = {"TERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "TMUX", "TMUX_PANE", "PWD"}
QUIET: Final = AgentSpec(agent="sh", driver="terminal", argv=("sh", "-c", "exec sleep 600"))


def environment_of(process: ProcessIdentity | None) -> dict[str, str]:
    assert process is not None
    given = Path(f"/proc/{process.pid}/environ").read_bytes().decode().rstrip("\0").split("\0")
    return dict(one.split("=", 1) for one in given)


def test_a_pane_starts_with_its_spec_and_the_short_list_whatever_the_first_starter_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listed = {name for name in os.environ if any(fnmatchcase(name, one) for one in PASSED_ON)}

    async def main() -> None:
        async with driving() as driver:
            with monkeypatch.context() as planted:
                for name, value in SECRETS.items():
                    planted.setenv(name, value)
                planted.setenv("LC_MEASUREMENT", "C")
                first = await driver.spawn(replace(QUIET, environment={"MARK_ONE": "1"}), new_spawn())
            second = await driver.spawn(replace(QUIET, environment={"MARK_TWO": "2"}), new_spawn())
            one, two = environment_of(first.process), environment_of(second.process)
            assert set(one) == {*listed, *BY_TMUX, "SHELL", "LC_MEASUREMENT", "MARK_ONE", "INTERLOCK_SPAWN_ID"}
            assert set(two) == {*listed, *BY_TMUX, "SHELL", "MARK_TWO", "INTERLOCK_SPAWN_ID"}
            (server_pid,) = (await driver.server.run(["display-message", "-p", "#{pid}"])).split()
            assert not set(SECRETS) & set(environment_of(ProcessIdentity(int(server_pid), "")))
            assert [name for name in listed if two[name] != os.environ[name]] == []
            for handle in (first, second):
                await handle.stop()

    run(main())


def test_a_person_who_attaches_leaves_nothing_to_the_next_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with driving() as driver:
            first = await driver.spawn(QUIET, new_spawn())
            monkeypatch.setenv("SSH_AUTH_SOCK", "/tmp/agent.1")
            foreign = replace(driver.server, is_own=False)  # a client with the environment of the person
            await foreign.run(["new-session", "-d", "-t", "agents", "-s", "person"])
            second = await driver.spawn(QUIET, new_spawn())
            assert "SSH_AUTH_SOCK" not in environment_of(second.process)
            for handle in (first, second):
                await handle.stop()

    run(main())


def test_the_path_and_the_shell_of_a_spec_are_those_of_the_agent_and_find_its_program(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "only-here"
    program.parent.mkdir()
    write_program(program, command("tui"))
    path = f"{program.parent}:{os.environ['PATH']}"
    spec = AgentSpec(agent="scripted", driver="terminal", argv=("only-here",), cwd=str(tmp_path))

    async def main() -> None:
        async with driving() as driver:
            with pytest.raises(UsageError, match="only-here"):
                await driver.spawn(spec, new_spawn())
            given = {"PATH": path, "SHELL": "/bin/of-the-spec"}
            handle = await driver.spawn(replace(spec, environment=given), new_spawn())
            found = environment_of(handle.process)
            assert (found["PATH"], found["SHELL"], found["PWD"]) == (path, "/bin/of-the-spec", str(tmp_path))
            await handle.stop()
            assert await pane_count(driver) == 0

    run(main())


def test_a_home_whose_path_is_too_long_for_a_socket_is_refused_before_anything_starts() -> None:
    async def main() -> None:
        async with driving() as driver:
            driver.server = replace(driver.server, socket=f"/tmp/{'x' * 100}")
            with pytest.raises(UsageError, match="too long for a socket"):
                await driver.spawn(QUIET, new_spawn())

    run(main())
