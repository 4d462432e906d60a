"""Where tests that try many schedules take their seed from, so that a gate answers the same way each time it is asked.

`make test` and `make test-deep` draw from fixed seeds. `HYPOTHESIS_PROFILE=search` makes all of them random, as it does
for Hypothesis. The seed is printed either way, and `INTERLOCK_SEED=SEED` plays that one again.
"""

from __future__ import annotations

import os
import random
import zlib

from hypothesis import settings


def seed_of(name: str) -> int:
    """The seed of one test. `name` tells it from the others, so that no two tests try the same schedules."""
    asked = asked_seed()
    if asked is not None:
        return int(asked)
    if settings.get_current_profile_name() == "search":
        return random.SystemRandom().getrandbits(32)
    return zlib.crc32(name.encode())


def asked_seed() -> str | None:
    """The seed that somebody wants to see again, as it was printed."""
    return os.environ.get("INTERLOCK_SEED") or None
