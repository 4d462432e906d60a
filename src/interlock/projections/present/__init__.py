"""The one presenter: events, live and replayed, to display items."""
