"""`interlock rules import`: the lists of Claude Code and Codex as rules, as far as they mean the same here."""

from __future__ import annotations

import json as stdlib_json
from pathlib import Path
from typing import Annotated, Final, Literal

from cyclopts import Parameter

from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.home import JsonFlag
from interlock.lifecycle.rules.rule_text import TranslatedRule, of_claude, of_codex
from interlock.vocabulary.errors import UsageError

_PLACES: Final = {"claude": ".claude/settings.json", "codex": ".codex/rules/default.rules"}


def import_rules(
    program: Annotated[Literal["claude", "codex"], Parameter(help="Whose list it is.")],
    file: Annotated[Path | None, Parameter(help="Its file; else where that program keeps it.")] = None,
    /,
    *,
    json: JsonFlag = False,
) -> int:
    """Print the list of another program as rules. What cannot be meant here is told on standard error.

    Nothing is written: read what is printed, and put it into your rules.toml. Exit code 3: some were refused.
    """
    path = file or Path.home() / _PLACES[program]
    try:
        text = path.read_text(encoding="utf-8")
        found = list(of_codex(text) if program == "codex" else of_claude(stdlib_json.loads(text)))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", remedy="name its file") from error
    except ValueError as error:
        raise UsageError(f"{path} is not understood: {error}", remedy="name a file of that program") from error
    _print(found, json=json)
    return ExitCode.PARTIAL if any(one.refused for one in found) else ExitCode.COMPLETED


def _print(found: list[TranslatedRule], *, json: bool) -> None:
    if json:
        rules = [{"source": one.source, "text": one.text} for one in found if one.text]
        refused = [{"source": one.source, "because": one.refused} for one in found if one.refused]
        output.print_json({"rules": rules, "refused": refused})
        return
    texts = [one.text for one in found if one.text]
    if texts:
        output.print_text("\n".join(texts).rstrip())
    for one in found:
        if one.refused:
            output.note(output.escape(f"refused: {one.source}: {one.refused}"))
