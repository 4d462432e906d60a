"""The HTTP routes, one module a subject. They read from the hub's views and from the log, and act by `Commands`."""
