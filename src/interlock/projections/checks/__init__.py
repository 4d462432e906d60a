"""The checks of `diagnose`, one file a family. Each is a pure function of a case and reports on one subject."""
