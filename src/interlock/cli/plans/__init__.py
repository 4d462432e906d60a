"""The commands of plans: check them, trust them, run them."""
