"""What commands ask the server, and the JSON that they print, with a type for each."""
