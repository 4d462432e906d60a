"""The completion observer: reply contracts and the agent's own report that its turn ended."""
