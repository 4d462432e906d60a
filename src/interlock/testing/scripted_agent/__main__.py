"""Run a scripted agent: `python -m interlock.testing.scripted_agent --help`."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from interlock.testing.scripted_agent.acp import Acp
from interlock.testing.scripted_agent.face import AgentWire, Face
from interlock.testing.scripted_agent.gates import Gates
from interlock.testing.scripted_agent.language import ScriptBook, steps_of
from interlock.testing.scripted_agent.ledger import Ledger
from interlock.testing.scripted_agent.options import ACP, TUI, Options, read_options
from interlock.testing.scripted_agent.player import AgentPlayer
from interlock.testing.scripted_agent.stream_json import StreamJson


def main(arguments: Sequence[str]) -> int:
    """Play until the client hangs up, or the script says otherwise."""
    options = read_options(arguments)
    ledger = Ledger(options.values.get("--ledger"))
    ledger.record("start", face=options.face, argv=list(arguments), resume=options.values.get("--resume"))
    gates = Gates(options.values["--gates"]) if "--gates" in options.values else None
    _live(options)
    if options.face == TUI:
        # Imported here: it costs a stream face a third of its start.
        from interlock.testing.scripted_agent import tui

        start = steps_of(options.values.get("--start", ""))
        is_slow = "--two-escapes" in options.flags
        agent = tui.Agent(ledger=ledger, gates=gates, book=_book(options), steps=start, needs_two_escapes=is_slow)
        return tui.run(agent)
    if options.face != ACP and "--resume" in options.values and "--stale-resume" in options.flags:
        sys.stderr.write(f"No conversation found with session ID: {options.values['--resume']}\n")
        return 1
    face = _face(options, ledger)
    return _serve(face, AgentPlayer(face, gates), options)


def _live(options: Options) -> None:
    """Bound the life where a test asks for it, so that none is left behind by a test that was killed."""
    signal.alarm(int(options.values.get("--lifetime", 0)))


def _book(options: Options) -> ScriptBook:
    path = options.values.get("--script")
    if path is None:
        return ScriptBook()
    from pathlib import Path

    return ScriptBook(Path(path).read_text(encoding="utf-8"))


def _face(options: Options, ledger: Ledger) -> Face:
    if options.face == ACP:
        return Acp(AgentWire(), ledger, traps=options.traps, is_stale="--stale-resume" in options.flags)
    return StreamJson(
        AgentWire(),
        ledger,
        session_id=options.values.get("--resume") or options.values.get("--session-id") or "",
        replays="--replay-user-messages" in options.flags,
        is_partial="--whole-messages" not in options.flags,
    )


def _serve(face: Face, player: AgentPlayer, options: Options) -> int:
    book = _book(options)
    # As the real ones: TERM ends it without a word, by an exit code and not by the signal.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(128 + signal.SIGTERM))
    try:
        player.play(steps_of(options.values.get("--start", "")))
        while True:
            face.wait(until=lambda: bool(face.prompts) or face.wire.is_closed)
            if not face.prompts:
                return 0
            prompt = face.prompts.popleft()
            face.begin(prompt)
            player.play(book.steps_for(prompt.text))
    except KeyboardInterrupt:
        if face.is_in_turn:
            face.interrupted()
        return 0
    except BrokenPipeError:
        return 1


if __name__ == "__main__":
    # Without the interpreter's own clean-up: there is nothing to clean, and hundreds of these are started at once.
    code = 128 + signal.SIGINT
    try:
        code = main(sys.argv[1:])
    except KeyboardInterrupt:  # as the interpreter ends by it, but without a traceback as the last screen of a terminal
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    sys.stderr.flush()
    os._exit(code)
