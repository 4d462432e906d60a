"""How single CLIs are set up for the lab: configuration, environment, first-run questions."""
