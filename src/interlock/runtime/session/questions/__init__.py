"""Questions of an agent: each recorded, decided, delivered and closed."""
