"""The files of share/ that go into the wheel: the man page, and completion scripts where shells look for them."""

from __future__ import annotations

import re
from typing import Final

from interlock.cli.commands import COMMANDS, FAMILIES, GROUPS, SUMMARY
from interlock.cli.exit_codes import ExitCode
from interlock.cli.setup.completion import completion_script

_ENVIRONMENT: Final = (
    ("INTERLOCK_HOME", "The folder of the log, the tokens and the sockets; else interlock in the XDG state folder."),
    ("INTERLOCK_CONFIG", "The configuration file; else interlock/config.toml in the XDG configuration folder."),
    ("NO_COLOR", "Without colours."),
)


def share_files() -> dict[str, str]:
    """Each file by its path below share/."""
    return {
        "man/man1/interlock.1": man_page(),
        "bash-completion/completions/interlock": completion_script("bash"),
        "fish/vendor_completions.d/interlock.fish": completion_script("fish"),
        "zsh/site-functions/_interlock": completion_script("zsh"),
    }


def man_page() -> str:
    """The man page, in the macros of man(7)."""
    parts = [
        '.\\" Made by `make docs` from the code. Edits here are overwritten.',
        '.TH INTERLOCK 1 "" "Interlock" "User Commands"',
        ".SH NAME",
        "interlock \\- run and watch AI coding agents",
        ".SH SYNOPSIS",
        ".B interlock\n[\\fICOMMAND\\fR] [\\fIOPTION\\fR ...]",
        ".SH DESCRIPTION",
        _text(SUMMARY),
        "Without a command it opens the board, on a terminal; else it prints what there is.",
        ".SH COMMANDS",
        *(_group(title, names.split()) for title, names in GROUPS),
        ".SH EXIT STATUS",
        *(_item(f"\\fB{code.value}\\fR", code.meaning) for code in ExitCode),
        ".SH ENVIRONMENT",
        *(_item(f"\\fB{name}\\fR", text) for name, text in _ENVIRONMENT),
        ".SH EXAMPLES",
        ".nf",
        *(_text(line) for line in _examples()),
        ".fi",
        ".SH SEE ALSO",
        "\\fBinterlock\\fR \\fICOMMAND\\fR \\fB\\-\\-help\\fR, \\fBtmux\\fR(1)",
    ]
    return "\n".join(parts) + "\n"


def _group(title: str, names: list[str]) -> str:
    wanted = [one for one in COMMANDS if one.name.split()[0] in names]
    order = {name: place for place, name in enumerate(names)}
    wanted.sort(key=lambda one: order[one.name.split()[0]])
    assert {one.name.split()[0] for one in wanted} | set(FAMILIES) >= set(names)
    return "\n".join((f".SS {title}", *(_item(f"\\fBinterlock {_text(one.name)}\\fR", one.help) for one in wanted)))


def _examples() -> list[str]:
    return [
        line for one in COMMANDS if one.name in ("run", "send", "approve", "top") for line in one.examples.splitlines()
    ]


def _item(head: str, text: str) -> str:
    return f".TP\n{head}\n{_text(text)}"


def _text(text: str) -> str:
    """Text for roff: a backslash or a hyphen stands for itself, and no line begins with a request."""
    plain = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", plain, flags=re.MULTILINE)
