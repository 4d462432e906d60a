"""One redactor: what leaves the runtime, to the log or to a watcher, holds no secret that we know of."""
