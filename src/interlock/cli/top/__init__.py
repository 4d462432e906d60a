"""`interlock top`: every session on one board, and the selected one beside it. No other command imports this.

What is shown is laid out as lines of pieces by pure functions (`wrapping`, `sessions`, `facts`, `reading`, `questions`,
`pages`). `panes`, `panels` and `terminal` paint them, `following` and `screening` listen to the server, `deeds` acts on
it; `board` knows when to draw, `app` what each key does.
"""
