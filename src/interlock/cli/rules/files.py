"""`interlock rules ls` and `check`: which files hold in a folder, and what stands in them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.home import HomeOption, JsonFlag
from interlock.lifecycle.rules.rule import Layer, Token, TokenRule
from interlock.lifecycle.rules.rule_file import parse_rules
from interlock.lifecycle.rules.verdict import RuleFile
from interlock.log import paths
from interlock.runtime.rules.keeper import RuleKeeper, RuleStanding, project_rules_path, read_standing, user_rules_path
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.registry import Json

FolderOption = Annotated[Path | None, Parameter(name="--cwd", help="The project folder. Default: the current folder.")]


def folder_of(cwd: Path | None) -> str:
    """The folder whose rules are meant, as the server names it."""
    return os.path.realpath(cwd or Path.cwd())


def home_of(home: Path | None) -> Path:
    return home or paths.default_home(os.environ)


def files_in(home: Path | None, cwd: Path | None) -> tuple[tuple[RuleFile, ...], RuleStanding]:
    """The files that hold in a folder, and what is trusted and paused."""
    standing = read_standing(home_of(home))
    return RuleKeeper(home_of(home), os.environ).files(folder_of(cwd), standing), standing


def ls(*, cwd: FolderOption = None, home: HomeOption = None, json: JsonFlag = False) -> int:
    """List the rules that hold in a folder, and whether a project's file is trusted."""
    files, standing = files_in(home, cwd)
    paused = {key: None if end is None else end.isoformat() for key, end in standing.paused.items()}
    if json:
        output.print_json({"files": [file_json(file) for file in files], "paused": paused})
        return ExitCode.COMPLETED
    rows = [(rule.id, rule.then.value, words_of(rule), _counts(file, rule)) for file in files for rule in file.rules]
    if rows:
        output.print_table(("RULE", "THEN", "ABOUT", "FROM"), rows)
    for file in files:
        output.note(_line(file))
    if not files:
        output.note(f"there are no rules: {_places(cwd)}")
    for key, end in paused.items():
        output.note(f"paused: {'every session' if key == '*' else key}, until {end or 'they are resumed'}")
    return ExitCode.COMPLETED


def check(
    file: Annotated[Path | None, Parameter(help="A rule file. Default: those that apply here.")] = None,
    /,
    *,
    cwd: FolderOption = None,
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Check rule files, and list every problem. Exit code 2 if there are any."""
    if file is None:
        files, _ = files_in(home, cwd)
    else:
        try:
            files = (parse_rules(file.read_bytes(), Layer.USER, str(file)),)
        except OSError as error:
            raise UsageError(f"{file} cannot be read: {error.strerror}", remedy="name a file of rules") from error
    problems = [(one.path, problem) for one in files for problem in one.problems]
    if json:
        output.print_json({"ok": not problems, "files": [file_json(one) for one in files]})
    elif problems:
        output.print_text("\n".join(output.escape(f"{path}: {problem}") for path, problem in problems))
    else:
        for one in files:
            output.print_text(f"understood: {_line(one)}")
        if not files:
            output.print_text(f"there are no rules: {_places(cwd)}")
    return ExitCode.USAGE if problems else ExitCode.COMPLETED


def _places(cwd: Path | None) -> str:
    user = user_rules_path(os.environ)
    return f"neither {user} nor {project_rules_path(folder_of(cwd))}"


def _line(file: RuleFile) -> str:
    if file.problems:
        return f"{file.path} cannot be used, so every question waits: `interlock rules check`"
    trust = "" if file.is_trusted else "; not trusted, so its allow rules do not count: `interlock rules trust`"
    return f"{file.path}, {len(file.rules)} rules, {file.digest[:12]}{trust}"


def _counts(file: RuleFile, rule: TokenRule) -> str:
    return f"{file.layer.value}{'' if file.is_trusted or not rule.is_allow else ', not trusted'}"


def words_of(rule: TokenRule) -> str:
    """What a rule is about, on one line."""
    if rule.command:
        return " ".join(_shown(token) for token in rule.command)
    return ", ".join(rule.tool) + (f" in {', '.join(rule.paths)}" if rule.paths else "")


def _shown(token: Token) -> str:
    return "|".join(token) if isinstance(token, tuple) else token


def file_json(file: RuleFile) -> Json:
    """A file of rules, for a script."""
    return {
        "path": file.path,
        "layer": file.layer.value,
        "digest": file.digest,
        "is_trusted": file.is_trusted,
        "problems": list(file.problems),
        "rules": [{"id": one.id, "then": one.then.value, "about": words_of(one)} for one in file.rules],
    }
