"""One command line for each command, by what it needs: the table that the tests of error paths walk."""

from __future__ import annotations

from typing import Final

SESSION: Final = "ses_01jk5v3z9c0000000000000000"

# Those that ask the server, about no session or about one. `claude` is a program that is there.
ASKING: Final = (
    "ps",
    "ps --all --json",
    "ps --watch --reconnect-timeout 0.2",
    "approvals",
    "search hello",
    "resume --all",
    "spawns",
    "usage",
    "plan ls",
    "plan show wf_one",
    "plan wait wf_one --timeout 5",
    "plan stop wf_one --reason enough",
    "plan release wf_one build --reason looked",
    "plan give-up wf_one build --reason looked",
    "plan answer wf_one publish go",
    "run claude --stream --no-up",
    "run claude --stream --no-up hi",
)
OF_A_SESSION: Final = (
    "show {S}",
    "seen {S}",
    "session rename {S} other",
    "logs {S}",
    "logs {S} -f --reconnect-timeout 0.2",
    "spawns {S}",
    "usage {S}",
    "send {S} hi",
    "send {S} hi --wait --timeout 5 --reconnect-timeout 0.2",
    "wait {S} --timeout 5 --reconnect-timeout 0.2",
    "approve {S}",
    "deny {S}",
    "answer {S} yes",
    "interrupt {S}",
    "interrupt {S} --wait --timeout 5 --reconnect-timeout 0.2",
    "stop {S}",
    "start {S}",
    "delete {S} --yes",
    "attach {S} --print",
    "screen {S}",
    "queue ls {S}",
    "queue edit {S} 1 x",
    "queue rm {S} 1",
    "queue hold {S}",
    "queue go {S}",
)
# Those that read the log themselves, and those that write to it.
READING: Final = (
    "turns {S}",
    "why {S}",
    "diff {S}",
    "diagnose {S}",
    "replay {S}",
    "fork {S} --dry-run",
    "compact {S} --dry-run",
    "log show {S}",
    "log tail {S}",
    "log export {S} --output out.ndjson",
    "log verify {S}",
)
READING_ALL: Final = (
    "rules suggest",
    "log ls",
    "log tail --all",
    "log export --all",
    "log verify",
    "log repair",
)
WRITING: Final = (
    "fork {S}",
    "compact {S}",
    "rm {S} --yes",
    "log import in.ndjson",
    "log repair {S} --apply",
    "log purge --before 2020-01-01 --yes",
)
# Those that need neither a server nor a log, and answer anywhere.
ANSWERING: Final = (
    "hooks status claude --config-dir cfg",
    "profiles",
    "doctor",
    "config show",
    "config path",
    "config check",
    "machines",
    "machines run",
    "demo --log",
    "completion bash",
    "version",
    "--help",
)
# Each has tests of its own for what it cannot do; here they are only counted.
ELSEWHERE: Final = {
    "up": "in `test_up`, and below where a home cannot be used",
    "down": "in `test_up`: it would end whoever holds the log",
    "status": "an answer whatever is wrong: below",
    "top": "needs a terminal: below",
    "statusline": "its codes are in `test_statusline`",
    "open": "in `test_browser_links`",
    "pair": "in `test_browser_links`",
    "logins": "in `test_browser_links`",
    "rules": "files of rules, in `test_rules`",
    "plan check": "files of plans, in `test_plan_files`",
    "plan run": "files of plans, in `test_plan_commands`",
    "plan trust": "files of plans, in `test_plan_files`",
    "worktree": "needs a git repository: in `test_worktrees`",
    "merge": "needs a git repository: in `test_merge`",
    "review": "needs a git repository: in `test_diff`",
    "blame": "needs a git repository: in `test_diff`",
    "adopt": "needs tmux: in `test_adopt`",
    "debug inspect": "needs tmux: below",
    "record": "needs tmux: below",
    "track": "needs a recording: below",
    "score": "needs recordings: below",
    "lab": "in `test_lab`: it installs and drives a CLI",
    "shim": "its codes are those of the command that it runs: `tests/agents/shim`",
    "uninstall": "in `test_install`: it refuses while a server runs",
    "service": "in `test_install`: `status` tells by its code whether it is installed",
    "notify": "its tests are with the notices",
}


def covered() -> set[str]:
    """The names of all commands that the table has a line for."""
    lines = (*ASKING, *OF_A_SESSION, *READING, *READING_ALL, *WRITING, *ANSWERING)
    return {name for line in lines for name in (line.split()[0], " ".join(line.split()[:2]))}


def of(lines: tuple[str, ...], session: str = SESSION) -> list[list[str]]:
    """The words of each line, with a session put in."""
    return [[session if word == "{S}" else word for word in line.split()] for line in lines]
