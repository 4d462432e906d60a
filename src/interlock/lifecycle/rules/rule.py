"""One rule, and which commands and calls it is about.

    command = ["git", ["status", "log"], "*", "..."]     a word; one of these; any one word; the rest, at the end

Laws:
1. `allow` is about exactly the words that it names: no other folder of a program, no flag that it excludes, no variable
   that it does not list. `*` stands for one word that is no flag.
2. `deny` and `ask` are wider: any folder of the program, any variables before it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Final, TypeAlias

from interlock.lifecycle.rules.hazards import has_flag, is_protected, program_of, sharp_flag
from interlock.lifecycle.rules.shell_grammar import SimpleCommand
from interlock.vocabulary.events.audit import PermissionBehavior
from interlock.vocabulary.events.registry import Json

Token: TypeAlias = str | tuple[str, ...]
ONE: Final = "*"
REST: Final = "..."
WORKTREE: Final = "worktree"


class Layer(StrEnum):
    """Whose file a rule is from."""

    USER = "user"
    PROJECT = "project"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRule:
    """A rule as its file has it. Without `command` it is about calls of a tool; `paths` are the folders that an allowed
    file tool may change. `within`: only in a session with a worktree of its own. `expires`: the first day on which it
    does not hold any more."""

    id: str
    then: PermissionBehavior
    tool: tuple[str, ...] = ()
    command: tuple[Token, ...] = ()
    flags: tuple[str, ...] = ()
    not_flags: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    within: str = ""
    because: str = ""
    expires: date | None = None
    match: tuple[str, ...] = ()
    not_match: tuple[str, ...] = ()

    @property
    def is_allow(self) -> bool:
        return self.then is PermissionBehavior.ALLOW

    def holds(self, agent: str, today: date, *, is_in_worktree: bool) -> bool:
        """Whether it is in force for an agent on a day."""
        is_meant = (not self.agents or agent in self.agents) and (not self.within or is_in_worktree)
        return is_meant and (self.expires is None or today < self.expires)

    def names_tool(self, tool: str) -> bool:
        return tool.casefold() in {one.casefold() for one in self.tool}

    def covers(self, command: SimpleCommand) -> bool:
        """Whether it is about a simple command."""
        words = command.words
        if not self.is_allow:
            words = (program_of(words[0]), *words[1:])
        if not self.command or not _tokens_cover(self.command, words):
            return False
        if self.flags and not has_flag(words[1:], self.flags):
            return False
        if has_flag(words[1:], self.not_flags):
            return False
        return not self.is_allow or (self._takes_variables(command) and not self._is_sharp(command))

    def _takes_variables(self, command: SimpleCommand) -> bool:
        return all(self._takes(name, value) for name, value in command.variables)

    def _takes(self, name: str, value: str) -> bool:
        return f"{name}={value}" in self.env or f"{name}=*" in self.env

    def _is_sharp(self, command: SimpleCommand) -> bool:
        is_open = REST in self.command or ONE in self.command
        return is_open and bool(sharp_flag(command))


def _tokens_cover(tokens: Sequence[Token], words: Sequence[str]) -> bool:
    is_open = tokens[-1] == REST
    fixed = tokens[:-1] if is_open else tokens
    if len(words) < len(fixed) or (not is_open and len(words) != len(fixed)):
        return False
    return all(_token_covers(token, word) for token, word in zip(fixed, words, strict=False))


def _token_covers(token: Token, word: str) -> bool:
    if isinstance(token, tuple):
        return word in token
    return not word.startswith("-") if token == ONE else word == token


# Calls of tools that read or change files: which of them a rule without a command may allow.

READING_TOOLS: Final = frozenset(
    {"read", "grep", "glob", "ls", "list", "read_file", "read_many_files", "list_directory", "grep_search", "search"}
    | {"find_files", "file_search", "list_files"}
)
_PATH_FIELDS: Final = ("path", "file_path", "filepath", "filePath", "absolute_path", "notebook_path", "dir_path")
_MAX_DEPTH: Final = 20


def is_file_call_allowed(rule: TokenRule, arguments: Json, folder: str) -> str:
    """Why a rule may not allow a call after all; blank: it may. Every path has to stand in the call, whole."""
    texts = list(_texts(arguments))
    protected = next((text for name, text in texts if name in _PATH_FIELDS and is_protected(text)), "")
    if protected:
        return f"{protected!r} is a protected place"
    if not rule.paths:
        return ""
    paths = named_paths(arguments)
    if not paths:
        return "the call names no path"
    outside = next((path for path in paths if not _is_under(path, rule.paths, folder)), "")
    return f"{outside!r} is not in {', '.join(rule.paths)}" if outside else ""


def named_paths(arguments: Json) -> tuple[str, ...]:
    """Every path that a call names."""
    return tuple(text for name, text in _texts(arguments) if name in _PATH_FIELDS)


def _is_under(path: str, allowed: tuple[str, ...], folder: str) -> bool:
    if ".." in path.split("/") or not folder.startswith("/"):
        return False
    whole = posixpath.normpath(posixpath.join(folder, path))
    roots = [posixpath.normpath(posixpath.join(folder, one)) for one in allowed]
    return any(whole.startswith(root.rstrip("/") + "/") for root in roots)


def _texts(value: Json, name: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from _texts(one, key, depth + 1)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one, name, depth + 1)
