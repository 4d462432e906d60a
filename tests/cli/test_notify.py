"""`interlock notify test`: one notice by each channel that is configured, and the truth about each."""

from __future__ import annotations

import asyncio
import io
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from interlock.cli.exit_codes import ExitCode
from interlock.cli.server.up import _setup
from interlock.cli.setup.notify import Trial, TrialOutcome, exit_code_of, trial_notice, try_channels
from interlock.runtime.config.sections import NotifySection
from tests.cli.harness import interlock
from tests.each_row import each_row
from tests.runtime.test_notify import hook, script

QUIET = {"INTERLOCK_NOTIFY_BELL": "false"}
KEEP = "import sys\nopen(sys.argv[1], 'wb').write(sys.stdin.buffer.read())\n"


def test_every_channel_is_tried_and_told_apart(tmp_path: Path) -> None:
    kept, program = tmp_path / "kept", script(tmp_path / "keep", KEEP)
    with hook(500) as (url, asked):
        done = interlock(
            "notify",
            "test",
            "--json",
            env={
                "INTERLOCK_NOTIFY_COMMAND": f"{program} {kept}",
                "INTERLOCK_NOTIFY_WEBHOOK": f"{url}/secret",
                "INTERLOCK_NOTIFY_DESKTOP": "true",
                "DISPLAY": "",
                "WAYLAND_DISPLAY": "",
                "DBUS_SESSION_BUS_ADDRESS": "",
            },
        )
    assert done.returncode == ExitCode.PARTIAL, done.stderr
    assert json.loads(done.stdout) == {
        "channels": [
            {"channel": "bell", "outcome": "not tried", "detail": "this is no terminal"},
            {"channel": "desktop", "outcome": "failed", "detail": "there is no notify-send here, or no desktop"},
            {"channel": "command", "outcome": "delivered", "detail": ""},
            {"channel": "webhook", "outcome": "failed", "detail": "http://127.0.0.1 answered 500"},
        ]
    }
    told = json.loads(kept.read_bytes())
    assert told == json.loads(asked[0][2])
    assert told["key"].startswith("test/")
    assert (told["agent"], told["question"]) == ("interlock", "Does this reach you?")


def test_the_same_for_a_person() -> None:
    with hook() as (url, asked):
        done = interlock("notify", "test", env={**QUIET, "INTERLOCK_NOTIFY_WEBHOOK": url})
    assert (done.returncode, len(asked)) == (0, 1)
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["CHANNEL", "OUTCOME", "DETAIL"],
        ["webhook", "delivered"],
    ]


def test_without_a_channel_there_is_a_remedy() -> None:
    done = interlock("notify", "test", env=QUIET)
    assert (done.returncode, done.stdout) == (ExitCode.USAGE, "")
    assert "[notify]" in done.stderr


def test_a_mistake_of_the_configuration_is_named() -> None:
    done = interlock("notify", "test", env={"INTERLOCK_NOTIFY_WEBHOOK": "ftp://secret"})
    assert (done.returncode, done.stdout) == (ExitCode.USAGE, "")
    assert "notify.webhook" in done.stderr
    assert "secret" not in done.stderr


@each_row(
    ("outcomes", "code"),
    [
        ((TrialOutcome.DELIVERED,), ExitCode.COMPLETED),
        ((TrialOutcome.DELIVERED, TrialOutcome.NOT_TRIED), ExitCode.COMPLETED),
        ((TrialOutcome.DELIVERED, TrialOutcome.FAILED), ExitCode.PARTIAL),
        ((TrialOutcome.FAILED,), ExitCode.FAILED),
        ((TrialOutcome.FAILED, TrialOutcome.NOT_TRIED), ExitCode.FAILED),
        ((TrialOutcome.NOT_TRIED,), ExitCode.UNKNOWN),
    ],
)
def test_the_exit_code_claims_no_more_than_was_delivered(outcomes: tuple[TrialOutcome, ...], code: ExitCode) -> None:
    assert exit_code_of([Trial(channel="x", outcome=one) for one in outcomes]) is code


def test_a_terminal_is_rung_and_shows(tmp_path: Path) -> None:
    terminal = io.StringIO()
    settings = NotifySection(desktop=True)
    trials = asyncio.run(try_channels(settings, {"TERM": "foot", "PATH": str(tmp_path)}, terminal))
    assert [(one.channel, one.outcome, one.detail) for one in trials] == [
        ("bell", TrialOutcome.DELIVERED, ""),
        ("desktop", TrialOutcome.DELIVERED, "by terminal"),
    ]
    assert terminal.getvalue().startswith("\a\x1b]777;notify;interlock asks a question;")


def test_what_takes_too_long_has_failed(tmp_path: Path) -> None:
    program = script(tmp_path / "hang", "import signal\nsignal.pause()\n")
    settings = NotifySection(bell=False, command=(program,))
    (trial,) = asyncio.run(try_channels(settings, {}, None, seconds=0.05))
    assert (trial.outcome, trial.detail) == (TrialOutcome.FAILED, "it took longer than 0.05 s")


def test_no_two_trials_have_the_same_key() -> None:
    now = datetime.now(UTC)
    assert trial_notice(now).key != trial_notice(now).key


def test_the_server_that_up_starts_tells_as_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLOCK_NOTIFY_WEBHOOK", "http://hook.example/x")
    told = _setup(tmp_path, None, None, allow_remote=False).notify
    assert told is not None
    assert told.webhook == "http://hook.example/x"
