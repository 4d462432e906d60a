"""Configuration: sections, keys, reading and loading, and the choice of an agent."""
