"""Codex by its app-server and by `exec --json`."""
