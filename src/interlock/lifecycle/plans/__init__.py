"""Plan files: their text, parameters and templates, read strictly into a workflow that can run."""
