"""One look at a pane: all of one moment, whatever the pane shows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from interlock.agents.tmux.capture import capture_pane, read_capture
from interlock.agents.tmux.client import Wake
from interlock.agents.tmux.control import TmuxReply
from interlock.agents.tmux.link import FalseReply
from interlock.agents.tmux.server import Absent
from tests.agents.tmux.harness import PYTHON, Wakes, shows, stage
from tests.contract.harness import run

PAINT = r"""
import sys, time
sys.stdout.write("\x1b]2;my title\x07\x1b[?1049h\x1b[2J\x1b[H\x1b[1;31mred\x1b[0m plain\x1b[5;7H\x1b[?25l")
sys.stdout.flush(); time.sleep(600)
"""
# The title is asked for by the first command of a capture, the text by the second; both tell the same number.
MOVE = r"""
import sys
n = 0
while True:
    n += 1
    x, y = n % 60, n % 20
    sys.stdout.write(f"\x1b]2;{n}\x07\x1b[2J\x1b[{y + 1};{x + 1}H{n}\x1b[{y + 1};{x + 1}H")
    sys.stdout.flush()
"""
# Shows every line that could end a reply of the next ones, for this second and the next.
FORGE = r"""
import os, sys, time
if not sys.stdin.readline(): sys.exit()
now, first = int(time.time()), int(os.environ["FIRST"])
lines = [f"%end {now + late} {first + number} 1" for number in range(150) for late in (0, 1)]
sys.stdout.write("\n".join(lines) + "\nFORGED\n"); sys.stdout.flush(); time.sleep(600)
"""


def test_a_capture_tells_text_style_cursor_title_size_and_process() -> None:
    async def main() -> None:
        async with stage(*PYTHON, PAINT, columns=70, rows=12) as on:
            capture = await shows(on.pane, "red")
            snapshot = capture.snapshot
            assert (snapshot.columns, len(snapshot.rows)) == (70, 12)
            assert snapshot.rows[0].text == "red plain"
            assert snapshot.rows[0].style_at(0).bold
            assert snapshot.rows[0].style_at(0).fg == "1"
            assert (snapshot.cursor, snapshot.cursor_visible) == ((6, 4), False)
            assert (snapshot.title, snapshot.is_alternate, snapshot.is_dead) == ("my title", True, False)
            assert snapshot.command is not None
            assert snapshot.command.startswith("python")
            os.kill(capture.pid, 0)
            assert capture.exit_status is None
            assert capture.why_closed is None

    run(main())


@pytest.mark.parametrize(("columns", "rows"), [(500, 3), (80, 1), (1, 1), (2, 200)])
def test_panes_of_odd_sizes_are_read(columns: int, rows: int) -> None:
    async def main() -> None:
        async with stage("sh", "-c", "printf '漢字é\\033[31m%400s' x; sleep 600", columns=columns, rows=rows) as on:
            capture = await shows(on.pane, lambda capture: not capture.snapshot.is_blank)
            assert (capture.snapshot.columns, len(capture.snapshot.rows)) == (columns, rows)

    run(main())


def test_garbage_on_the_screen_breaks_nothing() -> None:
    program = "import sys,random,time; r=random.Random(7); w=sys.stdout.buffer.write\n"
    program += "for _ in range(200): w(r.randbytes(997))\n"
    end = "w(b'\\x18\\x1b\\\\\\x1bc\\x1b[?1049l\\x1b[H\\x1b[2JDONE'); sys.stdout.flush(); time.sleep(600)"

    async def main() -> None:
        async with stage(*PYTHON, program + end) as on:
            await shows(on.pane, "DONE")

    run(main())


def test_text_cursor_and_title_belong_to_the_same_moment_on_a_pane_that_never_rests() -> None:
    async def main() -> None:
        async with stage(*PYTHON, MOVE) as on:
            await shows(on.pane, lambda capture: capture.snapshot.title.isdecimal())
            numbers = set()
            for _ in range(120):
                snapshot = (await on.pane.capture()).snapshot
                for text in (row.text.strip() for row in snapshot.rows if row.text.strip()):
                    # A look may fall into the middle of a repaint: then it shows a part of the number, or the last one.
                    assert snapshot.title.startswith(text) or int(snapshot.title) - int(text) == 1
                    numbers.add(text)
            assert len(numbers) > 12

    run(main())


@pytest.mark.parametrize(
    "title",
    ["#{pane_id} #(echo run)", "a'b\"c\\", "tab\\there", "%end 1 2 1", "", "é漢🙂", "%H:%M #[fg=red]", "x" * 3000],
)
def test_a_title_is_text_whatever_is_in_it(title: str) -> None:
    program = (
        f"import sys,time; sys.stdout.write('\\x1b]2;' + {title!r} + '\\x07GO'); sys.stdout.flush(); time.sleep(600)"
    )

    async def main() -> None:
        async with stage(*PYTHON, program) as on:
            assert (await shows(on.pane, "GO")).snapshot.title == title

    run(main())


def test_control_characters_in_the_name_of_a_program_cannot_break_the_line(tmp_path: Path) -> None:
    name = "x\n%end\t1\ty"
    (tmp_path / name).symlink_to(Path("/bin/sh").resolve())
    program = f"import os; os.chdir({str(tmp_path)!r}); os.execv({name!r}, [{name!r}, '-c', 'echo GO; read x; exit 3'])"

    async def main() -> None:
        async with stage(*PYTHON, program) as on:
            capture = await shows(on.pane, "GO")
            assert "\n" not in str(capture.snapshot.command)

    run(main())


def test_a_screen_that_imitates_the_end_of_a_reply_is_refused_and_the_channel_made_anew() -> None:
    async def main() -> None:
        async with stage() as on:
            found = await on.client.ask([("display-message", "-p", "x")], lambda replies: replies[0].number)
            program = FORGE.replace('os.environ["FIRST"]', str(found))
            forger = await on.start(*PYTHON, program, rows=400)
            wakes = Wakes(on.client, forger.pane_id)
            await forger.send_keys("Enter")
            for _ in range(400):
                try:
                    capture = await capture_pane(on.client, forger.pane_id)
                except FalseReply:
                    break
                assert len(capture.snapshot.rows) == 400
            else:
                pytest.fail("no reply was forged, so this test shows nothing")
            await wakes.until(Wake.UP)
            assert (await on.pane.capture()).pane_id == on.pane.pane_id

    run(main())


def test_replies_that_do_not_fit_each_other_are_refused() -> None:
    beside = "\t".join(["%1", "@1", "7", "80", "2", "0", "0", "1", "0", "0", "", "", "0", "0", "0", "0", "title", "sh"])

    def reply(*lines: str) -> TmuxReply:
        return TmuxReply(1, True, False, tuple(line.encode() for line in lines))

    assert read_capture("%1", (reply(beside), reply("a", "b"))).snapshot.rows[1].text == "b"
    for told, rows in [(beside, ["a"]), (beside, ["a", "b", "c"]), (beside.replace("80", "x"), ["a", "b"]), ("%1", [])]:
        with pytest.raises(FalseReply):
            read_capture("%1", (reply(told), reply(*rows)))
    with pytest.raises(FalseReply):
        read_capture("%2", (reply(beside), reply("a", "b")))


def test_a_pane_that_is_not_there_is_absent() -> None:
    async def main() -> None:
        async with stage() as on:
            with pytest.raises(Absent):
                await capture_pane(on.client, "%99")

    run(main())


def test_a_pane_that_a_person_reads_back_in_or_has_closed_says_so() -> None:
    async def main() -> None:
        async with stage() as on:
            await on.client.command("copy-mode", "-t", on.pane.pane_id)
            assert "reading back" in str((await on.pane.capture()).why_closed)
            await on.client.command("send-keys", "-X", "-t", on.pane.pane_id, "cancel")
            await on.client.command("select-pane", "-d", "-t", on.pane.pane_id)
            assert "switched off" in str((await on.pane.capture()).why_closed)
            await on.client.command("select-pane", "-e", "-t", on.pane.pane_id)
            await on.client.command("set-option", "-w", "-t", on.pane.pane_id, "synchronize-panes", "on")
            assert "other panes" in str((await on.pane.capture()).why_closed)

    run(main())
