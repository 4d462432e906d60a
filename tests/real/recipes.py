"""How each real CLI is started: the lab's own recipes, under the name by which the tests know them."""

from __future__ import annotations

from interlock.testing.lab.recipes import (
    CLAUDE,
    CODEX,
    GEMINI,
    OPENCODE,
    QWEN,
    Place,
    Recipe,
    command_line,
    common_environment,
)

__all__ = ["CLAUDE", "CODEX", "GEMINI", "OPENCODE", "QWEN", "Place", "Recipe", "command_line", "common_environment"]
