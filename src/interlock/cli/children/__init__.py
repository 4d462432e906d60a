"""Commands about children of sessions."""
