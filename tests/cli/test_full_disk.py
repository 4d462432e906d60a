"""A server whose disk takes no more: commands say so, and it goes on when there is room.

The files of the server may not grow, by a limit of its process: its writes fail as on a full disk, without one.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from interlock.cli.exit_codes import ExitCode
from interlock.cli.server_api import ServerApi, ServerUnavailable
from interlock.cli.server_process import look_for_server
from tests.cli.serving import serving, until
from tests.cli.test_up import run


@contextmanager
def full(pid: int) -> Iterator[None]:
    """No file of that process may grow."""
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


def test_commands_say_that_nothing_is_recorded_and_go_on_when_there_is_room(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        task_id = served.done("say one")
        path = f"/api/tasks/{task_id}/prompts"
        with full(look_for_server(served.home).pid):
            kept = run(served.home, "send", task_id, "say two")
            assert kept.returncode == ExitCode.UNREACHABLE, kept.stderr
            assert "the log takes nothing" in kept.stderr
            assert "not known whether it was done; repeat it with --prompt-id" in kept.stderr
            refused = run(served.home, "send", task_id, "say three")
            assert refused.returncode == ExitCode.UNREACHABLE
            assert "the log takes nothing, this was not taken" in refused.stderr
            with pytest.raises(ServerUnavailable, match="the log takes nothing, this was not taken"):
                ServerApi.of_home(served.home).ask("POST", path, {"text": "say four"})
            listed = run(served.home, "ps", "--all")
            assert listed.returncode == ExitCode.PARTIAL
            assert "the server cannot write its log" in listed.stderr
            shown = run(served.home, "show", task_id)
            assert shown.returncode == ExitCode.PARTIAL
            assert "the server cannot write its log" in shown.stderr
            assert "cannot be written, nothing is recorded" in run(served.home, "status").stdout
            assert served.task(task_id)["summary"]["live"]["attention"] == "error"
        until(lambda: served.task(task_id)["turns"] == 2, "what was kept is done")
        after = run(served.home, "send", task_id, "say five", "--wait")
        assert after.returncode == ExitCode.COMPLETED, after.stderr
        assert served.task(task_id)["turns"] == 3
        assert run(served.home, "ps", "--all").returncode == ExitCode.COMPLETED
        assert run(served.home, "show", task_id).returncode == ExitCode.COMPLETED
