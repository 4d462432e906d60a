"""A model that follows a script, for driving real agent CLIs and API clients through states whose truth is known.

It serves Anthropic Messages, OpenAI Responses, OpenAI Chat Completions and Gemini on one loopback port.
`python -m interlock.testing.scripted_model --help` runs it by hand.
"""

from __future__ import annotations

from interlock.testing.scripted_model.model import ScriptedModel
from interlock.testing.scripted_model.record import Kind, Outcome, Received
from interlock.testing.scripted_model.script import (
    Cut,
    End,
    Error,
    Gate,
    Hang,
    Script,
    Shell,
    Step,
    Text,
    Think,
    ToolCall,
)

__all__ = [
    "ScriptedModel",
    "Received",
    "Kind",
    "Outcome",
    "Script",
    "Step",
    "Think",
    "Text",
    "ToolCall",
    "Shell",
    "Gate",
    "Error",
    "Cut",
    "Hang",
    "End",
]
