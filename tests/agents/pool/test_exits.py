"""Why a spawn ended: what we asked for, what the kernel accounts for, and what is left."""

from __future__ import annotations

import pytest

from interlock.agents.observations import Exited
from interlock.agents.pool.pool import ASKED_FOR, exit_reason
from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.states import ExitReason


@pytest.mark.parametrize(
    ("exited", "reason"),
    [
        (Exited(code=0), ExitReason.CLEAN),
        (Exited(code=1), ExitReason.CRASHED),
        (Exited(code=137), ExitReason.CRASHED),
        (Exited(signal=9), ExitReason.CRASHED),
        (Exited(signal=9, is_oom=True), ExitReason.OOM),
        (Exited(), ExitReason.UNCLEAN),
    ],
)
def test_an_exit_that_nobody_asked_for(exited: Exited, reason: ExitReason) -> None:
    assert exit_reason(exited) is reason


@pytest.mark.parametrize("asked", sorted(ASKED_FOR))
@pytest.mark.parametrize("exited", [Exited(code=0), Exited(signal=9, is_oom=True), Exited()])
def test_what_we_asked_for_is_the_reason(asked: ExitReason, exited: Exited) -> None:
    assert exit_reason(exited, stop_requested=asked) is asked


def test_nobody_asks_for_a_crash() -> None:
    with pytest.raises(ContractError):
        exit_reason(Exited(), stop_requested=ExitReason.CRASHED)
