"""Rooms and their clients: the hub, WebSocket and SSE."""
