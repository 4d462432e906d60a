"""The agent's process as its session sees it: its life, calls to it, and control of it."""
