"""Which turn changed which file: trees taken at the edges of turns."""
