"""Sessions that were moved out of the database into compressed files beside it, and are read as if they were in it."""
