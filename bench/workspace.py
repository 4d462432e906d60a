"""What a tree at the edge of a turn costs: a repository of 50,000 files, ten of them changed. `make bench` runs this.

The look at the main checkout, which a turn in a linked worktree makes as well, is measured on the same repository.

It stands beside `git status` on the same repository, in the same run and taken in turns. The snapshot is a task of its
own beside the turn; what a turn may feel is measured as well: the time that an event loop stands still meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Final

from interlock.agents.git.comparing import compare
from interlock.agents.git.repository import Repository, find_repository
from interlock.agents.git.snapshot import TreeSnapshots, ref_of
from interlock.runtime.workspace.main_checkout import MainCheckouts, main_changes

FILES: Final = int(os.environ.get("INTERLOCK_BENCH_FILES", "50000"))
CHANGED: Final = 10
ROUNDS: Final = 5
TICK_SECONDS: Final = 0.005
REF: Final = ref_of("ses_bench")
GIT: Final = ("git", "-c", "user.name=b", "-c", "user.email=b@localhost", "-c", "gc.auto=0")


def place(number: int) -> Path:
    return Path(f"d{number // 500}", f"s{number % 500 // 50}", f"f{number}.py")


def make(root: Path) -> Repository:
    for number in range(FILES):
        file = root / place(number)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"value = {number}\n" * 20)
    for arguments in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "all")):
        subprocess.run((*GIT, *arguments), cwd=root, check=True)
    return find_repository(root)


def took(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds by the clock, and of CPU with what was started."""
    before, begun = os.times(), time.perf_counter()
    work()
    seconds, after = time.perf_counter() - begun, os.times()
    return seconds, sum(after[:4]) - sum(before[:4])


def change(root: Path, at: int) -> None:
    for number in range(0, FILES, FILES // CHANGED):
        (root / place(number + at)).write_text(f"changed = {time.time_ns()}\n")


async def stands_still(work: Callable[[], object]) -> float:
    """The longest time for which an event loop did not get on while the work was done in a thread."""
    done, longest, last = asyncio.ensure_future(asyncio.to_thread(work)), 0.0, time.perf_counter()
    while not done.done():
        await asyncio.sleep(TICK_SECONDS)
        now = time.perf_counter()
        longest, last = max(longest, now - last - TICK_SECONDS), now
    await done
    return longest


def look_at_main(root: Path, linked: Path) -> None:
    """What it costs to see that an agent in a worktree wrote into the main checkout, and that it is seen."""
    subprocess.run((*GIT, "worktree", "add", "-q", "--no-checkout", "-b", "linked", str(linked)), cwd=root, check=True)
    repository, mains = find_repository(linked), MainCheckouts()
    first = took(lambda: mains.look(repository))
    before = mains.look(repository)
    figures = []
    for round_number in range(ROUNDS):
        change(root, round_number)
        figures.append(took(lambda: mains.look(repository)))
    after = mains.look(repository)
    assert before is not None
    assert after is not None
    assert len(main_changes(before, after)) == CHANGED * ROUNDS
    seconds, cpu = (median(column) for column in zip(*figures, strict=True))
    print(f"main checkout, first look: {first[0]:.2f} s, {first[1]:.2f} s of CPU")
    print(f"main checkout, at each edge of a turn: {seconds:.3f} s, {cpu:.3f} s of CPU")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "repository")
        repository, snapshots = make(root), TreeSnapshots()
        status = (*GIT, "status", "--porcelain")
        first = took(lambda: snapshots.take(repository, REF))
        print(f"first look at {FILES} files: {first[0]:.2f} s, {first[1]:.2f} s of CPU")
        ours, theirs, still = [], [], []
        before = snapshots.take(repository, REF)
        for round_number in range(ROUNDS):
            change(root, round_number)
            theirs.append(took(lambda: subprocess.run(status, cwd=root, check=True, capture_output=True)))
            ours.append(took(lambda: snapshots.take(repository, REF)))
            change(root, round_number)
            still.append(asyncio.run(stands_still(lambda: snapshots.take(repository, REF))))
        after = snapshots.take(repository, REF)
        with repository.objects() as objects:
            assert len(compare(objects, before.tree, after.tree)) == CHANGED * ROUNDS
        for name, figures in (("snapshot", ours), ("git status", theirs)):
            seconds, cpu = (median(column) for column in zip(*figures, strict=True))
            print(f"{name} after a change of {CHANGED}: {seconds:.3f} s, {cpu:.3f} s of CPU")
        ratios = [median(a[at] for a in ours) / median(b[at] for b in theirs) for at in (0, 1)]
        print(f"snapshot to git status: {ratios[0]:.1f}x by the clock, {ratios[1]:.1f}x of CPU")
        print(f"event loop stands still at most {max(still) * 1000:.0f} ms meanwhile")
        look_at_main(root, Path(folder, "linked"))


if __name__ == "__main__":
    main()
