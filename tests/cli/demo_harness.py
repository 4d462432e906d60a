"""`interlock demo` as a process whose every trace can be looked for: it has a folder for temporary files of its own."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cli.harness import COMMAND

DEMO_SECONDS = 100.0
GONE_SECONDS = 100.0


@dataclass(frozen=True, slots=True)
class DemoPlace:
    """Where a demo runs. Its folder appears below `folder`, and nothing else does."""

    folder: Path
    home: Path

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("INTERLOCK_", "TMUX"))}
        return {**kept, "TMPDIR": str(self.folder), "HOME": str(self.home), "PYTHONUNBUFFERED": "1"}

    def start(self, *args: str, **env: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            (*COMMAND, "demo", *args),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            env={**self.environment, **env},
        )

    def run(self, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
        with self.start(*args, **env) as process:
            out, err = process.communicate(timeout=DEMO_SECONDS)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def left(self, but_for: int = 0) -> list[str]:
        """Files, and processes of this demo: each has its folder on its command line or in its environment."""
        needle = str(self.folder).encode()
        return [*(str(path) for path in self.folder.iterdir()), *processes_with(needle, but_for)]

    def is_clean(self, but_for: int = 0) -> bool:
        return not self.left(but_for) and not any(self.home.iterdir())

    def becomes_clean(self, but_for: int = 0) -> None:
        """Wait until nothing is left, for those who were killed and could not wait for it themselves."""
        deadline = time.monotonic() + GONE_SECONDS
        while not self.is_clean(but_for):
            assert time.monotonic() < deadline, self.left(but_for)
            time.sleep(0.05)


def processes_with(needle: bytes, but_for: int = 0) -> list[str]:
    """The processes that have it on their command line or in their environment."""
    found = []
    for one in Path("/proc").iterdir():
        if one.name.isdigit() and int(one.name) not in (os.getpid(), but_for):
            try:
                command, environment = (one / "cmdline").read_bytes(), (one / "environ").read_bytes()
            except OSError:
                continue
            if needle in command or needle in environment:
                found.append(f"{one.name} {command.replace(bytes(1), b' ').decode(errors='replace')}")
    return found


@contextmanager
def demo_place() -> Iterator[DemoPlace]:
    """A place for a demo; the path is short, as those of sockets have to be."""
    with tempfile.TemporaryDirectory(prefix="d-") as short:
        place = DemoPlace(Path(short, "t"), Path(short, "h"))
        place.folder.mkdir()
        place.home.mkdir()
        yield place


def read_until(process: subprocess.Popen[str], is_it: Callable[[str], bool]) -> str:
    """Read lines until the one that is looked for."""
    assert process.stdout is not None
    for line in process.stdout:
        if is_it(line):
            return line
    raise AssertionError(f"it ended before that, with {process.wait(GONE_SECONDS)}")


def without_tmux(folder: Path) -> Mapping[str, str]:
    """A PATH on which there is no tmux."""
    for name in ("sh", "env", "sleep"):
        for place in ("/bin", "/usr/bin"):
            if Path(place, name).exists() and not (folder / name).exists():
                (folder / name).symlink_to(Path(place, name))
    return {"PATH": str(folder)}
