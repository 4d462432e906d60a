"""Ctrl-C in the middle of everything, at a real terminal, once and twice.

Laws:
1. The exit code is the table's: 4, or 0 where Ctrl-C is the way to end it. No traceback.
2. The terminal is as it was: echo, lines, cursor, screen.
3. What goes on without us is said; nothing else is left behind.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.progress import Progress

from interlock.cli.exit_codes import ExitCode
from interlock.cli.progress import progress
from interlock.cli.server.process import Presence, held_server, look_for_server
from interlock.testing.scripted_agent import command, write_program
from tests.agents.tmux.harness import shows, stage
from tests.cli import faults
from tests.cli.command_lines import ASKING, OF_A_SESSION, SESSION, of
from tests.cli.demo_harness import DemoPlace, demo_place
from tests.cli.faults import World, false_server, http, make_world
from tests.cli.homes import make_home, whole_turns
from tests.cli.serving import STREAM, Served, until
from tests.cli.terminals import CTRL_C, Terminal, at_a_terminal

INTERRUPTED, OK = ExitCode.INTERRUPTED, ExitCode.COMPLETED
STRUCK = f"{faults.__name__}:{faults.strike_in_the_log.__name__}"
HASTEN_HEALTH = f"{faults.__name__}:{faults.hasten_health.__name__}"
TWICE = pytest.mark.parametrize("keys", [CTRL_C, CTRL_C * 2], ids=["once", "twice"])


def left_well(terminal: Terminal, code: int, *says: str) -> None:
    """It ended so, said that, and the terminal can be used again."""
    assert terminal.ends() == code, terminal.text
    assert "Traceback" not in terminal.text
    assert "Exception ignored" not in terminal.text
    assert terminal.is_sane(), terminal.written
    for one in says:
        assert one in terminal.text


@pytest.fixture
def world(acting_server: Served, tmp_path: Path) -> World:
    """Where the server of several modules is."""
    return make_world(tmp_path, acting_server.home)


def test_the_last_words_are_not_interrupted(tmp_path: Path) -> None:
    met = make_world(tmp_path).meet(["version"], prepare=f"{faults.__name__}:{faults.strike_twice.__name__}")
    assert (met.code, met.out, met.err) == (INTERRUPTED, "", "interlock: interrupted\n")


def test_what_goes_on_without_us_is_said_although_ctrl_c_comes_again(place: World) -> None:
    struck = f"{faults.__name__}:{faults.strike_while_it_is_told.__name__}"
    met = place.meet(["run", "scripted", "say hello"], prepare=struck)
    assert met.code == INTERRUPTED, met
    assert "Traceback" not in met.err
    _, *told = met.err.splitlines()
    assert told == [
        "the server goes on starting; `interlock down` ends it",
        "no session was begun",
        "interlock: interrupted",
    ]
    until(lambda: look_for_server(place.home).presence is Presence.RUNS, "the server has started")


class Screen(io.StringIO):
    """A terminal, to who asks."""

    def isatty(self) -> bool:
        return True


def test_a_bar_that_is_hit_while_it_goes_leaves_a_cursor(monkeypatch: pytest.MonkeyPatch) -> None:
    bars: list[Progress] = []

    def struck(self: Progress) -> None:
        bars.append(self)
        raise KeyboardInterrupt

    screen = Screen()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stderr", screen)
    stop = Progress.stop
    monkeypatch.setattr(Progress, "stop", struck)
    with pytest.raises(KeyboardInterrupt), progress("importing"):
        pass
    assert screen.getvalue().endswith("\x1b[?25h")
    for bar in bars:
        stop(bar)  # its thread must not outlive the test


# What waits


@TWICE
def test_waiting_for_a_turn(acting_server: Served, world: World, keys: bytes) -> None:
    gate = f"interrupts-{len(keys)}"
    task_id = acting_server.open(f"gate {gate}; say kept on")
    acting_server.gates.await_reached(gate)
    with at_a_terminal(["wait", task_id], world.env) as waiting:
        waiting.says("working")
        waiting.type(keys)
        left_well(waiting, INTERRUPTED, "nothing was changed", "interlock: interrupted")
    with at_a_terminal(["send", task_id, "say later", "--wait"], world.env) as sending:
        sending.says("queued")
        sending.type(keys)
        left_well(sending, INTERRUPTED, f"interlock wait {task_id}", "the prompt is not taken back")
    acting_server.gates.open(gate)
    until(lambda: acting_server.task(task_id)["turns"] == 2, "both prompts were sent")


@TWICE
def test_what_is_ended_by_ctrl_c(acting_server: Served, world: World, keys: bytes) -> None:
    task_id = acting_server.done("say spoken")
    for args, said in (["logs", task_id, "-f"], "spoken"), (["ps", "--watch", "--all"], "SESSION"):
        with at_a_terminal(args, world.env) as following:
            following.says(said)
            following.type(keys)
            code = following.ends()
            # The second one may come when it is about to leave: then that was interrupted.
            assert code == OK or (code == INTERRUPTED and keys != CTRL_C)
            left_well(following, code)


def test_asking_a_person(acting_server: Served, world: World) -> None:
    task_id = acting_server.open(title="interrupts kept")
    with at_a_terminal(["delete", task_id], world.env) as asking:
        asking.says("Type yes")
        asking.type(CTRL_C)
        left_well(asking, INTERRUPTED)
    assert acting_server.task(task_id)["summary"].get("task_status") != "DELETE"


# A server that does not answer


@contextmanager
def silent_server(home: Path, answers: Callable[[bytes], bytes | None]) -> Iterator[threading.Semaphore]:
    """Answers what it has an answer to. Whenever it stays silent, the semaphore is released."""
    silent = threading.Semaphore(0)

    def answer(connection: socket.socket) -> None:
        said = answers(connection.recv(65536))
        if said is None:
            silent.release()
        else:
            connection.sendall(said)
            connection.close()

    with false_server(home, answer):
        yield silent


def struck(world: World, args: list[str], silent: threading.Semaphore, keys: bytes, code: int, *says: str) -> None:
    with at_a_terminal(args, world.env, cwd=world.place) as asking:
        assert silent.acquire(timeout=100), f"it asks nothing: {args} {asking.ends()} {asking.text}"
        asking.type(keys)
        left_well(asking, code, *says)


def test_every_question_to_a_silent_server(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    with silent_server(world.home, lambda _: None) as silent:
        for at, args in enumerate(of((*ASKING, *OF_A_SESSION, "status"))):
            code = OK if "--watch" in args else INTERRUPTED
            struck(world, args, silent, CTRL_C * (1 if code == OK else 1 + at % 2), code)


CHANGING = (
    "send {S} hi",
    "run claude --stream --no-up hi",
    "interrupt {S}",
    "stop {S}",
    "start {S}",
    "delete {S} --yes",
    "queue edit {S} 1 x",
    "queue rm {S} 1",
    "queue hold {S}",
    "queue go {S}",
    "approve {S}",
    "deny {S}",
    "answer {S} --option 1",
)


def only_looked_at(request: bytes) -> bytes | None:
    """A server that tells everything and does nothing."""
    question = {"session_id": SESSION, "approval_id": "apr_1", "question": "May I?", "attention": "approval"}
    options = [
        {"option_id": "o1", "label": "Yes", "kind": "allow_once"},
        {"option_id": "o2", "label": "No", "kind": "reject_once"},
    ]
    told = {
        "summary": {"task_id": SESSION, "task_status": "RUNNING", "turn_id": "trn_1", "version": 3},
        "approvals": [{**question, "options": options, "tool": "", "state": "open"}],
        "waiting": [{"prompt_id": "prm_1", "text": "x"}],
        "items": [],
        "next": None,
    }
    return http(json.dumps(told).encode()) if request.startswith(b"GET") else None


def test_every_change_that_was_not_answered(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    with silent_server(world.home, only_looked_at) as silent:
        for args in of(CHANGING):
            struck(world, args, silent, CTRL_C, INTERRUPTED, "it is not known whether it was done")


# The log


@pytest.mark.parametrize(
    "line", ["compact {S} --keep-turns 1", "fork {S}", "log import again.ndjson", "log export {S} --output out.ndjson"]
)
def test_in_the_middle_of_the_log(tmp_path: Path, line: str) -> None:
    world = make_world(tmp_path)
    make_home(world.home, whole_turns(SESSION, 3))
    assert world.meet(["log", "export", "--all", "--output", "kept.ndjson"]).code == OK
    kept = (world.place / "kept.ndjson").read_bytes()
    (world.place / "again.ndjson").write_bytes(kept.replace(SESSION.encode(), SESSION.replace("01jk", "01jz").encode()))
    files = sorted(world.place.iterdir())
    (args,) = of((line,))
    met = world.meet(args, prepare=STRUCK)
    assert met.code == INTERRUPTED, met
    assert "Traceback" not in met.err
    assert "interlock: interrupted" in met.err
    assert sorted(world.place.iterdir()) == files
    assert world.meet(["log", "verify"]).code == OK
    assert world.meet(args).code == OK  # nobody holds the log, and nothing is in the way


@TWICE
def test_an_import_of_what_does_not_come(tmp_path: Path, keys: bytes) -> None:
    world = make_world(tmp_path)
    os.mkfifo(world.place / "pipe")
    for name in ("-", "pipe"):
        with at_a_terminal(["log", "import", name], world.env, cwd=world.place) as importing:
            importing.says("importing")
            importing.type(keys)
            left_well(importing, INTERRUPTED)
    assert world.meet(["log", "ls"]).code == OK


# Panes of tmux

AGENT = command("tui")


def test_a_pane_that_is_followed_or_recorded(tmp_path: Path) -> None:
    world = make_world(tmp_path)

    def strike(args: list[str], said: str, *says: str) -> None:
        with at_a_terminal(args, world.env, cwd=world.place) as following:
            following.says(said)
            following.type(CTRL_C * 2)
            left_well(following, INTERRUPTED, *says)

    async def main() -> None:
        async with stage(*AGENT) as on:
            await shows(on.pane, "enter to submit")
            where = [on.pane.pane_id, "--socket", on.server.socket]
            await asyncio.to_thread(strike, ["debug", "inspect", *where, "--follow"], "composer.ready")
            await asyncio.to_thread(strike, ["record", *where, "-o", "r.ndjson.gz"], "Ctrl-C ends it", "frames of")
            assert not (await on.pane.capture()).snapshot.is_dead

    asyncio.run(main())
    assert world.meet(["track", "r.ndjson.gz"]).code == OK


def test_a_person_at_an_agent(acting_server: Served, tmp_path: Path) -> None:
    """Ctrl-C is for the agent then; the way back is tmux's own, and leaves the terminal as it was."""
    world = make_world(tmp_path, acting_server.home, TMUX_TMPDIR=str(acting_server.home))
    task_id = acting_server.open(face="tui", title="interrupts attached")
    assert world.meet(["start", task_id]).code == OK
    assert world.meet(["wait", task_id, "--until", "ready"]).code == OK  # its screen is drawn: it is there for both
    with at_a_terminal(["attach", task_id], world.env) as attached:
        # tmux draws again once the window has the size of this terminal. Left before, it leaves a mode switched on.
        attached.says("enter to submit", times=2)
        attached.type(CTRL_C)
        attached.leaves_by(b"\x02", b"d")  # together they would be taken for a paste
        left_well(attached, OK, "detached")
    assert world.meet(["stop", task_id]).code == OK


def test_run_in_a_terminal_from_end_to_end(acting_server: Served, tmp_path: Path) -> None:
    """`run --tui` starts an agent in tmux, whose screen is there to attach to, and Ctrl-C leaves it alone."""
    config, gates = tmp_path / "config.toml", acting_server.folder / "gates"
    config.write_text(f"[agents.scripted]\nargv = {json.dumps(command('tui', gates=gates))}\n")
    where = {"INTERLOCK_CONFIG": str(config), "TMUX_TMPDIR": str(acting_server.home)}
    world = make_world(tmp_path, acting_server.home, **where)
    begun = world.meet(["run", "scripted", "--tui", "--title", "interrupts run"])
    assert begun.code == OK, begun
    task_id = begun.out.strip()
    with at_a_terminal(["send", task_id, "gate tui-run; say told", "--wait"], world.env) as sending:
        sending.says("working")
        sending.type(CTRL_C)
        left_well(sending, INTERRUPTED, f"interlock wait {task_id}")
    assert acting_server.task(task_id)["summary"]["live"]["activity"] != "gone"
    assert world.meet(["stop", task_id]).code == OK


# The server


@pytest.fixture
def place(tmp_path: Path) -> Iterator[World]:
    """A home of its own, with an agent to run; its server is ended at the end."""
    with tempfile.TemporaryDirectory(prefix="il-") as short:
        program = write_program(Path(short) / "agent", command(STREAM))
        config = Path(short) / "config.toml"
        driver = 'driver = "claude-stream"\nstream_driver = "claude-stream"\n'
        config.write_text(f"[agents.scripted]\nargv = [{json.dumps(program)}]\n{driver}")
        world = make_world(tmp_path, Path(short) / "home", INTERLOCK_CONFIG=str(config), TMUX_TMPDIR=short)
        yield world
        with held_server(world.home) as (_, grip):
            if grip is not None:
                grip.send(signal.SIGKILL)
                assert grip.wait(20)


def is_pending(pid: int, number: signal.Signals) -> bool:
    """Whether a process that was stopped has a signal to find when it goes on."""
    (line,) = [one for one in Path(f"/proc/{pid}/status").read_text().splitlines() if one.startswith("ShdPnd:")]
    return bool(int(line.split()[1], 16) & 1 << (number - 1))


def test_while_the_server_starts_and_while_it_ends(place: World) -> None:
    with at_a_terminal(["run", "scripted", "say hello"], place.env, cwd=place.place) as running:
        running.says("starting the server")
        running.type(CTRL_C * 2)
        left_well(running, INTERRUPTED, "goes on starting", "interlock down", "no session was begun")
    until(lambda: look_for_server(place.home).presence is Presence.RUNS, "the server has started")
    server = look_for_server(place.home)
    os.kill(server.pid, signal.SIGSTOP)
    try:
        with at_a_terminal(["down"], place.env, prepare=HASTEN_HEALTH) as ending:
            until(lambda: is_pending(server.pid, signal.SIGTERM), "it was told to end")
            ending.type(CTRL_C)
            left_well(ending, INTERRUPTED, "goes on ending", "interlock status")
    finally:
        os.kill(server.pid, signal.SIGCONT)


@TWICE
def test_a_server_in_the_foreground(place: World, keys: bytes) -> None:
    with at_a_terminal(["up", "--foreground"], place.env) as serving:
        serving.says("http://127.0.0.1:")
        serving.type(keys)
        left_well(serving, OK)
    assert not (place.home / "server.json").exists()
    assert look_for_server(place.home).presence is Presence.ABSENT


def test_a_server_that_was_asked_for_goes_on(place: World) -> None:
    with at_a_terminal(["up"], place.env) as starting:
        starting.says("starting the server")
        starting.type(CTRL_C)
        left_well(starting, INTERRUPTED, "goes on starting", "interlock down")
    until(lambda: look_for_server(place.home).presence is Presence.RUNS, "the server has started")


# Boards and demos


@TWICE
def test_the_board(world: World, keys: bytes) -> None:
    with at_a_terminal(["top"], world.env) as board:
        board.says("\x1b[?1049h")
        board.type(keys)
        board.type(b"q")
        assert board.ends() in (OK, INTERRUPTED)
        assert board.is_sane()
        assert "Traceback" not in board.text


@pytest.fixture
def demo() -> Iterator[DemoPlace]:
    with demo_place() as found:
        yield found


@pytest.mark.deep
@TWICE
@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--tell"], "starting a server"),
        (["--tell"], "asks"),
        ([], "starting a server"),
        (["--log"], "Interlock watches"),
    ],
)
def test_a_demo(demo: DemoPlace, args: list[str], said: str, keys: bytes) -> None:
    with at_a_terminal(["demo", *args], demo.environment, is_cold=True) as playing:
        playing.says(said)
        playing.type(keys)
        assert playing.ends() in (INTERRUPTED, OK), playing.text
        assert "Traceback" not in playing.text
        assert playing.is_sane()
    demo.becomes_clean()
