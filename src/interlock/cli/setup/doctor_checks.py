"""What a check of the machine is, and how checks are carried out: all at once, each bounded, none in another's way.

Laws:
1. A probe that takes longer than `PROBE_SECONDS`, or breaks, is a check that failed, and says so.
2. Checks come in the order of their probes, however long each took.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from msgspec import Struct, structs

from interlock.vocabulary.errors import InterlockError, PeerFault

PROBE_SECONDS: Final = 5.0
_MAX_OUTPUT: Final = 4096


class MachineHealth(StrEnum):
    """How a check went. `warn`: it works, and something could be better. `install`: nothing is broken, and nothing can
    be run before something is installed."""

    OK = "ok"
    WARN = "warn"
    INSTALL = "install"
    FAIL = "fail"


class MachineCheck(Struct, frozen=True, kw_only=True):
    """One thing that was looked at: what was found, and how to mend it where that is needed."""

    id: str
    group: str
    health: MachineHealth
    found: str
    mend: str = ""

    def but(self, health: MachineHealth, found: str, mend: str = "") -> MachineCheck:
        """The same check with another outcome."""
        return structs.replace(self, health=health, found=found, mend=mend)


@dataclass(frozen=True, slots=True)
class CheckProbe:
    """A look at something. `look` gives the checks; `id` and `group` name one that could not be made."""

    id: str
    group: str
    look: Callable[[], Awaitable[Sequence[MachineCheck]]]

    @classmethod
    def told(cls, check: MachineCheck) -> CheckProbe:
        """A check that is made already."""

        async def look() -> Sequence[MachineCheck]:
            return (check,)

        return cls(check.id, check.group, look)


async def examine(probes: Sequence[CheckProbe], *, seconds: float = PROBE_SECONDS) -> list[MachineCheck]:
    """Carry out every probe."""
    found = await asyncio.gather(*(_bounded(probe, seconds) for probe in probes))
    return [check for checks in found for check in checks]


async def _bounded(probe: CheckProbe, seconds: float) -> Sequence[MachineCheck]:
    failed = MachineCheck(id=probe.id, group=probe.group, health=MachineHealth.FAIL, found="")
    try:
        async with asyncio.timeout(seconds):
            return await probe.look()
    except TimeoutError:
        return (failed.but(MachineHealth.FAIL, f"did not answer within {seconds:g} s", "see what holds it up"),)
    except (InterlockError, OSError, RuntimeError, ValueError) as error:
        return (failed.but(MachineHealth.FAIL, str(error) or type(error).__name__),)


async def printed_by(*argv: str) -> str:
    """What a program prints on its standard output, the beginning of it. `PeerFault` where it fails."""
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        written, _ = await process.communicate()
    finally:
        if process.returncode is None:  # out of time: it goes with whatever it started
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if process.returncode:
        raise PeerFault(f"{argv[0]} ended with {process.returncode}")
    return written[:_MAX_OUTPUT].decode("utf-8", "replace").strip()
