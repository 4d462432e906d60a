"""Agents in terminals of their own: started in tmux behind our shim, watched, typed into, and found again."""
