"""What a verdict rests on: every verdict names its source, its rule, its time and where to look."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta, Struct

Moment = Annotated[datetime, Meta(tz=True)]
"""A point in time with its zone. It is shown and measured with, and never decides an order."""


NO_PROFILE_FITS: Final = "no_profile_fits"
"""The rule of an agent that is unknown because nothing that we have reads its screen."""

LOG_UNAVAILABLE: Final = "log_unavailable"
"""The rule of an agent that is unknown because the server cannot write its log."""

NO_PROGRESS: Final = "turn.no_progress"
"""The rule of a turn that is stalled though its agent seems to work. `where` says what was last seen, and when."""

NATIVE_CONTRADICTED: Final = "native_status.contradicted"
"""The rule of an agent that is unknown because it reports something else than it shows. `where` says both."""

TITLE_CONTRADICTED: Final = "title.contradicted"
"""The rule of an agent that is unknown because its title says something else than its screen. `where` says both."""

HOOKS_CONTRADICTED: Final = "hooks.contradicted"
"""The rule of an agent that is unknown because its hooks say and take back what its screen contradicts. `where` says
both."""

TELLS_WHERE: Final = frozenset(
    {NO_PROFILE_FITS, NO_PROGRESS, NATIVE_CONTRADICTED, TITLE_CONTRADICTED, HOOKS_CONTRADICTED}
)
"""The rules that say little without their `where`."""


class EvidenceSource(StrEnum):
    """The rungs of the evidence ladder, best first, then the log itself."""

    EXIT = "exit"
    NATIVE_STATUS = "native_status"
    NATIVE_FILE = "native_file"
    HOOK = "hook"
    PANE_TITLE = "pane_title"
    SCREEN = "screen"
    SILENCE = "silence"
    LOG = "log"
    OPERATOR = "operator"


class Evidence(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One reason to believe a verdict. `seq` points into the log; `where` names a file, a row or a field."""

    source: EvidenceSource
    rule: str
    at: Moment | None = None
    seq: int | None = None
    where: str = ""
