"""Machines of subagents and workflows."""
