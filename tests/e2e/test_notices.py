"""A real server tells of real agents: each edge once, by every channel, also across its own death."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from interlock.projections.attention_ledger import NoticeKind
from interlock.runtime.notify.notifier import LEDGER_NAME
from tests.bodies import Body
from tests.cli.serving import Served, serving, until
from tests.runtime.session.ledger_ways import FAKES

HOSTILE = "Delete\x1b]0\\;owned\x07 $(touch owned) `touch owned`\\nall \u202e of it & > owned"
HARMLESS = "Delete ]0;owned $(touch owned) `touch owned` all of it & > owned"
KEEP = """
import json, os, sys
told = json.load(sys.stdin)
assert os.environ["INTERLOCK_NOTICE_QUESTION"] == told.get("question", "")
with open(sys.argv[1], "a") as kept:
    kept.write(json.dumps(told) + "\\n")
"""


class Receiver(ThreadingHTTPServer):
    """A webhook that keeps what it is told."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Hook)
        self.told: list[dict[str, Any]] = []
        self.is_asked, self.is_killed = threading.Event(), threading.Event()


class _Hook(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        self.server.told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing on standard error."""


@contextmanager
def receiving() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(20)


@contextmanager
def told_world(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Served, Receiver, Path]]:
    """A server with a webhook and a command, both of which keep what they are told."""
    kept, program, config = folder / "kept", folder / "keep.py", folder / "config.toml"
    program.write_text(KEEP)
    with receiving() as hook:
        command = json.dumps([sys.executable, str(program), str(kept)])
        url = f"http://127.0.0.1:{hook.server_port}/secret-path?token=secret-token"
        config.write_text(f'[notify]\nwebhook = "{url}"\ncommand = {command}\nquiet_seconds = 0.2\n')
        monkeypatch.setenv("INTERLOCK_CONFIG", str(config))
        with serving(folder) as served:
            yield served, hook, kept


def lines_of(kept: Path) -> list[dict[str, Any]]:
    """Every whole line."""
    text = kept.read_text() if kept.exists() else ""
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def owes_nothing(served: Served) -> None:
    """Wait until the ledger says that every channel has what it was given."""
    ledger = served.home / LEDGER_NAME
    until(lambda: not json.loads(ledger.read_bytes())["undelivered"], "all is delivered", ledger.read_text)


def says(told: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return [(one["agent"], one["reason"], one.get("question", "")) for one in told]


def test_each_edge_is_told_once_also_after_a_crash_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with told_world(tmp_path, monkeypatch) as (served, hook, kept):
        asks = 'request Bash {"command": "make"} -> ok; say Made.; gate on; ask Which port? | 80 | 8080'
        task_id = served.open(asks, title="release", face="tui")
        until(lambda: hook.told and lines_of(kept), "the approval is told")
        owes_nothing(served)
        served.kill()
        served.start()
        served.shows(task_id, attention="approval")
        # What was told before is seen again by now. The next edge is a sign that nothing more is to come of it.
        decided = served.cli("approve", task_id)
        assert decided.returncode == 0, decided.stderr
        served.gates.open("on")
        until(lambda: len(hook.told) > 1 and len(lines_of(kept)) > 1, "the question is told", lambda: str(hook.told))
        reason = "waits for an approval"
        assert says(hook.told) == [("scripted", reason, "Allow Bash?"), ("scripted", reason, "Which port?")]
        assert lines_of(kept) == hook.told
        assert {one["task_id"] for one in hook.told} == {task_id}
        log = (tmp_path / "server-stderr").read_text()
    assert "secret" not in log
    assert "Traceback" not in log


@pytest.mark.deep
def test_an_edge_that_came_about_while_the_server_was_away_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with told_world(tmp_path, monkeypatch) as (served, hook, kept):
        task_id = served.open("think 0.1; gate away; ask Which colour? | red | blue", face="tui")
        served.gates.await_reached("away")
        served.kill()
        assert hook.told == []
        served.gates.open("away")
        served.start()
        served.shows(task_id, attention="approval")
        until(lambda: hook.told and lines_of(kept), "the question is told")
        owes_nothing(served)
        served.kill()
        served.start()
        other = served.open("fail 500", title="other")
        until(lambda: len(hook.told) > 1 and len(lines_of(kept)) > 1, "the failure is told")
        assert [(one["task_id"], one["kind"]) for one in hook.told] == [(task_id, "approval"), (other, "failed")]
        assert lines_of(kept) == hook.told


def test_what_an_agent_writes_arrives_harmless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with told_world(tmp_path, monkeypatch) as (served, hook, kept):
        task_id = served.open(f"ask {HOSTILE}", title="t\x1b[31m\n$(touch owned)")
        until(lambda: hook.told and lines_of(kept), "it is told")
        assert says(hook.told) == [("scripted", "asks a question", HARMLESS)]
        assert hook.told[0]["title"] == "t [31m $(touch owned)"
        assert hook.told[0]["task_id"] == task_id
        assert lines_of(kept) == hook.told
        assert not list(tmp_path.rglob("owned"))


def test_a_question_that_opens_again_is_told_again_once_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent's server refuses the decision: it was not delivered, and the person is asked again."""
    with told_world(tmp_path, monkeypatch) as (served, hook, kept):
        argv = (sys.executable, "-S", "-E", str(FAKES / "opencode_fake.py"))
        body: Body = {"agent": "fake", "driver": "opencode-serve", "argv": argv, "cwd": str(tmp_path), "prompt": "ask"}
        body |= {"environment": {"FAKE_REFUSALS": "409 404 400", "FAKE_LEDGER": str(tmp_path / "ledger")}}
        task_id = str(served.api.ask("POST", "/api/tasks", body)["task_id"])
        until(lambda: hook.told and lines_of(kept), "the question is told")
        decided = served.cli("approve", task_id)
        assert decided.returncode == 0, decided.stderr
        until(lambda: len(hook.told) > 1 and len(lines_of(kept)) > 1, "it is told again", lambda: str(hook.told))
        assert not (tmp_path / "ledger").exists()
        (asked,) = served.task(task_id)["approvals"]
        assert served.cli("approve", task_id).returncode == 0
        served.shows(task_id, status="COMPLETED")
        # The next edge is a sign that nothing more is to come of it.
        other = served.open("fail 500", title="other")
        until(lambda: len(hook.told) > 2 and len(lines_of(kept)) > 2, "the failure is told", lambda: str(hook.told))
        again = f"waits for an approval; a decision did not reach the agent: {asked['problem']}"
        assert "409" in asked["problem"]
        assert [(one["task_id"], one["reason"]) for one in hook.told] == [
            (task_id, "waits for an approval"),
            (task_id, again),
            (other, "did not complete its turn"),
        ]
        assert hook.told[0]["question"] == hook.told[1]["question"] != ""
        assert lines_of(kept) == hook.told


@pytest.mark.deep
def test_a_channel_that_fails_harms_neither_the_server_nor_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with told_world(tmp_path, monkeypatch) as (served, hook, kept):
        hook.RequestHandlerClass = _Broken
        served.done("fail 500", status="FAILED")
        until(lambda: lines_of(kept), "the command is run")
        until(lambda: "by webhook fail" in (tmp_path / "server-stderr").read_text(), "the failure is logged")
        served.done("say fine")
        assert served.stop() == 0
        log = (tmp_path / "server-stderr").read_text()
    assert log.count("notifications by webhook fail") == 1
    assert "secret" not in log


class _Broken(_Hook):
    def do_POST(self) -> None:
        self.send_error(500)


class _Dying(_Hook):
    """Has the server killed in the midst of a delivery, which it never answers."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.is_asked.set()
        self.server.is_killed.wait(100)
        self.close_connection = True


EVERY_KIND = {
    "approval": 'request Bash {"command": "make"} -> ok',
    "question": "ask Which port? | 80 | 8080",
    "failed": "fail 500",
    "completed": "say done",
    "stalled": "say begun; hang",
    "crashed": "say begun; crash",
}


@pytest.mark.deep
def test_every_kind_is_told_once_also_where_the_server_is_killed_between_note_and_delivery(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLOCK_NOTIFY_KINDS", json.dumps([kind.value for kind in NoticeKind]))
    monkeypatch.setenv("INTERLOCK_RUN_STALL_AFTER_SECONDS", "1")
    with told_world(tmp_path, monkeypatch) as (served, hook, kept):
        hook.RequestHandlerClass = _Dying
        opened = {kind: served.open(prompt, title=kind) for kind, prompt in EVERY_KIND.items()}
        assert hook.is_asked.wait(100)
        until(lambda: {one["kind"] for one in lines_of(kept)} >= set(EVERY_KIND), "the command has all", kept.read_text)
        served.kill()
        hook.RequestHandlerClass = _Hook
        hook.is_killed.set()
        assert hook.told == []
        served.start()
        until(lambda: {one["kind"] for one in hook.told} >= set(EVERY_KIND), "all are told", lambda: str(hook.told))
        owes_nothing(served)
        for kind, task_id in opened.items():
            keys = [one["key"] for one in hook.told if (one["kind"], one["task_id"]) == (kind, task_id)]
            assert len(keys) == len(set(keys)) >= 1, kind


@pytest.mark.deep
def test_that_all_is_quiet_is_told_once_also_where_the_server_is_killed_before_the_delivery(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLOCK_NOTIFY_KINDS", '["all_quiet"]')
    with told_world(tmp_path, monkeypatch) as (served, hook, _):
        hook.RequestHandlerClass = _Dying
        last = served.open("gate last; say done", title="last")
        served.done("say done", title="first")
        served.gates.open("last")
        assert hook.is_asked.wait(100)
        served.kill()
        hook.RequestHandlerClass = _Hook
        hook.is_killed.set()
        served.start()
        until(lambda: hook.told, "it is told")
        owes_nothing(served)
        served.kill()
        served.start()
        again = served.done("say done", title="again")
        until(lambda: len(hook.told) > 1, "the next rest is told")
        assert [(one["kind"], one["task_id"]) for one in hook.told] == [("all_quiet", last), ("all_quiet", again)]
