"""Light and dark. The names of the colours are their meanings."""

from __future__ import annotations

from typing import Final

from textual.theme import Theme

DARK: Final = Theme(
    name="interlock-dark",
    dark=True,
    primary="#6cb6ff",
    secondary="#9aa4b2",
    accent="#6cb6ff",
    warning="#e3b341",
    error="#ff7b72",
    success="#57c978",
    foreground="#d7dce3",
    background="#0f1319",
    surface="#171d26",
    panel="#1c2430",
    variables={
        "faint": "#939eae",
        "rule": "#2d3748",
        "row": "#233043",
        "alarm": "#5c3d00",
        "alarm-text": "#ffe9b8",
        "input-cursor-background": "#d7dce3",
        "input-cursor-foreground": "#0f1319",
    },
)
LIGHT: Final = Theme(
    name="interlock-light",
    dark=False,
    primary="#0b5cad",
    secondary="#57606a",
    accent="#0b5cad",
    warning="#8a5a00",
    error="#b3261e",
    success="#1a6f37",
    foreground="#1c2128",
    background="#ffffff",
    surface="#f0f3f6",
    panel="#e6eaef",
    variables={
        "faint": "#5d6773",
        "rule": "#c3cad3",
        "row": "#dbe8f8",
        "alarm": "#ffe0a3",
        "alarm-text": "#4d3500",
        "input-cursor-background": "#1c2128",
        "input-cursor-foreground": "#ffffff",
    },
)
