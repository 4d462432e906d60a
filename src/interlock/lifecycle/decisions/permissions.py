"""Which tool calls may run, which need a person, which never run; and what counts as a yes.

A rule is one line: `allow Read`, `ask mcp__*`, `deny Bash(command=rm *)`, `allow Fetch(method=GET,
url="https://a.b/*")`.

    rule    = ("allow" | "ask" | "deny") pattern [ "(" [ field { "," field } ] ")" [ "!" ] ]
    field   = name "=" pattern
    pattern = bare | '"' text '"'

In a pattern `*` is any run of characters, also none. A bare name ends at white space or at one of `( ) , = "`; a bare
field pattern may hold spaces and `=`, and is trimmed. Between quotes, a backslash goes before `*`, `"` and itself, and
`\\uXXXX` or `\\UXXXXXXXX` is a character by number. A field is an argument of the call, by name; one that is not a
string is matched by its canonical JSON. A `!` at the end means these arguments and no other: `allow Bash(command=ls)!`.

Laws:
1. `deny` beats `ask` beats `allow`; no rule means `ask`. How specific a rule is decides only which one is named.
2. A call without an id, or with arguments that cannot be read, is denied. What is not clearly a yes is a no.
3. Matching takes time in proportion to its input, whatever the pattern. There are no regular expressions for that
   reason: Python's cannot be bounded, and a gate that hangs is no gate.
4. A pattern matches text, case and all. An `allow` for a tool that is a shell is read word by word, and only of one
   simple command: `allow Bash(command=git *)` allows `git log`, and asks about `git log; rm -rf .`, `git $X` and
   `git log > f`. A rule without a `*` allows exactly its text. `deny` and `ask` match the whole text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from interlock.lifecycle.decisions.shell_commands import (
    COMMAND_FIELDS,
    is_shell_tool,
    pieces_match,
    simple_command,
    words_match,
    words_of_pattern,
)
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import PermissionBehavior
from interlock.vocabulary.events.registry import Json

MAX_RULE_LENGTH: Final = 4096
_EXAMPLES: Final = 'write it like `allow Read`, `ask mcp__*` or `deny Bash(command="rm *")`'
_SPACE: Final = re.compile(r" *")
_BEHAVIOR: Final = re.compile(r"(allow|ask|deny) +")
_BARE: Final = re.compile(r'([^\s(),="\\]+) *')
_BARE_FIELD: Final = re.compile(r'([^(),"\\]*[^(),"\\ ]) *')
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)" *')
_ATOM: Final = re.compile(
    r'\\(?P<self>[\\"*])|\\(?P<number>u[0-9A-Fa-f]{4}|U000[0-9A-Fa-f]{5}|U0010[0-9A-Fa-f]{4})|(?P<star>\*)|(?P<text>[^\\*]+)'
)


@dataclass(frozen=True, slots=True)
class Pattern:
    """Literal pieces in this order, with any text between them. One piece alone is matched exactly."""

    pieces: tuple[str, ...]

    @property
    def is_exact(self) -> bool:
        return len(self.pieces) == 1

    def matches(self, text: str) -> bool:
        return pieces_match(self.pieces, text)

    def __str__(self) -> str:
        text = "*".join("".join(map(_escaped, piece)) for piece in self.pieces)
        bare = _BARE.match(text)
        return text if bare is not None and bare[1] == text and not text.startswith("/") else f'"{text}"'


@dataclass(frozen=True, slots=True)
class Rule:
    """What to do with the calls that it matches: the tool's name, and each named argument. `str()` gives its text."""

    behavior: PermissionBehavior
    tool: Pattern
    fields: tuple[tuple[str, Pattern], ...] = ()
    is_closed: bool = False

    def matches(self, tool_name: str, arguments: Json) -> bool:
        if not self.tool.matches(tool_name):
            return False
        given: Mapping[str, Json] = arguments if isinstance(arguments, dict) else {}
        if self.is_closed and (len(given) != len(self.fields) or not isinstance(arguments, dict | None)):
            return False
        if not all(name in given for name, _ in self.fields):
            return False
        if self.behavior is PermissionBehavior.ALLOW and is_shell_tool(tool_name):
            return isinstance(arguments, dict | None) and self._allows_command(given)
        return all(pattern.matches(_text(given[name])) for name, pattern in self.fields)

    def _allows_command(self, given: Mapping[str, Json]) -> bool:
        """Whether an `allow` covers what a shell is given: each of its commands is one simple command. Law 4."""
        patterns = dict(self.fields)
        commands = {name: value for name, value in given.items() if name in COMMAND_FIELDS}
        others = (name for name in patterns if name not in commands)
        if not all(patterns[name].matches(_text(given[name])) for name in others) or (given and not commands):
            return False
        return all(_allows_text(patterns.get(name), value) for name, value in commands.items())

    @property
    def specificity(self) -> tuple[bool, bool, int]:
        """An exact tool name beats a pattern; then exact arguments beat others; then more of them beat fewer."""
        return self.tool.is_exact, self.is_closed, len(self.fields)

    def __str__(self) -> str:
        fields = ", ".join(f"{Pattern((name,))}={pattern}" for name, pattern in self.fields)
        arguments = f"({fields})!" if self.is_closed else f"({fields})" if fields else ""
        return f"{self.behavior.value} {self.tool}{arguments}"


def _allows_text(pattern: Pattern | None, command: Json) -> bool:
    if not isinstance(command, str):
        return False
    if pattern is not None and pattern.is_exact:
        return pattern.matches(command)
    words = simple_command(command)
    if words is None:
        return False
    return pattern is None or words_match(words_of_pattern(pattern.pieces), words)


class Ground(StrEnum):
    """What a verdict rests on."""

    RULE = "rule"
    DEFAULT = "default"
    NO_CALL_ID = "no_call_id"
    UNREADABLE_ARGUMENTS = "unreadable_arguments"


@dataclass(frozen=True, slots=True)
class PermissionVerdict:
    """What may be done with a call, and why. `rule` is there exactly when a rule decided."""

    behavior: PermissionBehavior
    ground: Ground
    rule: Rule | None = None


_ORDER: Final = (PermissionBehavior.DENY, PermissionBehavior.ASK, PermissionBehavior.ALLOW)


def decide(rules: Sequence[Rule], tool_name: str, arguments: Json, call_id: str | None) -> PermissionVerdict:
    """Judge one call. Of equally specific rules the one written first is named."""
    if call_id is None or not call_id.strip():
        return PermissionVerdict(PermissionBehavior.DENY, Ground.NO_CALL_ID)
    try:
        matching = [rule for rule in rules if rule.matches(tool_name, arguments)]
    except (RecursionError, TypeError, ValueError):  # what is no JSON, or nested too deep to be read
        return PermissionVerdict(PermissionBehavior.DENY, Ground.UNREADABLE_ARGUMENTS)
    if not matching:
        return PermissionVerdict(PermissionBehavior.ASK, Ground.DEFAULT)
    named = min(matching, key=lambda rule: (_ORDER.index(rule.behavior), *(-part for part in rule.specificity)))
    return PermissionVerdict(named.behavior, Ground.RULE, named)


def is_unconditional_deny(rules: Sequence[Rule], tool_name: str) -> bool:
    """Whether no call of this tool can ever run, so that the model need not be told of it."""
    return any(
        rule.behavior is PermissionBehavior.DENY and not rule.fields and rule.tool.matches(tool_name) for rule in rules
    )


def remember(behavior: PermissionBehavior, tool_name: str, arguments: Mapping[str, Json] | None = None) -> Rule:
    """The rule for exactly this tool and, unless `arguments` is None, exactly these arguments. No `*` is special."""
    fields = tuple((name, Pattern((_text(value),))) for name, value in sorted((arguments or {}).items()))
    return Rule(behavior, Pattern((tool_name,)), fields, is_closed=arguments is not None)


def _text(value: Json) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _escaped(character: str) -> str:
    if character in '\\"*':
        return f"\\{character}"
    if character.isprintable():
        return character
    return f"\\u{ord(character):04x}" if ord(character) < 0x10000 else f"\\U{ord(character):08x}"


def parse_rule(text: str) -> Rule:
    """Read one rule. Raises `UsageError`, which names the character (the first is 1) and what was expected there."""
    return _Reader(text).rule()


class _Reader:
    """A place in a rule's text, which only moves forward."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def rule(self) -> Rule:
        if len(self.text) > MAX_RULE_LENGTH:
            raise self.fault(f"a rule has at most {MAX_RULE_LENGTH} characters", MAX_RULE_LENGTH)
        odd = next((place for place, character in enumerate(self.text) if not character.isprintable()), None)
        if odd is not None:
            raise self.fault("write a character that cannot be printed by its number", odd)
        self.take(_SPACE, "")
        behavior = PermissionBehavior(self.take(_BEHAVIOR, "expected allow, ask or deny, then a space")[1])
        tool = self.pattern(_BARE, "a tool name")
        has_arguments = self.skips("(")
        fields = self.fields() if has_arguments else ()
        is_closed = has_arguments and self.skips("!")
        if has_arguments and not fields and not is_closed:
            raise self.fault("expected a field, or ! for no arguments at all", self.at)
        if self.at < len(self.text):
            raise self.fault("expected ! or the end" if fields else "expected ( or the end", self.at)
        return Rule(behavior, tool, fields, is_closed)

    def fields(self) -> tuple[tuple[str, Pattern], ...]:
        found: dict[str, Pattern] = {}
        if self.skips(")"):
            return ()
        while True:
            start = self.at
            name = self.pattern(_BARE, "a field name")
            if not name.is_exact or name.pieces[0] in found:
                raise self.fault("a field is named exactly, and only once", start)
            if not self.skips("="):
                raise self.fault("expected =", self.at)
            found[name.pieces[0]] = self.pattern(_BARE_FIELD, "a pattern")
            if self.skips(")"):
                return tuple(found.items())
            if not self.skips(","):
                raise self.fault("expected , or )", self.at)

    def pattern(self, bare: re.Pattern[str], what: str) -> Pattern:
        start, is_quoted = self.at, self.text.startswith('"', self.at)
        if not is_quoted and self.text.startswith("/", start) and bare is _BARE:
            raise self.fault("regular expressions are not supported, use * or quote the name", start)
        expected = f'expected {what}, in quotes if it holds ( ) , " or a backslash'
        inner = self.take(_QUOTED if is_quoted else bare, expected)[1]
        return Pattern(self.pieces(inner, start + 1)) if is_quoted else Pattern(tuple(inner.split("*")))

    def pieces(self, inner: str, start: int) -> tuple[str, ...]:
        found, at = [""], 0
        while at < len(inner):
            atom = _ATOM.match(inner, at)
            if atom is None:
                raise self.fault('this backslash needs one of * " \\ u U after it', start + at)
            if atom["star"]:
                found.append("")
            else:
                found[-1] += chr(int(atom["number"][1:], 16)) if atom["number"] else atom["self"] or atom["text"]
            at = atom.end()
        return tuple(found)

    def take(self, token: re.Pattern[str], expected: str) -> re.Match[str]:
        match = token.match(self.text, self.at)
        if match is None:
            raise self.fault(expected, self.at)
        self.at = match.end()
        return match

    def skips(self, mark: str) -> bool:
        if not self.text.startswith(mark, self.at):
            return False
        self.at += 1
        self.take(_SPACE, "")
        return True

    def fault(self, reason: str, at: int) -> UsageError:
        return UsageError(f"permission rule {self.text[:80]!r}, character {at + 1}: {reason}", remedy=_EXAMPLES)


_NO: Final = frozenset(
    {"false", "no", "denied", "deny", "reject", "rejected", "cancel", "canceled", "cancelled", "abort", "aborted"}
)
_YES: Final = frozenset(
    {"true", "yes", "approve", "approved", "allow", "allowed", "accept", "accepted", "confirm", "confirmed"}
    | {"ok", "okay"}
)
_SAYING: Final = frozenset({"status", "decision", "action", "behavior"})


def is_a_no(value: Json) -> bool:
    """Whether an answer says no, clearly: silence and what is not understood do not."""
    return False in (_answers(value) if isinstance(value, dict) else {_answer(value)})


def _answer(value: Json) -> bool | None:
    """Yes, no, or neither."""
    word = value.strip().casefold() if isinstance(value, str) else ""
    if value is True or word in _YES:
        return True
    return False if value is False or word in _NO else None


def _answers(given: Mapping[str, Json]) -> set[bool]:
    """Every yes and no in an object. A yes-flag must be yes, and a no-flag no or absent; other words say nothing."""
    found: set[bool] = set()
    for name, value in given.items():
        flag, answer = _answer(name), _answer(value)
        if flag is True:
            found.add(answer is True)
        elif flag is False and value is not None and answer is not False:
            found.add(False)
        elif name.strip().casefold() in _SAYING and answer is not None:
            found.add(answer)
    return found
