"""opencode by `opencode serve`."""
