"""Commands that act on sessions: run, send, wait, interrupt, approve, queue, attach."""
