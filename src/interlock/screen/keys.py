"""What a profile says about acting on its CLI: the keys that submit, interrupt and quit, and its arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from interlock.screen.conditions import Condition

KEY_NAME: Final = re.compile(
    r"(?:[CMS]-)*(?:Enter|Escape|Tab|BTab|BSpace|Space|Up|Down|Left|Right|Home|End|PageUp|PageDown|DC|IC|F[1-9][0-2]?"
    r"|[!-~])"
)
"""A key as tmux names it. tmux types out a name that it does not know."""
SESSION: Final = "{session}"
MODEL: Final = "{model}"


@dataclass(frozen=True, slots=True)
class KeyStep:
    """One key, and what is looked for after it.

    `when`: the screen must show this, or the step is left out. `shows`: what the key must bring onto the screen within
    `within_seconds`; if it does not, the steps begin again with the first. Without `shows`, that is how long the key
    has to end the turn before the next step. `pause_seconds`: how long the next key waits.
    """

    press: str
    when: tuple[Condition, ...] = ()
    shows: tuple[Condition, ...] = ()
    within_seconds: float = 3.0
    pause_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Keys:
    """`interrupt` ends a turn and leaves the CLI running; a program that nobody knows better is sent Ctrl-C. `quit`
    ends an idle CLI whose composer is empty; without steps it is ended as a process. `submit` sends a prompt."""

    submit: str = "Enter"
    interrupt: tuple[KeyStep, ...] = (KeyStep("C-c"),)
    quit: tuple[KeyStep, ...] = ()


@dataclass(frozen=True, slots=True)
class Arguments:
    """The words behind the program that resume a session and that choose a model; none: it is not known how."""

    resume: tuple[str, ...] = ()
    model: tuple[str, ...] = ()

    def for_resume(self, session: str) -> tuple[str, ...]:
        return tuple(word.replace(SESSION, session) for word in self.resume)

    def for_model(self, model: str) -> tuple[str, ...]:
        return tuple(word.replace(MODEL, model) for word in self.model)


def next_step(steps: tuple[KeyStep, ...], after: int, holds: Callable[[Iterable[Condition]], bool]) -> int | None:
    """The number of the first step behind `after` whose `when` holds on the screen; None: there is none."""
    later = range(after + 1, len(steps))
    return next((number for number in later if not steps[number].when or holds(steps[number].when)), None)
