"""Our hooks in the text of Claude Code's `settings.json`.

Laws:
1. Only text is put in or taken out: every other byte, its order and its spelling stay.
2. Ours stand behind whatever the user has for the same event, in a group of their own.
3. Taking out what was put in gives the bytes from before, unless an empty list or object of the user's was filled.
4. What is not a settings file that Claude Code itself could read is refused.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec

from interlock.agents.evidence.hook_command import TIMEOUT_SECONDS, is_ours
from interlock.vocabulary.errors import UsageError

EVENTS: Final = (
    "SessionStart", "UserPromptSubmit", "PreToolUse", "PermissionRequest", "PostToolUse", "Notification", "Stop",
    "StopFailure", "SubagentStart", "SubagentStop", "SessionEnd",
)  # fmt: skip
_HOOKS: Final = "hooks"
_DECODER: Final = json.JSONDecoder()
_BLANKS: Final = " \t\r\n"

Value: TypeAlias = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class _Item:
    """A member of an object, or an element of a list: where it begins and ends, and where its value begins."""

    start: int
    end: int
    value_start: int
    key: str = ""
    value: object = None


@dataclass(frozen=True, slots=True)
class _Found:
    """A command of ours, by its path: the items that hold it, from the outermost (`hooks`) to itself."""

    event: str
    command: str
    path: tuple[tuple[int, _Item], ...]  # where the container begins, and the item in it


def installed_in(data: bytes) -> dict[str, str]:
    """Our command for each event that has one."""
    return {found.event: found.command for found in _ours(_text(data)[1])}


def with_hooks(data: bytes, command: str) -> bytes:
    """The settings with our hooks, and with none of an older installation. `UsageError` for what cannot be read."""
    found = [(one.event, one.command) for one in _ours(_text(data)[1])]
    if sorted(found) == sorted((event, command) for event in EVENTS):
        return data
    mark, text = _text(without_hooks(data))
    text = text if text.strip() else "{}\n"
    _root(text)
    for event in EVENTS:
        text = _add(text, event, _group(command))
    return mark + text.encode()


def without_hooks(data: bytes) -> bytes:
    """The settings without our hooks. Lists and objects that are empty without them go too."""
    mark, text = _text(data)
    while found := next(_ours(text), None):
        text = _cut(text, found)
    return mark + text.encode()


def notes_on(data: bytes) -> list[str]:
    """What in the settings keeps hooks from running."""
    fields = _root(_text(data)[1]) if data.strip() else {}
    if fields.get("disableAllHooks") is True:
        return ["`disableAllHooks` is set: Claude Code runs no hook at all"]
    return []


# Reading


def _text(data: bytes) -> tuple[bytes, str]:
    mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    try:
        return mark, data[len(mark) :].decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"the settings are no UTF-8 (byte {error.start})", remedy="save them as UTF-8") from error


def _root(text: str) -> Value:
    """The settings as a whole, checked strictly: comments, trailing commas and double keys are refused."""
    try:
        fields = msgspec.json.decode(text)
        json.loads(text, object_pairs_hook=_refuse_double_keys)
    except (msgspec.DecodeError, ValueError, RecursionError, UnicodeError) as error:
        raise UsageError(f"the settings are not JSON: {error}", remedy="fix them; nothing was changed") from error
    if not isinstance(fields, dict):
        raise UsageError("the settings are no JSON object", remedy="fix them; nothing was changed")
    return fields


def _refuse_double_keys(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return made


def _items(text: str, start: int) -> list[_Item]:
    """What an object or a list holds, the one that begins at `start`. The text is known to be valid."""
    is_object, at, found = text[start] == "{", _skip(text, start + 1), []
    while text[at] not in "}]":
        begin, key = at, ""
        if is_object:
            key, at = _DECODER.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)
        value_start = at
        value, at = _DECODER.raw_decode(text, at)
        found.append(_Item(begin, at, value_start, key, value))
        at = _skip(text, at)
        at = _skip(text, at + 1) if text[at] == "," else at
    return found


def _skip(text: str, at: int) -> int:
    while text[at : at + 1] and text[at] in _BLANKS:
        at += 1
    return at


def _ours(text: str) -> Iterator[_Found]:
    if not text.strip():
        return
    _root(text)
    start = _skip(text, 0)
    for hooks in (item for item in _items(text, start) if item.key == _HOOKS):
        for event in _within(text, hooks, dict):
            for group in _within(text, event, list):
                inner = [item for item in _within(text, group, dict) if item.key == _HOOKS]
                for one in (item for holder in inner for item in _within(text, holder, list)):
                    command = one.value.get("command") if isinstance(one.value, dict) else None
                    if isinstance(command, str) and is_ours(command):
                        steps = (hooks, event, group, inner[0], one)
                        starts = (start, *(step.value_start for step in steps[:-1]))
                        yield _Found(event.key, command, tuple(zip(starts, steps, strict=True)))


def _within(text: str, item: _Item, kind: type[dict[str, object] | list[object]]) -> list[_Item]:
    return _items(text, item.value_start) if isinstance(item.value, kind) else []


# Writing


def _group(command: str) -> str:
    hook = {"type": "command", "command": command, "timeout": TIMEOUT_SECONDS}
    return json.dumps({_HOOKS: [hook]}, ensure_ascii=False)


def _add(text: str, event: str, group: str) -> str:
    start = _skip(text, 0)
    hooks = _member(text, start, _HOOKS, dict)
    if hooks is None:
        return _put(text, start, f'"{_HOOKS}": {{{_inside(text, 2)}"{event}": [{group}]{_inside(text, 1)}}}', depth=1)
    listed = _member(text, hooks.value_start, event, list)
    if listed is None:
        return _put(text, hooks.value_start, f'"{event}": [{group}]', depth=2)
    return _put(text, listed.value_start, group, depth=3)


def _member(text: str, start: int, key: str, kind: type[dict[str, object] | list[object]]) -> _Item | None:
    item = next((one for one in _items(text, start) if one.key == key), None)
    if item is not None and not isinstance(item.value, kind):
        wanted = "object" if kind is dict else "list"
        raise UsageError(f'"{key}" in the settings is no JSON {wanted}', remedy="fix it; nothing was changed")
    return item


def _put(text: str, start: int, addition: str, *, depth: int) -> str:
    """The text with an addition as the last item of the container that begins at `start`."""
    items = _items(text, start)
    if not items:
        end = _inside(text, depth - 1) if text[start + 1] in "}]" else ""
        return f"{text[: start + 1]}{_inside(text, depth)}{addition}{end}{text[start + 1 :]}"
    end_of_last = items[-1].end
    return f"{text[:end_of_last]},{_inside(text, depth) or ' '}{addition}{text[end_of_last:]}"


def _inside(text: str, depth: int) -> str:
    """A line end and the indentation of this depth, as the file itself does it; nothing in a file of one line."""
    first, line_end, rest = text.rstrip().partition("\n")
    if not line_end:
        return ""
    indent = rest[: len(rest) - len(rest.lstrip(" \t"))] or "  "
    return ("\r\n" if first.endswith("\r") else "\n") + indent * depth


def _cut(text: str, found: _Found) -> str:
    """The text without one item, and without each container that it was the only one in."""
    path = list(found.path)
    while len(path) > 1 and len(_items(text, path[-1][0])) == 1:
        path.pop()
    start, item = path[-1]
    items = _items(text, start)
    number = next(number for number, one in enumerate(items) if one.start == item.start)
    if number:
        return text[: items[number - 1].end] + text[item.end :]
    if len(items) > 1:
        return text[: item.start] + text[items[1].start :]
    end = _skip(text, item.end)
    return text[: start + 1] + text[end:]
