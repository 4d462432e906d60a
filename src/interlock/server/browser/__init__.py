"""What a browser needs of the server: the built page, one-time tickets, and cookies."""
