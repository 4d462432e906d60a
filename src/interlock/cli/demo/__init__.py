"""`interlock demo`: scripted agents behind a real server. `command` is its entry."""
