"""`interlock resume` after everything was killed: the server, its tmux server, and every agent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from interlock.server.commands.commands import resume_result
from interlock.vocabulary.ids import SessionId
from tests.cli.serving import end_tmux, serving


def test_after_a_reboot_lost_sessions_are_resumed_and_each_says_whether_it_went_on(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        pane = served.open("say There.", title="pane", face="tui")
        stopped = served.open("say Stopped.", title="stopped", face="tui")
        lost = served.open("say Lost.", title="lost")
        for session in (pane, stopped, lost):
            assert served.cli("wait", session, "--timeout", "60").returncode == 0
        assert served.cli("stop", stopped).returncode == 0
        served.kill()
        end_tmux(served.home)
        for program in tmp_path.glob("**/agent-*"):
            program.unlink()
        served.start()

        done = served.cli("resume", "--all", "--json")
        rows = {row["session_id"]: row for row in json.loads(done.stdout)["sessions"]}
        assert set(rows) == {pane, lost}, rows
        assert (rows[lost]["result"], "agent-" in rows[lost]["evidence"]) == ("failed", True), "the reason is told"
        assert rows[pane]["result"] == "started_anew", rows
        assert done.returncode == 1
        again = {row["session_id"] for row in json.loads(served.cli("resume", "--all", "--json").stdout)["sessions"]}
        assert again == {lost}, "what could not be started is tried again"
        done = served.cli("resume", pane, "--json")
        assert (json.loads(done.stdout)["sessions"][0]["result"], done.returncode) == ("running", 0)
        assert served.cli("resume").returncode == 2


@pytest.mark.parametrize(
    ("before", "after", "result"),
    [
        ("a", "a", "resumed"),
        ("a", "b", "started_anew"),
        ("a", "", "started_anew"),
        ("a", None, "unknown"),
        ("", "", "started_anew"),
    ],
)
def test_only_the_same_name_of_the_cli_itself_is_proof(before: str, after: str | None, result: str) -> None:
    assert resume_result(SessionId("ses_1"), before, after, 15.0).result == result
