"""Telling a person: by every channel, once, whatever a channel, a disk or another watcher does."""

from __future__ import annotations

import asyncio
import fcntl
import io
import json
import stat
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import msgspec
import pytest

from interlock.projections.attention import AttentionPolicy, AttentionTimerFired, Lost, Sighted
from interlock.projections.attention_ledger import Notice, NoticeKind, NoticeLedger
from interlock.runtime.config.sections import NotifySection
from interlock.runtime.notify import channels as notify_channels
from interlock.runtime.notify import notifier as notify
from interlock.runtime.notify.channels import (
    BellChannel,
    CommandChannel,
    NotifySend,
    NtfyChannel,
    TerminalNotice,
    Webhook,
    channels_of,
    desktop_channel,
    osc_of,
)
from interlock.runtime.notify.notifier import (
    BELL_LEDGER_NAME,
    LEDGER_NAME,
    BoardWatcher,
    LedgerFile,
    NoticeChannel,
    Outlets,
)
from interlock.vocabulary.errors import PeerFault
from interlock.vocabulary.ids import SessionId, TurnId
from interlock.vocabulary.states import TaskStatus
from interlock.vocabulary.wire.frames import TaskSummary
from tests.client.waiting import until
from tests.projections.test_attention import asking, line

BEGAN = datetime(2026, 1, 31, 12, tzinfo=UTC)
AT_ONCE = AttentionPolicy(quiet_seconds=0.0)
NOTICE = Notice(
    key="ses_1/trn_1/asks",
    kind=NoticeKind.APPROVAL,
    task_id=SessionId("ses_1"),
    version=3,
    turn_id=TurnId("trn_1"),
    agent="claude",
    title="fix <the> test",
    reason="waits for an approval",
    question="Run pytest; $(touch owned)?",
    at=BEGAN,
)


def unheard(report: str) -> None:
    raise AssertionError(report)


class Told:
    """A channel that keeps what it is told, and fails as it is told to."""

    name = "told"

    def __init__(self, *fails: Exception | None) -> None:
        self.notices: list[Notice] = []
        self._fails = iter(fails)

    async def deliver(self, notice: Notice) -> None:
        error = next(self._fails, None)
        if error is not None:
            raise error
        self.notices.append(notice)


class Hanging:
    """A channel that never comes back."""

    name = "hanging"

    async def deliver(self, notice: Notice) -> None:
        await asyncio.Event().wait()


def watcher(folder: Path, told: list[Notice], reports: list[str] | None = None, seconds: float = 0.0) -> BoardWatcher:
    return BoardWatcher(
        LedgerFile(folder),
        told.append,
        (reports if reports is not None else []).append,
        AT_ONCE,
        now=lambda: BEGAN + timedelta(seconds=seconds),
    )


def take(one: BoardWatcher, *lines: TaskSummary) -> None:
    async def work() -> None:
        for found in lines:
            await one.take(Sighted(found))

    asyncio.run(work())


def test_a_restart_of_the_watcher_tells_nothing_again(tmp_path: Path) -> None:
    told: list[Notice] = []
    failed = line(2, status=TaskStatus.FAILED, task="ses_2", changed_at=BEGAN + timedelta(seconds=1))
    take(watcher(tmp_path, told), asking(), failed)
    assert len(told) == 2
    take(watcher(tmp_path, told, seconds=60), asking(), failed)
    assert len(told) == 2


def test_the_horizon_is_kept_from_the_first_start_on(tmp_path: Path) -> None:
    told: list[Notice] = []
    take(watcher(tmp_path, told), line())
    ended = line(2, status=TaskStatus.FAILED, changed_at=BEGAN + timedelta(seconds=50))
    take(watcher(tmp_path, told, seconds=100), ended)
    assert [one.kind for one in told] == [NoticeKind.FAILED]


def test_two_watchers_tell_an_edge_once(tmp_path: Path) -> None:
    told: list[Notice] = []
    one, other = watcher(tmp_path, told), watcher(tmp_path, told)
    take(one, line())
    take(other, line())
    take(one, asking(2))
    take(other, asking(2), asking(3, "Another?"))
    take(one, asking(3, "Another?"))
    assert [found.question for found in told] == ["Run pytest?", "Another?"]


def test_what_one_watcher_notes_does_not_undo_what_another_did(tmp_path: Path) -> None:
    told: list[Notice] = []
    one, other = watcher(tmp_path, told), watcher(tmp_path, told)
    take(one, line())
    take(other, line())
    take(one, asking(task_id=SessionId("ses_2")))
    take(other, asking(task_id=SessionId("ses_3")))
    assert len(told) == 2
    take(watcher(tmp_path, told), asking(task_id=SessionId("ses_2")), asking(task_id=SessionId("ses_3")))
    assert len(told) == 2


def test_the_ledger_is_private_whole_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    home = tmp_path / "new" / "home"
    take(watcher(home, []), asking())
    assert {one.name: stat.S_IMODE(one.stat().st_mode) for one in home.iterdir()} == {
        LEDGER_NAME: 0o600,
        "notified.lock": 0o600,
    }
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert json.loads((home / LEDGER_NAME).read_bytes())["tasks"]["ses_1"]["version"] == 1


def test_what_is_told_was_noted_first(tmp_path: Path) -> None:
    def dies(notice: Notice) -> None:
        raise ConnectionAbortedError(notice.key)

    dying = BoardWatcher(LedgerFile(tmp_path), dies, unheard, AT_ONCE, now=lambda: BEGAN)
    with pytest.raises(ConnectionAbortedError):
        take(dying, asking())
    told: list[Notice] = []
    take(watcher(tmp_path, told), asking())
    assert told == []


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"horizon": 3}', b"\xff"])
def test_a_ledger_that_cannot_be_read_begins_anew(content: bytes, tmp_path: Path) -> None:
    (tmp_path / LEDGER_NAME).write_bytes(content)
    told: list[Notice] = []
    take(watcher(tmp_path, told), asking())
    take(watcher(tmp_path, told), asking())
    assert len(told) == 1
    assert LedgerFile(tmp_path).read(BEGAN) != NoticeLedger(horizon=BEGAN)


def test_a_ledger_that_cannot_be_written_is_reported_once_and_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    told: list[Notice] = []
    reports: list[str] = []
    take(watcher(tmp_path / "file", told, reports), asking(), asking(2, "Another?"), asking(2, "Another?"))
    assert [one.question for one in told] == ["Run pytest?", "Another?"]
    assert len(reports) == 1
    assert "notices may repeat" in reports[0]


def test_somebody_who_keeps_the_lock_holds_up_nobody_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notify, "_LOCK_TRIES", 3)
    told: list[Notice] = []
    reports: list[str] = []
    with (tmp_path / "notified.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        take(watcher(tmp_path, told, reports), asking())
    assert len(told) == 1
    assert "another process keeps it locked" in reports[0]


def test_a_watcher_follows_a_board_and_wakes_by_itself(tmp_path: Path) -> None:
    told: list[Notice] = []

    async def work() -> None:
        has_told = asyncio.Event()

        def tell(notice: Notice) -> None:
            told.append(notice)
            has_told.set()

        async def board() -> AsyncIterator[Sighted | Lost]:
            yield Sighted(line())
            yield Lost()
            yield Sighted(asking(2))
            await has_told.wait()  # nothing more is seen: only its own timer can bring it

        policy = AttentionPolicy(quiet_seconds=0.05)
        async with asyncio.timeout(100):
            await BoardWatcher(LedgerFile(tmp_path), tell, unheard, policy).follow(board())

    asyncio.run(work())
    assert [one.kind for one in told] == [NoticeKind.APPROVAL]


def test_a_watcher_that_is_cancelled_leaves_its_board(tmp_path: Path) -> None:
    async def work() -> bool:
        is_closed = asyncio.Event()

        async def board() -> AsyncIterator[Sighted | Lost]:
            try:
                yield Sighted(line())
                await asyncio.Event().wait()
            finally:
                is_closed.set()

        task = asyncio.create_task(watcher(tmp_path, []).follow(board()))
        for _ in range(10_000):
            if (tmp_path / LEDGER_NAME).exists():
                break
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait((task,))
        assert is_closed.is_set(), "it has left before it ends"
        return task.cancelled()

    assert asyncio.run(work())


def test_a_timer_before_anything_was_seen_is_harmless(tmp_path: Path) -> None:
    told: list[Notice] = []
    asyncio.run(watcher(tmp_path, told).take(AttentionTimerFired()))
    assert told == []


def deliver(*channels: NoticeChannel, notices: int = 1, seconds: float = 20.0) -> list[str]:
    reports: list[str] = []

    async def work() -> None:
        async with Outlets(channels, reports.append, seconds=seconds) as outlets:
            for _ in range(notices):
                outlets.tell(NOTICE)
                await outlets.drain() if seconds > 1 else await asyncio.sleep(0)

    asyncio.run(work())
    return reports


def test_a_failing_channel_is_reported_once_and_stops_nobody() -> None:
    broken, well = Told(PeerFault("no"), OSError("no"), ValueError("no")), Told()
    assert deliver(broken, well, notices=5) == ["notifications by told fail: no"]
    assert (len(broken.notices), len(well.notices)) == (2, 5)


def test_whatever_a_channel_raises_the_next_notice_is_tried() -> None:
    broken = Told(KeyError("secret"), RuntimeError("secret"))
    assert deliver(broken, notices=3) == ["notifications by told fail: KeyError"]
    assert len(broken.notices) == 1


def test_ledgers_of_two_names_know_nothing_of_each_other(tmp_path: Path) -> None:
    told: list[Notice] = []
    for name in (LEDGER_NAME, BELL_LEDGER_NAME, BELL_LEDGER_NAME):
        file = LedgerFile(tmp_path, name)
        take(BoardWatcher(file, told.append, unheard, AT_ONCE, now=lambda: BEGAN), asking())
    assert len(told) == 2


def test_one_that_worked_in_between_is_reported_again() -> None:
    broken = Told(PeerFault("no"), None, PeerFault("again"))
    assert deliver(broken, notices=4) == ["notifications by told fail: no", "notifications by told fail: again"]


def test_a_channel_that_hangs_is_given_up_and_holds_up_nobody() -> None:
    well = Told()
    assert deliver(Hanging(), well, seconds=0.05) == ["notifications by hanging fail: it took longer than 0.05 s"]
    assert well.notices == [NOTICE]


def test_what_waits_for_a_slow_channel_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notify, "MAX_WAITING", 3)
    reports = deliver(Hanging(), notices=10, seconds=0.2)
    assert reports[0] == "notifications by hanging fail: more than 3 notices wait for it"


def test_a_bell_is_a_bell() -> None:
    terminal = io.StringIO()
    assert deliver(BellChannel(terminal)) == []
    assert terminal.getvalue() == "\a"


@pytest.mark.parametrize(
    ("environ", "shown"),
    [
        ({"TERM_PROGRAM": "WezTerm"}, "\x1b]9;{head}: {body}\x1b\\"),
        ({"TERM": "foot"}, "\x1b]777;notify;{head};{body}\x1b\\"),
        ({"VTE_VERSION": "7000", "TERM": "xterm"}, "\x1b]777;notify;{head};{body}\x1b\\"),
    ],
)
def test_a_terminal_is_given_one_whole_sequence(environ: dict[str, str], shown: str) -> None:
    terminal, spelled = io.StringIO(), osc_of(environ)
    assert spelled is not None
    hostile = Notice(
        key="k",
        kind=NoticeKind.QUESTION,
        task_id=SessionId("ses_1"),
        version=1,
        agent="a;b\x1b\\\x1b]0;owned\x07",
        reason="asks",
        question="\x9cq\x07",
        at=BEGAN,
    )

    async def work() -> None:
        await TerminalNotice(terminal, spelled).deliver(hostile)

    asyncio.run(work())
    written = terminal.getvalue()
    assert written.count("\x1b") == 2
    assert not {"\x07", "\x9c"} & set(written)
    head = r"a;b \ ]0;owned asks"
    assert written == shown.format(head=head.replace(";", ",") if "777" in shown else head, body="q")


def test_a_terminal_that_has_no_known_way_is_given_none() -> None:
    assert osc_of({"TERM": "xterm-256color"}) is None
    assert desktop_channel({"TERM": "xterm-256color", "PATH": ""}, io.StringIO()) is None
    assert desktop_channel({"TERM": "foot", "PATH": ""}, None) is None
    assert isinstance(desktop_channel({"TERM": "foot", "PATH": ""}, io.StringIO()), TerminalNotice)


def script(path: Path, body: str) -> str:
    path.write_text(f"#!{sys.executable}\n{body}")
    path.chmod(0o755)
    return str(path)


def test_the_desktop_is_told_by_arguments_and_without_markup(tmp_path: Path) -> None:
    out = tmp_path / "out"
    program = script(tmp_path / "notify-send", f"import sys\nopen({str(out)!r}, 'w').write(repr(sys.argv[1:]))\n")
    assert desktop_channel({"PATH": str(tmp_path)}, None) is None  # no desktop there
    found = desktop_channel({"PATH": str(tmp_path), "DISPLAY": ":0"}, None)
    assert found == NotifySend(program)
    assert deliver(found) == []
    assert out.read_text() == repr(
        [
            "--app-name=interlock",
            "--hint=string:sound-name:message-new-instant",
            "--",
            "claude waits for an approval",
            "fix &lt;the&gt; test: Run pytest; $(touch owned)?\ninterlock top --session ses_1",
        ]
    )


COMMAND = """
import json, os, sys
told = {name: value for name, value in os.environ.items() if name.startswith("INTERLOCK_")}
open(sys.argv[1], "w").write(json.dumps([sys.argv[2:], json.load(sys.stdin), told]))
"""


def test_a_command_gets_json_and_variables_and_no_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INTERLOCK_HOME", "/elsewhere")
    program, out = script(tmp_path / "p", COMMAND), tmp_path / "out"
    assert deliver(CommandChannel((program, str(out), "$HOME; x"))) == []
    argv, given, variables = json.loads(out.read_text())
    assert argv == ["$HOME; x"]
    assert given == {
        "key": NOTICE.key,
        "kind": "approval",
        "task_id": "ses_1",
        "version": 3,
        "turn_id": "trn_1",
        "agent": "claude",
        "title": "fix <the> test",
        "reason": "waits for an approval",
        "question": "Run pytest; $(touch owned)?",
        "at": "2026-01-31T12:00:00Z",
        "command": "interlock top --session ses_1",
        "link": "",
    }
    assert variables == {
        "INTERLOCK_NOTICE_KEY": NOTICE.key,
        "INTERLOCK_NOTICE_KIND": "approval",
        "INTERLOCK_NOTICE_TASK_ID": "ses_1",
        "INTERLOCK_NOTICE_TURN_ID": "trn_1",
        "INTERLOCK_NOTICE_AGENT": "claude",
        "INTERLOCK_NOTICE_TITLE": "fix <the> test",
        "INTERLOCK_NOTICE_REASON": "waits for an approval",
        "INTERLOCK_NOTICE_QUESTION": "Run pytest; $(touch owned)?",
        "INTERLOCK_NOTICE_COMMAND": "interlock top --session ses_1",
        "INTERLOCK_NOTICE_LINK": "",
    }
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize(
    ("body", "said"),
    [("raise SystemExit(3)", "ended with 3"), (None, "did not start"), ("import os\nos.abort()", "ended with -6")],
)
def test_a_command_that_fails_is_reported(body: str | None, said: str, tmp_path: Path) -> None:
    program = str(tmp_path / "none") if body is None else script(tmp_path / "p", body)
    (report,) = deliver(CommandChannel((program,)))
    assert said in report


def test_a_command_need_not_read_what_it_is_given(tmp_path: Path) -> None:
    assert deliver(CommandChannel((script(tmp_path / "p", "import os\nos.close(0)\n"),))) == []


@pytest.mark.parametrize("is_starting", [False, True], ids=["once-it-runs", "while-it-starts"])
def test_a_command_that_hangs_is_ended_with_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_starting: bool
) -> None:
    pids = tmp_path / "pids"
    body = f"""
import os, signal, sys
child = os.fork()
if child:
    open({str(pids)!r} + ".new", "w").write(f"{{os.getpid()}} {{child}}")
    os.rename({str(pids)!r} + ".new", {str(pids)!r})
signal.pause()
"""
    starts = partial(asyncio.create_subprocess_exec, stdin=asyncio.subprocess.PIPE, start_new_session=True)

    async def written() -> None:
        for _ in range(10_000):
            if pids.exists():
                return
            await asyncio.sleep(0.01)

    async def starts_late(*argv: str, **_: object) -> asyncio.subprocess.Process:
        process = await starts(*argv)
        await written()
        await asyncio.sleep(0.05)  # it runs, and nobody was told of it yet
        return process

    if is_starting:
        monkeypatch.setattr(asyncio, "create_subprocess_exec", starts_late)

    async def work() -> None:
        task = asyncio.create_task(CommandChannel((script(tmp_path / "p", body),)).deliver(NOTICE))
        await written()
        task.cancel()
        await asyncio.wait((task,), timeout=100)
        assert task.cancelled()
        for pid in map(int, pids.read_text().split()):
            await gone(pid)

    asyncio.run(work())


async def gone(pid: int) -> None:
    for _ in range(10_000):
        if state_of(pid) in ("", "Z"):  # nobody may wait for an orphan here, but it is dead
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"process {pid} lives")


def state_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


class Hook(BaseHTTPRequestHandler):
    """An address that answers as it is told to."""

    status: ClassVar[int] = 204
    asked: ClassVar[list[tuple[str, str | None, bytes]]] = []

    def do_POST(self) -> None:
        size = int(self.headers["Content-Length"])
        type(self).asked.append((self.path, self.headers["Content-Type"], self.rfile.read(size)))
        self.send_response(self.status)
        self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Nothing on stderr."""


@contextmanager
def hook(status: int = 204) -> Iterator[tuple[str, list[tuple[str, str | None, bytes]]]]:
    handler = type("Answer", (Hook,), {"status": status, "asked": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", handler.asked  # type: ignore[attr-defined]
        finally:
            server.shutdown()
            thread.join(20)


def test_a_webhook_is_posted_json_once() -> None:
    with hook() as (url, asked):
        assert deliver(Webhook(f"{url}/a/b?c=d")) == []
    ((path, kind, body),) = asked
    assert (path, kind) == ("/a/b?c=d", "application/json")
    assert json.loads(body)["question"] == "Run pytest; $(touch owned)?"


@pytest.mark.parametrize("status", [301, 302, 307, 308, 400, 500])
def test_a_webhook_follows_no_redirect_and_every_other_answer_is_a_failure(status: int) -> None:
    with hook(status) as (url, asked):
        assert deliver(Webhook(f"{url}/secret")) == [
            f"notifications by webhook fail: http://127.0.0.1 answered {status}"
        ]
    assert [path for path, _, _ in asked] == ["/secret"]


def test_a_webhook_that_cannot_be_reached_is_reported_without_its_secret() -> None:
    with hook() as (url, _):
        pass
    (report,) = deliver(Webhook(f"{url}/secret?token=secret"))
    assert report == "notifications by webhook fail: http://127.0.0.1 cannot be asked: ConnectionRefusedError"


def test_a_webhook_that_never_answers_is_hung_up_on() -> None:
    async def work() -> None:
        connected, over = asyncio.Event(), asyncio.Event()

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            connected.set()
            while await reader.read(4096):
                pass
            over.set()
            writer.close()

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        task = asyncio.create_task(Webhook(f"http://127.0.0.1:{port}/", seconds=60).deliver(NOTICE))
        async with asyncio.timeout(100):
            await connected.wait()
            task.cancel()
            await asyncio.wait((task,))
            await over.wait()
        server.close()
        await server.wait_closed()
        assert task.cancelled()

    asyncio.run(work())


def test_certificates_are_not_read_on_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    made_by = []
    plain = notify_channels._connection

    def noted(url: str, seconds: float) -> HTTPConnection:
        made_by.append(threading.current_thread())
        return plain(url, seconds)

    monkeypatch.setattr(notify_channels, "_connection", noted)
    assert len(deliver(Webhook("https://127.0.0.1:1/"))) == 1
    assert [one is threading.main_thread() for one in made_by] == [False]


def test_https_checks_who_it_is() -> None:
    made = notify_channels._connection("https://hook.example:8443/x", 5)
    assert (made.host, made.port, type(made).__name__) == ("hook.example", 8443, "HTTPSConnection")
    context = made._context  # type: ignore[attr-defined]
    assert context.check_hostname
    assert context.verify_mode.name == "CERT_REQUIRED"


@pytest.mark.parametrize("url", ["http://h:99999/", "http://[::1/", "http://h:x/"])
def test_an_address_that_cannot_be_read_is_a_failure_and_no_crash(url: str) -> None:
    assert len(deliver(Webhook(url))) == 1


def test_the_channels_are_those_that_are_asked_for(tmp_path: Path) -> None:
    terminal, environ = io.StringIO(), {"PATH": str(tmp_path), "TERM": "foot"}
    every = NotifySection(desktop=True, command=("x",), webhook="http://h/")
    assert [one.name for one in channels_of(every, environ, terminal)] == ["bell", "terminal", "command", "webhook"]
    assert [one.name for one in channels_of(every, environ, None)] == ["command", "webhook"]
    assert channels_of(NotifySection(bell=False), environ, terminal) == []


def test_an_ntfy_topic_gets_title_words_and_a_priority_by_kind() -> None:
    with hook(200) as (url, asked):
        assert deliver(NtfyChannel(f"{url}/base/agents?auth=secret")) == []
        done = msgspec.structs.replace(NOTICE, kind=NoticeKind.COMPLETED, reason="completed its turn", question="")
        asyncio.run(NtfyChannel(f"{url}/agents", link="https://me.example/s/{session}?a=1").deliver(done))
    (path, kind, body), (plain, _, calm) = asked
    assert (path, kind, plain) == ("/base/?auth=secret", "application/json", "/")
    assert json.loads(body) == {
        "topic": "agents",
        "title": "claude waits for an approval",
        "message": f"fix <the> test: Run pytest; $(touch owned)?\ninterlock top --session {NOTICE.task_id}",
        "priority": 4,
        "tags": ["warning"],
    }
    assert json.loads(calm)["priority"] == 3
    assert json.loads(calm)["click"] == f"https://me.example/s/{NOTICE.task_id}?a=1"


def test_a_webhook_and_a_command_get_the_ways_to_the_session(tmp_path: Path) -> None:
    link = "https://me.example/{session}"
    ways = {"command": f"interlock top --session {NOTICE.task_id}", "link": f"https://me.example/{NOTICE.task_id}"}
    with hook(200) as (url, asked):
        settings = NotifySection(bell=False, webhook=url, link=link)
        for channel in channels_of(settings, {}, None):
            assert deliver(channel) == []
    assert json.loads(asked[0][2]) == {**msgspec.to_builtins(NOTICE), **ways}
    out = tmp_path / "out"
    body = "import os, sys\nopen(sys.argv[1], 'w').write(os.environ['INTERLOCK_NOTICE_LINK'] + sys.stdin.read())\n"
    assert deliver(CommandChannel((script(tmp_path / "p", body), str(out)), link=link)) == []
    told, _, data = out.read_text().partition("{")
    assert told == ways["link"]
    assert json.loads("{" + data) == {**msgspec.to_builtins(NOTICE), **ways}


def test_what_was_noted_and_not_delivered_is_delivered_by_the_next_process_with_the_same_key(tmp_path: Path) -> None:
    file = LedgerFile(tmp_path)

    async def dies() -> None:
        told: list[Notice] = []
        one = BoardWatcher(file, told.append, unheard, AT_ONCE, now=lambda: BEGAN, channels=("told", "gone"))
        await one.take(Sighted(asking()))
        assert len(told) == 1  # and here it is killed

    async def goes_on() -> tuple[list[Notice], list[Notice]]:
        first, second = Told(), Told()
        async with Outlets([first], unheard, file=file):
            pass
        async with Outlets([second], unheard, file=file):
            pass
        return first.notices, second.notices

    asyncio.run(dies())
    (owed, other) = file.owed()
    assert (owed.channel, other.channel) == ("told", "gone")
    assert asyncio.run(goes_on()) == ([owed.notice], [])
    assert file.owed() == ()


def test_a_delivery_that_the_end_broke_off_is_owed_and_one_that_failed_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "_CLOSING_SECONDS", 0.01)
    file, reports = LedgerFile(tmp_path), list[str]()

    async def story() -> None:
        channels: list[NoticeChannel] = [Hanging(), Told(PeerFault("no"))]
        async with Outlets(channels, reports.append, file=file) as outlets:
            one = BoardWatcher(file, outlets.tell, unheard, AT_ONCE, now=lambda: BEGAN, channels=outlets.names)
            await one.take(Sighted(asking()))
            await until(lambda: len(file.owed()) == 1, "the failed one is tried")

    asyncio.run(story())
    assert [one.channel for one in file.owed()] == ["hanging"]
    assert reports == ["notifications by told fail: no"]
