"""`turns`, `why`, `diagnose`, `replay`, `fork`, `compact` and `rm`: real processes on a real database."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest

from interlock.agents.processes.identity import identity_of
from interlock.cli.exit_codes import ExitCode, exit_code_for_turn
from interlock.cli.server import down
from interlock.log.sqlite.store import SqliteLog
from interlock.testing.scribe import Scribe
from interlock.vocabulary.events.audit import ProcessEvent, ProcessEventKind
from interlock.vocabulary.states import ExitReason, TurnState
from tests.cli.harness import COMMAND, interlock, on_a_terminal
from tests.cli.homes import STATES, begin_turn, damage, make_home, run_many, standing, unpaired, whole_turns
from tests.cli.test_cold_start import HEAVY, modules_after
from tests.each_row import each_row
from tests.projections.whole_logs import provider_input

CODES = {
    "completed": 0,
    "failed": 1,
    "partial_failed": 3,
    "interrupted": 4,
    "timed_out": 5,
    "waiting": 6,
    "abandoned": 7,
}
OPEN = {"waiting": "abandoned", "abandoned": "abandoned"}  # as read when nobody holds the log


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Read by many tests, changed by none."""
    sessions = (whole_turns("ses_many", 4), unpaired(), *(standing(f"ses_{state}", state) for state in STATES))
    return make_home(tmp_path_factory.mktemp("home"), *sessions)


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    return make_home(tmp_path / "home", whole_turns("ses_many", 4))


@each_row("state", TurnState)
def test_every_turn_state_has_its_exit_code(state: TurnState) -> None:
    assert exit_code_for_turn(state) == {**CODES, "running": 7, "unknown": 7}[state.value]


def test_no_turn_is_no_claim() -> None:
    assert exit_code_for_turn(None) is ExitCode.UNKNOWN


def test_turns_says_how_every_turn_stands(home: Path) -> None:
    done = run_many((f"turns ses_{state}" for state in STATES), home)
    shown = [one.out.splitlines()[1].split()[:2] for one in done]
    assert shown == [["t1", OPEN.get(state, state)] for state in STATES]
    assert {(one.code, one.err) for one in done} == {(0, "")}
    table = interlock("turns", "ses_many", "--home", str(home)).stdout.splitlines()
    assert table[0].split() == ["TURN", "STATE", "BASIS", "KIND", "EVIDENCE", "EVENTS"]
    assert table[1].split("  ")[0] == "t1"
    assert "assistant_message #6, run_state #7" in table[1]
    assert table[1].endswith("1..7")


def test_turns_as_json_are_the_records_and_last_takes_the_last(home: Path) -> None:
    every, last, none = run_many(
        ("turns ses_many --json", "turns ses_many --json --last 2", "turns ses_many --last 0"), home
    )
    records = json.loads(every.out)["turns"]
    assert [(one["turn_id"], one["state"]) for one in records] == [(f"t{n}", "completed") for n in range(1, 5)]
    assert json.loads(last.out) == {"session_id": "ses_many", "turns": records[2:]}
    assert none.code == 2


def test_an_open_turn_is_only_abandoned_if_nobody_can_own_it(fresh: Path) -> None:
    scribe = standing("ses_open", "waiting")

    async def ask() -> tuple[str, int]:
        async with await SqliteLog.open(fresh) as log:
            await log.append(scribe.session, scribe.events)
            turns = await asyncio.to_thread(interlock, "turns", "ses_open", "--json", "--home", str(fresh))
            why = await asyncio.to_thread(interlock, "why", "ses_open", "--home", str(fresh))
        return str(json.loads(turns.stdout)["turns"][0]["state"]), why.returncode

    assert asyncio.run(ask()) == ("waiting", 6)
    assert interlock("why", "ses_open", "--home", str(fresh)).returncode == 7


def spawned(session: str, *, where: str | None, start: str = "", is_over: bool = False) -> Scribe:
    """An open turn; its agent's process is this one, if it has our start time, which is the default."""
    me = identity_of(os.getpid())
    assert me is not None
    scribe = standing(session, "abandoned")
    kind = ProcessEventKind
    scribe.write(
        ProcessEvent(kind=kind.SPAWNED, pid=me.pid, start_time=start or me.start_time, where=where), spawn="s1"
    )
    if is_over:
        scribe.write(ProcessEvent(kind=kind.EXITED, exit_reason=ExitReason.CRASHED), spawn="s1")
    return scribe


def test_an_open_turn_whose_agent_outlived_the_server_is_not_called_lost(fresh: Path) -> None:
    lives = spawned("ses_lives", where="%1")
    lives.write(ProcessEvent(kind=ProcessEventKind.EXITED, exit_reason=ExitReason.CRASHED), spawn="s0")  # a late word
    make_home(
        fresh,
        lives,
        spawned("ses_bound", where=None),  # by a stream: it ends with its server
        spawned("ses_other", where="%1", start="1"),  # its number is somebody else's now
        spawned("ses_ended", where="%1", is_over=True),
    )
    names = ("lives", "bound", "other", "ended")
    whys = run_many((f"why ses_{name}" for name in names), fresh)
    tables = run_many((f"turns ses_{name}" for name in names), fresh)
    reports = run_many((f"diagnose ses_{name}" for name in names), fresh)
    for why, table, report, name in zip(whys, tables, reports, names, strict=True):
        is_lost = name != "lives"
        assert ("abandoned" in why.out, "abandoned" in table.out) == (is_lost, is_lost), name
        assert ("recovery will record" in report.out) is is_lost, name
        told = [f"its agent lives (process {os.getpid()})" in one.err for one in (why, table, report)]
        assert told == [not is_lost] * 3, name
    # Nor does `down` say of one without a recorded end that it goes on, unless it does.
    assert down._left_running(fresh, [f"ses_{name}" for name in names]) == ["ses_lives"]
    # Where no server is there to stop it, to have been asked to is no success.
    ended, stopped = run_many(("down", "down --stop-agents --json"), fresh)
    assert (ended.code, stopped.code) == (0, 3)
    assert "1 agent goes on without one" in ended.err
    assert json.loads(stopped.out)["left_running"] == ["ses_lives"]


def test_why_exits_with_the_state_of_the_turn(home: Path) -> None:
    done = run_many((f"why ses_{state}" for state in STATES), home)
    codes = [CODES[OPEN.get(state, state)] for state in STATES]
    assert [(one.code, one.err) for one in done] == [(code, "") for code in codes]
    assert all(one.out.startswith(f"t1: {OPEN.get(state, state)}") for one, state in zip(done, STATES, strict=True))


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        ("--turn t2", 0, "t2: completed"),
        ("--turn 2", 0, "t2: completed"),
        ("--turn t9", 7, "t9: unknown: the log holds no such turn"),
        ("--turn 9", 7, "9: unknown"),
        ("--at 13", 7, "t2: running as of event 13"),
        ("--at 2026-01-01T00:00:13Z", 7, "t2: running as of event 13"),
        ("--at 14 --turn t1", 0, "t1: completed as of event 14"),
        ("--at 0", 7, "any turn: unknown"),
    ],
)
def test_why_explains_the_turn_that_is_meant_as_the_log_stood(home: Path, args: str, code: int, said: str) -> None:
    done = interlock("why", "ses_many", *args.split(), "--home", str(home))
    assert (done.returncode, done.stderr) == (code, "")
    assert done.stdout.startswith(said)


@pytest.mark.parametrize("at", ["noon", "2026-01-01T00:00:13"])
def test_why_wants_a_time_with_a_zone(home: Path, at: str) -> None:
    done = interlock("why", "ses_many", "--at", at, "--home", str(home))
    assert (done.returncode, done.stdout) == (2, "")
    assert "T12:00:00Z" in done.stderr


def test_diagnose_is_ready_blocked_or_damaged(home: Path, fresh: Path) -> None:
    ready, warned, blocked = run_many(
        ("diagnose ses_many", "diagnose ses_failed --json", "diagnose ses_unpaired --json"), home
    )
    assert (ready.code, ready.out.splitlines()[0]) == (0, "ses_many: ready")
    assert (warned.code, json.loads(warned.out)["status"]) == (0, "ready_with_warnings")
    assert (blocked.code, json.loads(blocked.out)["status"]) == (1, "blocked")
    damage(fresh, "ses_many", 2)
    damaged = interlock("diagnose", "ses_many", "--home", str(fresh))
    assert (damaged.returncode, damaged.stderr) == (9, "")
    assert "interlock log verify ses_many" in damaged.stdout


@pytest.mark.parametrize("command", ["turns", "why --turn 1", "replay", "replay --explain", "replay --digest"])
def test_an_answer_across_damage_is_given_and_not_claimed(fresh: Path, command: str) -> None:
    damage(fresh, "ses_many", 2)
    name, *flags = command.split()
    done = interlock(name, "ses_many", *flags, "--home", str(fresh))
    assert done.returncode == 9
    assert done.stdout != ""
    assert done.stderr.startswith("damaged: session ses_many, event 2: changed: ")


@pytest.mark.parametrize("command", ["why", "turns --last 1"])
def test_the_last_turn_is_read_alone_and_its_damage_is_told(fresh: Path, command: str) -> None:
    """Damage before the turn is not met; damage in it is, and by then the whole session is read."""
    name, *flags = command.split()
    damage(fresh, "ses_many", 2)
    before = interlock(name, "ses_many", *flags, "--home", str(fresh))
    assert (before.returncode, before.stderr) == (0, "")
    damage(fresh, "ses_many", 26)
    within = interlock(name, "ses_many", *flags, "--home", str(fresh))
    assert within.returncode == 9
    assert within.stdout != ""
    assert [line.split(":")[1] for line in within.stderr.splitlines()] == [
        " session ses_many, event 2",
        " session ses_many, event 26",
    ]


def test_replay_prints_what_a_model_is_given(home: Path) -> None:
    people, whole, digest = run_many(
        ("replay ses_many", "replay ses_many --json", "replay ses_many --digest --json"), home
    )
    given = provider_input(whole_turns("ses_many", 4).events)
    assert whole.out.encode() == given
    assert people.out.splitlines()[0].split() == ["0", "user_text", "'prompt", "1'"]
    assert len(people.out.splitlines()) == len(given.splitlines())
    report = json.loads(digest.out)
    assert (report["sha256"], report["items"], report["prefix_changes"]) == (sha256(given).hexdigest(), 16, [])


def test_replay_explains_every_event(home: Path) -> None:
    people, whole, both = run_many(
        ("replay ses_many --explain", "replay ses_many --explain --json", "replay ses_many --explain --digest"), home
    )
    reasons = [json.loads(line) for line in whole.out.splitlines()]
    assert [reason["seq"] for reason in reasons] == list(range(1, 29))
    assert [row.split()[:3] for row in people.out.splitlines()[1:3]] == [
        ["1", "user_message", "in"],
        ["2", "turn_started", "out"],
    ]
    assert both.code == 2


def test_a_fork_reads_as_its_parent_up_to_the_turn(fresh: Path) -> None:
    planned, forked = run_many(("fork ses_many --at t2 --dry-run --json", "fork ses_many --at t2 --json"), fresh)
    assert json.loads(planned.out) == {**json.loads(forked.out), "session_id": None}
    child = json.loads(forked.out)["session_id"]
    assert json.loads(forked.out)["at_seq"] == 14
    replay, turns, ls = run_many((f"replay {child} --json", f"turns {child} --json", "log ls --json"), fresh)
    assert replay.out.encode() == provider_input(whole_turns("ses_many", 2).events)
    assert [one["turn_id"] for one in json.loads(turns.out)["turns"]] == ["t1", "t2"]
    assert [one["session_id"] for one in json.loads(ls.out)["sessions"]] == [child, "ses_many"]


def test_a_fork_can_tell_what_came_after_it(fresh: Path) -> None:
    child = interlock("fork", "ses_many", "--at", "14", "--summarize", "--home", str(fresh)).stdout.splitlines()[0]
    last = json.loads(interlock("replay", child, "--json", "--home", str(fresh)).stdout.splitlines()[-1])
    assert last["type"] == "branch_summary"
    assert "prompt 3" in last["summary"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ("--at 13", "seq 13 is not the end of a turn; fork at seq 7 or seq 14"),
        ("--at t9", "the session has no turn 't9'"),
        ("--summarize", "there is nothing to tell of what follows event 28"),
    ],
)
def test_a_fork_that_cannot_be_made_says_where_it_can(home: Path, args: str, said: str) -> None:
    done = interlock("fork", "ses_many", *args.split(), "--dry-run", "--home", str(home))
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_a_session_that_is_damaged_can_be_forked_before_the_damage_only(fresh: Path) -> None:
    damage(fresh, "ses_many", 9)
    last, before, compact = run_many(("fork ses_many", "fork ses_many --at t1", "compact ses_many"), fresh)
    assert (last.code, before.code, compact.code) == (9, 0, 9)
    assert "before event 9" in last.err
    assert len(json.loads(interlock("log", "ls", "--json", "--home", str(fresh)).stdout)["sessions"]) == 2


def test_compact_appends_one_event_and_takes_none_away(fresh: Path) -> None:
    commands = (
        "compact ses_many --keep-turns 2 --dry-run --json",
        "log ls --json",
        "compact ses_many --keep-turns 2",
        "log show ses_many --json",
        "replay ses_many --digest",
        "compact ses_many --keep-turns 2",
        "compact ses_many --keep-turns 0",
    )
    planned, before, done, shown, digest, again, none = run_many(commands, fresh)
    assert json.loads(before.out)["sessions"][0]["version"] == 28
    assert (done.code, done.out.splitlines()[0]) == (
        0,
        "ses_many: compacted 2 turns (8 items), kept the last 2",
    )
    events = [json.loads(line) for line in shown.out.splitlines()]
    assert [event["seq"] for event in events] == list(range(1, 30))
    assert events[-1]["type"] == "history_compaction"
    assert events[-1]["data"] == json.loads(planned.out)["compaction"]
    assert "prefix changed at event 29" in digest.out
    assert (again.code, again.out) == (0, "")
    assert again.err.startswith("nothing to compact: ")
    assert none.code == 2


def test_compact_does_not_reach_over_an_open_turn(tmp_path: Path) -> None:
    scribe = whole_turns("ses_open", 0)
    begin_turn(scribe, "t0")
    begin_turn(scribe, "t1")
    begin_turn(scribe, "t2")
    done = interlock("compact", "ses_open", "--keep-turns", "1", "--home", str(make_home(tmp_path, scribe)))
    assert (done.returncode, done.stdout) == (1, "")
    assert "is open" in done.stderr


def test_rm_without_asking_wants_the_whole_id(fresh: Path) -> None:
    unasked, short, done, again = run_many(
        ("rm ses_many", "rm ses_ma --yes", "rm ses_many --yes --json", "rm ses_many --yes"), fresh
    )
    assert (unasked.code, unasked.out) == (2, "")
    assert "use --yes" in unasked.err
    assert (short.code, short.out) == (2, "")
    assert "'ses_ma' is short for ses_many" in short.err
    assert done.code == 0
    assert json.loads(done.out)["is_purged"] is True
    assert again.code == 2


@pytest.mark.parametrize(("answer", "code"), [("yes\n", 0), ("y\n", 4), ("\x04", 4)])
def test_rm_asks_a_person(fresh: Path, answer: str, code: int) -> None:
    ours, theirs = pty.openpty()
    command = (*COMMAND, "rm", "ses_ma", "--home", str(fresh))
    with subprocess.Popen(
        command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
    ) as process:
        os.close(theirs)
        assert process.stderr is not None
        assert process.stderr.readline().startswith("purge ses_many with its 28 events?")
        os.write(ours, answer.encode())
        out, err = process.communicate()
    os.close(ours)
    assert (process.returncode, out.startswith("purged ses_many")) == (code, code == 0)
    assert ("cancelled" in err) == (code == 4)


def test_a_table_for_a_person_has_colours_and_fits(home: Path) -> None:
    assert "\x1b[" in on_a_terminal("turns", "ses_many", "--home", str(home))
    plain = on_a_terminal("turns", "ses_many", "--home", str(home), env={"NO_COLOR": "1", "COLUMNS": "60"})
    assert max(map(len, plain.splitlines())) <= 60


@pytest.mark.parametrize("args", [["turns", "ses_many", "--json"], ["why", "ses_many"], ["log", "ls"]])
def test_a_cold_start_needs_neither_rich_nor_what_is_heavy(home: Path, args: list[str]) -> None:
    loaded = modules_after(f"from interlock.cli import main\nassert main({[*args, '--home', str(home)]!r}) == 0")
    assert not loaded & (HEAVY | {"rich", "markdown_it", "pygments", "importlib.metadata"})
