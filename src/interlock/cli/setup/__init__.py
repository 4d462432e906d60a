"""Commands that check and configure this machine: config, doctor, hooks, notifications, profiles, completion."""
