"""Which session is meant: one rule, for the commands that ask a server and for those that read the log."""

from __future__ import annotations

import pytest

from interlock.cli.look.naming import Candidate, choose
from interlock.vocabulary.errors import UsageError
from tests.cli.homes import run_many
from tests.cli.serving import Served

KNOWN = (
    Candidate("ses_01aaaa", "Fix"),
    Candidate("ses_02bbbb", "Fix the parser", "claude, quiet"),
    Candidate("ses_03bbbb", "bbbb"),
    Candidate("ses_04aaab", "Fix colours", has_title=False),
)


def chosen(text: str) -> str:
    return choose(KNOWN, text, listing="see the list").session_id


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ses_01aaaa", "ses_01aaaa"),
        ("ses_01", "ses_01aaaa"),
        ("04", "ses_04aaab"),
        ("aaab", "ses_04aaab"),
        ("2bbbb", "ses_02bbbb"),
        ("fix", "ses_01aaaa"),
        ("THE pars", "ses_02bbbb"),
    ],
)
def test_whole_ids_then_beginnings_then_ends_then_titles(text: str, found: str) -> None:
    assert chosen(text) == found


def test_a_beginning_counts_before_an_end() -> None:
    ids = (Candidate("01-abcd"), Candidate("abcd-02"))
    assert choose(ids, "abcd", listing="").session_id == "abcd-02"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "ses",
            r"any of 4 sessions: ses_01aaaa \(Fix\), ses_02bbbb \(Fix the parser, claude, quiet\), .*more of the id",
        ),
        ("bbbb", r"any of 2 sessions: ses_02bbbb .* ses_03bbbb"),
        ("aab", "there is no session 'aab'"),
        ("colours", "there is no session 'colours'; see the list"),
        ("ses_01aaab", "did you mean ses_04aaab or ses_01aaaa"),
        (" ", "an empty text names no session; see the list"),
    ],
)
def test_none_or_several_are_refused_with_what_may_be_meant(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        chosen(text)


def shorter(task_id: str) -> tuple[str, ...]:
    return task_id[:-1], task_id[-8:], "naming"


def test_every_command_takes_the_same_names(acting_server: Served) -> None:
    task_id = acting_server.done("say hello", title="Naming Alike")
    commands = ("show", "why", "turns", "diagnose", "usage", "log show")
    named = [[f"{command} {name} --json" for command in commands] for name in (task_id, *shorter(task_id))]
    whole, *short = (run_many(lines, acting_server.home) for lines in named)
    assert all(task_id in done.out and done.code == 0 for done in whole), whole
    for found in short:
        assert [(done.out, done.code) for done in found] == [(done.out, done.code) for done in whole]


def test_a_title_of_two_sessions_is_refused_alike(acting_server: Served) -> None:
    both = [acting_server.done("say hello", title="Named twice") for _ in range(2)]
    for done in run_many([f"{command} twice" for command in ("show", "why", "log show", "wait")], acting_server.home):
        assert (done.code, done.out) == (2, ""), done
        assert all(task_id in done.err for task_id in both), done
    # Of one that was put away only the id is left.
    assert acting_server.cli("delete", both[0], "--yes").returncode == 0
    for done in run_many([f"{command} twice --json" for command in ("show", "why")], acting_server.home):
        assert (done.code, both[1] in done.out, both[0] in done.out) == (0, True, False), done
