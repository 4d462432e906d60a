"""Run the scripted model by hand: start it, point a CLI to it, and say `SCN:hello`."""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Final

from interlock.testing.scripted_model.model import ScriptedModel
from interlock.testing.scripted_model.record import Received
from interlock.testing.scripted_model.script import Cut, Error, Gate, Hang, Script, Shell, Text, Think
from interlock.vocabulary.errors import UsageError

_SLOW: Final = tuple(f"Line {number} of a slow answer.\n\n" for number in range(1, 11))

BUILTIN: Final[Mapping[str, Script]] = {
    "hello": (Think("Somebody says hello."), Text("Hello.")),
    "slow": (Think("This may take a while."), Text(*_SLOW, pace_seconds=1.0)),
    "gates": (
        Think("Waiting for the gate `thinking`."),
        Gate("thinking", limit_seconds=3600),
        Text("Now for the gate `streaming`.\n\n"),
        Gate("streaming", limit_seconds=3600),
        Text("Both are open."),
    ),
    "shell": (Shell("touch made.txt; sleep 2; echo made"), Text("The file is there.")),
    "error": (Error(500, "a scripted error"),),
    "flaky": (Error(529, "overloaded", times=2), Text("The third try went through.")),
    "cut": (Text("The first half"), Cut(times=1), Text(", and the second.")),
    "hang": (Think("I shall say nothing more."), Hang()),
}

CLIENTS: Final[Mapping[str, str]] = {
    "Claude Code": "ANTHROPIC_BASE_URL={url} ANTHROPIC_API_KEY=dummy CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 claude",
    "Codex": (
        "STUB_API_KEY=dummy codex --no-daemon -c model=gpt-5.5 -c model_provider=stub -c model_providers.stub="
        '\'{{name="stub",base_url="{url}/v1",wire_api="responses",env_key="STUB_API_KEY",supports_websockets=false}}\''
    ),
    "Gemini CLI": "GOOGLE_GEMINI_BASE_URL={url} GEMINI_API_KEY=dummy gemini",
    "Qwen Code": "OPENAI_BASE_URL={url}/v1 OPENAI_API_KEY=dummy OPENAI_MODEL=scripted qwen",
    "aider": "OPENAI_API_BASE={url}/v1 OPENAI_API_KEY=dummy aider --model openai/scripted",
}


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
