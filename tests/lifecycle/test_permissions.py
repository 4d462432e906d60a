"""Rules: read strictly, matched in bounded time, deny first; and a no is heard wherever it stands."""

from __future__ import annotations

import json
import re
from typing import Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from interlock.lifecycle.decisions import permissions
from interlock.lifecycle.decisions.permissions import (
    MAX_RULE_LENGTH,
    Ground,
    Pattern,
    PermissionVerdict,
    Rule,
    is_a_no,
    parse_rule,
)
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import PermissionBehavior as Behavior
from interlock.vocabulary.events.registry import Json
from tests.each_row import each_row


def rules(*texts: str) -> list[Rule]:
    return [parse_rule(text) for text in texts]


def judge(texts: list[str], tool: str = "Bash", arguments: Json = None) -> tuple[Behavior, str]:
    verdict = permissions.decide(rules(*texts), tool, arguments, "c1")
    return verdict.behavior, str(verdict.rule or "")


# Syntax


@each_row(
    ("text", "canonical"),
    [
        ("allow Read", "allow Read"),
        ("  ask   mcp__*  ", "ask mcp__*"),
        ("deny Bash(command=rm *)", 'deny Bash(command="rm *")'),
        ("deny Bash ( command = rm * , cwd = /tmp/* )", 'deny Bash(command="rm *", cwd="/tmp/*")'),
        ('deny Bash(command="rm *")', 'deny Bash(command="rm *")'),
        ('allow "/odd name"', 'allow "/odd name"'),
        ('allow X("a b"=1)', 'allow X("a b"=1)'),
        (r'allow X(a="\*\"\\")', r'allow X(a="\*\"\\")'),
        (r'allow X(a="\u000a\U0001f600")', r'allow X(a="\u000a😀")'),
        ("allow X(a=b=c)", 'allow X(a="b=c")'),
        ('allow X(a="")', 'allow X(a="")'),
        ("allow fs.read:v2-x", "allow fs.read:v2-x"),
    ],
)
def test_a_rule_is_read_and_written_in_one_spelling(text: str, canonical: str) -> None:
    rule = parse_rule(text)
    assert str(rule) == canonical
    assert parse_rule(canonical) == rule


@each_row(
    ("text", "place", "reason"),
    [
        ("", 1, "expected allow, ask or deny"),
        ("permit Read", 1, "expected allow, ask or deny"),
        ("Allow Read", 1, "expected allow, ask or deny"),
        ("allow", 1, "then a space"),
        ("allow ", 7, "expected a tool name"),
        ("allow /re.*/", 7, "regular expressions are not supported"),
        ("allow Read Write", 12, "expected ( or the end"),
        ("allow Bash(", 12, "expected a field name"),
        ("allow Bash()", 13, "expected a field, or !"),
        ("allow Bash(command)", 19, "expected ="),
        ("allow Bash(command=)", 20, "expected a pattern"),
        ("allow Bash(command=ls", 22, "expected , or )"),
        ("allow Bash(command=ls) x", 24, "expected ! or the end"),
        ("allow Bash(command=a(b))", 21, "expected , or )"),
        ("allow Bash(com*=ls)", 12, "named exactly"),
        ("allow Bash(a=1, a=2)", 17, "only once"),
        ('allow Bash(a="x)', 14, "expected a pattern"),
        (r'allow Bash(a="x\n")', 16, "this backslash"),
        (r'allow Bash(a="\U00110000")', 15, "this backslash"),
        (r"allow Bash(a=\*)", 14, "in quotes"),
        ("allow Bash\n", 11, "by its number"),
        ("allow \ud800", 7, "by its number"),
        ("allow " + "x" * MAX_RULE_LENGTH, MAX_RULE_LENGTH + 1, "at most"),
    ],
)
def test_a_malformed_rule_is_refused_with_its_place(text: str, place: int, reason: str) -> None:
    with pytest.raises(UsageError, match=re.escape(reason)) as caught:
        parse_rule(text)
    assert f", character {place}: " in str(caught.value)
    assert "write it like" in caught.value.remedy


NAMES: Final = st.text(max_size=8) | st.text('*"\\ab (),=/\n', max_size=8)
PATTERNS: Final = st.builds(lambda pieces: Pattern(tuple(pieces)), st.lists(NAMES, min_size=1, max_size=4))
FIELDS: Final = st.dictionaries(NAMES, PATTERNS, max_size=3).map(lambda found: tuple(found.items()))


@given(st.builds(Rule, st.sampled_from(Behavior), PATTERNS, FIELDS))
def test_any_rule_survives_its_text_on_one_line(rule: Rule) -> None:
    text = str(rule)
    assert parse_rule(text) == rule
    assert text.isprintable()


@given(st.text(max_size=30) | st.text('allowdeny *()=,"\\/', max_size=30).map(lambda tail: f"allow {tail}"))
def test_any_text_is_a_rule_or_a_usage_error(text: str) -> None:
    try:
        rule = parse_rule(text)
    except UsageError:
        return
    assert parse_rule(str(rule)) == rule


# Matching


@given(st.lists(st.text("ab", max_size=3), min_size=1, max_size=5), st.text("ab\n", max_size=12))
@example(["", "b", "b"], "b")
@example(["ab", "ba"], "aba")
def test_a_pattern_matches_what_its_regular_expression_would(pieces: list[str], text: str) -> None:
    expected = re.fullmatch(".*".join(map(re.escape, pieces)), text, re.DOTALL) is not None
    assert Pattern(tuple(pieces)).matches(text) == expected


def test_a_hostile_pattern_does_not_hang() -> None:
    pattern = Pattern((*("a",) * 1500, "b"))
    assert not pattern.matches("a" * 1_000_000)
    assert pattern.matches("a" * 1_000_000 + "b")


@each_row(
    ("rule", "arguments", "matches"),
    [
        ("ask Bash", None, True),
        ("ask Bash", ["x"], True),
        ("ask bash", None, False),
        ("ask Bash2", None, False),
        ("ask *", None, True),
        ("ask B*h", None, True),
        ("ask Bash(command=rm *)", {"command": "rm -rf ."}, True),
        ("ask Bash(command=rm *)", {"command": "RM -rf ."}, False),
        ("ask Bash(command=rm *)", {"command": "rm"}, False),
        ("ask Bash(command=rm *)", {"cmd": "rm x"}, False),
        ("ask Bash(command=rm *)", None, False),
        ("ask Bash(command=rm *)", "rm x", False),
        ("ask Bash(command=*)", {"command": None}, True),
        ("ask Bash(command=*)", {}, False),
        ("ask Bash(a=1, b=true)", {"a": 1, "b": True}, True),
        ("ask Bash(a=1, b=true)", {"a": 1, "b": False}, False),
        ("ask Bash(a=1)", {"a": True}, False),
        ("ask Bash(a=1)", {"a": "1"}, True),
        ("ask Bash(a=null)", {"a": None}, True),
        ('ask Bash(a="{\\"b\\":[1,\\"é\\"],\\"c\\":2}")', {"a": {"c": 2, "b": [1, "é"]}}, True),
        ("ask Bash(command=git *)", {"command": "git log\nrm -rf ."}, True),
    ],
)
def test_a_rule_matches_name_and_arguments(rule: str, arguments: Json, matches: bool) -> None:
    assert parse_rule(rule).matches("Bash", arguments) is matches


SHELL = "allow Bash(command=git *)"


@each_row(
    ("rule", "command", "behavior"),
    [
        (SHELL, "git log", Behavior.ALLOW),
        (SHELL, "git", Behavior.ALLOW),
        (SHELL, "git commit -m 'a; b'", Behavior.ALLOW),
        (SHELL, "gitk log", Behavior.ASK),
        (SHELL, "git log; rm -rf .", Behavior.ASK),
        (SHELL, "git log && rm -rf .", Behavior.ASK),
        (SHELL, "git log & rm -rf .", Behavior.ASK),
        (SHELL, "git log | sh", Behavior.ASK),
        (SHELL, "git log > ~/.profile", Behavior.ASK),
        (SHELL, "git log\nrm -rf .", Behavior.ASK),
        (SHELL, "git $(rm -rf .)", Behavior.ASK),
        (SHELL, "git `rm -rf .`", Behavior.ASK),
        (SHELL, 'git "$(rm -rf .)"', Behavior.ASK),
        (SHELL, "git $IFS", Behavior.ASK),
        (SHELL, "git 'unfinished", Behavior.ASK),
        (SHELL, "GIT_SSH_COMMAND=evil git fetch", Behavior.ASK),
        (SHELL, ["git", "log"], Behavior.ASK),
        (SHELL, None, Behavior.ASK),
        ("allow Bash(command=git log *)", "git push", Behavior.ASK),
        ("allow Bash(command=npm test*)", "npm test:unit", Behavior.ALLOW),
        ("allow Bash(command=npm test*)", "npm test --flag", Behavior.ASK),
        ("allow Bash", "ls -l", Behavior.ALLOW),
        ("allow Bash", "ls; rm x", Behavior.ASK),
        ("allow *", "ls; rm x", Behavior.ASK),
        ('allow Bash(command="make; make test")', "make; make test", Behavior.ALLOW),
        ("allow shell_notes(command=git *)", "git log", Behavior.ASK),
        ("deny Bash(command=*rm *)", "git log; rm -rf .", Behavior.DENY),
    ],
)
def test_an_allow_for_a_shell_covers_the_words_of_one_simple_command(
    rule: str, command: Json, behavior: Behavior
) -> None:
    assert judge([rule], arguments={"command": command})[0] is behavior


def test_a_narrower_ask_is_not_passed_by_a_wider_allow() -> None:
    texts = ["allow Bash(command=git *)", "ask Bash(command=git push*)"]
    assert judge(texts, arguments={"command": "git push"})[0] is Behavior.ASK
    assert judge(texts, arguments={"command": "git log"})[0] is Behavior.ALLOW


# Precedence


@each_row(
    ("texts", "behavior", "named"),
    [
        ([], Behavior.ASK, ""),
        (["allow Read"], Behavior.ASK, ""),
        (["allow Bash"], Behavior.ALLOW, "allow Bash"),
        (["allow Bash", "deny *"], Behavior.DENY, "deny *"),
        (["ask Bash(command=git push)", "allow *"], Behavior.ASK, 'ask Bash(command="git push")'),
        (["ask *", "ask Bash"], Behavior.ASK, "ask Bash"),
        (["allow B*", "allow Bash"], Behavior.ALLOW, "allow Bash"),
        (["deny B*(command=git*, cwd=*)", "deny Bash"], Behavior.DENY, "deny Bash"),
        (["deny Bash", "deny Bash(command=git*)"], Behavior.DENY, "deny Bash(command=git*)"),
        (
            ["deny Bash(command=git*)", "deny Bash(command=git*, cwd=*)", "deny Bash(cwd=*)"],
            Behavior.DENY,
            "deny Bash(command=git*, cwd=*)",
        ),
        (["allow Bash(cwd=*)", "allow Bash(command=*)"], Behavior.ALLOW, "allow Bash(cwd=*)"),
    ],
)
def test_deny_beats_ask_beats_allow_and_the_most_specific_is_named(
    texts: list[str], behavior: Behavior, named: str
) -> None:
    assert judge(texts, arguments={"command": "git push", "cwd": "x"}) == (behavior, named)


@given(st.permutations(rules("allow Bash", "deny B*", "ask Bash(command=ls)", "deny Bash(command=*)")))
def test_the_order_of_rules_does_not_decide(shuffled: list[Rule]) -> None:
    verdict = permissions.decide(shuffled, "Bash", {"command": "ls"}, "c1")
    assert verdict == PermissionVerdict(Behavior.DENY, Ground.RULE, parse_rule("deny Bash(command=*)"))


@pytest.mark.parametrize("call_id", [None, "", " \t"])
def test_a_call_without_an_id_is_denied(call_id: str | None) -> None:
    verdict = permissions.decide(rules("allow *"), "Bash", None, call_id)
    assert verdict == PermissionVerdict(Behavior.DENY, Ground.NO_CALL_ID)


def nested(depth: int) -> Json:
    value: Json = None
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("value", [nested(100_000), float("nan"), float("inf")], ids=["deep", "nan", "inf"])
def test_arguments_that_cannot_be_read_are_denied(value: Json) -> None:
    verdict = permissions.decide(rules("allow *", "deny Bash(a=x)"), "Bash", {"a": value}, "c1")
    assert verdict == PermissionVerdict(Behavior.DENY, Ground.UNREADABLE_ARGUMENTS)


@each_row(
    ("texts", "is_gone"),
    [
        (["deny Bash"], True),
        (["deny B*", "allow Bash"], True),
        (["deny Bash(command=*)"], False),
        (["ask Bash"], False),
        (["deny Read"], False),
        ([], False),
    ],
)
def test_an_unconditional_deny_takes_the_tool_away(texts: list[str], is_gone: bool) -> None:
    assert permissions.is_unconditional_deny(rules(*texts), "Bash") is is_gone


@each_row("name", ["Bash", "*", 'a"b', "x(y=*)", "a\nallow *"])
def test_a_remembered_rule_is_for_exactly_that_tool(name: str) -> None:
    rule = permissions.remember(Behavior.ALLOW, name)
    assert parse_rule(str(rule)) == rule
    assert rule.matches(name, None)
    assert not rule.matches(f"{name}x", None)


def test_a_remembered_rule_may_hold_exact_arguments() -> None:
    rule = permissions.remember(Behavior.DENY, "Bash", {"command": "rm *", "n": {"b": 1, "a": 2}})
    assert str(rule) == r'deny Bash(command="rm \*", n="{\"a\":2,\"b\":1}")!'
    assert parse_rule(str(rule)) == rule
    assert rule.matches("Bash", {"command": "rm *", "n": {"a": 2, "b": 1}})
    assert not rule.matches("Bash", {"command": "rm *", "n": {"a": 2, "b": 1}, "more": 1})
    assert not rule.matches("Bash", {"command": "rm x", "n": {"a": 2, "b": 1}})


def test_a_remembered_rule_for_no_arguments_allows_none() -> None:
    rule = permissions.remember(Behavior.ALLOW, "Bash", {})
    assert (str(rule), parse_rule(str(rule))) == ("allow Bash()!", rule)
    assert rule.matches("Bash", {})
    assert rule.matches("Bash", None)
    assert not rule.matches("Bash", {"command": "rm -rf /"})
    assert not rule.matches("Bash", ["rm"])


# What counts as a yes

YES_WORDS: Final = (
    *("true", "yes", "approve", "approved", "allow", "allowed"),
    *("accept", "accepted", "confirm", "confirmed", "ok", "okay"),
)
NO_WORDS: Final = (
    *("false", "no", "denied", "deny", "reject", "rejected"),
    *("canceled", "cancelled", "cancel", "abort", "aborted"),
)
ALL_YES: Final[list[Json]] = [
    True,
    *YES_WORDS,
    " Yes\n",
    "APPROVED",
    {"approved": True},
    {"approved": "yes"},
    {"Approved": True, "note": "fine"},
    {"approved": True, "denied": False, "cancelled": None},
    {"approved": True, "action": "write_file"},
    {"status": "approved"},
    {"decision": "allow", "remember": True},
    {"action": "accept"},
    {"behavior": "allow"},
]
NEITHER: Final[list[Json]] = [
    None,
    0,
    1,
    1.0,
    [],
    [True],
    {},
    "",
    "maybe",
    "yes please",
    "not approved",
    {"denied": False},
    {"status": "pending"},
    {"action": ["allow"]},
    {"remember": True},
]
ALL_NO: Final[list[Json]] = [
    False,
    *NO_WORDS,
    " Denied ",
    {"approved": False},
    {"approved": None},
    {"approved": 1},
    {"approved": {"approved": True}},
    {"approved": True, "denied": True},
    {"approved": True, "rejected": 1},
    {"approved": True, "Approved": False},
    {"approved": True, "status": "denied"},
    {"approved": True, "cancel": "yes"},
    {"status": "approved", "decision": "reject"},
]


@each_row("value", [*ALL_YES, *NEITHER], ids=json.dumps)
def test_a_yes_and_what_is_not_understood_are_no_clear_no(value: Json) -> None:
    assert not is_a_no(value)


@each_row("value", ALL_NO, ids=json.dumps)
def test_a_no_is_heard_beside_a_yes_too(value: Json) -> None:
    assert is_a_no(value)


VALUES: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from([*YES_WORDS, *NO_WORDS, "status", "x"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["approved", "denied", "status", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(VALUES)
def test_a_no_anywhere_on_top_is_a_no(value: Json) -> None:
    if isinstance(value, dict):
        assert is_a_no({**value, "denied": True})
        assert is_a_no({**value, "approved": False})
