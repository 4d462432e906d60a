"""Rules that answer safe questions: what a shell command says, and what the rules of a person say of it."""
