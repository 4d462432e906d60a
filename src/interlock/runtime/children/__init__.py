"""Children of a session and workflows over them."""
