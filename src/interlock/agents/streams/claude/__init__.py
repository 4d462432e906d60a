"""Claude Code by stream-json."""
