"""The server's fold of one session to frames, snapshots and summaries."""
