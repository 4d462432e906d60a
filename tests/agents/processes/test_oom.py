"""Want of memory is proven by the kernel's account of a control group, never by a code."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from interlock.agents.processes.child import MemoryAccount

V2 = (
    "0::/user/agent\n",
    "user/agent/memory.events",
    "low 0\nhigh 3\nmax 9\noom 1\noom_kill {kills}\noom_group_kill 0\n",
)
V1 = (
    "9:name=systemd:/\n4:memory:/box\n0::/\n",
    "memory/box/memory.oom_control",
    "oom_kill_disable 0\nunder_oom 0\noom_kill {kills}\n",
)


class Kernel:
    """A made-up /proc and control groups."""

    def __init__(self, root: Path, layout: tuple[str, str, str]) -> None:
        membership, account, self._words = layout
        self.proc, self.groups = root / "proc", root / "groups"
        self._account = self.groups / account
        (self.proc / "7").mkdir(parents=True)
        (self.proc / "7" / "cgroup").write_text(membership)
        self._account.parent.mkdir(parents=True)
        self.kill(0)

    def kill(self, kills: int) -> None:
        self._account.write_text(self._words.format(kills=kills))

    def account(self) -> MemoryAccount:
        return MemoryAccount.of(7, (self.proc, self.groups))


@pytest.fixture(params=[V2, V1], ids=["v2", "v1"])
def kernel(request: pytest.FixtureRequest, tmp_path: Path) -> Kernel:
    return Kernel(tmp_path, request.param)


def test_a_kill_that_the_account_shows_is_for_want_of_memory(kernel: Kernel) -> None:
    kernel.kill(2)
    account = kernel.account()
    kernel.kill(3)
    assert account.explains(None, 9)
    assert account.explains(137, None)


def test_a_kill_that_the_account_does_not_show_is_somebody_elses(kernel: Kernel) -> None:
    kernel.kill(2)
    assert not kernel.account().explains(None, 9)


@pytest.mark.parametrize(("code", "signal"), [(0, None), (1, None), (None, 15), (None, None)])
def test_another_end_is_not_explained_by_a_neighbours_death(
    kernel: Kernel, code: int | None, signal: int | None
) -> None:
    account = kernel.account()
    kernel.kill(1)
    assert not account.explains(code, signal)


@pytest.mark.parametrize("membership", ["", "0::/elsewhere\n", "junk\n", "1:cpu:/\n"])
def test_without_an_account_nothing_is_claimed(tmp_path: Path, membership: str) -> None:
    account = Kernel(tmp_path, (membership, *V2[1:])).account()
    assert account == MemoryAccount(None, None)
    assert not account.explains(None, 9)


@pytest.mark.parametrize("words", ["", "oom_kill", "oom_kill many"])
def test_an_account_that_cannot_be_read_proves_nothing(tmp_path: Path, words: str) -> None:
    account = Kernel(tmp_path, (*V2[:2], words)).account()
    assert account.kills_before is None
    assert not account.explains(None, 9)


def test_a_process_that_is_gone_has_no_account(tmp_path: Path) -> None:
    assert MemoryAccount.of(8, (tmp_path, tmp_path)) == MemoryAccount(None, None)


def test_a_real_process_is_looked_up_without_an_error() -> None:
    assert not MemoryAccount.of(os.getpid()).explains(0, None)
