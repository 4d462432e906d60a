"""`python -m interlock.cli`, for a checkout whose script is not on the path."""

from __future__ import annotations

import sys

from interlock.cli import main

if __name__ == "__main__":
    sys.exit(main())
