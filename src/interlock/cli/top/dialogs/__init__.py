"""What comes up over the board, each a screen of its own that is left with escape."""
