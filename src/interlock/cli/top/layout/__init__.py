"""Lines of the board, laid out from what is known. Pure, but for caches."""
