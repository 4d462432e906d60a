"""`interlock uninstall`: what Interlock put on this machine, found by looking, and the way to take it away.

Laws:
1. Of a home only the files that Interlock makes are named: what somebody else put there is left, and said to be.
2. Nothing of an agent is named: its transcripts, settings, credentials, work folders and worktrees are its own, or the
   user's. Our hooks are taken out of its settings, and nothing else.
3. A completion script is ours if it is the one that its shell loads for `interlock`, and a line of a start-up file if
   our comment stands above it and it names the folder of that script, or is the `compinit` that we wrote.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter
from msgspec import Struct

from interlock.agents.evidence.hook_settings import HookedCli, Installation, hook_status, settings_path, uninstall_hooks
from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.home import HomeOption, JsonFlag
from interlock.cli.install.service import remove_service_file, service_files
from interlock.cli.server.down import surviving_sessions
from interlock.cli.server.leftovers import end_empty_terminals
from interlock.cli.server.process import Presence, look_for_server
from interlock.cli.setup.completion import COMPINIT_COMMENT, COMPINIT_LINE
from interlock.cli.setup.packages import remove_program_command
from interlock.log.paths import DATABASE_NAME, default_home
from interlock.log.search.index_file import NAME as SEARCH_NAME
from interlock.runtime.config.place import CONFIG_VARIABLE, config_path
from interlock.runtime.rules.keeper import STANDING_FILE
from interlock.vocabulary.errors import InterlockError, UsageError

# What a server and the commands make in a home. `tests/cli/test_install.py` holds it against a home that was used.
_HOME_FILES: Final = frozenset(
    {
        *(f"{DATABASE_NAME}{end}" for end in ("", "-wal", "-shm", "-journal")),
        "identity.json",
        "logins.json",
        "notified.json",
        "notified.lock",
        STANDING_FILE,
        "rung.json",
        "rung.lock",
        *(f"{SEARCH_NAME}{end}" for end in ("", "-wal", "-shm", "-journal")),
        "server.json",
        "server.log",
        "service.log",
        "starting.json",
        "statusline.json",
        "tokens.json",
    }
)
_HOME_FOLDERS: Final = frozenset({"archive", "hooks", "run"})
_CONFIG_FOLDERS: Final = frozenset({"profiles"})
_END_ALL: Final = "interlock down --stop-agents"
_SHELLS: Final = ("bash", "fish", "zsh")
# What `interlock completion --install` writes above the line that loads a script.
_RC_COMMENTS: Final = {"bash": "# Load interlock completion", "zsh": "# interlock completions"}


@dataclass(frozen=True, slots=True)
class Removable:
    """One thing that can be taken away. `kind`: home, configuration, service, completion or hooks."""

    kind: str
    path: Path
    told: str
    remove: Callable[[], None]


def removables(home: Path) -> list[Removable]:
    """All that is there, in the order in which it is best taken away."""
    return [*_services(), *_hooks(), *_completions(), *_configuration(), *_home(home)]


def left_in(home: Path) -> list[Path]:
    """What is in a home and was not put there by Interlock."""
    try:
        return sorted(path for path in home.iterdir() if not _is_of_home(path))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_of_home(path: Path) -> bool:
    if path.is_dir() and not path.is_symlink():
        return path.name in _HOME_FOLDERS
    return path.name in _HOME_FILES


def _services() -> Iterator[Removable]:
    for path in service_files():
        yield Removable("service", path, "the service file", partial(remove_service_file, path))


def _hooks() -> Iterator[Removable]:
    for cli in HookedCli:
        try:
            path = settings_path(cli, None)
            status = hook_status(cli, path)
        except (InterlockError, OSError, RuntimeError):
            continue  # settings that cannot be read are not ours to touch
        if status.installation is not Installation.ABSENT:
            told = f"our hooks in the settings of {cli.value}; the rest of the file stays"
            yield Removable("hooks", path, told, partial(_take_out_hooks, cli, path))


def _take_out_hooks(cli: HookedCli, path: Path) -> None:
    uninstall_hooks(cli, path)


def _completions() -> Iterator[Removable]:
    from cyclopts.completion.install import get_default_completion_path

    for shell in _SHELLS:
        script = get_default_completion_path(shell, "interlock").absolute()
        rc = Path.home() / f".{shell}rc"
        if shell in _RC_COMMENTS and _without_lines(rc, _RC_COMMENTS[shell], script) is not None:
            told = f"the lines that load the completion of {shell}; the rest of the file stays"
            yield Removable("completion", rc, told, partial(_take_out_lines, rc, _RC_COMMENTS[shell], script))
        if script.is_file():
            yield Removable("completion", script, f"the completion script of {shell}", script.unlink)


def _without_lines(rc: Path, comment: str, script: Path) -> str | None:
    """A start-up file without our comments and the line below each; None: it has none of ours."""
    try:
        lines = rc.read_text("utf-8", "surrogateescape").splitlines(keepends=True)
    except OSError:
        return None
    ours = [
        at
        for at, (line, below) in enumerate(pairwise(lines))
        if (line.strip() == comment and str(script.parent) in below)
        or (line.strip(), below.strip()) == (COMPINIT_COMMENT, COMPINIT_LINE)
    ]
    gone = {at + more for at in ours for more in (0, 1)}
    return "".join(line for at, line in enumerate(lines) if at not in gone) if ours else None


def _take_out_lines(rc: Path, comment: str, script: Path) -> None:
    kept = _without_lines(rc, comment, script)
    if kept is None:
        return
    target = rc.resolve()
    draft = target.with_name(f"{target.name}.interlock-{os.getpid()}")
    draft.write_text(kept, "utf-8", "surrogateescape")
    shutil.copymode(target, draft)
    draft.replace(target)


def _configuration() -> Iterator[Removable]:
    path = config_path(os.environ)
    if path is None or os.environ.get(CONFIG_VARIABLE):
        return  # a file that a person names may be a project's own
    if path.is_file():
        yield Removable("configuration", path, "the configuration", path.unlink)
    for name in sorted(_CONFIG_FOLDERS):
        folder = path.parent / name
        if path.parent.name == "interlock" and folder.is_dir() and not folder.is_symlink():
            yield Removable("configuration", folder, "profiles of your own", partial(shutil.rmtree, folder))
    if path.parent.name == "interlock" and path.parent.is_dir():
        yield Removable(
            "configuration", path.parent, "its folder, if it is empty then", partial(_remove_if_empty, path.parent)
        )


def _home(home: Path) -> Iterator[Removable]:
    try:
        found = sorted(path for path in home.iterdir() if _is_of_home(path))
    except (FileNotFoundError, NotADirectoryError):
        return
    for path in found:
        is_folder = path.is_dir() and not path.is_symlink()
        told = "the log: every session and its history" if path.name == DATABASE_NAME else ""
        yield Removable("home", path, told, partial(shutil.rmtree, path) if is_folder else path.unlink)
    told = "its folder" if not left_in(home) else "its folder, which stays: not all in it is Interlock's"
    yield Removable("home", home, told, partial(_remove_if_empty, home))


def _remove_if_empty(folder: Path) -> None:
    if not any(folder.iterdir()):
        folder.rmdir()


class ShownRemoval(Struct, frozen=True):
    """One thing that is there, as `uninstall --json` prints it. `removed` is false before `--yes`."""

    kind: str
    path: str
    what: str
    removed: bool
    problem: str = ""


class ShownUninstall(Struct, frozen=True):
    """All that is there, what is left alone, and the command that removes the program itself."""

    items: tuple[ShownRemoval, ...]
    left: tuple[str, ...]
    program: str


def uninstall(
    *,
    yes: Annotated[bool, Parameter(negative="", help="Remove what is listed. Without it nothing is changed.")] = False,
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """List what Interlock put on this machine: service, hooks, completions, configuration and home. --yes removes it.

    Nothing of an agent is removed: transcripts, settings, credentials, worktrees. --yes is refused while a server or
    one of its agents runs. To keep the log, run `interlock log export --all --output FILE` first.
    """
    folder = (home or default_home(os.environ)).absolute()
    use = _use_of(folder)
    if use and yes:
        raise UsageError(use, remedy=f"run `{_END_ALL}` first")
    if yes:
        end_empty_terminals(folder)  # with the home its socket goes, and nobody could reach it any more
    found = removables(folder)
    shown = [_removed(one) if yes else _shown(one, removed=False) for one in found]
    left = [str(path) for path in left_in(folder)]
    if json:
        output.print_json(ShownUninstall(items=tuple(shown), left=tuple(left), program=remove_program_command()))
    else:
        output.print_text("\n".join(_lines(shown, left, use=use, yes=yes)))
    return ExitCode.PARTIAL if any(one.problem for one in shown) else ExitCode.COMPLETED


def _use_of(home: Path) -> str:
    """Why nothing may be removed now; blank where it may."""
    presence = look_for_server(home).presence
    if presence not in (Presence.ABSENT, Presence.STALE):
        return f"a server of {home} runs, or may run"
    try:
        living = surviving_sessions(home)
    except InterlockError as error:  # a log that cannot be read may be removed all the same
        output.note(f"whether agents go on could not be read: {error}")
        return ""
    return f"{len(living)} agents of {home} go on without a server" if living else ""


def _removed(one: Removable) -> ShownRemoval:
    try:
        one.remove()
    except (InterlockError, OSError) as error:
        return _shown(one, removed=False, problem=str(error))
    return _shown(one, removed=True)


def _shown(one: Removable, *, removed: bool, problem: str = "") -> ShownRemoval:
    is_kept = removed and one.kind in ("home", "configuration") and one.path.exists()
    return ShownRemoval(one.kind, str(one.path), one.told, removed and not is_kept, problem)


def _lines(shown: Sequence[ShownRemoval], left: Sequence[str], *, use: str, yes: bool) -> list[str]:
    if not shown:
        lines = ["nothing of Interlock is on this machine but the program itself"]
    else:
        lines = ["removed:" if yes else "this would be removed:"]
        lines += [_line(one, yes=yes) for one in shown]
    if left:
        lines += [
            "left alone: not Interlock's, or your work (`interlock worktree ls`):",
            *(f"  {path}" for path in left),
        ]
    if shown and not yes:
        first = f"{_END_ALL} && " if use else ""
        lines += [f"not now: {use}"] if use else []
        lines.append(f"to remove it: {first}interlock uninstall --yes")
    return [*lines, f"the program itself: {remove_program_command()}"]


def _line(one: ShownRemoval, *, yes: bool) -> str:
    what = f" ({one.what})" if one.what else ""
    trouble = f": NOT removed: {one.problem}" if one.problem else ": stays" if yes and not one.removed else ""
    return f"  {one.kind:<14} {one.path}{what}{trouble}"
