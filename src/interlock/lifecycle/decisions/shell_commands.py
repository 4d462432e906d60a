"""Shell commands, as far as a permission rule of a model may read them: one simple command, split into its words.

Laws:
1. A simple command is a program and its words, as the one grammar of `lifecycle.rules.shell_grammar` reads them. Lists,
   pipes, variables before a command and what that grammar calls opaque are none: `simple_command` gives None.
2. Words are compared one by one. A `*` within a word stays within it; one that is a word of its own stands for one
   word, and at the end for any number of them, also none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from interlock.lifecycle.rules.shell_grammar import Opaque, read_command

SHELL_TOOLS: Final = frozenset(
    {
        "bash",
        "shell",
        "sh",
        "zsh",
        "exec",
        "exec_command",
        "execute",
        "powershell",
        "pwsh",
        "shell_command",
        "run_shell_command",
        "local_shell",
        "terminal",
        "run_command",
    }
)
COMMAND_FIELDS: Final = frozenset({"command", "cmd", "script"})
_RUNS_ITS_WORDS: Final = frozenset({"eval", "exec", "source", "."})


def is_shell_tool(name: str) -> bool:
    """Whether a tool of this name runs commands of a shell."""
    return name.casefold() in SHELL_TOOLS


def simple_command(text: str) -> tuple[str, ...] | None:
    """The words of one simple command; None for everything else. Law 1."""
    found = read_command(text)
    if isinstance(found, Opaque) or len(found) != 1 or found[0].variables or found[0].words[0] in _RUNS_ITS_WORDS:
        return None
    return found[0].words


def words_match(pattern: Sequence[Sequence[str]], words: Sequence[str]) -> bool:
    """Whether the words of a command are those of a pattern, each given by its literal pieces. Law 2."""
    is_open = bool(pattern) and tuple(pattern[-1]) == ("", "")
    fixed = pattern[:-1] if is_open else pattern
    if len(words) < len(fixed) or (not is_open and len(words) != len(fixed)):
        return False
    return all(pieces_match(pieces, word) for pieces, word in zip(fixed, words, strict=False))


def pieces_match(pieces: Sequence[str], text: str) -> bool:
    """Whether a text is these literal pieces in this order, with any text between them."""
    first, last = pieces[0], pieces[-1]
    if len(pieces) == 1:
        return text == first
    at, end = len(first), len(text) - len(last)
    if at > end or not text.startswith(first) or not text.endswith(last):
        return False
    for piece in pieces[1:-1]:  # the leftmost place for each is enough: it leaves the most for the rest
        found = text.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def words_of_pattern(pieces: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """A pattern of a command, split at spaces into words, each as its literal pieces."""
    return tuple(tuple(word.split("\0")) for word in "\0".join(pieces).split(" ") if word)
