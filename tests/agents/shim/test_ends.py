"""However it ends, the pane sees the program's true end, and the terminal has the modes that it had before."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agents.shim.harness import DEADLINE_SECONDS, Around, child
from tests.cli.harness import interlock, python


@pytest.mark.parametrize("code", [0, 3, 137, 255])
def test_the_exit_code_is_the_programs_own(code: int) -> None:
    with Around("sh", "-c", f"exit {code}") as around:
        assert around.wait() == code
        assert around.modes() == around.modes_before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGPIPE, signal.SIGUSR1])
def test_the_shim_dies_by_the_signal_that_its_program_died_by(number: signal.Signals) -> None:
    with Around("sh", "-c", f"kill -{number.value} $$") as around:
        assert around.wait() == -number
        assert around.modes() == around.modes_before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT])
def test_a_signal_to_the_shim_ends_the_program_and_restores_the_terminal(number: signal.Signals) -> None:
    with Around(*child("say('READY'); signal.signal(2, signal.SIG_DFL)\nwhile True: signal.pause()")) as around:
        around.read_until(b"READY")
        assert around.is_raw()
        around.signal(number)
        assert around.wait() == -number
        assert around.modes() == around.modes_before


def test_a_program_may_end_in_its_own_way_when_it_is_told_to() -> None:
    with Around("sh", "-c", "trap 'echo BYE; exit 7' TERM; echo READY; while :; do sleep 0.05; done") as around:
        around.read_until(b"READY")
        around.signal(signal.SIGTERM)
        around.read_until(b"BYE")
        assert around.wait() == 7


def test_a_bug_in_the_shim_restores_the_terminal_as_well() -> None:
    """Broken on purpose, in its own process: the first byte of the program raises."""
    broken = (
        "from interlock.agents.shim import run\n"
        "def breaks(self): raise RuntimeError('broken')\n"
        "run.Pump._read_child = breaks\n"
        "run.run_shim(['sh', '-c', 'echo x; sleep 600'])"
    )
    with Around("true") as around:
        around.wait()
        before = around.modes()
        done = subprocess.run([sys.executable, "-c", broken], stdin=around.slave, capture_output=True, check=False)
        assert b"RuntimeError: broken" in done.stderr
        assert around.modes() == before


def test_a_background_job_that_never_stops_writing_does_not_keep_the_shim() -> None:
    """In its own process, where every look at the terminal of the program finds more."""
    flooded = (
        "import os, sys\n"
        "from interlock.agents.shim import run\n"
        "run.Pump._read_child = lambda self: run.LIMIT_BYTES\n"
        "sys.exit(os.waitstatus_to_exitcode(run.run_shim(['sh', '-c', 'exit 3'])))"
    )
    with Around("true") as around:
        around.wait()
        done = subprocess.run(
            [sys.executable, "-c", flooded], stdin=around.slave, timeout=DEADLINE_SECONDS, check=False
        )
        assert done.returncode == 3


def test_a_program_that_stops_itself_stops_the_shim_and_goes_on_with_it() -> None:
    code = "say('LAST'); os.kill(os.getpid(), signal.SIGSTOP); say('BACK'); say('GOT ' + chr(hear(1)[0]) + 'END')"
    with Around(*child(code)) as around:
        assert around.wait_until_stopped() == signal.SIGSTOP
        around.read_until(b"LAST")  # what it wrote before it stopped is on the screen already
        assert around.modes() == around.modes_before
        around.signal(signal.SIGCONT)
        around.read_until(b"BACK")
        assert around.is_raw()
        around.type(b"k")
        assert around.read_until(b"END") == b"GOT k"
        assert around.wait() == 0


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs a shell with job control")
def test_job_control_works_inside() -> None:
    with Around("env", "PS1=$ ", "bash", "--norc", "--noprofile", "-i") as around:
        around.read_until(b"$ ")
        around.type(b"sleep 600\n")
        around.read_until(b"sleep 600\r\n")
        # The shell hands the terminal over and starts the job; until then Control-Z is the shell's to ignore.
        for _ in range(200):
            around.type(b"\x1a")
            try:
                around.read_until(b"Stopped", within_seconds=0.1)
                break
            except TimeoutError:
                continue
        # `wait` gives up on a job that is still stopped in the shell's books, also without a shim: so until it is gone.
        around.type(b"while kill %1; do wait; done 2>/dev/null; echo left $((40 + 2))\n")
        around.read_until(b"left 42")
        around.type(b"exit 6\n")
        assert around.wait() == 6


def test_a_command_that_is_not_there_exits_127() -> None:
    with Around("no-such-command-anywhere") as around:
        assert around.wait() == 127
        assert b"no-such-command-anywhere" in around.seen
        assert around.modes() == around.modes_before


def test_a_file_that_cannot_be_run_exits_126(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("not a program")
    done = interlock("shim", "--", str(plain))
    assert (done.returncode, done.stdout) == (126, "")
    assert "is not executable" in done.stderr
    plain.chmod(0o755)  # no shebang either
    assert interlock("shim", "--", str(plain)).returncode == 126


@pytest.mark.parametrize("args", [("shim",), ("shim", "--"), ("shim", "--status-file", "x")])
def test_without_a_command_the_remedy_is_named(args: tuple[str, ...]) -> None:
    done = interlock(*args)
    assert done.returncode == 2
    assert "interlock debug shim -- claude" in done.stderr


@pytest.mark.parametrize("args", [("shim", "--nope", "--", "true"), ("shim", "--status-file")])
def test_a_wrong_option_exits_2(args: tuple[str, ...]) -> None:
    assert interlock(*args).returncode == 2


def test_help_is_that_of_every_command() -> None:
    done = interlock("debug", "shim", "--help")
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: interlock debug shim")
    assert "--status-socket" in done.stdout


@pytest.mark.parametrize("name", [["shim"], ["debug", "shim"]])
def test_the_shim_loads_no_parser_and_nothing_heavy(name: list[str]) -> None:
    """In the process that waits for the program; the listeners' modules are loaded only for a listener."""
    done = python(
        "import json, sys\nfrom interlock.cli import main\n"
        f"assert main({[*name, '--', 'true']}) == 0\nsys.stderr.write(json.dumps(sorted(sys.modules)))"
    )
    assert done.returncode == 0, done.stderr
    heavy = {"cyclopts", "msgspec", "rich", "asyncio", "dataclasses", "subprocess", "socket", "inspect"}
    assert not heavy & set(json.loads(done.stderr))
