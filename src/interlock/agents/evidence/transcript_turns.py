"""What a transcript tells of turns: the words common to every CLI's, and the turns folded from them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Protocol, TypeAlias

from interlock.agents.observations import (
    MessageEnded,
    Observation,
    TextArrived,
    ThoughtArrived,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    TurnEnding,
)

KEPT_TURNS: Final = 64
CLOCK_SECONDS: Final = 0.5
"""How far the date of a line may lie before the moment that it is of: clocks are set, and dates are rounded."""
_PROGRESS: Final = (TextArrived, MessageEnded, ThoughtArrived, ToolCalled, ToolReturned)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSeen:
    """A prompt stands in the transcript. `is_human` is False where nobody gave it (the end of a background task).

    `joins`: it was taken into the turn that was running, and begins none. `native_turn_id` is the agent's own name.
    `at_unix_seconds`: when, as its line is dated; None where it is not.
    """

    text: str
    native_turn_id: str = ""
    is_human: bool = True
    joins: bool = False
    at_unix_seconds: float | None = None


TranscriptNews: TypeAlias = PromptSeen | Observation


def unix_seconds(timestamp: str) -> float | None:
    """When a line was written, by its ISO 8601 date; None where it has none with a zone."""
    try:
        at = datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    return None if at.tzinfo is None else at.timestamp()


class TranscriptParser(Protocol):
    """Reads one transcript, line by line, in order. It never raises, and is thrown away when the file begins anew."""

    def feed(self, line: bytes) -> list[TranscriptNews]:
        """What the line tells."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptTurn:
    """One turn as far as the transcript tells it. `number` counts the turns of the file, from 1.

    `answer` is all text after the last tool result: the whole answer once `ending` is natural, a partial one else.
    `ending` is None while nothing says how the turn ended. `open_calls`: the tools that did not return, by id and name.
    """

    number: int
    prompts: tuple[str, ...]
    native_turn_id: str = ""
    is_human: bool = True
    answer: str = ""
    ending: TurnEnding | None = None
    error_message: str = ""
    open_calls: tuple[tuple[str, str], ...] = ()
    last_message_id: str = ""
    began_unix_seconds: float | None = None

    def is_of(self, prompt: str) -> bool:
        """Whether the turn belongs to this prompt. Blanks do not count: a terminal may break lines elsewhere."""
        wanted = " ".join(prompt.split())
        return any(" ".join(one.split()) == wanted for one in self.prompts)


class TranscriptTurns:
    """The last turns of a transcript, oldest first; the newest may be open. `steps` counts what shows progress."""

    def __init__(self) -> None:
        self.turns: list[TranscriptTurn] = []
        self.last_number = 0
        self.steps = 0

    def add(self, news: Iterable[TranscriptNews]) -> None:
        for one in news:
            self._take(one)
        del self.turns[:-KEPT_TURNS]

    def turn_of(self, prompt: str, *, after: int = 0, since_unix_seconds: float | None = None) -> TranscriptTurn | None:
        """The newest turn that belongs to this prompt, of those with a higher number than `after`.

        The same words may have been said before: note `last_number` before a prompt is given, and ask for what came
        after it. A prompt that joined a running turn is then not found, as that turn is older. In a file of which no
        number was noted, `since_unix_seconds` leaves out what began earlier, and what does not say when it began.
        """
        of_prompt = (turn for turn in reversed(self.turns) if turn.is_of(prompt) and turn.number > after)
        return next((turn for turn in of_prompt if _began_since(turn, since_unix_seconds)), None)

    def _take(self, news: TranscriptNews) -> None:
        self.steps += isinstance(news, _PROGRESS)
        if isinstance(news, PromptSeen) and not news.joins:
            self.last_number += 1
            name, is_human = news.native_turn_id, news.is_human
            self.turns.append(
                TranscriptTurn(
                    number=self.last_number,
                    prompts=(news.text,),
                    native_turn_id=name,
                    is_human=is_human,
                    began_unix_seconds=news.at_unix_seconds,
                )
            )
        elif self.turns and self.turns[-1].ending is None:
            self.turns[-1] = _advance(self.turns[-1], news)


def _began_since(turn: TranscriptTurn, since: float | None) -> bool:
    if since is None:
        return True
    return turn.began_unix_seconds is not None and turn.began_unix_seconds >= since - CLOCK_SECONDS


def _without(turn: TranscriptTurn, call: str) -> tuple[tuple[str, str], ...]:
    return tuple(one for one in turn.open_calls if one[0] != call)


def _advance(turn: TranscriptTurn, news: TranscriptNews) -> TranscriptTurn:
    match news:
        case PromptSeen(text=text):
            return replace(turn, prompts=(*turn.prompts, text))
        case (
            MessageEnded(sub_agent="", text=text, message_id=name)
            | TextArrived(sub_agent="", text=text, message_id=name)
        ):
            is_same = bool(name) and name == turn.last_message_id
            joint = "" if is_same or not turn.answer else "\n\n"
            return replace(turn, answer=f"{turn.answer}{joint}{text}", last_message_id=name)
        case ToolCalled(sub_agent="", call_id=call, name=name):
            return replace(turn, open_calls=(*_without(turn, call), (call, name)))
        case ToolReturned(sub_agent="", call_id=call):
            return replace(turn, open_calls=_without(turn, call), answer="", last_message_id="")
        case TurnEnded(ending=ending, error_message=message):
            return replace(turn, ending=ending, error_message=message)
        case _:
            return turn
