"""A model API as an agent: our own turn loop over the model layer of pydantic-ai, with tools in a workspace."""

from __future__ import annotations

from interlock.agents.model.driver import ModelDriver
from interlock.agents.model.tools.tool import Tool, ToolFailure, tool_from

__all__ = ["ModelDriver", "Tool", "ToolFailure", "tool_from"]
