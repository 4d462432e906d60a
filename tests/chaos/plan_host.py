"""The real server in a process of its own, to be killed: `python -m tests.chaos.plan_host HOME FATE`.

FATE is a file that says at which point of its own work it kills itself (see `host.Fate`). It is read at every point, so
that a running server can be told anew.
"""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

from interlock.server.__main__ import main
from tests.chaos.host import Fate


class ToldFate(Fate):
    """A fate that a file says, and that counts from when it was said."""

    def __init__(self, path: Path) -> None:
        super().__init__("")
        self._path = path
        self._said = ""

    def _pass(self, moment: str) -> None:
        said = ""
        with suppress(FileNotFoundError):
            said = self._path.read_text()
        if said != self._said:
            self._said = said
            self._moment, _, times = said.partition(":")
            self._times, self._seen = int(times or 1), Counter()
        super()._pass(moment)


if __name__ == "__main__":
    ToldFate(Path(sys.argv[2]))
    sys.exit(main(["--home", sys.argv[1]]))
