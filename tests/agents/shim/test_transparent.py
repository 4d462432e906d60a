"""A program in the shim sees a terminal as it would without it: bytes, sizes, keys, and its window being closed."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agents.shim.harness import DEADLINE_SECONDS, INTERLOCK, Around, child, text_of, wait_for_text

EVERY_BYTE = bytes(range(256))
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")


def test_every_byte_goes_out_unchanged() -> None:
    with Around(*child("say(b'<' + bytes(range(256)) * 40 + b'<END>')")) as around:
        assert around.read_until(b"<END>") == b"<" + EVERY_BYTE * 40
        assert around.wait() == 0


def test_every_byte_comes_in_unchanged() -> None:
    with Around(*child("say('READY'); say(hear(256).hex() + 'END')")) as around:
        around.read_until(b"READY")
        around.type(EVERY_BYTE)
        assert around.read_until(b"END") == EVERY_BYTE.hex().encode()


def test_the_program_has_the_size_of_the_terminal_and_hears_of_a_new_one() -> None:
    code = """
def tell(*_): say('%d,%d;' % os.get_terminal_size())
signal.signal(signal.SIGWINCH, tell)
tell()
while True: signal.pause()
"""
    with Around(*child(code), rows=33, columns=101) as around:
        assert around.read_until(b";") == b"101,33"
        around.resize(7, 250)
        assert around.read_until(b";") == b"250,7"


def test_the_terminal_begins_with_the_modes_of_the_one_around_it() -> None:
    with Around("stty", "-g") as around:
        inner = around.read_until(b"\n").strip()
    with Around("true") as around:
        outer = subprocess.run(["stty", "-g"], stdin=around.slave, capture_output=True, check=True).stdout.strip()
        around.wait()
    assert inner.split(b":")[0] == outer.split(b":")[0]
    assert inner.split(b":")[3:] == outer.split(b":")[3:]


def test_the_program_leads_its_session_and_owns_its_terminal() -> None:
    code = "say(f'{os.getsid(0) == os.getpid() == os.tcgetpgrp(0)} {os.ctermid()} {open(\"/dev/tty\").isatty()} END')"
    with Around(*child(code)) as around:
        assert around.read_until(b"END") == b"True /dev/tty True "


def test_control_c_is_a_byte_to_a_raw_program() -> None:
    with Around(*child("say('READY'); say('GOT %d END' % hear(1)[0])")) as around:
        around.read_until(b"READY")
        around.type(b"\x03")
        assert around.read_until(b"END") == b"GOT 3 "


def test_control_c_interrupts_the_whole_group_of_a_cooked_program() -> None:
    # The shell waits for its child: only if that is interrupted as well does the trap run now. The child says that it
    # is there, or the key could come before it, and the shell would wait for it with the key in its pocket.
    with Around("sh", "-c", "trap 'echo GOT; exit 5' INT; sh -c 'echo READY; exec sleep 600'; echo late") as around:
        around.read_until(b"READY")
        around.type(b"\x03")
        around.read_until(b"GOT")
        assert around.wait() == 5


def test_a_pipe_without_broken_readers_kills_the_program_as_ever() -> None:
    """Python ignores SIGPIPE; the program must not inherit that."""
    with Around("sh", "-c", "(yes; echo yes=$? >&2) | head -n 1 >/dev/null") as around:
        around.read_until(b"yes=141")


def test_what_the_starter_ignores_stays_ignored() -> None:
    said = subprocess.run(
        [
            "sh",
            "-c",
            'trap "" USR1; exec "$@"',
            "sh",
            *INTERLOCK,
            "shim",
            "--",
            "sh",
            "-c",
            "kill -USR1 $$; echo lives",
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=DEADLINE_SECONDS,
        check=True,
    )
    assert said.stdout == b"lives\r\n"


@pytest.mark.parametrize("typed", [b"one\ntwo\n", b"one\ntwo", b""])
def test_the_end_of_a_pipe_is_an_end_of_file(typed: bytes) -> None:
    done = subprocess.run(
        [*INTERLOCK, "shim", "--", "sh", "-c", "cat; echo END"],
        input=typed,
        capture_output=True,
        timeout=DEADLINE_SECONDS,
        check=True,
    )
    assert done.stdout == typed.replace(b"\n", b"\r\n") + b"END\r\n"


def test_closed_standard_streams_are_no_reason_to_fail() -> None:
    quiet = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *INTERLOCK, "shim", "--", "sh", "-c", "exit 4"]
    assert subprocess.run(quiet, timeout=DEADLINE_SECONDS, check=False).returncode == 4


def test_a_reader_that_leaves_hangs_the_program_up() -> None:
    command = [*INTERLOCK, "shim", "--", "yes"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(DEADLINE_SECONDS) == -1  # by SIGHUP, as the program was


def test_a_closed_window_hangs_the_program_up(tmp_path: Path) -> None:
    note = tmp_path / "note"
    code = f"trap 'echo hup > {note}; exit 9' HUP; echo READY; while :; do read x || :; done"
    with Around("sh", "-c", code) as around:
        around.read_until(b"READY")
        os.close(around.slave)  # or we hold the window open ourselves
        around.slave = os.open(os.devnull, os.O_RDONLY)
        around.close_window()
        assert around.wait() == 9
    wait_for_text("hup", text_of(note))


def test_a_program_that_ignores_the_hang_up_still_finds_its_terminal_gone(tmp_path: Path) -> None:
    note = tmp_path / "note"
    with Around("sh", "-c", f"trap '' HUP; echo READY; read x; echo gone > {note}") as around:
        around.read_until(b"READY")
        os.close(around.slave)
        around.slave = os.open(os.devnull, os.O_RDONLY)
        around.close_window()
        wait_for_text("gone", text_of(note))
        assert around.wait() == 0


def test_the_last_words_are_passed_on_whole_and_background_jobs_are_not_waited_for() -> None:
    with Around("sh", "-c", "sleep 600 & head -c 300000 /dev/zero | tr '\\0' x; echo END") as around:
        assert around.wait() == 0
        assert around.read_until(b"END") == b"x" * 300000


@linux
def test_a_flood_does_not_grow_the_shim() -> None:
    megabytes = 100
    with Around("sh", "-c", f"echo GO; head -c {megabytes * 1_000_000} /dev/zero; echo END; read x") as around:
        around.read_until(b"GO\r\n")
        # A terminal that does not read: the shim must wait for it, not gather.
        before = -1.0
        while before != (peak := around.peak_megabytes()) and peak < 40:
            before = peak
            select.select([], [], [], 0.2)
        left = megabytes * 1_000_000 - len(around.seen)
        while left > 0:
            left -= len(os.read(around.master, min(left, 16384)))
        around.read_until(b"END")
        assert around.peak_megabytes() < 40


@linux
def test_keys_that_nobody_reads_stop_the_typist_and_do_not_grow_the_shim() -> None:
    with Around(
        *child("say('READY'); os.read(3, 1) if os.path.exists('/proc/self/fd/3') else signal.pause()")
    ) as around:
        around.read_until(b"READY")
        os.set_blocking(around.master, False)
        taken = 0
        while select.select([], [around.master], [], 0.3)[1] and taken < 8_000_000:
            try:
                taken += os.write(around.master, b"k" * 4096)
            except BlockingIOError:
                continue
        assert 64 * 1024 <= taken < 1_000_000
        assert around.peak_megabytes() < 40
