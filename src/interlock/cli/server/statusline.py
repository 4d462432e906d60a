"""`interlock statusline`: how many sessions need you, work and are done, for a prompt or a status bar.

Laws:
1. It asks no server and loads no parser: it reads one small file that the server keeps.
2. Old numbers are never shown as new ones. The process that wrote the file must live, by number, start time and boot,
   and must have touched it lately; otherwise it is `down`, or `unknown`.
3. What is printed is made of our own words and numbers, so that a status bar can take it as it is.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal

from interlock.cli import output
from interlock.cli.server import options

if TYPE_CHECKING:
    from pathlib import Path

STALE_SECONDS = 45.0
_MAX_BYTES = 65_536
_DOWN = 8
# Group, singular, plural, tmux style. Idle and ended sessions are told only where nothing else is.
_PARTS = (
    ("needs_you", "needs you", "need you", "fg=red,bold"),
    ("stuck", "stuck", "stuck", "fg=yellow"),
    ("working", "working", "working", "fg=green"),
    ("done", "done", "done", "bold"),
)


def statusline(
    *,
    format: Literal["plain", "tmux"] = "plain",  # noqa: A002  # the option's name
    home: options.HomeOption = None,
    json: options.JsonFlag = False,
) -> int:
    """Print how many sessions need you, work and are done, from a file that the server keeps: it takes no time.

    `down`: no server runs; `unknown`: it stands still, or cannot be looked at. Exit code 8 for both.
    """
    state, groups = read_status(home)
    if json:
        output.print_json({"state": state, "groups": groups})
    else:
        output.print_text(_line(state, groups or {}, is_tmux=format == "tmux"))
    return 0 if state in ("up", "starting") else _DOWN


def read_status(home: Path | None) -> tuple[str, dict[str, object] | None]:
    """`up`, `starting`, `down` or `unknown`; and the count of each group, where that is known to be of now."""
    from interlock.cli.server.home_folder import home_folder
    from interlock.vocabulary.errors import InterlockError

    try:
        said, groups, touched_at = _read(home_folder(home))
    except FileNotFoundError:
        return "down", None
    except (OSError, InterlockError, ValueError):
        return "unknown", None
    state = _state(said, touched_at)
    return state, groups if state == "up" else None


def _read(home: Path) -> tuple[dict[str, object], dict[str, object], float]:
    from json import loads

    from interlock.log.private_file import folder_key, read_private_file

    path = home / "statusline.json"
    said = loads(read_private_file(path, max_bytes=_MAX_BYTES))
    groups = said.get("groups") if isinstance(said, dict) else None
    if not isinstance(groups, dict):
        raise ValueError("it is not what a server writes")
    if said.get("folder") != folder_key(home):
        raise FileNotFoundError  # it came here with a copy of a home
    return said, groups, path.stat().st_mtime


def _state(said: dict[str, object], touched_at: float) -> str:
    from interlock.log.process_life import boot_id, process_start
    from interlock.vocabulary.errors import Unreachable

    pid, boot = said.get("pid"), said.get("boot_id")
    try:
        is_alive = isinstance(pid, int) and pid > 0 and process_start(pid) == said.get("started")
    except Unreachable:
        return "unknown"
    if not is_alive or (boot and boot != boot_id()):
        return "down"
    if time.time() - touched_at > STALE_SECONDS or said.get("has_log_problem"):
        return "unknown"
    return "up" if said.get("is_ready") else "starting"


def _line(state: str, groups: dict[str, object], *, is_tmux: bool) -> str:
    if state != "up":
        return f"interlock {state}"
    said = []
    for group, one, many, style in _PARTS:
        count = _count(groups, group)
        if count:
            words = f"{count} {one if count == 1 else many}"
            said.append(f"#[{style}]{words}#[default]" if is_tmux else words)
    if said:
        return " · ".join(said)
    idle = _count(groups, "idle")
    return f"{idle} idle" if idle else "no sessions"


def _count(groups: dict[str, object], group: str) -> int:
    count = groups.get(group)
    return count if isinstance(count, int) and count > 0 else 0
