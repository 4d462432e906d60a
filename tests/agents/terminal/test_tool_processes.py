"""The tools of an agent by its processes: a shell stands in for the agent, and its children for tools."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from interlock.agents.terminal.tool_processes import ToolProcesses, family

UNTIL_SLEEP = 'while [ "$(cat /proc/$tool/comm)" != sleep ]; do :; done'


class Shell:
    """A shell that does what it is told, line by line, and says when it is done."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.pid = process.pid

    def await_family(self, count: int) -> None:
        """Wait until it and all that descend from it are so many."""
        give_up_at = time.monotonic() + 100
        while len(list(family(self.pid))) != count:
            assert time.monotonic() < give_up_at
            time.sleep(0.01)

    def run(self, line: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(line, "echo done", sep="\n", file=self._process.stdin, flush=True)
        assert self._process.stdout.readline() == "done\n"


@contextmanager
def shell() -> Iterator[Shell]:
    pipe = subprocess.PIPE
    with subprocess.Popen(["sh"], stdin=pipe, stdout=pipe, text=True, start_new_session=True) as process:
        try:
            yield Shell(process)
        finally:
            for pid in reversed(list(family(process.pid))):
                subprocess.run(["kill", "-KILL", str(pid)], check=False, capture_output=True)


def names(tools: tuple[tuple[str, str], ...]) -> list[str]:
    return [name for _, name in tools]


def test_a_process_that_lasts_since_the_prompt_is_a_tool_until_it_ends() -> None:
    with shell() as agent:
        tools = ToolProcesses(agent.pid)
        assert tools.look() == ()
        tools.fence()
        agent.run(f"sleep 600 & tool=$!; {UNTIL_SLEEP}")
        assert names(tools.look()) == [], "seen once"
        assert names(tools.look()) == ["sleep"]
        agent.run("kill $tool; wait $tool 2>/dev/null")
        assert names(tools.look()) == []


def test_what_was_there_before_the_prompt_is_none_and_what_it_starts_is_one() -> None:
    with shell() as agent:
        agent.run("sh -c 'sleep 600 & wait' & sleep 600 & helper=$!")
        agent.await_family(4)
        tools = ToolProcesses(agent.pid)
        tools.fence()
        agent.run("sh -c 'sleep 600 & wait' &")
        agent.await_family(6)
        tools.look()
        assert names(tools.look()) == ["sh"], "a tool and what it starts are one"
        tools.fence()
        assert names(tools.look()) == names(tools.look()) == []


def test_one_that_ended_and_waits_for_its_parent_runs_no_more() -> None:
    tools = ToolProcesses(os.getpid())
    tools.fence()
    with subprocess.Popen(["sleep", "600"]) as child:
        tools.look()
        assert [tool_id for tool_id, _ in tools.look()] == [f"pid {child.pid}"]
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and nobody has asked how
        assert tools.look() == ()


def test_of_an_agent_that_is_gone_nothing_is_told() -> None:
    with shell() as agent:
        tools = ToolProcesses(agent.pid)
        tools.fence()
    assert tools.look() == ()
