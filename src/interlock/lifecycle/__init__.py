"""The pure machines, one file each: laws, table, step."""
