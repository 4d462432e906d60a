"""The append-only log: durable truth, from which everything else is folded."""
