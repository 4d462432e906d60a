"""`interlock config`: every value and where it came from, where the file is, and whether it is understood."""

from __future__ import annotations

import os
from typing import Annotated
from urllib.parse import urlsplit

from cyclopts import Parameter
from msgspec import Struct

from interlock.agents.pool.masking import MASK, masked_text
from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.runtime.config.agent_choice import configured_secrets
from interlock.runtime.config.loading import ConfigError, Loaded, Setting, config_path, describe, load
from interlock.runtime.config.reading import Source
from interlock.runtime.config.sections import OFF
from interlock.runtime.redaction.redactor import Redactor
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.registry import Json

JsonFlag = Annotated[bool, Parameter(negative="", help="Print JSON for a script.")]


class ShownSetting(Struct, frozen=True):
    """One value, as `config show --json` prints it. `where` is the variable or the file that it came by."""

    key: str
    value: Json
    source: str
    where: str


class ShownConfig(Struct, frozen=True):
    """The whole configuration, as `config show --json` prints it."""

    path: str | None
    exists: bool
    settings: tuple[ShownSetting, ...]


def show(
    prefix: Annotated[str, Parameter(help="Only keys that begin so, as in: run, or agents.claude.")] = "",
    /,
    *,
    changed: Annotated[bool, Parameter(negative="", help="Only values that are not the defaults.")] = False,
    json: JsonFlag = False,
) -> int:
    """Print every value with its origin: default, file or environment. Secrets are masked.

    Exit code 2, with the key named, if the file or a variable is not understood.
    """
    loaded = load(os.environ)
    chosen = [one for one in loaded.settings if _is_under(one.key, prefix)]
    if prefix and not chosen:
        raise UsageError(f"there is no key {prefix!r}", remedy="see them all with `interlock config show`")
    redactor = Redactor(configured_secrets(loaded.config, os.environ))
    shown = [_shown(one, loaded, redactor) for one in chosen if not changed or one.source is not Source.DEFAULT]
    if json:
        path = None if loaded.path is None else str(loaded.path)
        output.print_json(ShownConfig(path, loaded.has_file, tuple(shown)))
        return ExitCode.COMPLETED
    output.print_table(("KEY", "VALUE", "ORIGIN"), [(one.key, _cell(one.value), _origin(one)) for one in shown])
    output.note(_place(loaded))
    return ExitCode.COMPLETED


def path(*, json: JsonFlag = False) -> int:
    """Print where the file is, or would be: INTERLOCK_CONFIG, else interlock/config.toml in the XDG config folder."""
    found = config_path(os.environ)
    if found is None:
        raise UsageError("there is no home to look in", remedy="set HOME, or name a file with INTERLOCK_CONFIG")
    if json:
        output.print_json({"path": str(found), "exists": found.exists()})
    else:
        output.print_text(str(found))
    return ExitCode.COMPLETED


def check(*, json: JsonFlag = False) -> int:
    """Check the file and the variables, and list every mistake. Exit code 2 if there are any."""
    try:
        loaded = load(os.environ)
    except ConfigError as wrong:
        if json:
            output.print_json({"ok": False, "path": wrong.source, "mistakes": wrong.mistakes})
        else:
            output.print_text("\n".join(output.escape(describe(wrong.source, one)) for one in wrong.mistakes))
        return ExitCode.USAGE
    if json:
        output.print_json({"ok": True, "path": None if loaded.path is None else str(loaded.path), "mistakes": ()})
    else:
        output.print_text(f"understood: {_place(loaded)}")
    return ExitCode.COMPLETED


def _is_under(key: str, prefix: str) -> bool:
    return not prefix or f"{key}.".startswith(f"{prefix}.")


def _place(loaded: Loaded) -> str:
    if loaded.path is None:
        return "there is no home to look for a file in"
    return f"{loaded.path}" if loaded.has_file else f"there is no file {loaded.path}; defaults hold"


def _shown(setting: Setting, loaded: Loaded, redactor: Redactor) -> ShownSetting:
    where = str(loaded.path) if setting.source is Source.FILE else setting.where
    return ShownSetting(setting.key, masked_value(setting.key, setting.value, redactor), setting.source.value, where)


def masked_value(key: str, value: object, redactor: Redactor) -> Json:
    """A value that may be shown: what can be a secret is not in it."""
    words = key.split(".")
    if value is None:
        return None
    if words[0] == "agents" and words[2:4] == ["environment", "set"]:
        return MASK
    if key in ("notify.webhook", "notify.ntfy") and isinstance(value, str) and value:
        split = urlsplit(value)  # whoever knows the path of a webhook or a topic may call it
        return f"{split.scheme}://{split.netloc}/{MASK}" if split.path.strip("/") or split.query else value
    if isinstance(value, tuple):
        return list(redactor.argv([str(one) for one in value]))
    return _masked(words[-1], value, redactor)


def _masked(name: str, value: object, redactor: Redactor) -> Json:
    """As options are, of any shape. A name that tells of a secret hides its text, however deep it stands."""
    if isinstance(value, dict):
        return {key: _masked(str(key), one, redactor) for key, one in value.items()}
    if isinstance(value, list):
        return [_masked(name, one, redactor) for one in value]
    if isinstance(value, str):
        is_secret = masked_text(f"{name}={'x' * 12}") != f"{name}={'x' * 12}"
        return MASK if is_secret and value else redactor.diagnostic(value)
    return value if isinstance(value, bool | int | float) else str(value)


def _cell(value: Json) -> str:
    if value is None:
        return OFF
    if isinstance(value, list):  # with blanks, so that a long one is broken between its words
        return f"[{', '.join(map(output.encode_json, value))}]"
    return value or '""' if isinstance(value, str) else output.encode_json(value)


def _origin(one: ShownSetting) -> str:
    return one.where if one.source == Source.ENVIRONMENT else one.source
