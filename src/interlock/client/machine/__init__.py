"""The pure machine of one task, as a client knows it, with its state and inputs."""
