"""Agents in tmux panes: started, adopted, watched without polling, and typed into with care."""
