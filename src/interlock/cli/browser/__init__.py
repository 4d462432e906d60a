"""Commands for the dashboard in a browser: open it, log in a phone, list and revoke logins."""
