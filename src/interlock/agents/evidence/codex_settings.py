"""Our hooks in the text of Codex's `config.toml`: a marked block at its end.

Laws:
1. Only our own lines are put in or taken out; every other byte stays, also one that somebody wrote inside our block.
2. Before and after, the file says the same about everything else: both are parsed and compared.
3. Taking out what was put in gives the bytes from before.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Final

from interlock.agents.evidence.hook_command import MARKER, TIMEOUT_SECONDS, is_ours
from interlock.vocabulary.errors import UsageError

EVENTS: Final = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PermissionRequest", "PostToolUse", "Stop")
_BEGIN: Final = "# >>> interlock hooks: `interlock hooks uninstall codex` takes these lines out again >>>"
_END: Final = "# <<< interlock hooks <<<"
_GROUP: Final = """\
[[hooks.{event}]]
[[hooks.{event}.hooks]]
type = "command"
command = {command}
timeout = {timeout}
"""
# The line end before the block is ours too: without it a last line that has none would run into the block.
_BLOCK_HEAD: Final = re.compile(rf"(\r?\n)?{re.escape(_BEGIN)}\r?\n")
_BLOCK_TAIL: Final = re.compile(rf"^{re.escape(_END)}\r?\n?", re.MULTILINE)
_OUR_GROUP: Final = re.compile(
    r"^\[\[hooks\.(\w+)\]\]\r?\n\[\[hooks\.\1\.hooks\]\]\r?\n"
    rf'type = "command"\r?\ncommand = ".*{re.escape(MARKER)}"\r?\ntimeout = \d+\r?\n',
    re.MULTILINE,
)
_CAPITAL: Final = re.compile(r"(?<!^)(?=[A-Z])")
_REMEDY: Final = "fix it; nothing was changed"


def installed_in(data: bytes) -> dict[str, str]:
    """Our command for each event that has one."""
    return dict(_ours(_parse(_text(data))))


def with_hooks(data: bytes, command: str) -> bytes:
    """The configuration with our hooks, and with none of an older installation."""
    text = _text(without_hooks(data))
    groups = "".join(
        # A JSON string of printable text is a TOML basic string as well.
        _GROUP.format(event=event, command=json.dumps(command, ensure_ascii=False), timeout=TIMEOUT_SECONDS)
        for event in EVENTS
    )
    block = f"\n{_BEGIN}\n{groups}{_END}\n"
    made = text + (block.replace("\n", "\r\n") if "\r\n" in text else block)
    _check_rest(text, made)
    return made.encode()


def without_hooks(data: bytes) -> bytes:
    """The configuration without our hooks."""
    text = _text(data)
    before = _parse(text)
    if not list(_ours(before)):
        return data
    made = _BLOCK_HEAD.sub(_joint, _BLOCK_TAIL.sub("", _OUR_GROUP.sub("", text)))
    if list(_ours(_parse(made))):
        raise UsageError("our hooks were rewritten by somebody", remedy=f"take out what ends in `{MARKER}` by hand")
    _check_rest(made, text)
    return made.encode()


def _joint(head: re.Match[str]) -> str:
    """What stays where the block began: a line end if else two lines of the user's would become one."""
    is_in_line = not head.string[: head.start()].endswith("\n")
    return (head[1] or "") if is_in_line and head.string[head.end() :] else ""


def notes_on(data: bytes) -> list[str]:
    """What else has to be known: Codex runs a hook only once a person has trusted it."""
    parsed = _parse(_text(data))
    features = parsed.get("features")
    if isinstance(features, Mapping) and features.get("hooks") is False:
        return ["`features.hooks` is false: Codex runs no hook at all"]
    if not installed_in(data):
        return []
    if _is_trusted(parsed):
        return ["Codex noted that a person trusts these hooks; it asks again if they change"]
    return [
        "Codex asks at its next start whether to trust these hooks, and runs none before; "
        "`--dangerously-bypass-hook-trust` runs them unasked"
    ]


def _is_trusted(parsed: Mapping[str, object]) -> bool:
    """Whether Codex keeps a note of trust for the place of each hook of ours. What it vouches for is not checked."""
    hooks = parsed.get("hooks")
    state = hooks.get("state") if isinstance(hooks, Mapping) else None
    noted = tuple(state) if isinstance(state, Mapping) else ()
    ours = [(event, number) for event, groups in _groups(parsed) for number, one in enumerate(groups) if _command(one)]
    ends = [f":{_CAPITAL.sub('_', event).lower()}:{number}:0" for event, number in ours]
    return all(any(name.endswith(end) for name in noted) for end in ends)


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"the configuration is no UTF-8 (byte {error.start})", remedy=_REMEDY) from error


def _parse(text: str) -> dict[str, object]:
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"the configuration is not TOML: {error}", remedy=_REMEDY) from error


def _groups(parsed: Mapping[str, object]) -> Iterator[tuple[str, list[object]]]:
    hooks = parsed.get("hooks")
    for event, groups in hooks.items() if isinstance(hooks, Mapping) else ():
        if isinstance(groups, list):
            yield event, groups


def _command(group: object) -> str | None:
    """The command of a group that is ours: it has one hook, which is."""
    hooks = group.get("hooks") if isinstance(group, Mapping) else None
    one = hooks[0] if isinstance(hooks, list) and len(hooks) == 1 else None
    command = one.get("command") if isinstance(one, Mapping) else None
    return command if isinstance(command, str) and is_ours(command) else None


def _ours(parsed: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for event, groups in _groups(parsed):
        for group in groups:
            command = _command(group)
            if command is not None:
                yield event, command


def _check_rest(without: str, with_ours: str) -> None:
    """Both texts say the same but for our hooks; else the block landed where it means something else."""
    try:
        theirs, both = _parse(without), _parse(with_ours)
    except UsageError as error:
        raise UsageError(
            "the hooks in the configuration are written inline, so that no block can be added to them",
            remedy="write them as [[hooks.EVENT]] tables; nothing was changed",
        ) from error
    if _plain(theirs) != _plain(both):
        raise UsageError("the configuration would not mean the same afterwards", remedy=_REMEDY)


def _plain(parsed: dict[str, object]) -> dict[str, object]:
    hooks = parsed.get("hooks")
    if not isinstance(hooks, Mapping):
        return parsed
    kept = {
        event: [group for group in groups if _command(group) is None] if isinstance(groups, list) else groups
        for event, groups in hooks.items()
    }
    left = {event: groups for event, groups in kept.items() if groups != []}
    return {name: value for name, value in {**parsed, "hooks": left}.items() if (name, value) != ("hooks", {})}
