"""Pushes one commit to one branch of a remote, as the user would, and with nothing that the repository configures.

Laws:
1. It runs in a neutral git directory that has nothing of the repository but its objects: no hook, no `pushurl`, no
   `insteadOf`, no credential helper, no proxy and no command for ssh but those of the user's own configuration.
2. An explicit refspec, and never force: a branch that went elsewhere refuses.
3. Only transports that run no program of a configuration. In a remote that is a folder of this machine no hook runs.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from interlock.agents.git.repository import format_of, stored_objects
from interlock.agents.git.running import Git, GitFailed
from interlock.agents.git.worktrees import common_git
from interlock.vocabulary.errors import UsageError

_SECONDS: Final = 600.0
_PROTOCOLS: Final = "file:git:http:https:ssh"
_SCHEMES: Final = ("https://", "http://", "ssh://", "git://", "file://")
_SCP: Final = re.compile(r"(?:[A-Za-z0-9._-]+@)?[A-Za-z0-9][A-Za-z0-9.-]*:(?!:)[^\s]+")
_WEB: Final = re.compile(r"(?:https://|ssh://)(?:[^/@]+@)?([^/:]+)(?::\d+)?/([\w.-]+)/([\w.-]+?)(?:\.git)?/?")
_WEB_SCP: Final = re.compile(r"(?:[^/@]+@)([^/:]+):([\w.-]+)/([\w.-]+?)(?:\.git)?/?")
# What a folder of this machine may configure for those who push to it.
_LOCAL_END: Final = (
    f"git -c core.hooksPath={os.devnull} -c core.alternateRefsCommand= -c core.fsmonitor=false -c receive.autogc=false "
    "receive-pack"
)
# What git itself takes for bound to one repository: `git rev-parse --local-env-vars`.
_BOUND: Final = frozenset(
    f"GIT_{name}"
    for name in (
        *("ALTERNATE_OBJECT_DIRECTORIES", "CONFIG", "CONFIG_PARAMETERS", "CONFIG_COUNT", "OBJECT_DIRECTORY", "DIR"),
        *("WORK_TREE", "IMPLICIT_WORK_TREE", "GRAFT_FILE", "INDEX_FILE", "NO_REPLACE_OBJECTS", "REPLACE_REF_BASE"),
        *("PREFIX", "SHALLOW_FILE", "COMMON_DIR"),
    )
)


def remote_address(common: Path, remote: str) -> str:
    """Where a remote of a repository is. `UsageError` where that is not to be told, or has two answers."""
    git = Git(common)
    found = {
        key: git.line("config", "--file", str(common / "config"), "--get-all", f"remote.{remote}.{key}").splitlines()
        for key in ("url", "pushurl")
    }
    how = "name the address yourself: --url URL"
    if found["pushurl"]:
        where = found["pushurl"][0]
        raise UsageError(f"the repository, which an agent can write to, has pushes go elsewhere: {where}", remedy=how)
    if len(found["url"]) != 1:
        what = "no address" if not found["url"] else "more than one address"
        raise UsageError(f"the repository has {what} for a remote {remote!r}", remedy=how)
    return found["url"][0]


def check_address(url: str) -> None:
    """Refuse what git would hand to another program, or would read as an option."""
    is_path = url.startswith("/")
    is_known = url.startswith(_SCHEMES) or is_path or _SCP.fullmatch(url)
    if not is_known or "::" in url or any(ord(one) < 32 for one in url):
        raise UsageError(
            f"{url!r} is no address to push to", remedy="use https://, ssh://, git@HOST:PATH or an absolute path"
        )


def push_commit(common: Path, commit: str, url: str, branch: str, environment: Mapping[str, str]) -> None:
    """Push a commit to a branch. `GitFailed` where the remote does not take it; nothing is changed there then."""
    check_address(url)
    if not common_git(common).line("check-ref-format", "--branch", branch):
        raise UsageError(f"{branch!r} cannot name a branch", remedy="give another one: --as NAME")
    is_local = url.startswith(("/", "file://"))
    end = (f"--receive-pack={_LOCAL_END}",) if is_local else ()
    refspec = f"{commit}:refs/heads/{branch}"
    with stored_objects(common, format_of(commit)) as objects:
        own = {name: value for name, value in environment.items() if name not in _BOUND}
        allowed = {"GIT_ALLOW_PROTOCOL": own.get("GIT_ALLOW_PROTOCOL", _PROTOCOLS)}
        command = ["git", "push", "--no-force", "--no-verify", "--no-signed", *end, "--", url, refspec]
        try:
            done = subprocess.run(
                command,
                cwd=objects.folder,
                env={**own, **objects.environment, **allowed},
                capture_output=True,
                timeout=_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise GitFailed(f"git push did not end well: {error}") from error
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip() or "it says nothing"
        raise GitFailed(f"git push failed with {done.returncode}: {said}")


def note_pushed(common: Path, remote: str, branch: str, commit: str) -> None:
    """Remember where the branch of a remote is now, as `git push` does: its commits count as kept there."""
    common_git(common).run("update-ref", f"refs/remotes/{remote}/{branch}", commit)


def web_repository(url: str) -> str:
    """HOST/OWNER/NAME of an address, as `gh` takes it; blank where it is none of that form."""
    found = _WEB.fullmatch(url) or _WEB_SCP.fullmatch(url)
    return "/".join(found.groups()) if found else ""
