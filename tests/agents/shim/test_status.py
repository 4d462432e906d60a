"""What a program says of itself is answered and passed on, and no listener can ever make it wait."""

from __future__ import annotations

import json
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import pytest

from interlock.agents.shim import report
from interlock.agents.shim.report import RETRY_SECONDS
from tests.agents.shim.harness import DEADLINE_SECONDS, INTERLOCK, Around, child, text_of, wait_for_text

PROBE = b"\x1b]7501;?\x1b\\"
ASKS = "def rec(body): say('\\x1b]7501;' + body + '\\x1b\\\\')\n"


def lines(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


@contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as server:
        server.settimeout(DEADLINE_SECONDS)
        server.bind(str(path))
        server.listen()
        yield server


def test_the_probe_is_answered_before_the_terminals_own_answer_can_come() -> None:
    code = "say('\\x1b]7501;?\\x1b\\\\\\x1b[c'); say(hear(17).hex() + 'END')"
    with Around(*child(code)) as around:
        around.read_until(b"\x1b[c")
        around.type(b"\x1b[?1;2c")
        assert bytes.fromhex(around.read_until(b"END").decode()) == PROBE + b"\x1b[?1;2c"


def test_the_probe_is_answered_though_it_comes_in_pieces_and_goes_on_unchanged() -> None:
    code = "say('\\x1b]75'); hear(1); say('01;?'); hear(1); say('\\x07'); hear(10); say('END')"
    with Around(*child(code)) as around:
        # Each piece is on the screen, and so was read by the shim, before the next is written.
        for piece in (b"\x1b]75", b"01;?"):
            assert around.read_until(piece) == b""
            around.type(b"k")
        assert around.read_until(b"END") == b"\x07"


def test_records_reach_a_file_that_only_its_owner_reads(tmp_path: Path) -> None:
    kept = tmp_path / "status.ndjson"
    code = (
        ASKS + "rec('?'); hear(10); say('\\x1b]7501;state=blo'); say('cked:app=x:kind=permission:msg=UnVuPw==\\x07')\n"
    )
    code += "sys.exit(3)"
    with Around(*child(code), options=(f"--status-file={kept}",)) as around:
        assert around.wait() == 3
    told = lines(kept.read_text())
    assert [line["type"] for line in told] == ["started", "probe", "status", "exited"]
    assert [line["seq"] for line in told] == [1, 2, 3, 4]
    assert {line["shim_pid"] for line in told} == {around.process.pid}
    assert (told[2]["state"], told[2]["app"], told[2]["kind"]) == ("blocked", "x", "permission")
    assert (told[2]["message"], told[2]["id"]) == ("Run?", "")
    assert (told[3]["code"], told[3]["signal"], told[3]["dropped"]) == (3, None, 0)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def test_a_death_by_signal_is_told_as_one(tmp_path: Path) -> None:
    kept = tmp_path / "status.ndjson"
    with Around("sh", "-c", "kill -9 $$", options=("--status-file", str(kept))) as around:
        around.wait()
    assert (lines(kept.read_text())[-1]["code"], lines(kept.read_text())[-1]["signal"]) == (None, 9)


def test_a_socket_is_told_everything_and_then_hears_the_end(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with (
        listening(path) as server,
        Around(
            *child(ASKS + "rec('state=working'); rec('state=done')"), options=("--status-socket", str(path))
        ) as around,
    ):
        connection, _ = server.accept()
        with connection, connection.makefile() as heard:
            told = lines(heard.read())
        assert around.wait() == 0
    assert [(line["type"], line.get("state")) for line in told] == [
        ("started", None),
        ("status", "working"),
        ("status", "done"),
        ("exited", None),
    ]


def test_a_killed_shim_is_an_end_of_file_to_its_listener(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with listening(path) as server, Around("sleep", "600", options=("--status-socket", str(path))) as around:
        connection, _ = server.accept()
        with connection, connection.makefile() as heard:
            assert json.loads(heard.readline())["type"] == "started"
            around.process.kill()
            assert heard.readline() == ""


def test_nobody_needs_to_listen(tmp_path: Path) -> None:
    with Around(
        *child(ASKS + "rec('state=working'); sys.exit(5)"), options=("--status-socket", str(tmp_path / "s"))
    ) as around:
        assert around.wait() == 5


def test_a_listener_that_comes_late_or_comes_back_is_told_how_things_stand(tmp_path: Path) -> None:
    path = tmp_path / "s"
    code = (
        ASKS + "for body in ('state=idle', 'state=working:id=a', 'state=working:id=b', 'state=clear:id=a'): rec(body)\n"
    )
    code += "say('READY'); hear(1); rec('state=blocked'); say('SAID'); hear(1)"
    with Around(*child(code), options=("--status-socket", str(path))) as around:
        around.read_until(b"READY")
        with listening(path) as server, server.accept()[0] as connection, connection.makefile() as heard:
            first = [json.loads(heard.readline()) for _ in range(3)]
        path.unlink()
        around.type(b"1")
        around.read_until(b"SAID")
        with listening(path) as server, server.accept()[0] as connection, connection.makefile() as heard:
            second = [json.loads(heard.readline()) for _ in range(3)]
            around.type(b"2")
            last = json.loads(heard.readline())
    assert [(line.get("state"), line.get("id")) for line in first] == [(None, None), ("idle", ""), ("working", "b")]
    assert [(line.get("state"), line.get("id")) for line in second] == [(None, None), ("working", "b"), ("blocked", "")]
    assert (last["type"], last["code"]) == ("exited", 0)
    assert last["dropped"] > 0


def test_a_listener_that_took_the_place_of_another_is_told_at_once_though_nothing_new_is_said(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with Around(
        *child(ASKS + "rec('state=idle'); say('READY'); hear(1)"), options=("--status-socket", str(path))
    ) as around:
        around.read_until(b"READY")
        for _ in range(2):
            with listening(path) as server, server.accept()[0] as connection, connection.makefile() as heard:
                lines = [json.loads(heard.readline()) for _ in range(2)]
                assert [line.get("state") for line in lines] == [None, "idle"]
            path.unlink()
        around.type(b"1")
        assert around.wait() == 0


def test_a_missing_listener_is_looked_for_again_when_its_time_has_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(report, "time", SimpleNamespace(monotonic=lambda: now))
    reporter = report.Reporter(socket_path=str(tmp_path / "s"))
    reporter.started(1)
    assert reporter.pause_seconds() == RETRY_SECONDS
    now += 0.75 * RETRY_SECONDS
    assert reporter.pause_seconds() == 0.25 * RETRY_SECONDS
    now += RETRY_SECONDS
    assert reporter.pause_seconds() == 0.0


def test_a_listener_that_never_reads_is_cut_off_and_the_program_goes_on(tmp_path: Path) -> None:
    path, kept = tmp_path / "s", tmp_path / "kept"
    code = ASKS + "for n in range(2000): rec('state=working:id=%d:msg=%s' % (n, 'QUFB' * 300))\nsay('END')"
    with (
        listening(path) as server,
        Around(*child(code), options=("--status-socket", str(path), "--status-file", str(kept))) as around,
    ):
        connection, _ = server.accept()
        with connection:
            around.read_until(b"END")
            assert around.wait() == 0
    told = lines(kept.read_text())
    assert len(told) == 2002
    assert isinstance(told[-1]["dropped"], int)
    assert told[-1]["dropped"] > 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_does_not_stop_the_program() -> None:
    with Around(*child(ASKS + "rec('state=idle'); say('END')"), options=("--status-file", "/dev/full")) as around:
        around.read_until(b"END")
        assert around.wait() == 0


def test_a_file_that_cannot_be_written_is_said_before_anything_starts(tmp_path: Path) -> None:
    options = ("--status-file", str(tmp_path / "no" / "such"))
    with Around("sh", "-c", f"touch {tmp_path}/ran", options=options) as around:
        assert around.wait() == 2
        assert b"--status-file" in around.seen
    assert not (tmp_path / "ran").exists()


@pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")
def test_inside_tmux_the_probe_is_answered_first_and_the_exit_is_the_programs_own(tmp_path: Path) -> None:
    kept, program, ended = tmp_path / "status.ndjson", tmp_path / "program.py", tmp_path / "ended"
    code = ASKS + "say('\\x1b]7501;?\\x1b\\\\\\x1b[c')\nfirst = hear(10)\n"
    code += "who = 'shim' if first == b'\\x1b]7501;?\\x1b\\\\' else first.hex()\n"
    code += "say('first=%s size=%d,%d READY' % (who, *os.get_terminal_size()))\n"
    code += "rec('state=idle:app=probe')\nwhile hear(1) != b'q': pass\nsys.exit(9)"
    program.write_text(child(code)[-1])
    server = ("tmux", "-L", f"il-shim-{uuid4().hex[:12]}", "-f", "/dev/null")

    def tmux(*args: str) -> str:
        done = subprocess.run(
            (*server, *args), capture_output=True, encoding="utf-8", timeout=DEADLINE_SECONDS, check=True
        )
        return done.stdout

    shim = (*INTERLOCK, "shim", "--status-file", str(kept), "--", sys.executable, str(program))
    # Through a shell, since tmux 3.3a now and then forgets the status of a pane that has died.
    pane = ("sh", "-c", f'"$@"; echo status=$? > {ended}; exec sleep 600', "sh", *shim)
    try:
        tmux("new-session", "-d", "-x", "100", "-y", "30", *pane)
        wait_for_text("first=shim size=100,30 READY", lambda: tmux("capture-pane", "-p"))
        wait_for_text('"state":"idle"', text_of(kept))
        tmux("send-keys", "q")
        wait_for_text("status=9", text_of(ended))
    finally:
        subprocess.run((*server, "kill-server"), capture_output=True, timeout=DEADLINE_SECONDS, check=False)


TOOL = """
import time
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
tool = os.fork()
if tool == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    rec('state=idle:app=tool')
    hear(1)
    os._exit(0)
os.waitpid(tool, 0)
os.tcsetpgrp(0, os.getpid())
rec('state=working:app=mine')
hear(1)
"""


def test_a_record_is_the_programs_own_while_its_group_is_in_the_foreground_and_a_tools_is_not(tmp_path: Path) -> None:
    kept = tmp_path / "status.ndjson"
    with Around(*child(ASKS + TOOL), options=(f"--status-file={kept}",)) as around:
        for record in (b"state=idle:app=tool\x1b\\", b"state=working:app=mine\x1b\\"):
            around.read_until(record)  # each is on the screen, and so was read by the shim, before its writer goes on
            around.type(b"k")
        around.wait()
    told = [(line["app"], line["is_own"]) for line in lines(kept.read_text()) if line["type"] == "status"]
    assert told == [("tool", False), ("mine", True)]


@pytest.mark.parametrize("enter", [b"\r", b"\n", b"\x1b[13u", b"\x1b[13;1u", b"\x1b[27;5;13~"])
def test_a_program_introduces_itself_before_the_first_enter_or_not_at_all(tmp_path: Path, enter: bytes) -> None:
    kept = tmp_path / "status.ndjson"
    code = "rec('state=idle'); rec('state=idle:app=mine'); say('NOW')\n"
    code += f"hear({len(enter)}); rec('?'); hear(10); rec('state=done:app=late')"
    with Around(*child(ASKS + code), options=(f"--status-file={kept}",)) as around:
        around.read_until(b"NOW")
        around.type(enter)
        around.wait()
    told = [(line["has_asked"], line["greeted_as"]) for line in lines(kept.read_text()) if "has_asked" in line]
    assert told == [(False, ""), (False, "mine"), (False, "mine"), (False, "mine")]


def test_a_probe_before_the_first_enter_introduces_the_program(tmp_path: Path) -> None:
    kept = tmp_path / "status.ndjson"
    with Around(*child(ASKS + "rec('?'); hear(10); rec('state=idle')"), options=(f"--status-file={kept}",)) as around:
        around.wait()
    told = [line["has_asked"] for line in lines(kept.read_text()) if "has_asked" in line]
    assert told == [True, True]
