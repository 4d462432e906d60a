"""How many examples a dear test tries: few where every change is tested, and the rest in `make test-deep`."""

from __future__ import annotations

from hypothesis import settings


def examples(quick: int, thorough: int) -> int:
    """How many examples of a property that costs more than others: in the quick suite, and in the deep one."""
    return quick if settings.get_current_profile_name() == "quick" else thorough
