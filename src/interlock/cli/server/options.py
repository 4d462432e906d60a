"""What the commands that ask a server take, without the parser: `options.HomeOption` in an annotation is read when
the parser reads it, so that a plain command line (`interlock.cli.plain`) does not pay for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interlock.cli.server.option_types import AllFlag as AllFlag
    from interlock.cli.server.option_types import Flag as Flag
    from interlock.cli.server.option_types import FollowFlag as FollowFlag
    from interlock.cli.server.option_types import HomeOption as HomeOption
    from interlock.cli.server.option_types import JsonFlag as JsonFlag
    from interlock.cli.server.option_types import MomentOption as MomentOption
    from interlock.cli.server.option_types import ReconnectTimeoutOption as ReconnectTimeoutOption
    from interlock.cli.server.option_types import SessionArgument as SessionArgument
    from interlock.cli.server.option_types import TitleArgument as TitleArgument


def __getattr__(name: str) -> object:
    from interlock.cli.server import option_types

    return getattr(option_types, name)
