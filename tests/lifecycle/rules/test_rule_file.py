"""Files of rules: strict, every problem told, and nothing wider than its words."""

from __future__ import annotations

import random
import string
import time
from dataclasses import replace
from datetime import date

from interlock.lifecycle.rules.rule import Layer
from interlock.lifecycle.rules.rule_file import parse_rules
from interlock.lifecycle.rules.shell_grammar import MAX_COMMAND_CHARACTERS, Opaque, read_command
from interlock.lifecycle.rules.verdict import AskedCall, RuleFile, RuleVerdict, judge
from interlock.vocabulary.events.registry import Json
from tests.each_row import each_row
from tests.seeds import seed_of

TODAY = date(2030, 1, 1)
FOLDER = "/work/repo"


def file(text: str, layer: Layer = Layer.USER, *, is_trusted: bool = True) -> RuleFile:
    return parse_rules(text.encode(), layer, f"{layer}.toml", is_trusted=is_trusted)


def rule(then: str, more: str, id: str = "r") -> str:
    return f'[[rule]]\nid = "{id}"\nthen = "{then}"\n{more}\n'


def said(arguments: Json, *files: RuleFile, tool: str = "Bash", agent: str = "claude") -> RuleVerdict:
    assert [one.problems for one in files] == [()] * len(files)
    return judge(files, AskedCall(agent=agent, tool=tool, arguments=arguments, folder=FOLDER), TODAY)


def then(command: str, *files: RuleFile) -> str:
    return said({"command": command}, *files).then.value


LS = file(rule("allow", 'command = ["ls", "..."]'))


@each_row(
    ("text", "problem"),
    [
        ("x = 1", "unknown key 'x'"),
        ("rule = 1", "expected tables"),
        ("rule = [1]", "expected a table"),
        ("= broken", "no TOML"),
        ("x = " + "[" * 5000, "no TOML"),
        ("x = " + "1" * 5000, "no TOML"),
        ("a." * 400_000 + "a = 1", "more than 40 parts"),
        ('opaque = "allow"', "opaque"),
        (rule("perhaps", 'command = ["ls"]'), "then: expected"),
        (rule("allow", 'command = "ls"'), "command: expected"),
        (rule("allow", 'command = ["ls", []]'), "command: expected"),
        (rule("allow", 'command = ["ls", ["*"]]'), "command: expected"),
        (rule("allow", 'command = ["ls", "..."]\ncolour = 1'), "unknown key 'colour'"),
        (rule("allow", 'command = ["ls", "a*"]'), "one whole word"),
        (rule("allow", 'command = ["ls", "...", "x"]'), "at the end"),
        (rule("allow", 'command = ["*"]'), "begins with its program"),
        (rule("allow", 'command = ["..."]'), "begins with its program"),
        (rule("allow", ""), "neither a tool nor a command"),
        (rule("allow", 'tool = ["Bash"]'), "names its command"),
        (rule("allow", 'tool = ["Edit"]'), "`paths`"),
        (rule("allow", 'tool = ["Edit"]\npaths = ["../x"]'), "relative"),
        (rule("allow", 'tool = ["Edit"]\npaths = ["/etc"]'), "relative"),
        (rule("allow", 'command = ["git", "..."]'), "the word after it"),
        (rule("allow", 'command = ["bash", "-c", "..."]'), "the word after it"),
        (rule("allow", 'command = ["python", "*"]'), "the word after it"),
        (rule("allow", 'command = ["xargs", "..."]'), "the word after it"),
        (rule("allow", 'command = [["ls", "env"], "..."]'), "the word after it"),
        (rule("allow", 'command = ["/usr/bin/env", "..."]'), "the word after it"),
        (rule("allow", 'command = ["sudo", "ls"]'), "never allowed"),
        (rule("allow", 'command = ["interlock", "approve"]'), "never allowed"),
        (rule("allow", 'command = ["ls"]\nenv = ["PATH=*"]'), "which program runs"),
        (rule("allow", 'command = ["ls"]\nenv = ["LD_PRELOAD=x"]'), "which program runs"),
        (rule("allow", 'command = ["ls"]\nenv = ["X"]'), "write NAME=value"),
        (rule("allow", 'command = ["ls"]\nflags = ["-l"]'), "`not_flags`"),
        (rule("allow", 'command = ["ls"]\nexpires = "soon"'), "expires: expected"),
        (rule("allow", 'command = ["ls"]\nmatch = ["ls -l"]'), "contradicted"),
        (rule("allow", 'command = ["ls", "..."]\nmatch = ["ls; rm x"]'), "contradicted"),
        (rule("allow", 'command = ["ls", "..."]\nnot_match = ["ls -l"]'), "contradicted"),
        (rule("allow", 'command = ["ls"]') + rule("deny", 'command = ["rm"]'), "used twice"),
        (rule("allow", 'command = ["ls"]', id="a b"), "id: expected"),
    ],
)
def test_what_is_wrong_is_told_and_nothing_is_used(text: str, problem: str) -> None:
    found = file(text)
    assert found.rules == ()
    assert any(problem in one for one in found.problems), found.problems


def test_every_problem_is_told_at_once() -> None:
    found = file(rule("perhaps", "colour = 1") + "x = 2\n".join(["", ""]) + rule("allow", "command = 1", id="s"))
    assert len(found.problems) >= 3


def test_the_strictest_of_all_layers_wins_and_a_project_loosens_nothing_until_trusted() -> None:
    """Trap 26 of the plan."""
    deny, ask, allow = (file(rule(one, 'command = ["ls", "..."]')) for one in ("deny", "ask", "allow"))
    assert [then("ls", allow, other) for other in (deny, ask, allow)] == ["deny", "ask", "allow"]
    assert then("ls", ask, deny) == "deny"
    theirs = file(rule("allow", 'command = ["ls"]'), Layer.PROJECT, is_trusted=False)
    assert then("ls", theirs) == "ask"
    stricter = file(rule("deny", 'command = ["ls"]'), Layer.PROJECT, is_trusted=False)
    assert then("ls", allow, stricter) == "deny"
    broken = parse_rules(b"=", Layer.PROJECT, "p")
    call = AskedCall(agent="", tool="Bash", arguments={"command": "ls"}, folder=FOLDER)
    assert judge((allow, broken), call, TODAY).then.value == "ask"
    assert judge((deny, broken), call, TODAY).then.value == "ask"


def test_a_rule_holds_for_its_agents_and_until_it_expires() -> None:
    of_codex = file(rule("allow", 'command = ["ls"]\nagents = ["codex"]'))
    assert said({"command": "ls"}, of_codex).then.value == "ask"
    assert said({"command": "ls"}, of_codex, agent="codex").then.value == "allow"
    assert then("ls", file(rule("allow", 'command = ["ls"]\nexpires = 2030-01-02'))) == "allow"
    assert then("ls", file(rule("allow", 'command = ["ls"]\nexpires = 2030-01-01'))) == "ask"


def test_a_rule_within_a_worktree_holds_in_no_other_session() -> None:
    tight = file(rule("allow", 'command = ["ls"]\nwithin = "worktree"\nmatch = ["ls"]'))
    assert tight.problems == ()
    call = AskedCall(agent="", tool="Bash", arguments={"command": "ls"}, folder=FOLDER)
    assert judge((tight,), call, TODAY).then.value == "ask"
    assert judge((tight,), replace(call, source="/project"), TODAY).then.value == "allow"
    wrong = file(rule("allow", 'command = ["ls"]\nwithin = "src"'))
    assert any("within 'src'" in one for one in wrong.problems)


@each_row(
    ("arguments", "verdict"),
    [
        ({"command": "ls"}, "allow"),
        ({"command": ["ls", "a;b", "$X"]}, "allow"),
        ({"command": ["bash", "-lc", "ls -l"]}, "allow"),
        ({"command": ["bash", "-lc", "ls > f"]}, "ask"),
        ({"command": ["ls", 1]}, "ask"),
        ({"command": []}, "ask"),
        ({"command": "ls", "description": "look", "timeout": 5}, "allow"),
        ({"command": "ls", "cwd": FOLDER}, "allow"),
        ({"command": "ls", "cwd": "/evil"}, "ask"),
        ({"command": "ls", "cwd": f"{FOLDER}/../evil"}, "ask"),
        ({"command": "ls", "run_in_background": False}, "allow"),
        ({"command": "ls", "dangerouslyDisableSandbox": True}, "ask"),
        ({"command": "ls", "env": {"PATH": "/x"}}, "ask"),
        ({"command": "ls", "script": "rm x"}, "ask"),
        ({}, "ask"),
        (None, "ask"),
        ("ls", "ask"),
    ],
)
def test_a_call_is_allowed_only_with_arguments_that_are_known(arguments: Json, verdict: str) -> None:
    assert said(arguments, LS).then.value == verdict


@each_row(
    ("arguments", "verdict"),
    [
        ({"file_path": "src/a.py"}, "allow"),
        ({"file_path": f"{FOLDER}/src/a.py", "old": "x"}, "allow"),
        ({"file_path": "src"}, "ask"),
        ({"file_path": "src/../x"}, "ask"),
        ({"file_path": "/etc/passwd"}, "ask"),
        ({"file_path": "srcs/a"}, "ask"),
        ({"file_path": "src/.git/hooks/x"}, "ask"),
        ({"file_path": "src/.env.local"}, "ask"),
        ({"edits": [{"path": "src/a"}, {"path": "b"}]}, "ask"),
        ({}, "ask"),
    ],
)
def test_a_file_tool_may_change_only_what_its_rule_names(arguments: Json, verdict: str) -> None:
    edits = file(rule("allow", 'tool = ["Edit"]\npaths = ["src"]'))
    assert said(arguments, edits, tool="Edit").then.value == verdict


def test_unattended_runs_may_deny_what_is_not_read_but_no_word_inside_of_it_is_searched() -> None:
    push = rule("deny", 'command = ["git", "push", "..."]')
    assert then("cat <<E\ngit push\nE", file(push)) == "ask"
    assert then("cat <<E\ngit push\nE", file('opaque = "deny"\n' + push)) == "deny"


def test_flags_narrow_a_deny() -> None:
    forced = file(rule("deny", 'command = ["git", "push", "..."]\nflags = ["--force*", "-f"]'))
    assert [then(f"git push {one}", forced) for one in ("-f", "-uf", "--forc", "--force-with-lease", "origin")] == (
        ["deny"] * 4 + ["ask"]
    )


def test_reading_takes_time_in_proportion_to_the_text() -> None:
    """A budget that only a loop without end could use up: each text takes well under a millisecond."""
    random_ = random.Random(seed_of("grammar"))
    sharp = "".join(c for c in string.printable if not c.isalnum()) + "'\"&|;<>=\n a1\0é"
    began = time.process_time()
    for _ in range(1500):
        read_command("".join(random_.choices(sharp, k=random_.randint(0, 60))))
    for one in ("'", '"', "&", "|", ";", "a=", "a ", "\n", "2>&1 ", "$(", "env ", "timeout 1 ", "bash -c "):
        text = (one * MAX_COMMAND_CHARACTERS)[:MAX_COMMAND_CHARACTERS]
        then(text, LS)
        assert isinstance(read_command(text + "x"), Opaque)
    assert time.process_time() - began < 60
