"""What a model is given of a log, and the operations that change it: compaction and fork."""
