"""The first run, the service that starts with the machine, and the way out: what Interlock puts outside of its home."""
