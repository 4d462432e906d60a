"""What a program says of itself: OSC 7501 records, and Claude Code's session file."""

from __future__ import annotations

import json
from typing import Final

from interlock.monitor.arbitration.claims import Claim, SourceReading
from interlock.monitor.sources.claude_status import FileRead, read_claude_status
from interlock.monitor.sources.shim_lines import StatusFields, read_status
from interlock.vocabulary.evidence import EvidenceSource
from tests.each_row import each_row


def record(text: str, **fields: str) -> Claim:
    state, _, kind = text.partition(":")
    (claim,) = read_status(StatusFields(state, "codex", kind, **fields), at_seconds=1).claims
    return claim


@each_row(
    ("text", "expected"),
    [
        ("idle", ("quiet", "none", False)),
        ("working", ("working", "none", False)),
        ("done", ("quiet", "none", False)),
        ("error", ("quiet", "error", False)),
        ("blocked:permission", (None, "approval", True)),
        ("blocked:question", (None, "question", True)),
        ("blocked", (None, "question", True)),
        ("blocked:something new", (None, "question", True)),
        ("clear", (None, None, False)),
    ],
)
def test_every_state_of_a_record(text: str, expected: tuple[str | None, str | None, bool]) -> None:
    claim = record(text)
    assert (claim.activity, claim.attention, claim.is_dialog) == expected
    assert claim.withdraws is (text == "clear")
    assert claim.rung is EvidenceSource.NATIVE_STATUS


def test_a_record_of_a_child_claims_nothing() -> None:
    for state in ("idle", "working", "blocked", "done", "error", "clear"):
        assert read_status(StatusFields(state, "codex", id="c"), at_seconds=1) == SourceReading()


def test_a_state_that_is_not_known_claims_nothing_and_is_kept() -> None:
    reading = read_status(StatusFields("pondering", "codex"), at_seconds=1)
    assert reading.claims == ()
    assert len(reading.anomalies) == 1


def test_a_message_is_bounded_and_cannot_write_to_a_terminal() -> None:
    claim = record("blocked:permission", message="\x1b[31mrun\nthis\x07 " + "x" * 9999)
    assert claim.excerpt.startswith("run this xxx")
    assert len(claim.excerpt) == 240


# Claude Code's file.

READ: Final = FileRead(at_seconds=50.0, unix_seconds=1_800_000_000.0, where="sessions/7.json")


def file_claim(fields: dict[str, object], read: FileRead = READ) -> Claim:
    (claim,) = read_claude_status(json.dumps({"statusUpdatedAt": 1_800_000_000_000} | fields), read).claims
    return claim


@each_row(
    ("fields", "expected"),
    [
        ({"status": "idle"}, ("quiet", "none", False)),
        ({"status": "busy"}, ("working", "none", False)),
        ({"status": "shell"}, ("quiet", "none", False)),
        ({"status": "waiting", "waitingFor": "permission prompt"}, (None, "approval", True)),
        ({"status": "waiting", "waitingFor": "an answer"}, (None, "question", True)),
        ({"status": "waiting"}, (None, "question", True)),
    ],
)
def test_every_status_of_the_file(fields: dict[str, object], expected: tuple[str | None, str | None, bool]) -> None:
    claim = file_claim(fields)
    assert (claim.activity, claim.attention, claim.is_dialog) == expected
    assert (claim.rung, claim.where) == (EvidenceSource.NATIVE_FILE, "sessions/7.json")


@each_row(
    ("updated_at", "written"),
    [
        (1_799_999_990_000, 40),
        (1_799_999_990, 40),
        ("2027-01-15T07:59:50Z", 40),
        ("2027-01-15T07:59:50", 40),
        (1_900_000_000_000, 50),
    ],
)
def test_the_status_is_dated_when_it_was_written_and_never_later_than_read(updated_at: object, written: float) -> None:
    assert file_claim({"status": "busy", "statusUpdatedAt": updated_at}).at_seconds == written


def test_without_a_date_of_its_own_the_file_is_as_old_as_its_last_write_or_claims_nothing() -> None:
    modified = FileRead(50.0, 1_800_000_000.0, modified_unix_seconds=1_799_999_995.0)
    assert file_claim({"status": "busy", "statusUpdatedAt": None}, modified).at_seconds == 45
    reading = read_claude_status('{"status": "busy"}', READ)
    assert (reading.claims, len(reading.anomalies)) == ((), 1)


def test_nothing_secret_is_kept() -> None:
    secret: dict[str, object] = {
        "peerToken": "s3cret",
        "messagingToken": "s3cret",
        "status": "waiting",
        "sessionId": "abc",
    }
    assert "s3cret" not in repr(file_claim(secret))
    unknown = json.dumps(secret | {"status": "asleep"})
    assert "s3cret" not in repr(read_claude_status(unknown, READ))


def test_a_status_that_is_not_known_takes_back_the_one_before_it_and_is_kept() -> None:
    reading = read_claude_status('{"status": "asleep", "statusUpdatedAt": 1800000000000}', READ)
    (claim,) = reading.claims
    assert (claim.withdraws, claim.activity, claim.rung) == (True, None, EvidenceSource.NATIVE_FILE)
    assert len(reading.anomalies) == 1


@each_row("text", ["", "{", "[]", '{"status": 3}', b"\xff"])
def test_a_file_that_says_nothing_claims_nothing(text: str | bytes) -> None:
    reading = read_claude_status(text, READ)
    assert (reading.claims, len(reading.anomalies)) == ((), 1)
