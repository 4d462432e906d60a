"""Commands that show sessions: ps, show, logs, screen, usage, spawns; and the lines that they print."""
