"""Git, run so that the configuration of a repository runs nothing: an agent may have written it."""
