"""HTTP and WebSocket connections to a server."""
