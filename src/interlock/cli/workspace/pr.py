"""`interlock worktree pr`: the work of a session's worktree, pushed to a branch, with a pull request for it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from cyclopts import Parameter

from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.home import HomeOption, JsonFlag, SessionArgument
from interlock.cli.look.session_lines import find_task
from interlock.cli.server.api import ServerApi, home_folder
from interlock.cli.wire.routes import task_path
from interlock.cli.work.retrying import act, confirmed
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.wire.resources import MergeStanding, MergeWorktree

if TYPE_CHECKING:
    from interlock.cli.wire.json_shapes import PullRequestJson

_CLIENT: Final = "gh"
_CLIENT_SECONDS: Final = 120.0


def pr(
    session: SessionArgument,
    /,
    *,
    remote: Annotated[str, Parameter(help="The remote of the repository to push to.")] = "origin",
    url: Annotated[str, Parameter(help="Push to this address, whatever the repository says.")] = "",
    as_: Annotated[str, Parameter(name="--as", help="The branch there; that of the worktree if left out.")] = "",
    into: Annotated[str, Parameter(help="The branch to ask for; the one it began from if left out.")] = "",
    title: Annotated[str, Parameter(help="The title of the pull request.")] = "",
    body: Annotated[str, Parameter(help="The text of the pull request.")] = "",
    commit: Annotated[bool, Parameter(negative="", help="First commit what is not committed in the worktree.")] = False,
    message: Annotated[str, Parameter(alias="-m", help="The message of a commit that is made.")] = "",
    yes: Annotated[bool, Parameter(negative="", help="Do not ask whether the address is right.")] = False,
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Push the branch of a session's worktree, and open a pull request by `gh`, or print the command for it. Nothing is
    forced, and nothing that the repository configures runs: only your own configuration of git has a say.

    Exit code 3: it is pushed, and `gh` could not open the pull request.
    """
    from interlock.agents.git.pushing import check_address, note_pushed, push_commit, remote_address

    api = ServerApi.of_home(home_folder(home))
    task = find_task(api, session)
    session_id, tree = str(task["task_id"]), task["worktree"]
    if tree is None:
        raise UsageError(f"no worktree was made for {session_id}", remedy="`interlock worktree ls` lists them")
    common, branch = Path(str(tree["repository"])), as_ or str(tree["branch"])
    address = url or remote_address(common, remote)
    check_address(address)
    if not yes and not confirmed(f"push {tree['branch']} to {output.escape(address)} as {output.escape(branch)}?"):
        return ExitCode.INTERRUPTED
    asked = MergeWorktree(branch=str(tree["branch"]), commit=commit, message=message)
    path = f"{task_path(session_id)}/worktree/merge"
    head = act(api, MergeStanding, "POST", path, msgspec.to_builtins(asked), task_id=session_id).after
    push_commit(common, head, address, branch, os.environ)
    if not url:
        note_pushed(common, remote, branch, head)
    words = _client_words(address, branch, into or str(tree["target"]), title or str(task.get("title", "")), body)
    said, is_open = _open(words) if words and shutil.which(_CLIENT) else ("", False)
    told: PullRequestJson = {
        "session_id": session_id,
        "address": address,
        "branch": branch,
        "commit": head,
        "is_open": is_open,
        "command": None if is_open or not words else shlex.join(words),
        "said": said,
    }
    if json:
        output.print_json(told)
    else:
        output.print_text("\n".join(output.escape_lines(line) for line in _lines(told)))
    return ExitCode.PARTIAL if said and not is_open else ExitCode.COMPLETED


def _client_words(address: str, branch: str, target: str, title: str, body: str) -> list[str]:
    """The command that opens the pull request; none where the address is not of a host that `gh` could know."""
    from interlock.agents.git.pushing import web_repository

    repository = web_repository(address)
    if not repository:
        return []
    base = ["--base", target] if target else []
    named = ["--title", title or branch, "--body", body]
    return [_CLIENT, "pr", "create", "--repo", repository, *base, "--head", branch, *named]


def _open(words: list[str]) -> tuple[str, bool]:
    """What the client says, and whether it opened one. It runs in an empty folder: the repository has no say in it."""
    with tempfile.TemporaryDirectory(prefix="interlock-pr-") as folder:
        try:
            done = subprocess.run(
                words, cwd=folder, capture_output=True, timeout=_CLIENT_SECONDS, check=False, stdin=subprocess.DEVNULL
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error), False
    said = (done.stdout or done.stderr).decode("utf-8", "replace").strip()
    return said or f"{_CLIENT} ended with {done.returncode}", done.returncode == 0


def _lines(told: PullRequestJson) -> list[str]:
    lines = [f"{told['branch']} is at {told['commit'][:12]} in {told['address']}"]
    lines += [told["said"]] if told["said"] else []
    if told["command"] is not None:
        lines += ["to open a pull request:", f"  {told['command']}"]
    return lines
