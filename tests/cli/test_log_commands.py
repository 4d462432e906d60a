"""`interlock log`: real processes on a real database."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import subprocess
from pathlib import Path

import apsw
import pytest
from msgspec import structs

from interlock.cli.commands import COMMANDS
from interlock.log.lease import this_process
from interlock.log.paths import DATABASE_NAME
from interlock.log.sqlite.store import SqliteLog
from interlock.testing.scribe import Scribe
from interlock.vocabulary.events.codec import encode_event
from interlock.vocabulary.events.conversation import UserMessage
from tests.cli.harness import COMMAND, _drain, interlock, on_a_terminal
from tests.cli.homes import change, damage, hostile, make_home, run_many, standing, whole_turns
from tests.cli.test_output import is_unsafe

LONG = 1100  # more than a page


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Read by many tests, changed by none."""
    sessions = (whole_turns("ses_a1", 3), standing("ses_a2", "failed"), hostile(), whole_turns("ses_long", LONG // 7))
    return make_home(tmp_path_factory.mktemp("home"), *sessions)


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    return make_home(tmp_path / "home", whole_turns("ses_a1", 3), standing("ses_a2", "failed"))


def seqs(shown: str) -> list[int]:
    return [json.loads(line)["seq"] for line in shown.splitlines()]


def test_ls_lists_every_session_with_its_size_and_head(home: Path) -> None:
    done = interlock("log", "ls", "--home", str(home))
    assert (done.returncode, done.stderr) == (0, "")
    header, *rows = (line.split() for line in done.stdout.splitlines())
    assert header == ["SESSION", "EVENTS", "FIRST", "LAST", "HEAD"]
    assert [(row[0], row[1]) for row in rows] == [
        ("ses_a1", "21"),
        ("ses_a2", "5"),
        ("ses_hostile", "17"),
        ("ses_long", str(LONG // 7 * 7)),
    ]
    listed = json.loads(interlock("log", "ls", "--home", str(home), "--json").stdout)
    assert [row[-1] for row in rows] == [session["head"][:12] for session in listed["sessions"]]


def test_ls_goes_on_where_the_last_page_ended(home: Path) -> None:
    first = interlock("log", "ls", "--home", str(home), "--prefix", "ses_a", "--limit", "1")
    assert "ses_a2" not in first.stdout
    assert first.stderr == "there are more: add --after ses_a1\n"
    second = interlock("log", "ls", "--home", str(home), "--prefix", "ses_a", "--limit", "1", "--after", "ses_a1")
    assert "ses_a2" in second.stdout
    assert second.stderr == ""


def test_the_home_is_that_of_the_environment_unless_one_is_named(home: Path, fresh: Path) -> None:
    by_environment = interlock("log", "ls", env={"INTERLOCK_HOME": str(fresh)})
    assert "ses_hostile" not in by_environment.stdout
    assert "ses_hostile" in interlock("log", "ls", "--home", str(home), env={"INTERLOCK_HOME": str(fresh)}).stdout


def test_show_prints_a_line_an_event(home: Path) -> None:
    done = interlock("log", "show", "ses_a2", "--home", str(home))
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line.split(maxsplit=4) for line in done.stdout.splitlines()]
    assert [line[0] for line in lines] == ["1", "2", "3", "4", "5"]
    assert lines[0][1:] == [
        "2026-01-01T00:00:01.000Z",
        "user_message",
        "t1",
        "the prompt was accepted: 'Fix the failing test'",
    ]


def test_show_as_json_is_what_is_stored_across_pages(home: Path) -> None:
    done = interlock("log", "show", "ses_long", "--home", str(home), "--json")
    stored = [encode_event(event).decode() for event in whole_turns("ses_long", LONG // 7).events]
    assert done.stdout.splitlines() == stored


def test_show_selects(home: Path) -> None:
    selected = {
        "--after 19": [20, 21],
        "--after 3 --limit 2": [4, 5],
        "--limit 0": [],
        "--type run_state --limit 3": [3, 7, 10],
        "--type run_state --type turn_started --turn t2": [9, 10, 14],
        "--turn t3 --limit 1": [15],
    }
    done = run_many((f"log show ses_a1 --json {args}" for args in selected), home)
    assert [(seqs(one.out), one.code, one.err) for one in done] == [(shown, 0, "") for shown in selected.values()]


def test_show_says_when_it_knows_no_such_type(home: Path) -> None:
    done = interlock("log", "show", "ses_a1", "--home", str(home), "--type", "run_stat")
    assert (done.returncode, done.stdout) == (0, "")
    assert "knows no event type 'run_stat'" in done.stderr


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("ses_a", "'ses_a' may mean any of 2 sessions: ses_a1, ses_a2; give more of the id"),
        ("ses_lond", "there is no session 'ses_lond'; did you mean ses_long?"),
        ("nothing", "there is no session 'nothing'; `interlock log ls` lists them"),
        ("", "an empty text names no session"),
        ("\x1b[31m", "there is no session '\\x1b[31m'"),
    ],
)
def test_a_session_that_cannot_be_found_is_a_usage_error(home: Path, named: str, said: str) -> None:
    done = interlock("log", "show", named, "--home", str(home))
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "\x1b" not in done.stderr


def test_an_id_that_others_begin_with_is_still_an_id(tmp_path: Path) -> None:
    make_home(tmp_path, standing("ses_1", "failed"), standing("ses_10", "completed"))
    assert interlock("why", "ses_1", "--home", str(tmp_path)).returncode == 1


@pytest.mark.parametrize("command", [("log", "ls"), ("turns", "x"), ("fork", "x"), ("log", "tail", "--all", "-f")])
def test_a_home_without_a_log_says_what_to_do(tmp_path: Path, command: tuple[str, ...]) -> None:
    done = interlock(*command, "--home", str(tmp_path))
    assert (done.returncode, done.stdout) == (8, "")
    assert f"there is no log in {tmp_path} yet; " in done.stderr
    assert "interlock log import" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_database_is_a_damaged_log(tmp_path: Path) -> None:
    (tmp_path / DATABASE_NAME).write_bytes(b"not a database, but long enough to be taken for one. " * 100)
    done = interlock("log", "ls", "--home", str(tmp_path))
    assert (done.returncode, done.stdout) == (9, "")
    assert "this is not a database" in done.stderr


def test_tail_prints_the_last_events(home: Path) -> None:
    last = LONG // 7 * 7
    selected = {
        "ses_a1": range(12, 22),
        "ses_a1 --limit 1": range(21, 22),
        "ses_a1 --limit 0": range(0),
        "--all": range(last - 9, last + 1),
        "--all --limit 3": range(last - 2, last + 1),
        "--all --limit 0": range(0),
    }
    done = run_many((f"log tail --json {args}" for args in selected), home)
    assert [(seqs(one.out), one.code, one.err) for one in done] == [(list(one), 0, "") for one in selected.values()]


def test_tail_reads_nothing_but_the_tail(fresh: Path) -> None:
    damage(fresh, "ses_a1", 2)
    assert interlock("log", "tail", "ses_a1", "--home", str(fresh)).returncode == 0
    assert interlock("log", "show", "ses_a1", "--after", "10", "--home", str(fresh)).returncode == 0
    assert interlock("log", "show", "ses_a1", "--home", str(fresh)).returncode == 9


@pytest.mark.parametrize("args", [(), ("ses_a1", "--all")])
def test_tail_takes_a_session_or_all(home: Path, args: tuple[str, ...]) -> None:
    done = interlock("log", "tail", *args, "--home", str(home))
    assert (done.returncode, done.stdout) == (2, "")
    assert "tail takes one session, or --all" in done.stderr


@pytest.mark.parametrize("args", [("ses_a1",), ("--all",)])
def test_following_shows_what_is_appended_and_ends_cleanly_with_ctrl_c(fresh: Path, args: tuple[str, ...]) -> None:
    command = (*COMMAND, "log", "tail", *args, "-f", "--json", "--limit", "1", "--home", str(fresh))
    news = structs.replace(Scribe("ses_a1").write(UserMessage(text="one more"))[0], seq=None)

    async def append() -> None:
        async with await SqliteLog.open(fresh) as log:
            await log.append(news.session_id, [news])

    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8") as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["type"] == "run_state"
        asyncio.run(append())
        assert json.loads(process.stdout.readline())["data"] == {"text": "one more"}
        process.send_signal(signal.SIGINT)
        rest, said = process.communicate()
    assert (process.returncode, rest, said) == (0, "", "")


def test_a_reader_that_leaves_in_the_middle_is_no_reason_for_a_traceback(home: Path) -> None:
    command = (*COMMAND, "log", "show", "ses_long", "--json", "--home", str(home))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (1, "")


def test_damage_costs_only_what_is_damaged(fresh: Path) -> None:
    damage(fresh, "ses_a1", 2)
    done = interlock("log", "show", "ses_a1", "--home", str(fresh), "--json")
    assert done.returncode == 9
    assert seqs(done.stdout) == [1, *range(3, 22)]
    assert done.stderr == "damaged: session ses_a1, event 2: changed: its digest does not follow from its line\n"
    assert interlock("log", "tail", "--all", "--limit", "100", "--home", str(fresh)).returncode == 9


def test_verify_prints_heads_and_knows_an_anchor_again(fresh: Path) -> None:
    done = interlock("log", "verify", "--home", str(fresh))
    assert (done.returncode, done.stderr) == (0, "")
    noted = {line.split()[0]: line.split() for line in done.stdout.splitlines()[1:]}
    assert noted["ses_a1"][1:3] == ["sound", "21"]
    anchor = noted["ses_a1"][3]
    assert interlock("log", "verify", "ses_a1", "--anchor", anchor, "--home", str(fresh)).returncode == 0
    forged = f"21:{'0' * 64}"
    against = interlock("log", "verify", "ses_a1", "--anchor", forged, "--home", str(fresh))
    assert against.returncode == 9
    assert "not as anchored" in against.stdout


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--anchor", f"1:{'0' * 64}"), "an anchor belongs to one session"),
        (("ses_a1", "--anchor", "yesterday"), "'yesterday' is not an anchor"),
        (("ses_b",), "there is no session 'ses_b'"),
    ],
)
def test_verify_refuses_what_it_cannot_check(home: Path, args: tuple[str, ...], said: str) -> None:
    done = interlock("log", "verify", *args, "--home", str(home))
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_verify_names_what_is_damaged(fresh: Path) -> None:
    damage(fresh, "ses_a1", 2)
    done = interlock("log", "verify", "--home", str(fresh))
    assert done.returncode == 9
    assert done.stdout.splitlines()[-1].split(maxsplit=3)[:3] == ["ses_a1", "2", "changed"]
    report = json.loads(interlock("log", "verify", "--home", str(fresh), "--json").stdout)
    assert (report["sound"], [one["sound"] for one in report["sessions"]]) == (False, [False, True])


def test_verify_finds_a_session_of_which_only_events_are_left(fresh: Path) -> None:
    change(fresh, "DELETE FROM sessions WHERE session_id = 'ses_a2'")
    done = interlock("log", "verify", "ses_a2", "--home", str(fresh))
    assert done.returncode == 9
    assert "no summary that keeps its head" in done.stdout


def test_purge_takes_old_sessions_and_leaves_tombstones(fresh: Path) -> None:
    at = "2026-01-01T00:00:10Z"  # ses_a2 has ended by then, ses_a1 has not
    planned = interlock("log", "purge", "--before", at, "--dry-run", "--home", str(fresh), "--json")
    assert [one["session_id"] for one in json.loads(planned.stdout)["sessions"]] == ["ses_a2"]
    assert planned.stderr == "1 sessions would be purged\n"
    asked = interlock("log", "purge", "--before", at, "--home", str(fresh))
    assert (asked.returncode, asked.stdout) == (2, "")
    assert "use --yes" in asked.stderr
    head = json.loads(planned.stdout)["sessions"][0]["head"]
    done = interlock("log", "purge", "--before", at, "--yes", "--home", str(fresh), "--json")
    assert done.returncode == 0
    (tombstone,) = json.loads(done.stdout)["sessions"]
    assert (tombstone["head"], tombstone["is_purged"], tombstone["version"]) == (head, True, 5)
    assert "ses_a2" in interlock("log", "ls", "--home", str(fresh)).stdout
    gone = interlock("log", "show", "ses_a2", "--home", str(fresh))
    assert (gone.returncode, gone.stdout) == (2, "")
    assert f"was purged; of its 5 events only the head of the chain is left, {head}" in gone.stderr
    again = interlock("log", "purge", "--before", at, "--home", str(fresh))
    assert (again.returncode, again.stderr) == (0, "0 sessions purged\n")


def test_a_fork_of_an_old_session_is_not_old(fresh: Path) -> None:
    _, planned = run_many(("fork ses_a1", "log purge --before 2026-02-01 --dry-run --json"), fresh)
    assert [one["session_id"] for one in json.loads(planned.out)["sessions"]] == ["ses_a1", "ses_a2"]


@pytest.mark.parametrize("day", ["yesterday", "2026-01-32", "2026-01-31T12:00:00"])
def test_purge_wants_a_day_or_a_time_with_a_zone(home: Path, day: str) -> None:
    done = interlock("log", "purge", "--before", day, "--yes", "--home", str(home))
    assert (done.returncode, done.stdout) == (2, "")
    assert "write 2026-01-31" in done.stderr


def test_an_export_is_imported_to_the_same_chain_and_twice_is_once(fresh: Path, tmp_path: Path) -> None:
    file, other = tmp_path / "all.ndjson", tmp_path / "other"
    assert interlock("log", "export", "--all", "--output", str(file), "--home", str(fresh)).returncode == 0
    piped = interlock("log", "export", "--all", "--home", str(fresh))
    assert (piped.stdout, piped.stderr) == (file.read_text(), "exported 26 events of 2 sessions\n")
    rehearsed = interlock("log", "import", str(file), "--dry-run", "--home", str(other))
    assert rehearsed.stdout == "would import 26 events of 2 sessions; 0 were there already\n"
    assert not other.exists()
    commands = (f"log import {file} --json", f"log import {file}", f"log import {file} --dry-run", "log verify --json")
    first, second, third, there = run_many(commands, other)
    assert json.loads(first.out) == {"sessions": 2, "events": 26, "skipped": 0, "problem_count": 0, "problems": []}
    assert second.out == "imported 0 events of 2 sessions; 26 were there already\n"
    assert third.out == "would import 0 events of 2 sessions; 26 were there already\n"
    assert there.out == interlock("log", "verify", "--json", "--home", str(fresh)).stdout


def test_an_import_stops_at_a_bad_line_or_goes_on_without_its_session(tmp_path: Path) -> None:
    good = [encode_event(event) for event in whole_turns("ses_a1", 1).events]
    also = [encode_event(event) for event in whole_turns("ses_a2", 1).events]
    file = tmp_path / "bad.ndjson"
    gap = [*good[:2], *good[3:]]
    file.write_bytes(b"\n".join([*gap, *also, b"{}"]) + b"\n")
    commands = (f"log import {file}", f"log import {file} --keep-going --dry-run", f"log import {file} --keep-going")
    refused, rehearsed, partial = run_many(commands, tmp_path / "home")
    assert (refused.code, refused.out) == (1, "")
    assert "line 3: seq: event 4 of session ses_a1 comes where 3 is due" in refused.err
    assert (rehearsed.code, partial.code) == (3, 3)
    assert rehearsed.out.startswith("would import 9 events of 2 sessions")
    assert partial.out.startswith("imported 9 events of 2 sessions")
    assert f"line {len(gap) + len(also) + 1}: " in partial.err


def test_an_import_comes_from_a_pipe_as_well(tmp_path: Path) -> None:
    lines = b"".join(encode_event(event) + b"\n" for event in whole_turns("ses_a1", 1).events)
    command = (*COMMAND, "log", "import", "-", "--home", str(tmp_path / "home"))
    done = subprocess.run(command, input=lines, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"imported 7 events of 1 sessions; 0 were there already\n")


def test_an_export_is_not_for_a_terminal_and_replaces_nothing_unasked(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "there"
    file.write_text("mine")
    args = ("log", "export", "ses_a1", "--output", str(file), "--home", str(home))
    assert interlock(*args).returncode == 2
    assert file.read_text() == "mine"
    assert interlock(*args, "--replace").returncode == 0
    ours, theirs = pty.openpty()
    command = (*COMMAND, "log", "export", "ses_a1", "--home", str(home))
    done = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, encoding="utf-8", check=False)
    os.close(theirs)
    os.close(ours)
    assert done.returncode == 2
    assert "not for a terminal" in done.stderr


def test_an_import_shows_a_bar_to_a_person_who_waits(tmp_path: Path) -> None:
    file = tmp_path / "all.ndjson"
    file.write_bytes(b"".join(encode_event(event) + b"\n" for event in whole_turns("ses_a1", 200).events))
    ours, theirs = pty.openpty()
    command = (*COMMAND, "log", "import", str(file), "--home", str(tmp_path / "home"))
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=theirs, env={**os.environ, "TERM": "xterm"}
    ) as process:
        os.close(theirs)
        shown = _drain(ours)
        assert process.stdout is not None
        assert process.stdout.read() == b"imported 1400 events of 1 sessions; 0 were there already\n"
    assert b"importing" in shown


def test_repair_plans_first_and_deletes_nothing(fresh: Path) -> None:
    damage(fresh, "ses_a1", 2)
    planned, untouched, applied, after, again = run_many(
        ("log repair", "log repair ses_a1 --json", "log repair --apply", "log show ses_a1 --json", "log repair"), fresh
    )
    assert planned.code == 9
    assert "move event 2 to quarantine" in planned.out
    assert "--apply" in planned.err
    assert json.loads(untouched.out)["is_applied"] is False
    assert len(json.loads(untouched.out)["steps"]) == 1
    assert applied.code == 0
    assert (after.code, seqs(after.out)) == (9, [1, *range(3, 22)])
    assert (again.code, "the plan" in again.out) == (9, False)
    connection = apsw.Connection(str(fresh / DATABASE_NAME))
    assert connection.execute("SELECT session_id, seq FROM quarantine").fetchall() == [("ses_a1", 2)]
    connection.close()


def test_repair_has_nothing_to_do_in_a_sound_log(home: Path) -> None:
    repair, salvage = run_many(("log repair", "log repair --salvage"), home)
    assert (repair.code, repair.out, repair.err) == (0, "", "nothing to do\n")
    assert salvage.code == 2
    assert "nothing to salvage" in salvage.err


def test_salvage_rescues_what_a_broken_file_still_holds(tmp_path: Path) -> None:
    make_home(tmp_path, whole_turns("ses_long", 200))
    file = tmp_path / DATABASE_NAME
    with apsw.Connection(str(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    content = bytearray(file.read_bytes())
    middle = len(content) // 2 // 4096 * 4096
    content[middle : middle + 4096] = bytes(4096)
    file.write_bytes(content)
    broken, salvage, ls = run_many(("log verify", "log repair --salvage --json", "log ls --json"), tmp_path)
    assert broken.code == 9
    assert salvage.code == 0, salvage.err
    report = json.loads(salvage.out)
    assert 0 < report["events"] < 1400
    assert Path(report["broken"]).read_bytes() == content
    assert ls.code == 0


def test_a_command_that_writes_refuses_beside_a_living_writer(fresh: Path) -> None:
    async def try_all() -> list[subprocess.CompletedProcess[str]]:
        async with await SqliteLog.open(fresh):
            tries = (("rm", "ses_a1", "--yes"), ("rm", "ses_a1", "--yes", "--force"), ("compact", "ses_a1"))
            return [await asyncio.to_thread(interlock, *args, "--home", str(fresh)) for args in tries]

    for done in asyncio.run(try_all()):
        assert (done.returncode, done.stdout) == (8, "")
        assert f"process {os.getpid()} on " in done.stderr
        assert "stop it first" in done.stderr


def test_force_takes_the_log_from_a_holder_that_cannot_be_reached(fresh: Path) -> None:
    import msgspec

    elsewhere = structs.replace(this_process(), host="elsewhere", machine_id="another")
    change(fresh, "UPDATE lease SET holder = ?", (msgspec.json.encode(elsewhere).decode(),))
    refused = interlock("rm", "ses_a1", "--yes", "--home", str(fresh))
    assert (refused.returncode, refused.stdout) == (8, "")
    assert "on elsewhere" in refused.stderr
    assert "--force" in refused.stderr
    assert interlock("rm", "ses_a1", "--yes", "--force", "--home", str(fresh)).returncode == 0
    connection = apsw.Connection(str(fresh / DATABASE_NAME))
    assert [action for (action,) in connection.execute("SELECT action FROM maintenance ORDER BY id")] == [
        "lease_forced",
        "purge",
    ]
    connection.close()


# Each command that prints what agents wrote, in every form. Those that write come last, as they change the home.
HOSTILE_COMMANDS = (
    "log ls",
    "log show ses_hostile",
    "log show ses_hostile --json",
    "log tail ses_hostile",
    "log tail --all --json",
    "log verify",
    "log repair",
    "log purge --before 2020-01-01 --yes",
    "log archive --session ses_hostile",
    "log restore ses_hostile --json",
    "log vacuum",
    "rules suggest",
    "rules test --session ses_hostile",
    "debug turns ses_hostile",
    "debug turns ses_hostile --json",
    "why ses_hostile --turn t1",
    "why ses_hostile --turn t1 --json",
    "debug diagnose ses_hostile",
    "debug diagnose ses_hostile --json",
    "debug replay ses_hostile --model m",
    "debug replay ses_hostile --model m --json",
    "debug replay ses_hostile --explain",
    "debug replay ses_hostile --digest",
    "session fork ses_hostile --at t1 --summarize",
    "session compact ses_hostile --keep-turns 1 --dry-run",
    "session compact ses_hostile --keep-turns 1 --dry-run --json",
    "session purge ses_hostile --yes",
)
RAW = {"log export", "log import"}  # an export is bytes for another program, and refuses to go to a terminal


def test_what_agents_write_never_gets_out_raw(tmp_path: Path) -> None:
    for command, code, out, err in run_many(HOSTILE_COMMANDS, make_home(tmp_path, hostile())):
        assert code in (0, 1, 3), (command, err)
        assert [one for one in out + err if is_unsafe(one) and one != "\n"] == [], command
        # Nor may an agent begin a line of its own among ours.
        assert [line for line in (out + err).splitlines() if line.startswith("fake")] == [], command


@pytest.mark.parametrize("command", ["log show ses_hostile", "diagnose ses_hostile", "replay ses_hostile --explain"])
def test_what_agents_write_never_reaches_a_terminal_raw(home: Path, command: str) -> None:
    shown = on_a_terminal(*command.split(), "--home", str(home), env={"NO_COLOR": "1"})
    assert not any(is_unsafe(character) for character in shown if character not in "\r\n")


# They watch terminals and read no log.
OF_A_TERMINAL = {
    "debug inspect",
    "hooks",
    "debug lab",
    "debug profiles",
    "debug record",
    "debug score",
    "debug shim",
    "debug track",
}
OF_NO_HOME = OF_A_TERMINAL | {
    "config show",
    "config path",
    "config check",
    "demo",
    "notify test",
    "rules import",
}
OF_A_SERVER = {  # tried with hostile text in their own tests: they have no log to be given
    *(
        "up",
        "down",
        "status",
        "ps",
        "top",
        "show",
        "seen",
        "statusline",
        "logs",
        "session history",
        "usage",
        "run",
        "send",
        "wait",
        "approvals",
    ),
    *("approve", "deny", "answer", "interrupt", "stop", "start", "session archive", "attach", "debug screen", "doctor"),
    *("queue ls", "queue edit", "queue rm", "queue pause", "queue resume"),
    *("open", "pair", "logins ls", "logins revoke"),
    *("search", "adopt", "resume", "session rename", "service", "uninstall"),
    *(
        "worktree ls",
        "worktree show",
        "worktree rm",
        "worktree pr",
        "worktree prune",
        "merge",
    ),  # of a repository, in `test_worktrees`
    *("diff", "blame"),  # of a repository, in `test_diff`
    *("review accept", "review send-back", "review discard"),  # of a repository, in `test_diff`
    *("rules ls", "rules check", "rules trust", "rules pause", "rules resume"),  # files of rules, in `test_rules`
    *("plan check", "plan trust", "plan run"),  # files of plans, in `test_plan_files` and `test_plan_commands`
    *("plan ls", "plan show", "plan wait", "plan stop", "plan release", "plan give-up", "plan answer"),
}


def test_every_command_of_a_log_is_tried_with_hostile_text() -> None:
    tried = {
        " ".join(command.split()[: 1 if command.startswith(("why ", "diff ", "blame ")) else 2])
        for command in HOSTILE_COMMANDS
    }
    assert tried | RAW == {command.name for command in COMMANDS if command.examples} - OF_NO_HOME - OF_A_SERVER


def test_the_help_of_every_command_shows_examples_json_and_home(tmp_path: Path) -> None:
    examples = {f"{command.name} --help": command.examples for command in COMMANDS if command.examples}
    for command, code, out, _ in run_many(examples, tmp_path):
        assert code == 0
        assert out.startswith(f"Usage: interlock {command.removesuffix(' --help')} ")
        assert f"\nExamples:\n{examples[command]}\n" in out  # unbroken: no line is too long for a terminal
        name = command.removesuffix(" --help")
        assert ("--json" in out) is (name not in ("debug shim", "top"))  # their output is the agent's, and a screen
        assert ("--home" in out) is (name not in OF_NO_HOME)


def test_a_line_fits_the_width_of_a_terminal(home: Path) -> None:
    shown = on_a_terminal("log", "show", "ses_hostile", "--home", str(home), env={"COLUMNS": "110"})
    assert max(map(len, shown.splitlines())) == 110
