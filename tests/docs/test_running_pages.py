"""The pages about running agents: every program in them runs and prints what is shown, and their lists are whole."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from interlock.agents.drivers import DRIVERS
from interlock.agents.model.driver import ModelOptions
from interlock.agents.model.tools.builtin import DEFAULT_RULES
from interlock.agents.model.tools.tool import DEFAULT_TIMEOUT_SECONDS, MAX_OUTPUT_CHARACTERS
from interlock.agents.port import Capabilities
from interlock.lifecycle.restarts import RestartPolicy, Restarts
from interlock.monitor.policy import MonitorPolicy
from interlock.runtime.config.sections import SurfaceSection
from interlock.runtime.policy import RunPolicy
from interlock.runtime.runtime import MAX_UNREAD, Runtime
from interlock.vocabulary.events.audit import DeliveryStage
from interlock.vocabulary.states import TURN_TERMINAL, DriverKind, ExitReason
from tests.docs.running import run, samples, write_programs
from tools import docs

ROOT = Path(__file__).parents[2]
RUNNING = (ROOT / "docs/how-to/run-agents-from-python.md").read_text(encoding="utf-8")
TOOLS = (ROOT / "docs/how-to/write-a-tool-for-the-model.md").read_text(encoding="utf-8")
HOOKS = (ROOT / "docs/how-to/install-hooks.md").read_text(encoding="utf-8")
EMBEDDING = (ROOT / "docs/how-to/embed-the-library.md").read_text(encoding="utf-8")
CONTRACT = (ROOT / "docs/explanation/how-a-turn-ends.md").read_text(encoding="utf-8")
CLOCK = (ROOT / "docs/explanation/the-stall-clock.md").read_text(encoding="utf-8")
EXPLAINED = (ROOT / "docs/explanation/running-agents.md").read_text(encoding="utf-8")


def check_samples(page: str, folder: Path) -> None:
    programs = write_programs(page, folder)
    shown = samples(page)
    assert set(programs) == {command.removeprefix("python ") for command, _ in shown if command.startswith("python ")}
    for command, printed in shown:
        assert run(command, folder).replace(str(folder), "/home/you") == printed, command


@pytest.mark.parametrize(
    "page",
    [RUNNING, TOOLS, HOOKS, EMBEDDING, CONTRACT, CLOCK],
    ids=["running", "tools", "hooks", "embedding", "contract", "clock"],
)
def test_every_command_prints_what_is_shown(page: str, tmp_path: Path) -> None:
    settings = tmp_path / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{"model": "opus"}\n', encoding="utf-8")
    check_samples(page, tmp_path.resolve())


def column(page: str, head: str) -> list[str]:
    """The first column of the table with that head, without its marks."""
    rows = page.partition(f"\n| {head} |")[2].partition("\n\n")[0].splitlines()[2:]
    return [row.split("|")[1].strip().strip("`") for row in rows]


def test_the_tables_name_every_kind_receipt_and_option() -> None:
    assert set(column(EXPLAINED, "Kind")) == {kind.value for kind in DriverKind}
    assert set(column(EXPLAINED, "Receipt")) == {stage.value for stage in DeliveryStage}
    named_above = {"tools", "permissions", "write_policy"}
    assert set(column(TOOLS, "Option")) | named_above == set(ModelOptions.__struct_fields__)


def test_the_drivers_page_has_every_driver_and_capability() -> None:
    page = docs.drivers_page(DRIVERS)
    assert column(page, "Driver") == list(DRIVERS)
    assert set(docs.CAPABILITIES) == {field.name for field in fields(Capabilities)}
    assert re.search(
        r"^\| `terminal` \| yes \|  \|  \|  \|  \| yes \| yes \|  \| yes \|  \|  \|  \|$", page, re.MULTILINE
    )


def test_every_policy_that_is_named_exists() -> None:
    known = {field.name for field in fields(RunPolicy)}
    named = re.findall(r"RunPolicy\((\w+)=", RUNNING) + re.findall(r"`(\w+_seconds|max_\w+|resubmit_\w+)`", EXPLAINED)
    named += re.findall(r"`(\w*stall\w*_\w+)`", CLOCK)
    assert len(named) > 8
    assert set(named) <= known


def test_every_command_that_is_named_exists() -> None:
    table = RUNNING.partition("## Hold back")[2].partition("## Test")[0]
    named = set(re.findall(r"`(\w+)(?:\(session|`)", table))
    assert {"set_gate", "edit", "remove", "queue", "start", "stop", "send"} <= named
    assert all(hasattr(Runtime, name) for name in named)


def test_the_page_of_the_contract_has_every_end() -> None:
    assert set(column(CONTRACT, "State")) == {state.value for state in TURN_TERMINAL}


def test_the_figures_of_the_stall_clock_are_those_of_the_code() -> None:
    policy = MonitorPolicy()
    assert (policy.unknown_to_stalled_timeout_seconds, policy.watched_gap_seconds) == (30, 2)
    text = " ".join(CLOCK.split())
    assert "Thirty seconds are the default for a surface" in text
    assert "a gap between two polls that is longer than two seconds" in text
    assert SurfaceSection().policy() == policy
    run = RunPolicy()
    assert (run.stall_after_seconds, run.stall_tool_after_seconds) == (120, 30 * 60)
    assert "`run.stall_after_seconds` (120 by default)" in text
    assert "`run.stall_tool_after_seconds` (30 minutes)" in text


def test_the_figures_are_those_of_the_code() -> None:
    assert f"{MAX_UNREAD:,} events" in RUNNING
    assert f"cut at {MAX_OUTPUT_CHARACTERS:,} characters" in TOOLS
    assert f"({DEFAULT_TIMEOUT_SECONDS:g})" in TOOLS
    assert DEFAULT_RULES == ("allow read", "allow search")
    policy, restarts = RestartPolicy(), Restarts()
    delays = [restarts.after(ExitReason.CRASHED, 0.0).restart_at for _ in range(policy.max_attempts)]
    assert delays == [1.0, 2.0, 4.0]
    assert policy.window_seconds == 3600
    assert "after 1, 2 and 4 seconds, three times in an hour" in EXPLAINED.replace("\n", " ")
