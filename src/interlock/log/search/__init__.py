"""Full-text search over transcripts: an index beside the log, made from it and deleted without loss."""
