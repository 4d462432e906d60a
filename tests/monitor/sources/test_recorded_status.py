"""What real CLIs said of themselves beside their screens, as it was recorded through the shim and on disk.

One run of Claude Code 2.1.325: an answer stopped with Escape, a command approved, a question answered, an HTTP error, a
subagent that outlived its turn, and the end. One of Codex 0.166.0: the same without question and subagent. Ids and
paths are made up; everything else is as it came.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from interlock.monitor.arbitration import arbiter as arbitration
from interlock.monitor.arbitration.claims import ChildNews, Claim, SourceReading
from interlock.monitor.arbitration.state import Arbitration, ArbitrationInput, ChannelOpened, ProcessExited
from interlock.monitor.sources.claude_status import FileRead, read_claude_status
from interlock.monitor.sources.hooks import read_hook
from interlock.monitor.sources.shim_lines import Began, ShimEnded, read_shim_line
from interlock.screen.profile import Introduction, NativeStatus
from interlock.vocabulary.evidence import EvidenceSource

RECORDINGS: Final = Path(__file__).parents[2] / "recordings" / "status"
CHILD: Final = frozenset({"a320fe2f2db3c1743"})


def lines_of(name: str) -> list[bytes]:
    return (RECORDINGS / f"{name}.ndjson").read_bytes().splitlines()


DECLARED: Final = {
    "claude-osc7501": NativeStatus("claude-code"),
    "codex-osc7501": NativeStatus("codex", Introduction.RECORD),
}
# The shim of that time did not tell where a record came from. Both were alone in their terminals.
ORIGIN: Final = {
    "claude-osc7501": {"is_own": True, "has_asked": True},
    "codex-osc7501": {"is_own": True, "greeted_as": "codex"},
}


def heard(name: str) -> Iterator[tuple[float, ArbitrationInput]]:
    """The lines of a shim, each with its time, as arbitration takes them in."""
    for line in lines_of(name):
        at = json.loads(line)["at_monotonic_seconds"]
        told = json.dumps(json.loads(line) | ORIGIN[name]).encode()
        match read_shim_line(told, at_seconds=at, declared=DECLARED[name]):
            case Began():
                yield at, ChannelOpened(EvidenceSource.NATIVE_STATUS)
            case ShimEnded(code, signal):
                yield at, ProcessExited(code, signal)
            case SourceReading(claims, anomalies):
                assert not anomalies
                yield from ((at, claim) for claim in claims)


def standings(inputs: Iterable[tuple[float, ArbitrationInput]]) -> list[str]:
    """How the agent stood after each input, repeats left out."""
    state, told = Arbitration(), list[str]()
    for at, one in inputs:
        state, _ = arbitration.step(state, one, at)
        standing = state.standing
        line = f"{standing.activity}/{standing.attention}" if standing.attention != "none" else f"{standing.activity}"
        if not told or told[-1] != line:
            told.append(line)
    return told


BEGINNING: Final = "quiet working quiet working approval working quiet working "


@pytest.mark.parametrize(
    ("name", "rest"),
    [
        ("claude-osc7501", "question working quiet working error working quiet -"),
        ("codex-osc7501", "error quiet -"),
    ],
)
def test_records_of_a_real_run_tell_its_truth(name: str, rest: str) -> None:
    told: list[str] = []
    for _, one in heard(name):
        if isinstance(one, Claim):
            word = one.activity if one.attention in (None, "none") else one.attention
            told += [word or "-"] if not told or told[-1] != (word or "-") else []
    assert told == (BEGINNING + rest).split()


@pytest.mark.parametrize("name", [*DECLARED])
def test_records_alone_claim_nothing(name: str) -> None:
    assert standings(heard(name)) == ["unknown", "gone"]


@pytest.mark.parametrize("name", [*DECLARED])
def test_a_shim_that_does_not_tell_where_a_record_came_from_is_not_believed(name: str) -> None:
    read = [read_shim_line(line, at_seconds=1.0, declared=DECLARED[name]) for line in lines_of(name)]
    readings = [one for one in read if isinstance(one, SourceReading)]
    assert not any(one.claims for one in readings)
    assert {anomaly.kind for one in readings for anomaly in one.anomalies} == {"native_status_refused"}


def test_a_blocked_record_carries_what_is_asked() -> None:
    asked = [one.excerpt for _, one in heard("claude-osc7501") if isinstance(one, Claim) and one.is_dialog]
    assert asked == ["approve Bash: touch made.txt; echo hi", "answer: Which colour shall it be? (Red · Blue)"]


def test_an_exit_is_told_with_its_code() -> None:
    assert [one for _, one in heard("claude-osc7501")][-1] == ProcessExited(0, None)


def session_files() -> Iterator[tuple[FileRead, dict[str, Any]]]:
    for record in map(json.loads, lines_of("claude-session-file")):
        at = record["read_at_unix_seconds"]
        yield FileRead(at_seconds=at, unix_seconds=at), record["file"]


def test_the_file_of_a_session_says_the_same_as_its_records() -> None:
    claims = [claim for read, file in session_files() for claim in read_claude_status(json.dumps(file), read).claims]
    told = [(claim.activity or "-", claim.attention or "-") for claim in claims]
    quiet, busy = ("quiet", "none"), ("working", "none")
    assert told == [
        quiet, busy, quiet, busy, ("-", "approval"), busy, quiet, busy, ("-", "question"), busy, quiet, busy, quiet,
        busy, busy, quiet,
    ]  # fmt: skip
    assert [claim.excerpt for claim in claims if claim.is_dialog] == ["permission prompt", "input needed"]


def test_a_file_is_dated_to_its_last_change_and_not_to_when_it_was_read() -> None:
    for read, file in session_files():
        for claim in read_claude_status(json.dumps(file), read).claims:
            assert claim.at_seconds == pytest.approx(file["statusUpdatedAt"] / 1000)
            assert claim.at_seconds <= read.at_seconds


def test_a_file_without_a_status_claims_nothing() -> None:
    read, file = next(session_files())
    assert "status" not in file
    assert read_claude_status(json.dumps(file), read).claims == ()


def test_a_turn_that_ended_before_its_subagent_is_settling() -> None:
    screen = (0.0, ChannelOpened(EvidenceSource.SCREEN))
    claims: list[tuple[float, ArbitrationInput]] = [screen, (0.0, SCREEN_SEEN)]
    for number, line in enumerate(lines_of("claude-agent-hooks")):
        reading = read_hook(line, at_seconds=float(number + 1))
        assert not reading.anomalies
        claims += [(number + 1.0, claim) for claim in reading.claims]
    assert standings(claims) == ["unknown", "working", "settling", "quiet", "working", "quiet"]


def test_the_end_of_a_turn_names_the_tasks_that_go_on() -> None:
    stops = [line for line in lines_of("claude-agent-hooks") if b'"hook_event_name":"Stop"' in line]
    claims = [claim for line in stops for claim in read_hook(line, at_seconds=1.0).claims]
    assert [claim.children for claim in claims] == [ChildNews(all_open=CHILD), ChildNews(all_open=frozenset())]


# Some other rung has to be there: a hook never keeps a state alone. It says nothing on the activity.
SCREEN_SEEN: Final = Claim(rung=EvidenceSource.SCREEN, at_seconds=0.0, rule="composer")
