"""The commands of rules: look at them, try them, trust and pause them."""
