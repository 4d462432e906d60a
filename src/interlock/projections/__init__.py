"""Folds over the log: pure functions of events, one file a question."""
