"""`interlock debug lab` as a process whose every trace can be looked for: temporary files and cache are its own."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cli.demo_harness import processes_with
from tests.cli.harness import COMMAND

LAB_SECONDS = 280.0


@dataclass(frozen=True, slots=True)
class LabPlace:
    """Where a lab runs. `temporary` is empty again afterwards; results and installs are below `cache`."""

    temporary: Path
    cache: Path

    def start(self, *args: str, **env: str) -> subprocess.Popen[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("INTERLOCK_", "TMUX"))}
        own = {"TMPDIR": str(self.temporary), "INTERLOCK_AGENT_CLIS": str(self.cache / "agent-clis")}
        return subprocess.Popen(
            (*COMMAND, "lab", *args),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            env={**kept, **own, "PYTHONUNBUFFERED": "1", **env},
        )

    def run(self, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
        with self.start(*args, **env) as process:
            out, err = process.communicate(timeout=LAB_SECONDS)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def left(self) -> list[str]:
        """Temporary files, and processes of this lab: each has its folder on its command line or in its environment."""
        return [*map(str, self.temporary.iterdir()), *processes_with(str(self.temporary).encode())]


@contextmanager
def lab_place() -> Iterator[LabPlace]:
    """A place for a lab; the path is short, as those of sockets have to be."""
    with tempfile.TemporaryDirectory(prefix="l-") as short:
        place = LabPlace(Path(short, "t"), Path(short, "c"))
        place.temporary.mkdir()
        place.cache.mkdir()
        yield place
