"""What the dashboard costs a browser: bytes to load, and how it holds while many sessions stream. `make bench` runs it.

The sizes are gates: they are the same on every machine. The other figures need node, web/node_modules (`make test-web`
sets them up) and Chromium. They are goals that this prints: a machine that draws without a graphics card says little
about one that a person looks at.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from interlock.cli.server.api import ServerApi
from interlock.cli.server.process import start_server
from interlock.testing.scripted_agent import command

ROOT: Final = Path(__file__).resolve().parent.parent
ASSETS: Final = ROOT / "src/interlock/web/assets"
CHROMIUM: Final = Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))
MAX_SCRIPT: Final = 60_000
MAX_STYLE: Final = 12_000
MAX_WHEEL: Final = 150_000
STREAMS: Final = 20
SECONDS: Final = 10
DEADLINE_SECONDS: Final = 120
GOALS: Final[Mapping[str, str]] = {
    "board_ms": "board readable after a reload (goal 600)",
    "p50_ms": "frame, median (goal 16.7)",
    "p95_ms": "frame, p95 (goal 16.7)",
    "longest_task_ms": "longest task (goal 50)",
    "heap_mb": "JS heap, MB (goal 60)",
}


def packed(names: str) -> int:
    """The bytes of all files of that pattern, as they go over the wire."""
    return sum(len(gzip.compress(one.read_bytes(), 9)) for one in ASSETS.glob(names))


def show(what: str, value: float, limit: float | None = None) -> bool:
    """A line of the table. Whether the value keeps to its limit."""
    is_kept = limit is None or value <= limit
    said = "" if limit is None else f"{limit:>12,.0f}  {'' if is_kept else 'TOO MUCH'}"
    sys.stdout.write(f"{what:<44}{value:>12,.1f}{said}\n")
    return is_kept


def sizes() -> bool:
    """All that the page may load, at once or later, against the budget of the first load."""
    kept = [
        show("scripts, gzip", packed("*.js"), MAX_SCRIPT),
        show("styles, gzip", packed("*.css"), MAX_STYLE),
        show(
            "all of it in the wheel",
            sum(len(gzip.compress(one.read_bytes(), 9)) for one in ASSETS.iterdir()),
            MAX_WHEEL,
        ),
    ]
    return all(kept)


def streams() -> None:
    """One session that is looked at, and others that stream beside it."""
    with tempfile.TemporaryDirectory(prefix="ilbw-") as folder:
        home = Path(folder, "h")
        start_server(home)
        api = ServerApi.of_home(home)
        try:
            argv = [*command("stream-json", lifetime_seconds=DEADLINE_SECONDS)]
            body = {"agent": "scripted", "driver": "claude-stream", "argv": argv, "cwd": folder}
            body["prompt"] = "pace 0.02; words 6000"
            tasks = [
                str(api.ask("POST", "/api/tasks", {**body, "title": f"stream {at}"})["task_id"])
                for at in range(STREAMS)
            ]
            link = str(api.ask("POST", "/api/login/tickets", {"role": "observer"})["url"])
            made = subprocess.run(
                ["node", "tools/measure.mjs", link, tasks[0], str(SECONDS)],
                cwd=ROOT / "web",
                capture_output=True,
                text=True,
                timeout=DEADLINE_SECONDS,
                check=True,
            )
            for name, value in json.loads(made.stdout).items():
                show(GOALS.get(name, name), value)
        finally:
            down = (sys.executable, "-m", "interlock.cli", "down", "--now")
            subprocess.run(down, env={**os.environ, "INTERLOCK_HOME": str(home)}, check=True, stderr=subprocess.DEVNULL)


def main() -> None:
    is_kept = sizes()
    if shutil.which("node") and CHROMIUM.exists() and (ROOT / "web/node_modules/playwright-core").exists():
        streams()
    else:
        sys.stdout.write("no figures of a browser: they need node, chromium and web/node_modules (make test-web)\n")
    sys.exit(0 if is_kept else 1)


if __name__ == "__main__":
    main()
