"""Reads a file of rules, strictly: everything is understood, or nothing of it is used, and every problem is told.

Laws:
1. An unknown key, a wrong type, a rule that could allow more than its words say, and a rule that its own `match` and
   `not_match` contradict are problems.
2. The digest is that of the bytes that were read: what was trusted is what is used.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Final

from interlock.lifecycle.decisions.shell_commands import SHELL_TOOLS, is_shell_tool
from interlock.lifecycle.rules.bounded_toml import read_toml
from interlock.lifecycle.rules.hazards import CARRIERS, NEVER_ALLOWED, is_forbidden_variable, program_of
from interlock.lifecycle.rules.rule import ONE, READING_TOOLS, REST, WORKTREE, Layer, Token, TokenRule
from interlock.lifecycle.rules.verdict import AskedCall, RuleFile, judge
from interlock.vocabulary.events.audit import PermissionBehavior
from interlock.vocabulary.ids import is_valid_id

MAX_RULES: Final = 500
_KEYS: Final = (
    *("id", "then", "tool", "command", "flags", "not_flags", "env", "paths", "agents", "within", "because", "expires"),
)
_RULE_KEYS: Final = frozenset({*_KEYS, "match", "not_match"})
_FILE_KEYS: Final = frozenset({"rule", "opaque"})
_LISTS: Final = ("tool", "flags", "not_flags", "env", "paths", "agents", "match", "not_match")
_EXAMPLE_FOLDER: Final = "/folder/of/the/session"


def parse_rules(data: bytes, layer: Layer, path: str, *, is_trusted: bool = True) -> RuleFile:
    """The rules of a file. One that cannot be used has problems, and no rules."""
    file = RuleFile(layer=layer, path=path, digest=hashlib.sha256(data).hexdigest(), is_trusted=is_trusted)
    try:
        table = read_toml(data)
    except ValueError as wrong:
        return replace(file, problems=(f"it is no TOML: {wrong}",))
    problems = list(_file_problems(table))
    found = table.get("rule", [])
    rules: list[TokenRule] = []
    for number, one in enumerate(found if isinstance(found, list) else [], 1):
        rule, wrong_keys = _read_rule(one, number)
        problems += wrong_keys
        rules += () if rule is None else (rule,)
    problems += _same_ids(rules)
    if problems:
        return replace(file, problems=tuple(problems))
    return replace(file, rules=tuple(rules), denies_opaque=table.get("opaque") == "deny")


def _file_problems(table: Mapping[str, object]) -> Iterator[str]:
    for key in sorted(table.keys() - _FILE_KEYS):
        yield f"unknown key {key!r}: a file holds `opaque` and [[rule]]"
    if table.get("opaque", "ask") not in ("ask", "deny"):
        yield 'opaque: expected "ask" or "deny"'
    rules = table.get("rule", [])
    if not isinstance(rules, list):
        yield "rule: expected tables, each under [[rule]]"
    elif len(rules) > MAX_RULES:
        yield f"rule: at most {MAX_RULES}"


def _same_ids(rules: list[TokenRule]) -> Iterator[str]:
    seen: set[str] = set()
    for rule in rules:
        if rule.id in seen:
            yield f"rule {rule.id}: its id is used twice"
        seen.add(rule.id)


@dataclass(slots=True)
class _Table:
    """One [[rule]], and what is wrong with it."""

    name: str
    values: Mapping[str, object]
    problems: list[str]

    def wrong(self, key: str, expected: str) -> None:
        self.problems.append(f"{self.name}, {key}: expected {expected}")

    def text(self, key: str) -> str:
        value = self.values.get(key, "")
        if not isinstance(value, str):
            self.wrong(key, "text")
            return ""
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
            self.wrong(key, "a list of texts")
            return ()
        return tuple(str(one) for one in value)

    def tokens(self) -> tuple[Token, ...]:
        value = self.values.get("command", [])
        if not isinstance(value, list) or not all(_is_token(one) for one in value):
            self.wrong("command", "a list of words, and of lists of words")
            return ()
        return tuple(tuple(one) if isinstance(one, list) else one for one in value)

    def expiry(self) -> date | None:
        value = self.values.get("expires")
        if value is not None and (isinstance(value, datetime) or not isinstance(value, date)):
            self.wrong("expires", "a date, as in 2027-01-31")
            return None
        return value

    def verdict(self) -> PermissionBehavior:
        try:
            return PermissionBehavior(self.text("then"))
        except ValueError:
            self.wrong("then", '"allow", "ask" or "deny"')
            return PermissionBehavior.ASK


def _is_token(value: object) -> bool:
    if isinstance(value, list):
        return bool(value) and all(isinstance(one, str) and one not in (ONE, REST) for one in value)
    return isinstance(value, str)


def _read_rule(found: object, number: int) -> tuple[TokenRule | None, list[str]]:
    if not isinstance(found, dict):
        return None, [f"rule {number}: expected a table under [[rule]]"]
    id = found.get("id")
    name = f"rule {id}" if isinstance(id, str) and id else f"rule {number}"
    table = _Table(name, found, [])
    for key in sorted(found.keys() - _RULE_KEYS):
        table.problems.append(f"{name}: unknown key {key!r}; there are {', '.join((*_KEYS, 'match', 'not_match'))}")
    if not isinstance(id, str) or not is_valid_id(id):
        table.wrong("id", "a name of letters, digits and . _ : -")
    lists = {key: table.texts(key) for key in _LISTS}
    rule = TokenRule(
        id=table.text("id"),
        then=table.verdict(),
        command=table.tokens(),
        within=table.text("within"),
        because=table.text("because"),
        expires=table.expiry(),
        **lists,
    )
    if rule.command and not rule.tool:
        rule = replace(rule, tool=tuple(sorted(SHELL_TOOLS)))
    if not table.problems:
        table.problems += (f"{name}: {one}" for one in (*_too_wide(rule), *_shape(rule)))
    if not table.problems:
        table.problems += (f"{name}: {one}" for one in _contradicted(rule))
    return rule, table.problems


def _shape(rule: TokenRule) -> Iterator[str]:
    if not rule.command and not rule.tool:
        yield "it names neither a tool nor a command"
    if REST in rule.command[:-1]:
        yield '"..." stands at the end of a command only'
    if rule.command and (rule.command[0] in (ONE, REST)):
        yield "a command begins with its program"
    for token in (word for one in rule.command for word in (one if isinstance(one, tuple) else (one,))):
        if "*" in token and token != ONE:
            yield f'{token!r}: "*" stands for one whole word'
    yield from _misplaced(rule)


def _misplaced(rule: TokenRule) -> Iterator[str]:
    """Keys that stand where they mean nothing."""
    if rule.within not in ("", WORKTREE):
        yield f'within {rule.within!r}: it can be "{WORKTREE}" only'
    if rule.is_allow and rule.flags:
        yield "`flags` are of deny and ask; an allow has `not_flags`"
    if (rule.flags or rule.not_flags or rule.env or rule.match or rule.not_match) and not rule.command:
        yield "flags, env, match and not_match belong to a command"
    if rule.paths and (rule.command or not rule.is_allow):
        yield "`paths` belong to an allow of a file tool, without a command"
    for path in rule.paths:
        if path.startswith(("/", "~")) or ".." in path.split("/"):
            yield f"{path!r}: a path stands in the folder of the session, and is relative to it"


def _too_wide(rule: TokenRule) -> Iterator[str]:
    if not rule.is_allow:
        return
    for one in rule.env:
        if "=" not in one or is_forbidden_variable(one.partition("=")[0]):
            yield f"env {one!r}: write NAME=value or NAME=*, and none that changes which program runs"
    first = () if not rule.command else rule.command[0] if isinstance(rule.command[0], tuple) else (rule.command[0],)
    for program in map(program_of, first):
        if program in NEVER_ALLOWED:
            yield f"{program} is never allowed by a rule"
        elif program in CARRIERS and program != "rm" and _is_open_carrier(rule.command):
            yield f'{program} runs what it is given: write the word after it, as in ["{program}", "WORD", "..."]'
    if not rule.command:
        yield from _too_wide_tool(rule)


def _is_open_carrier(command: tuple[Token, ...]) -> bool:
    """Whether something open comes before a word of its own that is no flag."""
    for token in command[1:]:
        if token in (ONE, REST):
            return True
        words = token if isinstance(token, tuple) else (token,)
        if not any(word.startswith("-") for word in words):
            return False
    return False


def _too_wide_tool(rule: TokenRule) -> Iterator[str]:
    for tool in rule.tool:
        if is_shell_tool(tool):
            yield f"an allow of {tool} names its command"
        elif tool.casefold() not in READING_TOOLS and not rule.paths and not tool.startswith("mcp__"):
            yield f"an allow of {tool} names the `paths` that it may change"


def _contradicted(rule: TokenRule) -> Iterator[str]:
    """What its own examples say against a rule."""
    alone = RuleFile(layer=Layer.USER, path="", digest="", rules=(replace(rule, expires=None, agents=(), within=""),))
    for wanted, examples in ((True, rule.match), (False, rule.not_match)):
        for text in examples:
            call = AskedCall(agent="", tool=rule.tool[0], arguments={"command": text}, folder=_EXAMPLE_FOLDER)
            verdict = judge((alone,), call, date.min)
            if (verdict.then is rule.then and verdict.rule is not None) is not wanted:
                said = "match" if wanted else "not_match"
                yield f"{said} {text!r} is contradicted: {verdict.because}"
