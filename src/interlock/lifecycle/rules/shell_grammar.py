"""Reads a shell command by a closed grammar: what is not in it is opaque.

    command    = list, of simple commands with && || ; | or a line end between them
    simple     = { NAME=word } word { word }
    word       = of A-Za-z0-9_-./:,+@%= and of '...' and "..."; in double quotes no $ ` \\ !
    redirect   = 2>&1  1>&2  >&2  >/dev/null  1>/dev/null  2>/dev/null

Laws:
1. What is read is what bash runs: these words, of these commands, and no others. In doubt it is opaque.
2. Opaque is never guessed at: substitutions, variables, globs, tildes, braces, backslashes, comments, here-documents,
   other redirections, jobs, reserved words, control characters and everything longer than 4,096 characters.
3. One pass: each step moves forward, and there are no regular expressions on what an agent wrote.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

MAX_COMMAND_CHARACTERS: Final = 4096
_NAME_START: Final = frozenset(string.ascii_letters + "_")
_NAME: Final = _NAME_START | frozenset(string.digits)
_PLAIN: Final = _NAME | frozenset("-./:,+@%=")
_NOT_IN_DOUBLE_QUOTES: Final = frozenset("$`\\!")
_BLANKS: Final = " \t"
_ENDS_WORD: Final = frozenset(" \t\n;|&><")
_CONTINUES: Final = ("&&", "||", "|")
_REDIRECTIONS: Final = (">/dev/null", "1>/dev/null", "2>/dev/null", "> /dev/null", "1> /dev/null", "2> /dev/null")
_DUPLICATIONS: Final = ("2>&1", "1>&2", ">&2")
RESERVED: Final = frozenset(
    {"if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "select", "function"}
    | {"time", "coproc", "in", "end", "foreach", "repeat", "nocorrect", "noglob"}
)
_SHELLS: Final = frozenset({"bash", "sh", "zsh", "dash"})
_SHELL_FLAGS: Final = frozenset({"-c", "-lc"})


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """A program and its words as bash gives them to it, with the variables that are set for it alone."""

    words: tuple[str, ...]
    variables: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Opaque:
    """A command that is not read: why, and at which character (the first is 0)."""

    reason: str
    at: int = 0

    def __str__(self) -> str:
        return f"{self.reason} at {self.at}"


Reading: TypeAlias = tuple[SimpleCommand, ...] | Opaque


class _NotRead(Exception):
    def __init__(self, reason: str, at: int) -> None:
        super().__init__(reason)
        self.found = Opaque(reason, at)


def read_command(text: str) -> Reading:
    """The simple commands of a text. A shell that is given one text (`bash -lc '...'`) is read once, for that text."""
    found = _read(text)
    if isinstance(found, Opaque) or len(found) != 1 or found[0].variables:
        return found
    return read_words(found[0].words)


def read_words(words: Sequence[str]) -> Reading:
    """The simple commands of an argument list that is run without a shell, or with exactly one."""
    if len(words) == 3 and words[0].rpartition("/")[2] in _SHELLS and words[1] in _SHELL_FLAGS:
        is_known = words[0] in _SHELLS or words[0].rpartition("/")[0] in ("/bin", "/usr/bin")
        return _read(words[2]) if is_known else Opaque("a shell of another folder")
    return (SimpleCommand(tuple(words)),) if words else Opaque("no command")


def _read(text: str) -> Reading:
    try:
        return _Reader(text).commands()
    except _NotRead as wrong:
        return wrong.found


@dataclass(slots=True)
class _Part:
    """The simple command that is being read."""

    words: list[str] = field(default_factory=list)
    variables: list[tuple[str, str]] = field(default_factory=list)
    has_begun: bool = False


class _Reader:
    """A place in the text, which only moves forward."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._part = _Part()
        self._found: list[SimpleCommand] = []
        self._last = "\n"

    def commands(self) -> Reading:
        self._refuse_characters()
        while self._at < len(self._text):
            before = self._at
            self._take()
            if self._at <= before:
                raise AssertionError("the reader stands still")
        if self._part.has_begun:
            self._end_part()
        elif self._last in _CONTINUES:
            raise _NotRead("nothing after an operator", self._at)
        return tuple(self._found) or Opaque("no command", 0)

    def _refuse_characters(self) -> None:
        if len(self._text) > MAX_COMMAND_CHARACTERS:
            raise _NotRead(f"longer than {MAX_COMMAND_CHARACTERS} characters", MAX_COMMAND_CHARACTERS)
        for at, character in enumerate(self._text):
            if not character.isprintable() and character not in "\t\n":
                raise _NotRead("a control character", at)

    def _take(self) -> None:
        character = self._text[self._at]
        if character in _BLANKS:
            self._at += 1
        elif character == "\n":
            self._line_end()
        elif character in ";|&":
            self._operator()
        elif redirection := self._redirection():
            self._part.has_begun = True
            self._at += len(redirection)
        elif character in "<>":
            raise _NotRead("a redirection", self._at)
        else:
            self._word()

    def _line_end(self) -> None:
        self._at += 1
        if self._part.has_begun:
            self._end_part()
            self._last = "\n"

    def _operator(self) -> None:
        text, at = self._text, self._at
        sign = text[at : at + 2] if text[at : at + 2] in ("&&", "||") else text[at]
        if sign == "&":
            raise _NotRead("a job or a redirection", at)
        if text[at + len(sign) : at + len(sign) + 1] in ("|", "&", ";"):
            raise _NotRead("an operator that is not read", at)
        if not self._part.has_begun:
            raise _NotRead("nothing before an operator", at)
        self._end_part()
        self._at, self._last = at + len(sign), sign

    def _redirection(self) -> str:
        for one in (*_REDIRECTIONS, *_DUPLICATIONS):
            if self._text.startswith(one, self._at):
                after = self._text[self._at + len(one) : self._at + len(one) + 1]
                if not after or after in " \t\n;|":
                    return one
        return ""

    def _word(self) -> None:
        start = self._at
        raw, value, is_quoted = "", "", False
        while self._at < len(self._text) and self._text[self._at] not in _ENDS_WORD:
            character = self._text[self._at]
            if character in "'\"":
                is_quoted, value = True, value + self._quoted(character)
                continue
            if character not in _PLAIN:
                raise _NotRead(_named(character), self._at)
            raw, value = raw if is_quoted else raw + character, value + character
            self._at += 1
        following = self._text[self._at : self._at + 1]
        if following in ("<", ">") and following and value.isdigit():
            raise _NotRead("a redirection", start)
        self._keep(start, raw, value, is_quoted=is_quoted)

    def _quoted(self, mark: str) -> str:
        start, self._at = self._at, self._at + 1
        while self._at < len(self._text) and self._text[self._at] != mark:
            character = self._text[self._at]
            if character == "\n":
                raise _NotRead("a line end in quotes", self._at)
            if mark == '"' and character in _NOT_IN_DOUBLE_QUOTES:
                raise _NotRead(f"{_named(character)} in quotes", self._at)
            self._at += 1
        if self._at == len(self._text):
            raise _NotRead("a quote that is not closed", start)
        self._at += 1
        return self._text[start + 1 : self._at - 1]

    def _keep(self, start: int, raw: str, value: str, *, is_quoted: bool) -> None:
        """Take down a word, or a variable where it stands before the program. `raw`: what stood before any quote."""
        part, (name, sign, _) = self._part, raw.partition("=")
        part.has_begun = True
        if raw.startswith("=") or "==" in raw:
            raise _NotRead("a word that zsh expands", start)
        is_name = bool(name) and name[0] in _NAME_START and all(one in _NAME for one in name)
        if not part.words and sign and is_name:
            part.variables.append((name, value[len(name) + 1 :]))
        elif not part.words and sign and name.endswith("+"):
            raise _NotRead("an assignment that appends", start)
        elif not part.words and (value in RESERVED or value.startswith("%") or not value):
            raise _NotRead(f"the word {value!r} as a command", start)
        else:
            part.words.append(value)

    def _end_part(self) -> None:
        part = self._part
        if not part.words:
            raise _NotRead("a command without a program", self._at)
        self._found.append(SimpleCommand(tuple(part.words), tuple(part.variables)))
        self._part = _Part()


_NAMES: Final = {
    "$": "a variable or substitution",
    "`": "a substitution",
    "\\": "a backslash",
    "!": "an exclamation mark",
    "*": "a glob",
    "?": "a glob",
    "[": "a glob",
    "]": "a glob",
    "~": "a tilde",
    "{": "a brace",
    "}": "a brace",
    "(": "a bracket",
    ")": "a bracket",
    "#": "a comment",
}


def _named(character: str) -> str:
    return _NAMES.get(character, "a character that is not read")
