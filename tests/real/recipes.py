"""How each real CLI is started: the lab's own recipes, and how a pane of a test's own runs one of them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from interlock.testing.lab.recipes import (
    CLAUDE,
    CODEX,
    GEMINI,
    OPENCODE,
    QWEN,
    LabFolder,
    Recipe,
    common_environment,
)

__all__ = ["CLAUDE", "CODEX", "GEMINI", "OPENCODE", "QWEN", "LabFolder", "Recipe", "command_line", "common_environment"]


def command_line(recipe: Recipe, executable: Path, place: LabFolder, url: str, behind: Sequence[str] = ()) -> str:
    """What a shell in the pane runs: the CLI, `behind` other words if need be. Only tmux's own names are kept."""
    made = {**common_environment(place), **recipe.environment(place, url)}
    given = [shlex.quote(f"{name}={value}") for name, value in made.items()]
    called = [shlex.quote(word) for word in (*behind, str(executable), *recipe.arguments)]
    return " ".join(["exec env -i", 'TMUX="$TMUX" TMUX_PANE="$TMUX_PANE"', *given, *called])
