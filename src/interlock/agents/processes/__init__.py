"""Processes of agents: started in groups of their own, read line by line, and ended with everything they started."""
