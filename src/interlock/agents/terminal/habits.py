"""What a profile does not describe: the keys that interrupt and leave each CLI, and how it takes arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from interlock.vocabulary.errors import UsageError

Arguments: TypeAlias = Callable[[str], tuple[str, ...]]


def _resume_option(session_id: str) -> tuple[str, ...]:
    return "--resume", session_id


def _session_option(session_id: str) -> tuple[str, ...]:
    return "--session", session_id


def _resume_command(session_id: str) -> tuple[str, ...]:
    return "resume", session_id


@dataclass(frozen=True, slots=True)
class Habits:
    """`interrupt` ends a turn and leaves the CLI there. `quit` ends an idle CLI with an empty composer.

    `resume` gives the words that follow the program to take up an old session; None: it has none that we know.
    """

    interrupt: tuple[str, ...] = ("Escape",)
    quit: tuple[str, ...] = ()
    resume: Arguments | None = None
    takes_model: bool = False


_PLAIN: Final = Habits(interrupt=("C-c",))
_HABITS: Final[Mapping[str, Habits]] = {
    "claude": Habits(quit=("C-d", "C-d"), resume=_resume_option, takes_model=True),
    "codex": Habits(quit=("C-d",), resume=_resume_command, takes_model=True),
    "gemini": Habits(resume=_resume_option, takes_model=True),
    "qwen": Habits(resume=_resume_option, takes_model=True),
    # The first Escape only asks for the second.
    "opencode": Habits(interrupt=("Escape", "Escape"), resume=_session_option, takes_model=True),
    "pi": Habits(resume=_session_option, takes_model=True),
    "vibe": Habits(),
    "aider": Habits(interrupt=("C-c",), quit=("C-d",), takes_model=True),
    "scripted": Habits(quit=("C-d",)),
}


def habits_of(cli: str) -> Habits:
    """The habits of a CLI. One that we do not know is interrupted as any program in a terminal is."""
    return _HABITS.get(cli, _PLAIN)


def with_arguments(argv: tuple[str, ...], program_words: int, cli: str, *, model: str, resume: str) -> tuple[str, ...]:
    """The command line with the model and the session to take up, right behind the program itself."""
    habits = habits_of(cli)
    added: tuple[str, ...] = ()
    if resume:
        if habits.resume is None:
            raise UsageError(f"{cli} cannot resume a session in a terminal", remedy="start it without a session id")
        added = habits.resume(resume)
    if model:
        if not habits.takes_model:
            raise UsageError(f"how {cli} is told its model is not known", remedy="give it among the arguments")
        added += ("--model", model)
    return (*argv[:program_words], *added, *argv[program_words:])
