"""Notifications: the notifier, its channels and their trial."""
