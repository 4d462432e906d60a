"""The usual forms of commands that only look, read without the parser: words that are typed all day start at once.

Law: what is read here means what the parser would read. Any other form is the parser's, also to be refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple


class PlainForm(NamedTuple):
    """A command's function, the flags that it takes by name, how many words (least and most) come before them, and the
    options that take one of some words."""

    module: str
    function: str
    flags: tuple[str, ...] = ("json",)
    words: tuple[int, int] = (0, 0)
    has_home: bool = True
    choices: tuple[tuple[str, tuple[str, ...]], ...] = ()


FORMS: Final = {
    "ps": PlainForm("interlock.cli.look.ps", "ps", ("all", "json")),
    "show": PlainForm("interlock.cli.look.show", "show", ("json", "state"), (1, 1)),
    "logs": PlainForm("interlock.cli.look.logs", "logs", ("json", "turns"), (1, 1)),
    "why": PlainForm("interlock.cli.explain.why", "why", words=(1, 1)),
    "debug turns": PlainForm("interlock.cli.log.turns", "turns", words=(1, 1)),
    "turns": PlainForm("interlock.cli.log.turns", "turns", words=(1, 1)),
    "session history": PlainForm("interlock.cli.look.spawns", "spawns", words=(0, 1)),
    "spawns": PlainForm("interlock.cli.look.spawns", "spawns", words=(0, 1)),
    "usage": PlainForm("interlock.cli.look.usage", "usage", words=(0, 1)),
    "status": PlainForm("interlock.cli.server.status", "status"),
    "statusline": PlainForm("interlock.cli.server.statusline", "statusline", choices=(("format", ("plain", "tmux")),)),
    "version": PlainForm("interlock.cli.setup.version", "version", has_home=False),
    "--version": PlainForm("interlock.cli.setup.version", "version", has_home=False),
}
_SPELLED: Final = {"all": "every"}
_HOME: Final = "--home"


def run_plain(tokens: Sequence[str]) -> int | None:
    """Carry out a plain command line; None: it is for the parser."""
    name = next((name for name in (" ".join(tokens[:2]), *tokens[:1]) if name in FORMS), "")
    form = FORMS.get(name)
    read = None if form is None else _read(form, tokens[len(name.split()) :])
    if form is None or read is None:
        return None
    from importlib import import_module

    words, given = read
    code: int | None = getattr(import_module(form.module), form.function)(*words, **given)
    return code or 0


def _read(form: PlainForm, tokens: Sequence[str]) -> tuple[list[str], dict[str, object]] | None:
    words: list[str] = []
    given: dict[str, object] = {}
    left = iter(tokens)
    for token in left:
        flag = token.removeprefix("--")
        if token == _HOME and form.has_home:
            folder = next(left, "-")
            if folder.startswith("-") or not folder or "home" in given:
                return None
            from pathlib import Path

            given["home"] = Path(folder)
        elif token.startswith("--") and flag in dict(form.choices):
            word = next(left, "")
            if word not in dict(form.choices)[flag] or flag in given:
                return None
            given[flag] = word
        elif token.startswith("--") and flag in form.flags:
            given[_SPELLED.get(flag, flag)] = True
        elif token.startswith("-") or not token:
            return None
        else:
            words.append(token)
    least, most = form.words
    return (words, given) if least <= len(words) <= most else None
