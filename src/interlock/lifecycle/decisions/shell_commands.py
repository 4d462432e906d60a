"""Shell commands, as far as a permission rule may read them: one simple command, split into its words.

Laws:
1. A simple command is a program and its words. Lists, pipes, redirections, substitutions, variables, assignments,
   comments, compound commands and anything that cannot be read are none: `simple_command` gives None.
2. Words are compared one by one. A `*` within a word stays within it; one that is a word of its own stands for one
   word, and at the end for any number of them, also none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

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
_OPERATORS: Final = frozenset(";&|<>()`$\n\r")
_RESERVED: Final = frozenset(
    {"if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "select", "function"}
    | {"time", "coproc", "eval", "exec", "source", ".", "{", "}", "[[", "!"}
)
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")


def is_shell_tool(name: str) -> bool:
    """Whether a tool of this name runs commands of a shell."""
    return name.casefold() in SHELL_TOOLS


def simple_command(text: str) -> tuple[str, ...] | None:
    """The words of one simple command; None for everything else. Law 1."""
    words = _words(text)
    if not words or words[0] in _RESERVED or _ASSIGNMENT.match(words[0]):
        return None
    return words


_PLAIN: Final = r"[^\s'\"\\;&|<>()`$#]"
_WORD: Final = re.compile(rf"""(?:{_PLAIN}|(?<=\S)\#|\\[^\n]|'[^'\n]*'|"(?:[^"\\`$\n]|\\[^\n])*")+""")
_PART: Final = re.compile(r"""'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)|([^'"\\]+)""")
_IN_QUOTES: Final = re.compile(r'\\([\\"`$])')


def _words(text: str) -> tuple[str, ...] | None:
    words: list[str] = []
    if not all(character.isprintable() or character == "\t" for character in text):
        return None
    rest = text.strip(" \t")
    while rest:
        found = _WORD.match(rest)
        if found is None or (found.end() < len(rest) and rest[found.end()] not in " \t"):
            return None
        words.append("".join(map(_unquoted, _PART.finditer(found[0]))))
        rest = rest[found.end() :].lstrip(" \t")
    return tuple(words)


def _unquoted(part: re.Match[str]) -> str:
    single, double, escaped, plain = part.groups()
    if double is not None:
        return _IN_QUOTES.sub(r"\1", double)
    return next(text for text in (single, escaped, plain) if text is not None)


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
