"""Evidence in words that need no manual. Pure; loads nothing.

Laws:
1. Words say no more than the rule does: which channel told it, or what our own rule means. A rule that is not ours is
   never put in other words: its source is named, and `show`, `why` and the head of `top` have the rule itself.
2. What a newer server says is said as it says it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# Rules of the runtime and of the ladder. Those of profiles and hooks are many, and anybody may write more.
_RULES: Final[Mapping[str, str]] = {
    "spawn.asked": "being started",
    "process.spawned": "just started",
    "process.exited": "its process ended",
    "no_process": "no process",
    "no_profile_fits": "no profile fits",
    "channel_lost": "contact was lost",
    "turn.submitted": "a prompt was sent",
    "turn.no_progress": "no progress",
    "native_status.contradicted": "sources disagree",
    "stream.turn_open": "turn in progress",
    "stream.silent": "no output in turn",
    "stream.winding_down": "ending its turn",
    "stream.children_open": "background work",
    "stream.not_ready": "not ready yet",
    "stream.ready": "ready for prompt",
    "stream.stopping": "being stopped",
    "stream.spent": "takes no prompt",
    "stream.fell_silent": "no output",
    "answer_on_its_way": "answer on its way",
    "turn.open": "turn in progress",
    "turn.unknown": "log is damaged",
}
_SOURCES: Final[Mapping[str, str]] = {
    "exit": "its process ended",
    "native_status": "reported by agent",
    "native_file": "read from files",
    "hook": "reported by hook",
    "pane_title": "read from title",
    "screen": "read from screen",
    "silence": "no output",
    "log": "read from the log",
    "operator": "by your command",
}


def words_of(source: str, rule: str) -> str:
    """Why that is said, in a few words."""
    return _RULES.get(rule) or _SOURCES.get(source) or rule
