"""Commands of clients: validated, carried out once, and answered."""
