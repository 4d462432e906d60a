"""Our hooks in Codex's configuration: a block of our own lines, which can be taken out again whatever came between."""

from __future__ import annotations

import tomllib
from typing import Final

import pytest

from interlock.agents.evidence.codex_settings import EVENTS, installed_in, notes_on, with_hooks, without_hooks
from interlock.agents.evidence.hook_command import MARKER, hook_command
from interlock.vocabulary.errors import UsageError
from tests.each_row import each_row

COMMAND: Final = hook_command("codex")
OWN: Final = b'[[hooks.Stop]]\nmatcher = "x"\n[[hooks.Stop.hooks]]\ntype = "command"\ncommand = "mine" # keep\n'
GOOD: Final = {
    "empty": b"",
    "comment": b"# only words",
    "line end": b'model = "x"\n',
    "no line end": b'model = "x"',
    "blank lines": b'\n\nmodel = "x"\n\n\n',
    "CRLF": b'model = "x"\r\n[a]\r\nb = 1\r\n',
    "BOM": "\ufeffmodel = 1\n".encode(),
    "order and comments": b'# one\nz = 1 # two\na = 2\n\n[t] # three\nk = """\n# >>> not ours\n"""\n',
    "own hooks": OWN,
    "own hooks, then more": OWN + b'\n[projects."/a b"]\ntrust_level = "trusted"\n',
    "notes of trust": b'[hooks.state."/c:stop:0:0"]\ntrusted_hash = "sha256:00"\n',
    "strange text": 'name = "Grüße 你好"\n'.encode(),
}
BAD: Final = {
    "not TOML": b"model = \n",
    "JSON": b'{"model": 1}',
    "cut": b'model = "x\n',
    "inline list": b'[hooks]\nStop = [{ hooks = [{ type = "command", command = "mine" }] }]\n',
    "inline table": b"hooks = { Stop = [] }\n",
    "hooks is text": b'hooks = "no"\n',
    "not UTF-8": b'model = "\xff"\n',
    "binary": bytes(range(256)),
}


@each_row("before", GOOD.values(), ids=GOOD.keys())
def test_every_event_gets_our_command_and_every_byte_stays(before: bytes) -> None:
    after = with_hooks(before, COMMAND)
    assert after.startswith(before)
    assert installed_in(after) == dict.fromkeys(EVENTS, COMMAND)


@pytest.mark.parametrize("before", GOOD.values(), ids=GOOD.keys())
def test_installing_twice_is_installing_once(before: bytes) -> None:
    once = with_hooks(before, COMMAND)
    assert with_hooks(once, COMMAND) == once


@pytest.mark.parametrize("before", GOOD.values(), ids=GOOD.keys())
def test_taking_out_gives_the_same_bytes(before: bytes) -> None:
    assert without_hooks(with_hooks(before, COMMAND)) == before


def test_the_users_own_hook_stays_first() -> None:
    stop = tomllib.loads(with_hooks(OWN, COMMAND).decode())["hooks"]["Stop"]
    assert [group["hooks"][0]["command"] for group in stop] == ["mine", COMMAND]


@pytest.mark.parametrize("data", BAD.values(), ids=BAD.keys())
def test_what_cannot_take_a_block_is_refused(data: bytes) -> None:
    with pytest.raises(UsageError):
        with_hooks(data, COMMAND)


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("is_whole", [True, False], ids=["whole line", "no line end"])
def test_what_codex_wrote_into_our_block_survives(line_end: bytes, is_whole: bool) -> None:
    """Codex keeps its notes of trust before the last comment of the file, which is our own."""
    before = b'model = "x"' + line_end * is_whole
    note = b'\n[hooks.state."/c:stop:0:0"]\ntrusted_hash = "sha256:00"\n'
    installed = with_hooks(before, COMMAND)
    head, mark, tail = installed.rpartition(b"# <<<")
    left = without_hooks(head + note + mark + tail)
    assert installed_in(left) == {}
    assert tomllib.loads(left.decode()) == tomllib.loads((before + line_end + note).decode())
    assert note in left


def test_what_stands_behind_our_block_survives() -> None:
    left = without_hooks(with_hooks(b"a = 1", COMMAND) + b"[t]\nb = 2\n")
    assert left == b"a = 1\n[t]\nb = 2\n"


def test_an_older_installation_is_replaced() -> None:
    old = with_hooks(OWN, f"/gone/python /gone/hook.py codex {MARKER}")
    assert with_hooks(old, COMMAND) == with_hooks(OWN, COMMAND)


def test_hooks_of_ours_in_another_spelling_are_not_guessed_at() -> None:
    rewritten = f"[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ncommand = 'x {MARKER}'\ntype = 'command'\n".encode()
    with pytest.raises(UsageError, match="by hand"):
        without_hooks(rewritten)


def test_trust_is_said_as_far_as_it_is_noted() -> None:
    installed = with_hooks(OWN, COMMAND)
    assert "asks at its next start" in notes_on(installed)[0]
    names = ("session_start:0", "user_prompt_submit:0", "pre_tool_use:0", "permission_request:0", "post_tool_use:0")
    some = "".join(f'[hooks.state."/c:{name}:0"]\ntrusted_hash = "x"\n' for name in names).encode()
    other = b'[hooks.state."/c:stop:0:0"]\ntrusted_hash = "x"\n'  # of the user's own hook, which stands first
    ours = b'[hooks.state."/c:stop:1:0"]\ntrusted_hash = "x"\n'
    assert "asks at its next start" in notes_on(installed + some + other)[0]
    assert "noted that a person trusts" in notes_on(installed + some + ours)[0]
    assert "false" in notes_on(b"[features]\nhooks = false\n" + installed)[0]
    assert notes_on(OWN) == []
