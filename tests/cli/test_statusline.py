"""`interlock statusline`: numbers of now, or that there are none; from a private file, without server and parser."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.cli.server.statusline import STALE_SECONDS
from tests.cli.serving import Served, serving, until


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("statusline")) as one:
        yield one


def says(served: Served, *args: str) -> str:
    done = served.cli("statusline", *args)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout.rstrip("\n")


def test_it_counts_what_the_board_shows_and_never_tells_old_numbers(served: Served) -> None:
    until(lambda: says(served) == "no sessions", "a server without sessions")
    served.done("say hello")
    asks = served.open('request Bash {"command": "ls"}; say done')
    served.shows(asks, attention="approval")
    works = served.open("think 0; gate never")
    served.shows(works, status="RUNNING")
    until(lambda: says(served) == "1 needs you · 1 working · 1 done", "the numbers of the board")
    assert says(served, "--format", "tmux").startswith("#[fg=red,bold]1 needs you#[default] · ")
    told = served.json("statusline")
    assert (told["state"], told["groups"]["done"], told["groups"]["idle"]) == ("up", 1, 0)
    file = served.home / "statusline.json"
    assert file.stat().st_mode & 0o777 == 0o600
    kept = file.read_bytes()

    long_ago = file.stat().st_mtime - 2 * STALE_SECONDS
    os.utime(file, (long_ago, long_ago))  # a server that stands still
    stale = served.cli("statusline")
    assert stale.stdout in ("interlock unknown\n", "1 needs you · 1 working · 1 done\n")  # it may touch it meanwhile

    served.kill()
    down = served.cli("statusline")
    assert (down.returncode, down.stdout) == (8, "interlock down\n")
    assert json.loads(served.cli("statusline", "--json").stdout) == {"state": "down", "groups": None}
    assert file.read_bytes() == kept  # the old numbers are still there, and are not told

    served.start()
    until(lambda: "1 done" in served.cli("statusline").stdout, "the numbers after a crash")
    assert served.stop() == 0
    assert not file.exists()
    assert served.cli("statusline").stdout == "interlock down\n"
    served.start()


@pytest.mark.parametrize(
    "edit",
    [
        {"pid": 1},
        {"started": "1"},
        {"boot_id": "another-boot"},
        {"pid": "x"},
    ],
)
def test_a_file_of_another_process_is_down(served: Served, tmp_path: Path, edit: dict[str, object]) -> None:
    until((served.home / "statusline.json").exists, "the file")
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    file = home / "statusline.json"
    shutil.copy(served.home / "statusline.json", file)
    found = home.stat()
    said = json.loads(file.read_bytes()) | {"folder": f"{found.st_dev}:{found.st_ino}"}
    file.write_text(json.dumps(said))
    until(lambda: "interlock" not in served.cli("statusline", "--home", str(home)).stdout, "a file that is believed")
    file.write_text(json.dumps(said | edit))
    done = served.cli("statusline", "--home", str(home))
    assert (done.returncode, done.stdout) == (8, "interlock down\n")


@pytest.mark.parametrize("content", ["", "[]", "{", '{"groups": 3}', '{"groups": {}, "pid": 1}'])
def test_damage_is_not_believed(tmp_path: Path, content: str) -> None:
    (tmp_path / "statusline.json").write_text(content)
    (tmp_path / "statusline.json").chmod(0o600)
    argv = (sys.executable, "-m", "interlock.cli", "statusline", "--home", str(tmp_path))
    done = subprocess.run(argv, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 8
    assert done.stdout in ("interlock unknown\n", "interlock down\n")
    assert done.stderr == ""


def test_it_loads_neither_the_parser_nor_a_client(tmp_path: Path) -> None:
    argv = (sys.executable, "-X", "importtime", "-m", "interlock.cli", "statusline", "--home", str(tmp_path))
    done = subprocess.run(argv, capture_output=True, text=True, timeout=100, check=False)
    assert done.stdout == "interlock down\n"
    imported = {line.rsplit("|", 1)[1].strip() for line in done.stderr.splitlines() if "|" in line}
    heavy = {"cyclopts", "msgspec", "rich", "asyncio", "socket", "subprocess", "apsw"}
    assert not heavy & imported
