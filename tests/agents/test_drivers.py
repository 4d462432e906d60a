"""Every driver there is: found by its name, and saying of itself what it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.agents.drivers import DRIVERS, builtin_drivers, driver
from interlock.vocabulary.errors import UsageError


def test_each_driver_bears_the_name_by_which_it_is_found(tmp_path: Path) -> None:
    assert [one.name for one in builtin_drivers(tmp_path)] == list(DRIVERS)
    assert list(tmp_path.iterdir()) == [], "a driver that nobody used has left something behind"


def test_one_that_outlives_us_can_be_found_again(tmp_path: Path) -> None:
    lasting = [one for one in builtin_drivers(tmp_path) if one.capabilities.outlives_runtime]
    assert [one.name for one in lasting] == ["terminal"]
    assert all(hasattr(one, "adopt") for one in lasting)


def test_an_unknown_driver_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="claude-stream"):
        driver("telepathy", tmp_path)
