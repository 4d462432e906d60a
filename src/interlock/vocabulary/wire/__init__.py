"""Frames, requests and shapes that servers and clients exchange."""
