"""Plays a script on a face that speaks in lines."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from interlock.testing.scripted_agent import deeds
from interlock.testing.scripted_agent.face import AgentAnswer, Face, FaceInterrupted, FaceUsage
from interlock.testing.scripted_agent.gates import LOOK_EVERY_SECONDS, Gates
from interlock.testing.scripted_agent.language import Step, ToolUse, number, seconds_and_text, tool_use


class _TurnOver(Exception):
    """A step ended the turn."""


class AgentPlayer:
    """Plays one turn after the other. What a turn leaves open stays open: that is the point of it."""

    def __init__(self, face: Face, gates: Gates | None = None) -> None:
        self._face = face
        self._gates = gates
        self._pace_seconds = 0.0
        self._open_calls: list[tuple[str, ToolUse]] = []
        self._background: list[str] = []

    def play(self, steps: Sequence[Step]) -> None:
        """Do every step, and end the turn, unless a step has done so."""
        self._pace_seconds, self._open_calls = 0.0, []
        try:
            for step in steps:
                _DEEDS[step.verb](self, step.rest)
                self._face.wait(0)
            if self._face.is_in_turn:
                self._face.done()
        except _TurnOver:
            pass
        except FaceInterrupted:
            self._face.interrupted()
        self._face.is_in_turn = False

    def think(self, rest: str) -> None:
        seconds, text = seconds_and_text(rest, 1.0)
        self._face.think(text or "Let me think.")
        self._face.wait(seconds)

    def say(self, rest: str) -> None:
        pieces = [f"{word} " for word in rest.split(" ")]
        pieces[-1] = pieces[-1][:-1]
        for piece in pieces:
            self._delta(piece)

    def words(self, rest: str) -> None:
        for at in range(number(rest, 1)):
            self._delta(f"word{at} ")

    def _delta(self, text: str) -> None:
        if self._pace_seconds:
            self._face.wait(self._pace_seconds)
        self._face.say(text)

    def pace(self, rest: str) -> None:
        self._pace_seconds = seconds_and_text(rest, 0.0)[0]

    def call(self, rest: str) -> None:
        self.begin(rest)
        self._return(*self._open_calls.pop())

    def request(self, rest: str) -> None:
        use = tool_use(rest)
        call_id = self._face.call(use, asks=True)
        self._open_calls.append((call_id, use))
        answer = self._face.approve(call_id, use)
        self._open_calls.pop()
        refusal = use._replace(output=answer.text or "The user refused.", is_error=True)
        self._return(call_id, use if answer.is_allowed else refusal)
        self._obey(answer)

    def begin(self, rest: str) -> None:
        use = tool_use(rest)
        self._open_calls.append((self._face.call(use, asks=False), use))

    def finish(self, rest: str) -> None:
        wanted = tool_use(rest)
        is_named = bool(rest.partition("->")[0].strip())
        for at, (call_id, use) in enumerate(self._open_calls):
            if not is_named or use.name == wanted.name:
                del self._open_calls[at]
                self._return(call_id, use._replace(output=wanted.output, is_error=wanted.is_error))
                return

    def _return(self, call_id: str, use: ToolUse) -> None:
        self._face.returned(call_id, use)

    def ask(self, rest: str) -> None:
        question, *options = [part.strip() for part in rest.split("|")]
        self._obey(self._face.ask(question or "Go on?", options or ["Yes", "No"]))

    def _obey(self, answer: AgentAnswer) -> None:
        if answer.ends_turn:
            raise FaceInterrupted

    def gate(self, rest: str) -> None:
        gates = self._gates
        if gates is None:
            raise SystemExit("gate: there is no folder of gates; give --gates FOLDER")
        gates.reach(rest)
        self._face.wait(until=lambda: gates.is_open(rest), look_every_seconds=LOOK_EVERY_SECONDS)

    def retry(self, rest: str) -> None:
        self._face.retry(rest or "Overloaded")

    def fail(self, rest: str) -> None:
        self._face.failed(rest or "it failed")
        raise _TurnOver

    def result(self, rest: str) -> None:
        word, _, text = rest.partition(" ")
        self._face.ended_as(word, text)
        raise _TurnOver

    def silent(self, _rest: str) -> None:
        raise _TurnOver

    def end(self, _rest: str) -> None:
        self._face.done()

    def background(self, rest: str) -> None:
        self._background.append(rest or "work")
        self._face.background(self._background)

    def settled(self, rest: str) -> None:
        self._background = [name for name in self._background if name != (rest or "work")]
        self._face.background(self._background)

    def relay(self, rest: str) -> None:
        call_id, _, text = rest.partition(" ")
        self._face.relay(call_id, text)

    def use(self, rest: str) -> None:
        figures = [float(word) for word in rest.split()]
        self._face.usage = FaceUsage(*[int(figure) for figure in figures[:2]], *figures[2:3])

    def hang(self, _rest: str) -> None:
        self._face.wait()

    def deaf(self, _rest: str) -> None:
        while True:
            signal.pause()

    def cut(self, rest: str) -> None:
        self._face.wire.cut_with = number(rest, 0)
        self._face.say("and this is cut in the middle of a line")

    def exit(self, rest: str) -> None:
        os._exit(number(rest, 0))

    def spawn(self, rest: str) -> None:
        deeds.spawn(rest, self._face.ledger)

    def raw(self, rest: str) -> None:
        self._face.wire.write(rest.encode() + b"\n")

    def garbage(self, rest: str) -> None:
        self._face.wire.write(deeds.garbage(number(rest, 1000)))

    def big(self, rest: str) -> None:
        self._face.say("ä" * (number(rest, 1_000_000) // 2))

    def split(self, rest: str) -> None:
        self._face.wire.byte_seconds = self._pace_seconds
        self._face.say(rest)
        self._face.wire.byte_seconds = None


_DEEDS: Final[Mapping[str, Callable[[AgentPlayer, str], None]]] = {
    "think": AgentPlayer.think,
    "say": AgentPlayer.say,
    "words": AgentPlayer.words,
    "pace": AgentPlayer.pace,
    "call": AgentPlayer.call,
    "request": AgentPlayer.request,
    "begin": AgentPlayer.begin,
    "finish": AgentPlayer.finish,
    "ask": AgentPlayer.ask,
    "gate": AgentPlayer.gate,
    "retry": AgentPlayer.retry,
    "fail": AgentPlayer.fail,
    "result": AgentPlayer.result,
    "silent": AgentPlayer.silent,
    "end": AgentPlayer.end,
    "background": AgentPlayer.background,
    "settled": AgentPlayer.settled,
    "relay": AgentPlayer.relay,
    "usage": AgentPlayer.use,
    "hang": AgentPlayer.hang,
    "deaf": AgentPlayer.deaf,
    "cut": AgentPlayer.cut,
    "crash": lambda _player, rest: deeds.crash(rest),
    "exit": AgentPlayer.exit,
    "ignore": lambda _player, rest: deeds.ignore(rest),
    "spawn": AgentPlayer.spawn,
    "stderr": lambda _player, rest: deeds.make_noise(rest),
    "raw": AgentPlayer.raw,
    "garbage": AgentPlayer.garbage,
    "big": AgentPlayer.big,
    "split": AgentPlayer.split,
    "#": lambda _player, _rest: None,
}
