"""What agents leave behind beside their screens and streams: hooks, transcripts, files of their sessions."""
