"""What the rules say of one question: deny before ask before allow, and in doubt ask.

Laws:
1. Each simple command is judged by itself. One `deny` denies the call, one `ask` asks, `allow` needs every one.
2. Opaque never allows. No rule asks. A file that cannot be used asks for everything.
3. A project's `allow` counts only while a person trusts that very file; its `deny` and `ask` always do.
4. What no rule may allow (`hazards`) is asked, or denied. So is a call with an argument that is not known, a question
   about another folder, and one without a call.
5. A program that runs another one as it is (`env`, `timeout`), with arguments that are known exactly, is judged, and
   so is what it runs.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Final

from interlock.lifecycle.decisions.shell_commands import COMMAND_FIELDS, is_shell_tool
from interlock.lifecycle.rules.hazards import never_allowed
from interlock.lifecycle.rules.rule import Layer, TokenRule, is_file_call_allowed
from interlock.lifecycle.rules.shell_grammar import Opaque, Reading, SimpleCommand, read_command, read_words
from interlock.vocabulary.events.audit import PermissionBehavior
from interlock.vocabulary.events.registry import Json

_ORDER: Final = (PermissionBehavior.DENY, PermissionBehavior.ASK, PermissionBehavior.ALLOW)
_FOLDER_FIELDS: Final = ("cwd", "workdir", "directory", "dir")
# What a shell tool may be told beside its command without a change of what runs, and with which rights.
_HARMLESS_FIELDS: Final = frozenset({"description", "timeout", "timeout_ms", "yield_time_ms", "max_output_tokens"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFile:
    """The rules of one file, by the digest of its text. `problems`: why it cannot be used."""

    layer: Layer
    path: str
    digest: str
    rules: tuple[TokenRule, ...] = ()
    denies_opaque: bool = False
    is_trusted: bool = True
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedCall:
    """What is asked: may this tool run with these arguments. `folder` is that of the session; `source` the folder that
    its git worktree was made from, if it works in one of its own."""

    agent: str
    tool: str
    arguments: Json
    folder: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class PartVerdict:
    """One simple command of a call, and the rule that decided about it."""

    words: tuple[str, ...]
    then: PermissionBehavior
    rule: TokenRule | None = None
    file: RuleFile | None = None
    because: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleVerdict:
    """What the rules say of a call. `rule` and `file` are those that decided, if any did; `opaque` why the command was
    not read. `parts` are its simple commands."""

    then: PermissionBehavior
    because: str
    rule: TokenRule | None = None
    file: RuleFile | None = None
    opaque: str = ""
    parts: tuple[PartVerdict, ...] = ()


def judge(files: Iterable[RuleFile], call: AskedCall, today: date) -> RuleVerdict:
    """Judge one call. Total: whatever the arguments are, there is a verdict."""
    known = tuple(files)
    broken = next((file for file in known if file.problems), None)
    if broken is not None:
        return RuleVerdict(then=PermissionBehavior.ASK, because=f"{broken.path} cannot be used: {broken.problems[0]}")
    rules = [
        (file, rule)
        for file in known
        for rule in file.rules
        if rule.holds(call.agent, today, is_in_worktree=bool(call.source)) and (file.is_trusted or not rule.is_allow)
    ]
    of_tool = _strictest(rules, (rule for _, rule in rules if not rule.command and rule.names_tool(call.tool)))
    if is_shell_tool(call.tool) or any(rule.command and rule.names_tool(call.tool) for _, rule in rules):
        return _of_command(known, rules, of_tool, call)
    return _of_tool(of_tool, call)


_Known = list[tuple[RuleFile, TokenRule]]


def _strictest(rules: _Known, matching: Iterable[TokenRule]) -> tuple[RuleFile, TokenRule] | None:
    wanted = {id(rule) for rule in matching}
    found = [(file, rule) for file, rule in rules if id(rule) in wanted]
    return min(found, key=lambda one: _ORDER.index(one[1].then), default=None)


def _of_tool(found: tuple[RuleFile, TokenRule] | None, call: AskedCall) -> RuleVerdict:
    if found is None:
        return RuleVerdict(then=PermissionBehavior.ASK, because="no rule is about it")
    file, rule = found
    if rule.is_allow:
        problem = is_file_call_allowed(rule, call.arguments, call.folder)
        if problem:
            return RuleVerdict(then=PermissionBehavior.ASK, because=problem)
    return RuleVerdict(then=rule.then, because=rule.because or f"rule {rule.id}", rule=rule, file=file)


def _of_command(
    files: tuple[RuleFile, ...], rules: _Known, of_tool: tuple[RuleFile, TokenRule] | None, call: AskedCall
) -> RuleVerdict:
    if of_tool is not None and of_tool[1].then is PermissionBehavior.DENY:
        return _of_tool(of_tool, call)
    reading, problem = _command_in(call)
    if isinstance(reading, Opaque):
        denier = next((file for file in files if file.denies_opaque), None)
        then = PermissionBehavior.ASK if denier is None else PermissionBehavior.DENY
        return RuleVerdict(then=then, because=f"it is not read: {reading}", opaque=str(reading), file=denier)
    parts = tuple(_of_part(rules, part, call) for part in reading)
    worst = min(parts, key=lambda part: _ORDER.index(part.then))
    if worst.then is not PermissionBehavior.DENY and (problem or of_tool is not None):
        asking = None if of_tool is None else of_tool[1]
        said = problem or (f"rule {asking.id}" if asking is not None else "")
        return RuleVerdict(then=PermissionBehavior.ASK, because=said, rule=asking, parts=parts)
    return RuleVerdict(then=worst.then, because=worst.because, rule=worst.rule, file=worst.file, parts=parts)


def _of_part(rules: _Known, command: SimpleCommand, call: AskedCall) -> PartVerdict:
    layers = unwrapped(command)
    inner = layers[-1]
    about = (
        rule
        for _, rule in rules
        if (not rule.tool or rule.names_tool(call.tool))
        and (rule.covers(inner) if rule.is_allow else any(rule.covers(one) for one in layers))
    )
    found = _strictest(rules, about)
    if found is None:
        if inner.words == ("cd", call.folder) and not inner.variables:
            return PartVerdict(command.words, PermissionBehavior.ALLOW, because="the folder of the session")
        return PartVerdict(command.words, PermissionBehavior.ASK, because=f"no rule is about {inner.words[0]!r}")
    file, rule = found
    never = next((why for one in layers if (why := never_allowed(one))), "") if rule.is_allow else ""
    if never:
        return PartVerdict(command.words, PermissionBehavior.ASK, because=never)
    return PartVerdict(command.words, rule.then, rule, file, rule.because or f"rule {rule.id}")


def _command_in(call: AskedCall) -> tuple[Reading, str]:
    """The command of a call, and why it may not be allowed whatever it is."""
    given = call.arguments if isinstance(call.arguments, dict) else {}
    found = [given[name] for name in given if name in COMMAND_FIELDS]
    if len(found) != 1:
        return Opaque("not exactly one command"), ""
    command = found[0]
    if isinstance(command, str):
        reading: Reading = read_command(command)
    elif isinstance(command, list) and command and all(isinstance(word, str) for word in command):
        reading = _of_list([str(word) for word in command])
    else:
        return Opaque("a command that is no text"), ""
    return reading, _other_arguments(given, call.folder)


def _of_list(words: list[str]) -> Reading:
    if any(not one.isprintable() for word in words for one in word if one != "\n"):
        return Opaque("a control character")
    return read_words(words)


def _other_arguments(given: Mapping[str, Json], folder: str) -> str:
    for name, value in given.items():
        if name in COMMAND_FIELDS or name in _HARMLESS_FIELDS or value in (None, False, "", [], {}):
            continue
        if name in _FOLDER_FIELDS and isinstance(value, str) and is_same_folder(value, folder):
            continue
        return f"the argument {name!r} may change what runs"
    return ""


def is_same_folder(one: str, folder: str) -> bool:
    """Whether a path names that folder, by its text alone."""
    return posixpath.normpath(posixpath.join(folder, one)) == posixpath.normpath(folder) and ".." not in one


def arguments_digest(tool: str, arguments: Json) -> str:
    """What a decision was made about, as a digest. `ValueError` for what is no JSON."""
    text = json.dumps([tool, arguments], ensure_ascii=True, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


_MOST: Final = 4
_UNITS: Final = "smhd"


def unwrapped(command: SimpleCommand) -> tuple[SimpleCommand, ...]:
    """The command, then what it runs, then what that runs: the last one is to be allowed, each one may be denied."""
    found = [command]
    for _ in range(_MOST):
        inner = _inner(found[-1])
        if inner is None:
            return tuple(found)
        found.append(inner)
    return tuple(found)


def _inner(command: SimpleCommand) -> SimpleCommand | None:
    words = command.words
    match words:
        case ("timeout", limit, *rest) if rest and _is_duration(limit):
            return SimpleCommand(tuple(rest), command.variables)
        case ("nice", "-n", number, *rest) if rest and number.isascii() and number.isdigit():
            return SimpleCommand(tuple(rest), command.variables)
        case ("nice" | "nohup", program, *_) if not program.startswith("-"):
            return SimpleCommand(words[1:], command.variables)
        case ("stdbuf", "-oL", program, *_) if not program.startswith("-"):
            return SimpleCommand(words[2:], command.variables)
        case ("env", *_):
            return _of_env(command)
        case _:
            return None


def _is_duration(word: str) -> bool:
    number = word[:-1] if word[-1:] in _UNITS and word else word
    whole, _, part = number.partition(".")
    return all(one.isascii() and one.isdigit() for one in (whole, part or "0"))


def _of_env(command: SimpleCommand) -> SimpleCommand | None:
    """`env` with variables only: they are judged as if they stood before the program."""
    variables, rest = list(command.variables), list(command.words[1:])
    while rest and "=" in rest[0] and not rest[0].startswith(("-", "=")):
        name, _, value = rest.pop(0).partition("=")
        variables.append((name, value))
    if not rest or rest[0].startswith("-"):
        return None
    return SimpleCommand(tuple(rest), tuple(variables))
