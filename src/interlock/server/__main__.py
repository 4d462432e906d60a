"""`python -m interlock.server`: serve a home. When it is ready it prints one line of JSON with its URL and pid.

It takes `[notify]` from the configuration, and the environment of agents that it finds in its log, and hides what the
configuration gives any agent; all else from its arguments.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from interlock.log.paths import default_home
from interlock.log.port import LogUnavailable
from interlock.runtime.config.agent_choice import configured_secrets
from interlock.runtime.config.loading import load
from interlock.runtime.config.spec_lookup import specs_by
from interlock.server.commands.configured import ConfiguredAgents
from interlock.server.serving import ServerFile, Setup, serve
from interlock.server.settings import ServerSettings
from interlock.vocabulary.errors import InterlockError, Unreachable, UsageError

_USAGE: Final = 2
_FAILED: Final = 1
_UNREACHABLE: Final = 8


def main(argv: Sequence[str] | None = None) -> int:
    """Serve, and return the exit code."""
    setup = parse(argv)
    _log_to_stderr()
    try:
        config = load(os.environ).config
        secrets = configured_secrets(config, os.environ)
        setup = replace(
            setup,
            policy=config.run.policy(),
            monitor=config.monitor_policies(),
            limits=config.pool.limits(),
            tree=config.tree.limits(),
            notify=config.notify,
            specs=specs_by(config, os.environ),
            agents=ConfiguredAgents(config, dict(os.environ)),
            secrets=secrets,
        )
        return asyncio.run(serve(setup, _tell, ends_process=True))
    except InterlockError as error:
        sys.stderr.write(f"error: {error}\n")
        if isinstance(error, LogUnavailable | Unreachable):
            return _UNREACHABLE
        return _USAGE if isinstance(error, UsageError) else _FAILED


def parse(argv: Sequence[str] | None) -> Setup:
    """The command line as a setup."""
    parser = argparse.ArgumentParser(prog="python -m interlock.server", description=__doc__)
    parser.add_argument("--home", type=Path, default=default_home(os.environ), help="where the log is")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on")
    parser.add_argument("--port", type=int, default=0, help="the port; 0 is any that is free")
    parser.add_argument("--allow-remote", action="store_true", help="an address that other machines can reach is meant")
    parser.add_argument("--allow-host", action="append", default=[], help="a name that this server answers to")
    parser.add_argument("--allow-origin", action="append", default=[], help="an origin whose pages may ask")
    given = parser.parse_args(argv)
    settings = ServerSettings(
        host=given.host,
        port=given.port,
        allowed_hosts=tuple(given.allow_host),
        allowed_origins=tuple(given.allow_origin),
    )
    return Setup(home=given.home, settings=settings, allow_remote=given.allow_remote)


def _tell(told: ServerFile) -> None:
    sys.stdout.write(msgspec.json.encode({"url": told.url, "pid": told.pid}).decode() + "\n")
    sys.stdout.flush()


def _log_to_stderr() -> None:
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    # Their own lines hold paths with query strings.
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "websockets"):
        logging.getLogger(name).setLevel(logging.WARNING)


if __name__ == "__main__":
    sys.exit(main())
