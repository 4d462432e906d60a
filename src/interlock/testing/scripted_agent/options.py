"""The command line. Read by hand: drivers add what a real CLI wants, and an agent passes over what it does not know."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final, NamedTuple

from interlock.testing.scripted_agent.acp import TRAPS
from interlock.testing.scripted_agent.language import VERBS

TUI: Final = "tui"
STREAM_JSON: Final = "stream-json"
ACP: Final = "acp"

_FACES: Final = {f"--{face}": face for face in (TUI, STREAM_JSON, ACP)}
_VALUES: Final = {
    "--ledger": "FILE  write down there what was received: start, prompts, answers, interrupts, spawned processes",
    "--gates": "FOLDER  where the gates of `gate NAME` are",
    "--script": "FILE  play its lines, one a prompt (the last one again), whatever the prompts say",
    "--start": "STEPS  do this before the first prompt",
    "--lifetime": "SECONDS  die after so long (default: never)",
    "--traps": "NAME,...  for --acp, see below",
    "--resume": "ID  go on with that session",
    "--session-id": "ID  the name of a new session",
}
_FLAGS: Final = {
    "--stale-resume": "  know no session that is to be resumed",
    "--two-escapes": "  for --tui: the first Escape asks for a second one, and two that come together are one",
    "--replay-user-messages": "  for --stream-json: repeat each prompt on the output",
    "--whole-messages": "  for --stream-json: no partial messages",
}


class Options(NamedTuple):
    """What the command line says. `rest` is what is not ours."""

    face: str
    values: dict[str, str]
    flags: frozenset[str]
    rest: tuple[str, ...]

    @property
    def traps(self) -> frozenset[str]:
        return frozenset(name for name in self.values.get("--traps", "").split(",") if name)


def read_options(arguments: Sequence[str]) -> Options:
    """Read a command line. It ends the process for one that cannot be meant."""
    face, values, flags, rest = TUI, dict[str, str](), set[str](), list[str]()
    words = iter(arguments)
    for word in words:
        name, is_joined, value = word.partition("=")
        if word in _FACES:
            face = _FACES[word]
        elif name in _VALUES:
            values[name] = value if is_joined else next(words, "")
        elif word in _FLAGS:
            flags.add(word)
        elif word in ("-h", "--help"):
            sys.stdout.write(_help())
            raise SystemExit(0)
        else:
            rest.append(word)
    options = Options(face, values, frozenset(flags), tuple(rest))
    if unknown := options.traps - TRAPS.keys():
        raise SystemExit(f"--traps: there is no {', '.join(sorted(unknown))}; there are {', '.join(TRAPS)}")
    return options


def _help() -> str:
    parts = ["python -m interlock.testing.scripted_agent [--tui | --stream-json | --acp] [OPTIONS]", "", "Options:"]
    parts += [f"  {name} {text}" for name, text in (_VALUES | _FLAGS).items()]
    parts += ["", "A script is steps, split by `;`:", *(f"  {verb} {text}" for verb, text in VERBS.items())]
    parts += ["", "Traps:", *(f"  {name}  {text}" for name, text in TRAPS.items())]
    return "\n".join(parts) + "\n"
