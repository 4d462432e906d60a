"""Agents that a person runs outside tmux: watched by the files that they write and by their process, and no more."""
