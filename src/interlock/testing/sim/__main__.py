"""Replay schedules by their seeds, with a trace: `python -m interlock.testing.sim SEED [SEED ...]`."""

from __future__ import annotations

import sys

from interlock.testing.sim.world import simulate


def main() -> None:
    for seed in sys.argv[1:]:
        report = simulate(int(seed), is_traced=True)
        sys.stdout.write("\n".join((*report.trace, report.summary(), "")))


if __name__ == "__main__":
    main()
