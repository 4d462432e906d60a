"""Commands that explain: why a turn ended as it did, what is wrong in a log, what a model is given again."""
