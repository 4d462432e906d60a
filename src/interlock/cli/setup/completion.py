"""`interlock completion`: the script that teaches a shell our commands."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

from cyclopts import Parameter
from cyclopts.completion.install import add_to_rc_file, get_default_completion_path

from interlock.cli import output
from interlock.cli.app import app

Shell: TypeAlias = Literal["bash", "fish", "zsh"]

_PROGRAM: Final = "interlock"

# zsh calls a completion by the name of its file. The script defines a function of another name, and without these lines
# a file `_interlock` completes nothing.
_ZSH_CALL: Final = """
if [[ "${funcstack[1]}" == _* ]]; then
  _cyclopts_interlock "$@"
else
  compdef _cyclopts_interlock interlock
fi
"""
# fish offers files everywhere, unless it is told not to; options that take a path ask for them by themselves.
_FISH_START: Final = "complete -c interlock -f\n"
# Written at the end of a `.zshrc` that runs no `compinit`; `interlock uninstall` takes them out again.
COMPINIT_COMMENT: Final = "# interlock completions: read the path above"
COMPINIT_LINE: Final = "autoload -Uz compinit && compinit"


def completion(shell: Shell, /, *, install: Annotated[bool, Parameter(negative="")] = False) -> None:
    """Print a completion script, or install it.

    Parameters
    ----------
    shell
        The shell to complete for.
    install
        Write the script to the shell's own folder and source it from its start-up file, instead of printing it.
    """
    if install:
        output.print_text(f"installed {_install(shell)}; open a new shell to use it")
    else:
        output.print_text(completion_script(shell))


def _install(shell: Shell) -> Path:
    """As `app.install_completion` does it, which would make a script of its own first: that takes half a second."""
    path = get_default_completion_path(shell, _PROGRAM).absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(completion_script(shell))
    if shell != "fish":
        add_to_rc_file(path, _PROGRAM, shell)
    if shell == "zsh":
        _ensure_compinit(path.parent)
    return path


def completion_script(shell: Shell) -> str:
    """The script, for a file of any name on the shell's path of completions, or to be sourced."""
    script = app.generate_completion(shell=shell)
    match shell:
        case "zsh":
            return f"{script.rstrip()}\n{_ZSH_CALL}"
        case "fish":
            return f"{_FISH_START}{script}"
        case "bash":
            return script


def _ensure_compinit(folder: Path) -> None:
    """zsh reads its path of completions when `compinit` runs. A start-up file that names our folder and runs no
    `compinit` behind it gets two lines. One that does not name it has a framework, which runs it by itself.
    """
    start_up = (Path.home() / ".zshrc").resolve()
    content = start_up.read_bytes() if start_up.exists() else b""
    _, named, behind = content.partition(os.fsencode(folder))
    if not named or b"compinit" in behind:
        return
    separator = b"" if content.endswith(b"\n") else b"\n"
    with start_up.open("ab") as file:
        file.write(separator + f"{COMPINIT_COMMENT}\n{COMPINIT_LINE}\n".encode())
