"""Recordings with their truth: replayed on a virtual clock, and scored."""
