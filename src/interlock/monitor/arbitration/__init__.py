"""Arbitration: one status of an agent from all that its sources claim."""
