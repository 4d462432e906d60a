"""`interlock debug shim -- CMD`: a transparent pseudo-terminal that hears what the program in it says of itself."""
