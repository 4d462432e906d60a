"""One terminal snapshot: what its surface says, and its text."""
