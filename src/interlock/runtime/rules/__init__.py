"""The rules of a person: their files, what is trusted and what is paused."""
