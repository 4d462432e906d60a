"""Every driver there is: found by its name, and saying of itself what it is."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Final

import pytest

from interlock.agents.drivers import DRIVERS, builtin_drivers, driver
from interlock.vocabulary.errors import UsageError


def test_each_driver_bears_the_name_by_which_it_is_found(tmp_path: Path) -> None:
    assert [one.name for one in builtin_drivers(tmp_path)] == list(DRIVERS)
    assert list(tmp_path.iterdir()) == [], "a driver that nobody used has left something behind"


def test_one_that_outlives_us_can_be_found_again(tmp_path: Path) -> None:
    lasting = [one for one in builtin_drivers(tmp_path) if one.capabilities.outlives_runtime]
    assert [one.name for one in lasting] == ["terminal", "observed"]
    assert all(hasattr(one, "adopt") for one in lasting)


TALKS: Final = {"owns_text", "reports_usage", "streams_text"}
CONVERSES: Final = TALKS | {"can_interrupt", "reports_approvals", "reports_thoughts"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("claude-stream", CONVERSES | {"can_resume"}),
        ("codex-app-server", CONVERSES | {"can_resume"}),
        ("codex-exec", {"can_resume", "is_one_shot", "owns_text", "reports_thoughts", "reports_usage"}),
        ("gemini-stream", TALKS | {"can_resume", "is_one_shot"}),
        ("qwen-stream", TALKS | {"can_resume", "is_one_shot"}),
        ("opencode-serve", CONVERSES | {"can_resume"}),
        ("pi-rpc", CONVERSES | {"can_resume"}),
        ("acp", CONVERSES | {"can_resume"}),
        ("observed", {"outlives_runtime", "is_foreign", "is_read_only"}),
        ("model", CONVERSES | {"needs_history"}),
        ("terminal", {"can_interrupt", "can_resume", "outlives_runtime", "reports_approvals"}),
    ],
)
def test_each_driver_says_what_it_can_do(tmp_path: Path, name: str, expected: set[str]) -> None:
    able = {field for field, is_able in asdict(driver(name, tmp_path).capabilities).items() if is_able}
    assert able == expected


def test_an_unknown_driver_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="claude-stream"):
        driver("telepathy", tmp_path)
