"""Whatever a source is given, it claims what can be claimed and keeps what can be kept."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from interlock.agents.profiles import builtin_profiles
from interlock.monitor.arbitration.arbiter import step
from interlock.monitor.arbitration.claims import EXCERPT_MAX, SourceReading
from interlock.monitor.arbitration.state import Arbitration
from interlock.monitor.sources.claude_status import FileRead, read_claude_status
from interlock.monitor.sources.hooks import read_hook
from interlock.monitor.sources.shim_lines import StatusFields, read_status
from interlock.monitor.sources.surface import claim_of_title
from interlock.screen.profile import TitleMarks
from interlock.testing.strategies import JSON
from interlock.vocabulary.events.codec import encode_event
from interlock.vocabulary.events.envelope import new_event
from interlock.vocabulary.ids import EventId, SessionId
from interlock.vocabulary.states import Activity

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TEXTS = st.text(max_size=30)
HOOKS = st.sampled_from(
    [
        *("SessionStart", "UserPromptSubmit", "PreToolUse", "PermissionRequest", "PostToolUse", "Notification"),
        *("Stop", "StopFailure", "SubagentStart", "SubagentStop", "SessionEnd", "PreCompact"),
    ]
)
SHAPED = st.fixed_dictionaries(
    {"hook_event_name": HOOKS | JSON},
    optional=dict.fromkeys(("background_tasks", "tool_name", "tool_input", "agent_id", "error", "source"), JSON),
)

MARKS = {profile.cli: profile.titles for profile in builtin_profiles()}


def check(reading: SourceReading) -> None:
    assert len(reading.claims) <= 1
    for claim in reading.claims:
        for text in (claim.excerpt, claim.session_id, claim.turn_id):
            assert len(text) <= 2 * EXCERPT_MAX + 2
            assert "\x1b" not in text
        step(Arbitration(), claim, 1.0)
    for anomaly in reading.anomalies:
        encode_event(new_event(anomaly, id=EventId("e"), session_id=SessionId("s"), ts=NOW))


@given(JSON | SHAPED | st.binary(max_size=60) | TEXTS)
@example(b"[" * 100_000)
@example('{"hook_event_name": "\\ud800"}')
@example({"hook_event_name": "\ud800\x1b[31m\x00" * 500})
def test_no_payload_breaks_a_hook_reader(payload: object) -> None:
    check(read_hook(payload, at_seconds=1))


STATUS_FILES = st.fixed_dictionaries(
    {"status": st.sampled_from(["idle", "busy", "waiting"]) | JSON},
    optional={"statusUpdatedAt": JSON | TEXTS | st.integers(), "waitingFor": JSON, "sessionId": JSON},
)


@given(st.binary(max_size=60) | TEXTS | STATUS_FILES.map(repr), st.none() | st.floats())
def test_no_text_breaks_the_reader_of_status_files(text: bytes | str, modified: float | None) -> None:
    check(read_claude_status(text, FileRead(1.0, 1000.0, modified)))


@given(STATUS_FILES, st.none() | st.floats())
def test_no_status_breaks_the_reader_of_status_files(fields: dict[str, object], modified: float | None) -> None:
    check(read_claude_status(msgspec.json.encode(fields), FileRead(1.0, 1000.0, modified)))


STATES = st.sampled_from(["idle", "working", "done", "error", "blocked", "clear"])


@given(st.builds(StatusFields, STATES | TEXTS, TEXTS, TEXTS, TEXTS, TEXTS, TEXTS))
def test_no_record_breaks_the_reader_of_the_status_protocol(record: StatusFields) -> None:
    check(read_status(record, at_seconds=1))


@given(TEXTS, st.sampled_from(["claude", "codex", "gemini", "qwen", "vibe", "other"]))
def test_no_title_breaks_the_reader_of_titles_or_makes_an_agent_quiet(title: str, cli: str) -> None:
    assert claim_of_title(title, MARKS.get(cli, TitleMarks()), at_seconds=1).activity in (None, Activity.WORKING)
