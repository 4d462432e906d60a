"""Writes a rule as a file has it, and makes rules of other programs' lists. Pure.

Law: what is written is read again by `parse_rules`, and kept only if that takes it. Nothing is made wider than it was.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from interlock.lifecycle.rules.rule import REST, Layer, Token
from interlock.lifecycle.rules.rule_file import parse_rules
from interlock.lifecycle.rules.shell_grammar import Opaque, read_command
from interlock.vocabulary.events.registry import Json

_VERDICTS: Final = {"allow": "allow", "prompt": "ask", "ask": "ask", "forbidden": "deny", "deny": "deny"}


@dataclass(frozen=True, slots=True)
class TranslatedRule:
    """The text of one rule, or why there is none of what stood there."""

    source: str
    text: str = ""
    refused: str = ""


def rule_text(id: str, then: str, *, tool: Iterable[str] = (), command: Iterable[Token] = (), **more: object) -> str:
    """One [[rule]] as TOML."""
    values: dict[str, object] = {"id": id, "then": then, "tool": list(tool), "command": list(command), **more}
    lines = [
        f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in values.items() if value not in ([], "")
    ]
    return "\n".join(["[[rule]]", *lines, ""])


def checked(source: str, text: str) -> TranslatedRule:
    """The rule, if it would be taken."""
    problems = parse_rules(text.encode(), Layer.USER, "").problems
    return TranslatedRule(source, refused=problems[0]) if problems else TranslatedRule(source, text)


def of_claude(settings: Json) -> Iterator[TranslatedRule]:
    """The `permissions` of Claude Code's settings."""
    permissions = settings.get("permissions") if isinstance(settings, dict) else None
    lists: Mapping[str, Json] = permissions if isinstance(permissions, dict) else {}
    number = 0
    for then in ("deny", "ask", "allow"):
        entries = lists.get(then)
        for entry in entries if isinstance(entries, list) else []:
            number += 1
            yield _of_claude(str(entry), then, f"claude-{number}")


def _of_claude(entry: str, then: str, id: str) -> TranslatedRule:
    tool, bracket, rest = entry.partition("(")
    source = f"{then} {entry}"
    if not bracket:
        return checked(source, rule_text(id, then, tool=[tool]))
    if tool != "Bash" or not rest.endswith(")"):
        return TranslatedRule(source, refused="patterns of paths and addresses are not rules here")
    pattern = rest[:-1]
    is_open = pattern.endswith((":*", " *"))
    words = read_command(pattern[:-2] if is_open else pattern)
    if isinstance(words, Opaque):
        return TranslatedRule(source, refused=f"it is not read: {words}")
    if len(words) != 1 or words[0].variables:
        return TranslatedRule(source, refused="it is more than one simple command")
    command = [*words[0].words, REST] if is_open else list(words[0].words)
    return checked(source, rule_text(id, then, tool=["Bash"], command=command))


def of_codex(text: str) -> Iterator[TranslatedRule]:
    """The `prefix_rule(pattern=[...], decision="...")` of Codex's rules, which are literals only."""
    try:
        lines = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        yield TranslatedRule("the file", refused="it is not understood")
        return
    for number, line in enumerate(lines, 1):
        source = ast.unparse(line)
        call = line.value if isinstance(line, ast.Expr) else None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id != "prefix_rule":
            yield TranslatedRule(source, refused="only prefix_rule is understood")
            continue
        yield _of_codex(source, call, f"codex-{number}")


def _of_codex(source: str, call: ast.Call, id: str) -> TranslatedRule:
    try:
        given = {word.arg: ast.literal_eval(word.value) for word in call.keywords if word.arg}
    except ValueError:
        return TranslatedRule(source, refused="its values are no literals")
    pattern, then = given.get("pattern"), _VERDICTS.get(str(given.get("decision", "allow")))
    if not isinstance(pattern, list) or then is None or call.args:
        return TranslatedRule(source, refused="it has no pattern, or a decision that is not known")
    because = given.get("justification", "")
    return checked(source, rule_text(id, then, command=[*pattern, REST], because=str(because)))


def suggestion(words: tuple[str, ...], tool: str, number: int) -> TranslatedRule:
    """The narrowest rule that allows exactly this command."""
    text = rule_text(f"suggested-{number}", "allow", tool=[tool], command=list(words))
    return checked(" ".join(words), text)
