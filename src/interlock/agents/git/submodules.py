"""Submodules of a new worktree, made of what its source has of them, and looked at before they are removed.

Laws:
1. Nothing is fetched, and nothing that a repository configures runs: objects are linked or copied by us, and files are
   written by a neutral git directory. What the source does not have is told.
2. A submodule is no loss only if it is proven: every file is as its commit has it, nothing else is in it, its commit is
   the one that the worktree's commit names, and another repository of this submodule keeps all its commits.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from interlock.agents.git.repository import Repository, find_repository, format_of, stored_objects
from interlock.agents.git.running import Git, GitFailed
from interlock.agents.git.worktrees import OurWorktree

MAX_DEPTH: Final = 8
_SECONDS: Final = 300.0
_MAKING: Final = ".interlock-making"


def modules_at(common: Path, commit: str) -> dict[bytes, str]:
    """The submodules that a commit names: the path of each with its own commit."""
    with stored_objects(common, format_of(commit)) as objects:
        told = objects.run("ls-tree", "-r", "-z", "--full-tree", commit, seconds=_SECONDS)
    found = (one.partition(b"\t") for one in told.split(b"\0") if one.startswith(b"160000 "))
    return {path: head.split(b" ")[2].decode() for head, _, path in found}


def make_submodules(source: Path, ours: OurWorktree, commit: str) -> tuple[str, ...]:
    """Check out the submodules of a commit, as far as the source has them. What is not checked out, with the reason."""
    return tuple(_make_all(find_repository(source), ours, commit, 0))


def _make_all(source: Repository, ours: OurWorktree, commit: str, depth: int) -> Iterator[str]:
    for path, wanted in sorted(modules_at(ours.common, commit).items()):
        name = os.fsdecode(path)
        try:
            why = "it is nested too deep" if depth >= MAX_DEPTH else ""
            there = None if why else _module_of(source, name, wanted)
            if there is not None:
                made = _make_one(there, ours, name, wanted, is_nested=depth > 0)
                yield from (f"{name}/{told}" for told in _make_all(there, made, wanted, depth + 1))
                continue
        except (GitFailed, OSError) as error:
            why = str(error) or type(error).__name__
        why = why or f"{source.root} does not have its commit {wanted[:12]}, and nothing is fetched"
        yield f"submodule {name} is not checked out in it: {why}"


def _module_of(source: Repository, name: str, wanted: str) -> Repository | None:
    """The submodule as the source has it. Its git directory must lie where git puts one: a file can name any other."""
    place = source.root / name
    try:
        said = (place / ".git").read_text("utf-8", "surrogateescape") if (place / ".git").is_file() else ""
    except OSError:
        return None
    git_dir = (place / said.removeprefix("gitdir:").strip() if said else place / ".git").resolve()
    homes = (source.git_dir / "modules", source.common / "modules", place / ".git")
    if not any(git_dir.is_relative_to(home.resolve()) for home in homes) or not (git_dir / "objects").is_dir():
        return None
    object_format = format_of(wanted)
    with stored_objects(git_dir, object_format) as objects:
        if objects.line("cat-file", "-t", wanted) != "commit":
            return None
    return Repository(place, git_dir, git_dir, object_format)


def _make_one(there: Repository, ours: OurWorktree, name: str, wanted: str, *, is_nested: bool) -> OurWorktree:
    """One submodule. It can be done again: a git directory has its name only once it is whole."""
    title = _title_of(there, name)
    admin, place = ours.admin / "modules" / title, ours.path / name
    if not admin.is_dir():
        url = _copy_repository(there, admin, wanted)
        if is_nested and url:  # its parent is as new as it is, and knows of no submodule yet
            parent = ("config", "--file", str(ours.admin / "config"))
            Git(ours.admin).run(*parent, f"submodule.{title}.url", url)
            Git(ours.admin).run(*parent, f"submodule.{title}.active", "true")
    if place.is_symlink() or not place.resolve().is_relative_to(ours.path.resolve()):
        raise GitFailed(f"{place} is no folder of the worktree")
    place.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError), (place / ".git").open("x", encoding="utf-8") as file:
        file.write(f"gitdir: {admin}\n")
    with stored_objects(admin, there.object_format) as objects:
        (admin / "index.lock").unlink(missing_ok=True)
        more = {"GIT_WORK_TREE": str(place), "GIT_INDEX_FILE": str(admin / "index")}
        Git(place, {**objects.environment, **more}).run("read-tree", "--reset", "-u", wanted, seconds=_SECONDS)
    return OurWorktree(admin, place, admin)


def _title_of(there: Repository, name: str) -> str:
    """By which name git knows a submodule: its folder below `modules` is called so."""
    parts = there.git_dir.parts
    last = max((at for at, part in enumerate(parts) if part == "modules"), default=-1)
    return "/".join(parts[last + 1 :]) if last >= 0 and there.git_dir.name != ".git" else name


def _copy_repository(there: Repository, admin: Path, wanted: str) -> str:
    """Make the git directory, and give the address of its remote."""
    if (there.git_dir / "objects" / "info" / "alternates").exists():
        raise GitFailed(f"{there.git_dir} borrows objects of another repository")
    making = admin.with_name(f"{_MAKING}-{admin.name}")
    shutil.rmtree(making, ignore_errors=True)
    (making / "refs").mkdir(parents=True)
    shutil.copytree(there.git_dir / "objects", making / "objects", symlinks=True, copy_function=_link_or_copy)
    (making / "HEAD").write_text(f"{wanted}\n")
    git = Git(making)
    settings = {"core.repositoryformatversion": "0", "core.bare": "false"}
    if there.object_format != "sha1":
        settings |= {"core.repositoryformatversion": "1", "extensions.objectFormat": there.object_format}
    url = Git(there.git_dir).line("config", "--file", str(there.git_dir / "config"), "--get", "remote.origin.url")
    if url:
        settings |= {"remote.origin.url": url, "remote.origin.fetch": "+refs/heads/*:refs/remotes/origin/*"}
    for key, value in settings.items():
        git.run("config", "--file", str(making / "config"), key, value)
    making.rename(admin)
    return url


def _link_or_copy(source: str, target: str) -> str:
    """Objects never change: a second name costs nothing, and stays when the first one goes."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)
    return target


def git_directory_of(ours: OurWorktree, place: Path, name: str) -> Path | None:
    """The git directory of a submodule that is checked out at a place, if it is one of this very worktree."""
    file = place / name / ".git"
    try:
        said = file.read_text("utf-8", "surrogateescape") if file.is_file() and not file.is_symlink() else ""
    except OSError:
        return None
    admin = (place / name / said.removeprefix("gitdir:").strip()).resolve() if said else None
    is_inside = admin is not None and admin.is_relative_to((ours.admin / "modules").resolve()) and admin.is_dir()
    return admin if is_inside else None


def unkept_in(admin: Path) -> str:
    """Why the commits of a submodule may be lost with its git directory; blank where another one keeps them all."""
    own = Git(admin, {"GIT_DIR": str(admin)})
    told = own.run("for-each-ref", "--format=%(objectname)").decode().split()
    tips = {*told, own.line("rev-parse", "--verify", "--quiet", "HEAD")}
    others = [one for one in _others(admin) if (one / "objects").is_dir()]
    lost = [tip for tip in sorted(tips) if not any(_keeps(Git(one, {"GIT_DIR": str(one)}), tip) for one in others)]
    return f"commit {lost[0][:12] or 'of its HEAD'} is in no other repository of it" if lost else ""


def _others(admin: Path) -> Iterator[Path]:
    """Where git keeps the same submodule for the other work trees of the repository."""
    for at, part in enumerate(admin.parts[:-3]):
        common, name = Path(*admin.parts[:at]), Path(*admin.parts[at + 3 :])
        if part == "worktrees" and admin.parts[at + 2] == "modules" and (common / "objects").is_dir():
            yield common / "modules" / name
            for one in sorted((common / "worktrees").iterdir()):
                if one / "modules" / name != admin:
                    yield one / "modules" / name
            return


def _keeps(git: Git, commit: str) -> bool:
    """Whether a ref, or what is checked out, leads to a commit."""
    if git.ask("cat-file", "-e", f"{commit}^{{commit}}")[0] != 0:
        return False
    code, told = git.ask("for-each-ref", "--contains", commit, "--count=1", "--format=%(refname)")
    return (code == 0 and bool(told.strip())) or git.ask("merge-base", "--is-ancestor", commit, "HEAD")[0] == 0
