"""Agents that speak the Agent Client Protocol, through the `agent-client-protocol` library."""
