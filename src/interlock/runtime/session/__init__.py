"""The session machine: small machines, each a table, composed by one router."""
