"""Whether the process that wrote a file is there. Imports nothing heavy: commands ask this before they connect.

Laws:
1. A process that ended and that nobody waited for is gone, although it still has its number.
2. A number is not a process: it is given again, and after a reboot soon. Where the file tells when its process began,
   and in which boot, only that one counts.
3. A process that is there and may not be looked at counts as alive: whoever asks it finds out.
"""

from __future__ import annotations

from interlock.log.process_life import boot_id, process_start
from interlock.vocabulary.errors import Unreachable


def is_alive(pid: int, started: str = "", boot: str = "") -> bool:
    """Whether that process is there. `started` and `boot` are as its system spells them; blank: not told."""
    if pid <= 0:
        return False
    try:
        found = process_start(pid)
    except Unreachable:
        return True
    if found is None or (started and started != found):
        return False
    return not boot or boot_id() in ("", boot)
