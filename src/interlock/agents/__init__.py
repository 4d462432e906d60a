"""The outside world: terminals, processes, protocols of agents."""
