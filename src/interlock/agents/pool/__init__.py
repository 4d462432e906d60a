"""The pool: how many agents may run, for how long an idle one stays, and what the log says about each life."""
