"""Commands that work on terminals and recordings: adopt, record, track, score, lab, shim."""
