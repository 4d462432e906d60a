"""Every command meets everything that can be wrong around it.

Laws:
1. The exit code is the table's, and the one that fits what is wrong.
2. Standard error says what is wrong; standard output has nothing, or JSON, or an answer that is one.
3. No traceback, no hang.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import pytest

from interlock.cli.commands import COMMANDS
from interlock.cli.exit_codes import ExitCode
from interlock.cli.server.api import MAX_REQUEST_BYTES
from interlock.log.paths import DATABASE_NAME
from interlock.testing.scripted_agent import command
from tests.agents.tmux.harness import shows, stage
from tests.any_route import any_route
from tests.cli import faults
from tests.cli.births import bear
from tests.cli.command_lines import (
    ANSWERING,
    ASKING,
    ELSEWHERE,
    OF_A_SESSION,
    READING,
    READING_ALL,
    SESSION,
    WRITING,
    covered,
    of,
)
from tests.cli.faults import World, complaints, false_server, http, make_world, saying, silence, write_private
from tests.cli.harness import FULL_DEVICE, cold
from tests.cli.homes import change, make_home, whole_turns
from tests.cli.serving import Served
from tests.cli.terminals import at_a_terminal

HASTEN = f"{faults.__name__}:{faults.hasten.__name__}"
FILL_DISK = f"{faults.__name__}:{faults.fill_disk.__name__}"
OK, FAILED, USAGE, UNKNOWN = ExitCode.COMPLETED, ExitCode.FAILED, ExitCode.USAGE, ExitCode.UNKNOWN
UNREACHABLE, DAMAGED = ExitCode.UNREACHABLE, ExitCode.DAMAGED_LOG
SERVER = (*ASKING, *OF_A_SESSION)
LOG = (*READING, *READING_ALL, *WRITING)
RAW = "\udcff\udcfe"


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A home that nobody has used."""
    return make_world(tmp_path)


@pytest.fixture
def used(tmp_path: Path) -> World:
    """A home with a session of two turns."""
    made = make_world(tmp_path)
    make_home(made.home, whole_turns(SESSION, 2))
    return made


@pytest.fixture(scope="module")
def served(acting_server: Served, tmp_path_factory: pytest.TempPathFactory) -> tuple[World, str]:
    """A server that is shared, and one of its sessions, whose turn is over."""
    world = make_world(tmp_path_factory.mktemp("served"), acting_server.home)
    task_id = acting_server.done("say one", title="errors one")
    acting_server.done("say two", title="errors two")
    return world, task_id


def check(
    world: World,
    lines: Iterable[Sequence[str]],
    codes: Collection[int],
    says: str = "",
    *,
    stdout: str = "file",
    prepare: str = "",
    is_answer: bool = False,
) -> None:
    """All of these lines end so. Every one is tried, whatever became of the one before."""
    wrong = []
    for line in lines:
        wrong += complaints(world.meet(line, stdout=stdout, prepare=prepare), codes, says, is_answer=is_answer)
    assert not wrong, "\n".join(wrong)


def test_every_command_is_in_the_table() -> None:
    known = covered() | set(ELSEWHERE)
    missing = [one.name for one in COMMANDS if not {one.name, one.alias, one.name.split()[0]} & known]
    assert missing == []


# The server


def test_no_server_runs(world: World) -> None:
    check(world, of(SERVER), {UNREACHABLE}, "interlock up")
    check(world, [[*line, "--json"] for line in of(OF_A_SESSION[:8])], {UNREACHABLE}, "interlock up")
    check(world, [["status"], ["status", "--json"]], {UNREACHABLE}, is_answer=True)
    check(world, [["down"], ["down", "--stop-agents"]], {OK})
    assert not world.home.exists()  # nobody made it to look for it


def test_a_server_that_ended_without_a_word(world: World) -> None:
    world.home.mkdir(mode=0o700)
    with subprocess.Popen(("true",)) as gone:
        pass
    write_private(world.home / "server.json", {"url": "http://127.0.0.1:9", "pid": gone.pid})
    check(world, of(SERVER), {UNREACHABLE}, "interlock up")
    check(world, [["status"]], {UNREACHABLE}, is_answer=True)


def test_a_server_that_accepts_and_is_silent(world: World) -> None:
    with false_server(world.home, silence):
        check(world, of(SERVER), {UNREACHABLE}, "interlock status", prepare=HASTEN)
        check(world, [["status"]], {UNREACHABLE}, prepare=HASTEN, is_answer=True)


ANOTHER_VERSION = http(b"{}")
RUBBISH = {
    "no_http": b"SSH-2.0-OpenSSH_9.6\r\n",
    "no_json": http(b"hello"),
    "no_object": http(b"[1]"),
    "no_list": http(b'{"items": 7, "next": null}'),
    "no_task": http(b'{"items": [{"a": 1}], "next": null, "is_complete": true, "summary": {"a": 1}, "ready": true}'),
    "html": http(b"<html>", "404 Not Found"),
    "failing": http(b"", "500 Internal Server Error"),
    "cut": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
    "endless_line": b"HTTP/1.1 200 OK\r\n" + b"x" * 70_000,
    "huge": b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n",
}


def test_a_server_of_another_version(world: World) -> None:
    with false_server(world.home, saying(ANOTHER_VERSION)):
        check(world, of(SERVER), {FAILED}, "another version", prepare=HASTEN)
        check(world, [["status"]], {OK}, prepare=HASTEN)  # it answers, and is not said to be ready


@pytest.mark.parametrize("kind", RUBBISH)
def test_a_server_that_answers_rubbish(world: World, kind: str) -> None:
    few = of(
        (
            "ps",
            "show {S}",
            "send {S} hi",
            "wait {S} --timeout 5 --reconnect-timeout 0.2",
            "logs {S} -f --reconnect-timeout 0.2",
        )
    )
    with false_server(world.home, saying(RUBBISH[kind])):
        check(world, few, {FAILED, USAGE, UNREACHABLE}, "server", prepare=HASTEN)


@pytest.mark.deep
@pytest.mark.parametrize("kind", RUBBISH)
def test_every_command_meets_rubbish(world: World, kind: str) -> None:
    with false_server(world.home, saying(RUBBISH[kind])):
        check(world, of(SERVER), {FAILED, USAGE, UNREACHABLE}, "server", prepare=HASTEN)
        check(world, [[*line, "--json"] for line in of(OF_A_SESSION)], {FAILED, USAGE, UNREACHABLE}, prepare=HASTEN)


# Tokens, and the file that says where the server is


def foreign_home(world: World, served: World) -> None:
    """A home whose file says that it is served by the server of another one."""
    world.home.mkdir(mode=0o700)
    said = json.loads((served.home / "server.json").read_text())
    del said["folder"]  # with it the file would be that of a copied home, and no server of this one
    write_private(world.home / "server.json", said)


def test_a_wrong_token(world: World, served: tuple[World, str]) -> None:
    foreign_home(world, served[0])
    write_private(world.home / "tokens.json", {"operator": "x" * 40, "observer": "y" * 40})
    check(world, of(SERVER), {USAGE}, "interlock up")


@pytest.mark.parametrize("kind", ["open", "missing", "torn", "link", "folder"])
def test_a_token_file_that_cannot_be_used(world: World, served: tuple[World, str], kind: str) -> None:
    foreign_home(world, served[0])
    tokens = world.home / "tokens.json"
    if kind == "folder":
        tokens.mkdir()
    elif kind == "link":
        tokens.symlink_to(served[0].home / "tokens.json")
    elif kind != "missing":
        tokens.write_text("{" if kind == "torn" else '{"operator": "x"}')
        tokens.chmod(0o644 if kind == "open" else 0o600)
    check(world, of(("ps", "show {S}", "send {S} hi")), {USAGE}, "tokens")


@pytest.mark.parametrize("url", ["", "7", "http://127.0.0.1", "http://127.0.0.1:99999", "http://[::1", None])
def test_a_file_that_names_no_server(world: World, url: str | None) -> None:
    world.home.mkdir(mode=0o700)
    write_private(world.home / "server.json", {"url": url, "pid": os.getpid()})
    write_private(world.home / "tokens.json", {"operator": "x" * 40})
    check(world, of(("ps", "show {S}")), {USAGE}, "interlock up")


# Which session?


def test_an_unknown_session(served: tuple[World, str]) -> None:
    check(served[0], of((*OF_A_SESSION, *READING), "ses_00nosuch"), {USAGE}, "ses_00nosuch")


def test_a_session_that_may_be_any_of_several(served: tuple[World, str]) -> None:
    check(served[0], of((*OF_A_SESSION, *READING), "ses_"), {USAGE}, "may mean any of")


def test_a_server_holds_the_log_that_somebody_would_write_to(served: tuple[World, str]) -> None:
    check(served[0], of(WRITING, served[1]), {UNREACHABLE}, "is writing to this log")


def test_bytes_that_are_no_text(served: tuple[World, str]) -> None:
    world, task_id = served
    check(world, of((*OF_A_SESSION, *READING), RAW), {USAGE})
    words = (
        ["send", task_id, RAW],
        ["send", task_id, "hi", "--prompt-id", RAW],
        ["answer", task_id, RAW],
        ["queue", "hold", task_id, "--reason", RAW],
        ["interrupt", task_id, "--turn", RAW],
        ["wait", RAW],
        ["run", RAW],
        ["run", "model", "--model", RAW],
        ["log", "ls", "--prefix", RAW],
        ["config", "show", RAW],
        [RAW],
    )
    check(world, words, {USAGE})
    check(world, [["track", RAW], ["score", RAW], ["profiles", RAW], ["ps", "--home", RAW]], {USAGE, UNREACHABLE})


# Where the answer goes


def answering(task_id: str) -> list[list[str]]:
    """Lines that have an answer, all of which change nothing."""
    asks = ("ps", "ps --json", "show {S}", "logs {S}", "spawns {S}", "usage", "wait {S}", "status", "approvals --json")
    reads = ("turns {S}", "why {S}", "diagnose {S}", "replay {S}", "log ls", "log show {S}", "log tail {S}")
    return of((*asks, *reads, "log verify", *ANSWERING), task_id)


@pytest.mark.skipif(not FULL_DEVICE.exists(), reason="this system has no /dev/full")
def test_an_answer_to_a_full_disk(served: tuple[World, str]) -> None:
    check(served[0], answering(served[1]), {FAILED}, "make room", stdout="full")


def test_an_answer_to_a_closed_output(served: tuple[World, str]) -> None:
    check(served[0], answering(served[1]), {FAILED}, "standard output is closed", stdout="closed")
    check(served[0], of(("log export --all",)), {USAGE}, stdout="closed")


@pytest.mark.skipif(not FULL_DEVICE.exists(), reason="this system has no /dev/full")
def test_a_standard_error_that_takes_nothing_leaves_the_exit_code_alone(world: World, tmp_path: Path) -> None:
    """Also where the disk is full, the code is the one of the table."""
    with FULL_DEVICE.open("wb") as full, (tmp_path / "out").open("wb") as out, Path(os.devnull).open("rb") as nothing:
        for args, code in (
            (["ps"], UNREACHABLE),
            (["machines", "x"], USAGE),
            (["down"], OK),
            (["log", "ls"], UNREACHABLE),
        ):
            for stderr in (full, None):
                born = bear(args, world.env, stdin=nothing, stdout=out, stderr=stderr)
                assert born.wait() == code, args


def test_an_answer_that_nobody_reads(served: tuple[World, str]) -> None:
    """As of `interlock ... | head -1`: there is nobody to tell, and nothing is said."""
    world, task_id = served
    lines = [*answering(task_id), ["log", "export", "--all"], ["ps", "--watch"], ["logs", task_id, "-f"]]
    met = [world.meet(line, stdout="gone") for line in lines]
    assert [one for one in met if (one.code, one.err) != (FAILED, "")] == []


@pytest.mark.parametrize("stdout", ["closed", "gone", "full"])
def test_a_prompt_is_kept_though_its_receipt_is_lost(acting_server: Served, tmp_path: Path, stdout: str) -> None:
    world = make_world(tmp_path, acting_server.home)
    task_id = acting_server.open(title=f"lost receipt {stdout}")
    assert world.meet(["queue", "hold", task_id]).code == OK
    assert world.meet(["send", task_id, "keep this"], stdout=stdout).code == FAILED
    (waiting,) = acting_server.api.get(any_route(f"/api/tasks/{task_id}/queue"))["waiting"]
    assert waiting["text"] == "keep this"


# Disks and homes


def test_a_disk_that_takes_no_more(used: World) -> None:
    before = (used.home / DATABASE_NAME).read_bytes()
    check(
        used,
        of(("log export {S} --output out.ndjson", "hooks install claude --config-dir cfg")),
        range(1, 10),
        prepare=FILL_DISK,
    )
    check(used, of(("compact {S} --keep-turns 1", "fork {S}", "log import in.ndjson")), range(1, 10), prepare=FILL_DISK)
    assert not list(used.place.glob("out*"))
    assert (used.home / DATABASE_NAME).read_bytes() == before
    assert used.meet(["log", "verify"]).code == OK


def test_an_export_replaces_no_device(used: World) -> None:
    """What is no plain file is somebody else's, also for who may write everywhere."""
    os.mkfifo(used.place / "pipe")
    check(used, of(("log export {S} --output pipe --replace", "log export {S} --output . --replace")), {USAGE}, "plain")
    assert (used.place / "pipe").is_fifo()


@pytest.mark.parametrize("kind", ["below_a_file", "a_file"])
def test_a_home_that_cannot_be_made(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "file"
    file.touch()
    world = make_world(tmp_path, file / "home" if kind == "below_a_file" else file, HOME=str(file / "person"))
    check(
        world, of((*SERVER, *READING, "log ls", *WRITING, "up", "run claude --stream hi")), {USAGE, UNREACHABLE, FAILED}
    )
    check(world, of(tuple(one for one in ANSWERING if not one.startswith(("doctor", "hooks")))), {OK})
    check(world, [["doctor"]], {FAILED}, is_answer=True)
    assert file.read_bytes() == b""


def test_a_log_that_is_no_database(used: World) -> None:
    (used.home / DATABASE_NAME).write_bytes(b"rubbish" * 1000)
    writing = tuple(one for one in WRITING if not one.startswith("log repair"))
    check(used, of((*READING, *READING_ALL[:4], *writing, "status", "up", "down", "run claude --stream hi")), {DAMAGED})
    check(used, of(("log repair", "log repair --salvage")), {DAMAGED, UNREACHABLE})
    check(used, [["doctor"]], {FAILED}, is_answer=True)
    assert (used.home / DATABASE_NAME).read_bytes() == b"rubbish" * 1000


def test_a_log_of_a_later_version(used: World) -> None:
    change(used.home, "PRAGMA user_version = 999")
    check(used, of((*READING, *READING_ALL[:4], *WRITING)), {UNREACHABLE}, "upgrade")
    check(used, of(("log repair",)), {OK, UNREACHABLE})
    up = used.meet(["up"])
    assert not complaints(up, {UNREACHABLE}, "upgrade")
    assert not (used.home / "server.json").exists()


# Programs and the configuration


def without(world: World, *names: str) -> World:
    """The same, on a PATH on which some programs are not."""
    folder = world.folder / "few"
    folder.mkdir()
    for name in ("sh", "env", "sleep", "cat", "uname"):
        found = shutil.which(name)
        if found and name not in names:
            (folder / name).symlink_to(found)
    return World(world.home, world.folder, {**world.extra, "PATH": str(folder)})


def test_no_tmux(world: World, served: tuple[World, str]) -> None:
    bare = without(world)
    check(bare, of(("debug inspect %0", "record %0 -o rec.ndjson.gz")), {UNREACHABLE}, "install tmux")
    assert list(bare.place.iterdir()) == [bare.place / "in.ndjson"]
    check(bare, [["doctor"]], {FAILED, OK}, is_answer=True)


def test_no_tmux_server(world: World) -> None:
    check(
        world,
        of(("debug inspect %0", "record %0 -o rec.ndjson.gz", "debug inspect", "debug inspect %0 --socket nope")),
        {UNREACHABLE},
        "--socket",
    )
    assert list(world.place.iterdir()) == [world.place / "in.ndjson"]


def test_no_recording(world: World) -> None:
    check(world, of(("track none.ndjson", "score none", "profiles none.toml", "track in.ndjson")), {USAGE, FAILED})


def test_an_agent_that_is_not_installed(world: World) -> None:
    (world.folder / "bin" / "claude").unlink()
    for mode in ("--stream", "--tui", "--acp"):
        check(
            without(world) if mode == "--stream" else world,
            of((f"run claude {mode} hi",)),
            {ExitCode.NO_AGENT},
            "interlock doctor",
        )
    assert not world.home.exists()  # no server was started for what cannot be run


@pytest.mark.parametrize(
    ("text", "says"),
    [("[run", "TOML"), ("[run]\nstal = 3", "run.stal"), ("[server]\nport = 'many'", "server.port"), ("\0", "TOML")],
)
def test_a_bad_configuration(world: World, text: str, says: str) -> None:
    path = world.folder / "config.toml"
    path.write_text(text)
    bad = World(world.home, world.folder, {"INTERLOCK_CONFIG": str(path)})
    check(bad, of(("run claude --stream hi", "config show", "up --foreground")), {USAGE}, says)
    check(bad, [["config", "check"]], {USAGE}, is_answer=True)
    assert says in bad.meet(["config", "check"]).out
    check(bad, of(("machines", "version", "log ls", "ps")), {OK, UNREACHABLE})  # what does not need it does not mind


def test_a_bad_variable(world: World) -> None:
    bad = World(world.home, world.folder, {"INTERLOCK_SERVER_PORT": "many"})
    check(bad, of(("run claude --stream hi", "config show", "up --foreground")), {USAGE}, "INTERLOCK_SERVER_PORT")


def test_too_much_at_once(served: tuple[World, str]) -> None:
    """The queue itself has no bound; a prompt has, and says so. Nothing of it is queued."""
    world, task_id = served
    for given in ("x" * (MAX_REQUEST_BYTES + 1), "x" * MAX_REQUEST_BYTES, '"' * (MAX_REQUEST_BYTES - 10)):
        met = world.meet(["send", task_id, "-"], stdin=given)
        assert not complaints(met, {USAGE}, "give less")
    assert world.meet(["queue", "ls", task_id]).out == ""


# Terminals


@pytest.mark.parametrize("locale", ["C", "POSIX"])
def test_a_terminal_of_another_age(served: tuple[World, str], locale: str) -> None:
    """What it cannot show is shown as an escape, and nothing is lost to it."""
    world, task_id = served
    env = {**world.env, "LC_ALL": locale, "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "TERM": "dumb"}
    done = cold("show", task_id, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert "errors one" in done.stdout


READ_BY_A_PERSON = (
    *("ps --all", "show {S}", "logs {S}", "spawns {S}", "usage", "status", "turns {S}", "why {S}", "log ls"),
    *("log show {S}", "profiles", "machines", "config show", "version"),
)


@pytest.mark.parametrize("columns", [20, 1])
def test_a_narrow_terminal(served: tuple[World, str], columns: int) -> None:
    world, task_id = served
    for line in of(READ_BY_A_PERSON if columns > 1 else READ_BY_A_PERSON[:4], task_id):
        with at_a_terminal(line, world.env, columns=columns) as shown:
            assert shown.ends() == OK, (line, shown.text)
            assert "Traceback" not in shown.text
            assert shown.text.strip()


def test_a_dumb_terminal_gets_no_escape(served: tuple[World, str]) -> None:
    world, task_id = served
    for line in of(READ_BY_A_PERSON, task_id):
        with at_a_terminal(line, {**world.env, "TERM": "dumb"}) as shown:
            assert shown.ends() == OK, (line, shown.text)
            assert "\x1b" not in shown.text, line
    with at_a_terminal(["top"], {**world.env, "TERM": "dumb"}) as board:
        assert board.ends() == USAGE
        assert "interlock ps" in board.text


def test_a_tmux_server_that_is_killed(world: World) -> None:
    """What was followed is gone, and is said to be: by a code, and without a traceback."""

    def follow(where: list[str], kill: Sequence[str]) -> None:
        with at_a_terminal(["debug", "inspect", *where, "--follow"], world.env) as following:
            following.says("composer.ready")
            subprocess.run(kill, check=True, timeout=100)
            assert following.ends() in (UNKNOWN, UNREACHABLE), following.text
            assert "Traceback" not in following.text
            assert following.is_sane()

    async def main() -> None:
        async with stage(*command("tui")) as on:
            await shows(on.pane, "enter to submit")
            kill = ("tmux", "-S", on.server.socket, "kill-server")
            where = [on.pane.pane_id, "--socket", on.server.socket]
            await asyncio.to_thread(follow, where, kill)

    asyncio.run(main())


def test_an_agent_of_an_unsupported_version_is_told_by_the_doctor(world: World) -> None:
    program = world.folder / "bin" / "claude"
    program.write_text("#!/bin/sh\necho '0.0.1 (Claude Code)'\n")
    met = world.meet(["doctor", "--json"])
    (check,) = [one for one in json.loads(met.out)["checks"] if one["id"] == "claude"]
    assert check["health"] == "warn", check
    assert "0.0.1" in check["found"]
    assert check["mend"]
