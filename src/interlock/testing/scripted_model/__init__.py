"""A model that follows a script, for driving real agent CLIs and API clients through states whose truth is known.

It serves Anthropic Messages, OpenAI Responses, OpenAI Chat Completions and Gemini on one loopback port.
`python -m interlock.testing.scripted_model --help` runs it by hand.
"""

from __future__ import annotations

from interlock.testing.scripted_model.model import ScriptedModel
from interlock.testing.scripted_model.record import Received, RequestKind, RequestOutcome
from interlock.testing.scripted_model.script import (
    Cut,
    End,
    Error,
    Gate,
    Hang,
    Script,
    ScriptedCall,
    Shell,
    Step,
    Text,
    Think,
)

__all__ = [
    "Cut",
    "End",
    "Error",
    "Gate",
    "Hang",
    "Received",
    "RequestKind",
    "RequestOutcome",
    "Script",
    "ScriptedCall",
    "ScriptedModel",
    "Shell",
    "Step",
    "Text",
    "Think",
]
