"""What each source's records mean on the two axes. Pure: a record in, claims out; nothing raises, whatever comes."""
