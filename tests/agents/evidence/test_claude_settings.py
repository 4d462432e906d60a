"""Our hooks in Claude Code's settings: only text is added, and exactly that text can be taken out again."""

from __future__ import annotations

import codecs
import json
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.agents.evidence.claude_settings import EVENTS, installed_in, notes_on, with_hooks, without_hooks
from interlock.agents.evidence.hook_command import MARKER, hook_command
from interlock.vocabulary.errors import UsageError
from tests.each_row import each_row

COMMAND: Final = hook_command("claude")
MINE: Final = '{"matcher": "Bash", "hooks": [{"type": "command", "command": "mine"}]}'
GOOD: Final = {
    "empty": b"",
    "blank": b" \n",
    "object": b"{}",
    "object, line end": b"{}\n",
    "one line": b'{"env": {"A": "1"}, "model": "opus"}',
    "many lines": b'{\n  "env": {\n    "A": "1"\n  },\n  "model": "opus"\n}\n',
    "tabs and CRLF": b'{\r\n\t"model": "opus"\r\n}\r\n',
    "no line end": b'{\n    "model": "opus"\n}',
    "BOM": codecs.BOM_UTF8 + b'{\n  "model": "opus"\n}\n',
    "own hooks": f'{{\n  "hooks": {{\n    "Stop": [\n      {MINE}\n    ]\n  }},\n  "model": "opus"\n}}\n'.encode(),
    "own hooks, one line": f'{{"hooks":{{"Stop":[{MINE},{MINE}]}}}}'.encode(),
    "odd blanks": b'{ "hooks" : { "Stop" : [ ] } , "n" : 1e400 }'.replace(b"1e400", b"1.50"),
    "empty hooks": b'{"hooks": {}}',
    "strange text": '{"model": "Gr\\u00fc\\u00dfe 你好 \\ud83d\\ude00 \\"]}{[\\"", "b": [[], {}, [{}]]}\n'.encode(),
    "numbers as they are spelt": b'{"a": 1.0, "b": 1e3, "c": 12345678901234567890}',
}
BAD: Final = {
    "comment": b'{\n  // mine\n  "model": "opus"\n}\n',
    "block comment": b'{"a": 1 /* one */}',
    "trailing comma": b'{"a": 1,}',
    "cut": b'{"hooks": {"Stop": [',
    "list": b"[]",
    "text": b'"hello"',
    "hooks is a list": b'{"hooks": []}',
    "an event is an object": b'{"hooks": {"Stop": {}}}',
    "an event is null": b'{"hooks": {"PreToolUse": null}}',
    "a key twice": b'{"hooks": {}, "hooks": {"Stop": []}}',
    "not UTF-8": b'{"a": "\xff"}',
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "NaN": b'{"a": NaN}',
    "deep": b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "binary": bytes(range(256)),
}


@each_row("before", GOOD.values(), ids=GOOD.keys())
def test_every_event_gets_our_command_and_the_rest_stays(before: bytes) -> None:
    after = with_hooks(before, COMMAND)
    assert installed_in(after) == dict.fromkeys(EVENTS, COMMAND)
    old = json.loads(before.removeprefix(codecs.BOM_UTF8).strip() or b"{}")
    new = json.loads(after.removeprefix(codecs.BOM_UTF8))
    for event, groups in new.pop("hooks").items():
        theirs = old.get("hooks", {}).get(event, [])
        assert groups[: len(theirs)] == theirs
        assert [one["hooks"][0]["command"] for one in groups[len(theirs) :]] == [COMMAND]
    old.pop("hooks", None)
    assert new == old
    assert list(new) == list(old)


@each_row("before", GOOD.values(), ids=GOOD.keys())
def test_installing_twice_is_installing_once(before: bytes) -> None:
    once = with_hooks(before, COMMAND)
    assert with_hooks(once, COMMAND) == once


@each_row("name", sorted(GOOD.keys() - {"empty", "blank", "odd blanks", "empty hooks"}))
def test_taking_out_gives_the_same_bytes(name: str) -> None:
    assert without_hooks(with_hooks(GOOD[name], COMMAND)) == GOOD[name]


@each_row("before", GOOD.values(), ids=GOOD.keys())
def test_every_byte_of_the_user_stays_in_its_order(before: bytes) -> None:
    """Whatever is not ours is a subsequence of what is written."""
    after = iter(with_hooks(before, COMMAND))
    assert all(byte in after for byte in before.strip())


@each_row("data", BAD.values(), ids=BAD.keys())
def test_what_claude_could_not_read_is_refused(data: bytes) -> None:
    with pytest.raises(UsageError, match="settings"):
        with_hooks(data, COMMAND)


def test_an_older_installation_is_replaced() -> None:
    old = with_hooks(GOOD["own hooks"], f"/gone/python /gone/hook.py claude {MARKER}")
    new = with_hooks(old, COMMAND)
    assert new == with_hooks(GOOD["own hooks"], COMMAND)


def test_what_the_user_added_later_survives_a_removal() -> None:
    installed = json.loads(with_hooks(GOOD["own hooks"], COMMAND))
    installed["hooks"]["PreToolUse"].insert(0, json.loads(MINE))
    installed["hooks"]["Stop"][1]["hooks"].append({"type": "command", "command": "beside ours"})
    installed["later"] = True
    left = json.loads(without_hooks(json.dumps(installed, indent=2).encode()))
    assert left["hooks"] == {
        "Stop": [json.loads(MINE), {"hooks": [{"type": "command", "command": "beside ours"}]}],
        "PreToolUse": [json.loads(MINE)],
    }
    assert left["later"] is True


def test_a_switch_that_keeps_hooks_from_running_is_noted() -> None:
    assert notes_on(with_hooks(b'{"disableAllHooks": true}', COMMAND)) != []
    assert notes_on(with_hooks(b"{}", COMMAND)) == notes_on(b"") == []


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
GROUPS = st.lists(
    st.dictionaries(st.sampled_from(["matcher", "hooks", "x"]), VALUES, max_size=2), min_size=1, max_size=2
)
HOOKS = st.dictionaries(st.sampled_from([*EVENTS[:4], "Other"]), GROUPS, min_size=1, max_size=3)


@given(
    st.dictionaries(st.text(max_size=6).filter(lambda key: key != "hooks"), VALUES, min_size=1, max_size=4),
    HOOKS | st.none(),
    st.sampled_from([None, 1, 2, "\t"]),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
)
def test_any_settings_come_back_byte_for_byte(
    fields: dict[str, object], hooks: object, indent: int | str | None, line_end: str, is_ascii: bool
) -> None:
    text = json.dumps(fields | ({"hooks": hooks} if hooks else {}), indent=indent, ensure_ascii=is_ascii)
    before = text.replace("\n", line_end).encode()
    assert without_hooks(with_hooks(before, COMMAND)) == before
