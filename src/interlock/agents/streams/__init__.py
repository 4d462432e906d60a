"""Agents that are driven by lines of JSON on their pipes."""
