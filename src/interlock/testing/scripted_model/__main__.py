"""Run the scripted model by hand: start it, point a CLI to it, and say `SCN:hello`."""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Sequence
from typing import Final

from interlock.testing.scripted_model.builtin import BUILTIN, CLIENTS
from interlock.testing.scripted_model.model import ScriptedModel
from interlock.testing.scripted_model.record import Received
from interlock.vocabulary.errors import UsageError

_LOOK_EVERY_SECONDS: Final = 0.2


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until the limit, or until Ctrl-C."""
    options = _parser().parse_args(arguments)
    try:
        with ScriptedModel(BUILTIN, port=options.port) as model:
            _say(_welcome(model.url))
            threading.Thread(target=_release_named, args=(model,), daemon=True).start()
            _report(model, options.seconds)
    except KeyboardInterrupt:
        _say("stopped")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m interlock.testing.scripted_model",
        description="A model that follows scripts, on loopback. Put SCN:NAME into a prompt to choose one.",
        epilog=f"Scripts: {', '.join(BUILTIN)}. Type the name of a gate and Enter to release it.",
    )
    parser.add_argument("--port", type=int, default=0, help="the port to listen on (default: a free one)")
    parser.add_argument("--seconds", type=float, default=None, help="stop after so many seconds (default: on Ctrl-C)")
    return parser


def _welcome(url: str) -> str:
    clients = [f"  {name:12} {line.format(url=url)}" for name, line in CLIENTS.items()]
    return "\n".join([f"listening on {url}; scripts: {', '.join(BUILTIN)}", "start a client with one of:", *clients])


def _release_named(model: ScriptedModel) -> None:
    for line in sys.stdin:
        try:
            model.release(line.strip())
        except UsageError as wrong:
            _say(f"error: {wrong}")


def _report(model: ScriptedModel, seconds: float | None) -> None:
    """Print each request as it comes and again when it ends."""
    rounds = None if seconds is None else max(1, round(seconds / _LOOK_EVERY_SECONDS))
    told: dict[int, Received] = {}
    pause = threading.Event()
    while rounds is None or rounds > 0:
        for one in model.requests:
            if told.get(one.number) != one:
                told[one.number] = one
                _say(f"{one.number} {one.kind} {one.path} {one.script or one.purpose} part {one.part}: {one.outcome}")
        rounds = None if rounds is None else rounds - 1
        pause.wait(_LOOK_EVERY_SECONDS)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
