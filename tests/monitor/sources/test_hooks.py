"""Hooks as they were recorded from Claude Code and Codex, and what is known of those that were not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from interlock.monitor.arbitration.claims import ChildNews, Claim
from interlock.monitor.sources.hooks import read_hook
from interlock.vocabulary.evidence import EvidenceSource
from tests.each_row import each_row
from tests.monitor.arbitrations import APPROVAL, NONE, SCREEN, Q, Timed, W, history, opened, says

RECORDINGS: Final = Path(__file__).parents[2] / "recordings" / "hooks"
COMMON: Final = {"session_id": "s", "transcript_path": "/p/s.jsonl", "cwd": "/p"}


def recorded(name: str) -> list[tuple[float, dict[str, Any]]]:
    lines = (RECORDINGS / f"{name}.ndjson").read_text().splitlines()
    return [(record["t"], record["payload"]) for record in map(json.loads, lines)]


def claim_of(event: str, **fields: object) -> Claim:
    (claim,) = read_hook(COMMON | {"hook_event_name": event} | fields, at_seconds=1).claims
    return claim


def axes(claim: Claim) -> tuple[str, str, str]:
    return (claim.rule.removeprefix("hook."), claim.activity or "-", claim.attention or "-")


STARTED: Final = [("SessionStart", "-", "-"), ("UserPromptSubmit", "working", "none")]
TOOL: Final = ("PreToolUse", "working", "-")
TOOL_DONE: Final = [("PostToolUse", "working", "-"), ("Stop", "quiet", "none")]


@each_row(
    ("name", "expected"),
    [
        ("claude-write", [*STARTED, TOOL, ("PermissionRequest", "working", "approval"), *TOOL_DONE]),
        ("claude-ask", [*STARTED, TOOL, ("PermissionRequest", "working", "question"), *TOOL_DONE]),
        ("claude-error500", [*STARTED, ("StopFailure", "quiet", "error")]),
        ("codex-hooks", [*STARTED, TOOL, ("PermissionRequest", "working", "approval"), *TOOL_DONE]),
        ("claude-queue", [*STARTED, STARTED[1], TOOL_DONE[1], TOOL_DONE[1]]),
        ("claude-interrupt", [*STARTED, *[STARTED[1]] * 2, TOOL, ("PermissionRequest", "working", "approval")]),
    ],
)
def test_recorded_hooks_are_read(name: str, expected: list[tuple[str, str, str]]) -> None:
    readings = [read_hook(payload, at_seconds=at) for at, payload in recorded(name)]
    assert not any(reading.anomalies for reading in readings)
    assert [axes(claim) for reading in readings for claim in reading.claims] == expected


def test_bytes_and_fields_say_the_same() -> None:
    for at, payload in recorded("claude-write"):
        assert read_hook(json.dumps(payload).encode(), at_seconds=at) == read_hook(payload, at_seconds=at)


def test_a_claim_says_where_to_look_and_whose_it_is() -> None:
    at, payload = recorded("codex-hooks")[3]
    (claim,) = read_hook(payload, at_seconds=at).claims
    assert claim.rung is EvidenceSource.HOOK
    assert claim.where.endswith(".jsonl")
    assert claim.excerpt == "Bash: sleep 2; touch made.txt; echo hi"
    assert (claim.session_id, claim.turn_id) == (payload["session_id"], payload["turn_id"])
    assert claim.is_dialog
    assert recorded("claude-ask")[1][1]["prompt_id"] == claim_from("claude-ask", 1).turn_id


def claim_from(name: str, number: int) -> Claim:
    at, payload = recorded(name)[number]
    return read_hook(payload, at_seconds=at).claims[0]


@each_row(
    ("event", "fields", "expected"),
    [
        ("Notification", {"notification_type": "permission_prompt"}, (None, "approval", True)),
        ("Notification", {"notification_type": "elicitation_dialog"}, (None, "question", True)),
        ("Notification", {"notification_type": "idle_prompt"}, ("quiet", "none", False)),
        ("PermissionRequest", {"tool_name": "ExitPlanMode"}, ("working", "plan", True)),
        ("StopFailure", {"error": "rate_limit"}, ("quiet", "quota", False)),
        ("StopFailure", {"error": "authentication_failed"}, ("quiet", "auth", False)),
        ("StopFailure", {"error": "unknown"}, ("quiet", "error", False)),
        ("SubagentStart", {"agent_id": "a"}, (None, None, False)),
        ("SessionEnd", {"reason": "prompt_input_exit"}, (None, None, False)),
    ],
)
def test_hooks_that_were_seen_and_not_recorded(
    event: str, fields: dict[str, object], expected: tuple[str | None, str | None, bool]
) -> None:
    claim = claim_of(event, **fields)
    assert (claim.activity, claim.attention, claim.is_dialog) == expected


@each_row(
    ("event", "fields", "news"),
    [
        ("Stop", {"background_tasks": []}, ChildNews(all_open=frozenset())),
        ("Stop", {"background_tasks": [{"task_id": "t"}, {}]}, ChildNews(all_open=frozenset({"t", "task 1"}))),
        ("Stop", {}, None),
        ("SubagentStart", {"agent_id": "a"}, ChildNews(opened=frozenset({"a"}))),
        ("SubagentStop", {"agent_id": "a"}, ChildNews(closed=frozenset({"a"}))),
        ("SubagentStop", {}, None),
        ("SessionStart", {"source": "startup"}, ChildNews(all_open=frozenset())),
        ("SessionStart", {"source": "compact"}, None),
        ("PreToolUse", {}, None),
    ],
)
def test_hooks_tell_of_children(event: str, fields: dict[str, object], news: ChildNews | None) -> None:
    assert claim_of(event, **fields).children == news


def test_a_childs_tool_says_nothing_about_its_parents_turn_and_its_dialog_still_asks() -> None:
    assert claim_of("PostToolUse", agent_id="a", tool_name="Bash").activity is None
    asked = claim_of("PermissionRequest", agent_id="a", tool_name="Bash")
    assert (asked.activity, asked.attention) == (None, "approval")


@each_row("payload", [b"", b"null", b"[1]", "{", 7, None, b"\xff" * 9, b"[" * 50_000])
def test_what_is_no_hook_is_kept_as_an_anomaly(payload: object) -> None:
    reading = read_hook(payload, at_seconds=1)
    assert reading.claims == ()
    assert [anomaly.kind for anomaly in reading.anomalies] == ["unknown_record"]


@pytest.mark.parametrize("fields", [{"hook_event_name": "PreCompact"}, {"hook_event_name": "Notification"}, {}])
def test_an_unknown_hook_claims_nothing_on_either_axis_and_is_kept(fields: dict[str, object]) -> None:
    reading = read_hook(COMMON | fields, at_seconds=1)
    assert [(claim.activity, claim.attention) for claim in reading.claims] == [(None, None)]
    assert len(reading.anomalies) == 1


# Through arbitration, with a screen beside them.


def play(name: str) -> list[Timed]:
    return [(at, claim) for at, payload in recorded(name) for claim in read_hook(payload, at_seconds=at).claims]


def test_a_recorded_turn_with_an_approval_reads_as_it_went() -> None:
    hooks = play("claude-write")
    _, prompt, _, asked, after_tool, stop = (at for at, _ in hooks)
    screen = [
        opened(SCREEN),
        says(SCREEN, 0, Q, NONE),
        says(SCREEN, prompt + 0.4, W, NONE),
        says(SCREEN, asked + 0.5, None, APPROVAL),
        says(SCREEN, after_tool - 0.3, W, NONE),
        says(SCREEN, stop + 0.2, Q, NONE),
    ]
    script = sorted([*hooks, *screen], key=lambda item: item[0])
    assert history(script, 60) == [
        (0, "quiet", "none"),
        (prompt, "working", "none"),
        (asked, "working", "approval"),
        # The tool's own hooks say nothing of dialogs, and two seconds of screen are not yet over: `Stop` tells it.
        (stop, "quiet", "none"),
    ]


def test_an_escape_that_no_hook_tells_of_ends_with_the_screen() -> None:
    first_prompt = play("claude-interrupt")[1]
    at = first_prompt[0]
    script = [opened(SCREEN), first_prompt, says(SCREEN, at + 0.5, W), says(SCREEN, at + 4, Q)]
    assert history(script, at + 60)[-1] == (at + 6, "quiet", "none")
