"""What turns did to files: commands over the log and the objects of git."""
