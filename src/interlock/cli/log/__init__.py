"""Commands that read, check and change the log: log, why, turns, diagnose, replay, fork, compact, rm."""
