"""The log in a SQLite database: one writing thread, any number of readers."""
