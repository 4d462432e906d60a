"""What the commands that ask a server take. Imports the parser, and nothing of the log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

from cyclopts import Parameter

from interlock.cli.look.session_names import offer_sessions

HomeOption: TypeAlias = Annotated[
    Path | None, Parameter(help="Where the server's home is; else INTERLOCK_HOME, or the XDG state folder.")
]
JsonFlag: TypeAlias = Annotated[bool, Parameter(negative="", help="Print JSON for a script.")]
FollowFlag: TypeAlias = Annotated[bool, Parameter(name=("--follow", "-f"), negative="")]
Flag: TypeAlias = Annotated[bool, Parameter(negative="")]
AllFlag: TypeAlias = Annotated[bool, Parameter(name="--all", negative="")]
SessionArgument: TypeAlias = Annotated[
    str,
    Parameter(
        help="Session ID (any unique prefix or suffix), or the beginning of a word of its title.",
        completer=offer_sessions,
    ),
]
MomentOption: TypeAlias = Annotated[
    str, Parameter(help="Read the log as it stood: a sequence number, or a time with its zone.")
]
ReconnectTimeoutOption: TypeAlias = Annotated[
    float,
    Parameter(name=("--reconnect-timeout", "--patience"), help="Seconds to wait for a server that does not answer."),
]
TitleArgument: TypeAlias = Annotated[str, Parameter(help="The new title.")]
