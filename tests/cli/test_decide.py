"""`interlock approve`, `deny`, `answer`, `approvals`: the question that is meant, and no more than was said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest

from interlock.cli.server.api import ServerApi
from interlock.cli.work import decide
from interlock.cli.work.choices import answering, approving, choose_option, choose_question, denying, spelled
from interlock.cli.work.decide import find_question
from interlock.testing.scripted_agent import command, read_ledger, write_program
from interlock.vocabulary.errors import UsageError
from tests.any_route import any_route
from tests.bodies import Body
from tests.cli.badges import with_badge
from tests.cli.homes import run_many
from tests.cli.serving import STREAM, Served
from tests.each_row import each_row


def question(*options: tuple[str, str], name: str = "apr_1") -> Body:
    offered = [{"label": label, "kind": kind, "id": f"{label}-{at}"} for at, (label, kind) in enumerate(options)]
    return {"approval_id": name, "session_id": "ses_1", "question": "Which?", "options": offered}


YES_NO = question(("Yes", "allow_once"), ("Always", "allow_always"), ("No", "reject_once"))
COLOURS = question(("red", "choice"), ("Green", "choice"), ("grey", "choice"))


# Which question


def test_the_only_question_needs_no_name() -> None:
    assert choose_question([YES_NO], "", "ses_1") is YES_NO
    with pytest.raises(UsageError, match="no open question"):
        choose_question([], "", "ses_1")


def test_one_of_several_is_named_by_id_beginning_or_number() -> None:
    first, second = question(name="apr_1a"), question(name="apr_1b")
    for name, wanted in (("apr_1a", first), ("apr_1b", second), ("1", first), ("2", second)):
        assert choose_question([first, second], name, "ses_1") is wanted
    for name in ("", "apr_1", "3", "0", "apr_9"):
        with pytest.raises(UsageError, match="apr_1a"):
            choose_question([first, second], name, "ses_1")


# Which answer


@pytest.mark.parametrize(("text", "label"), [("red", "red"), ("green", "Green"), ("gree", "Green"), ("3", "grey")])
def test_an_option_is_named_by_label_beginning_or_number(text: str, label: str) -> None:
    assert choose_option(COLOURS, text)["label"] == label


@each_row("text", ["gr", "blue", "4", "0", "", "-1"])
def test_what_names_no_option_or_several_is_refused_with_the_list(text: str) -> None:
    with pytest.raises(UsageError, match=r"1\. 'red', 2\. 'Green', 3\. 'grey'"):
        choose_option(COLOURS, text)


def test_a_label_counts_before_a_number() -> None:
    numbers = question(("2", "choice"), ("1", "choice"))
    assert choose_option(numbers, "2") is numbers["options"][0]


def test_approving_allows_this_once_and_no_more() -> None:
    assert approving(YES_NO) is YES_NO["options"][0]
    assert approving(question()) is None
    for more in (
        question(("Always", "allow_always"), ("No", "reject_once")),
        question(("red", "allow_once"), ("green", "allow_once"), ("No", "reject_once")),
        COLOURS,
    ):
        with pytest.raises(UsageError, match="answer ses_1 apr_1 --option LABEL"):
            approving(more)


def test_denying_refuses_this_once_or_says_no() -> None:
    assert denying(YES_NO) is YES_NO["options"][2]
    assert denying(COLOURS) is None


def test_words_are_an_option_of_that_name_or_an_answer_but_never_a_yes() -> None:
    assert answering(COLOURS, " GREEN ") == (COLOURS["options"][1], "")
    assert answering(COLOURS, "a dark one") == (None, "a dark one")
    assert answering(YES_NO, "no") == (YES_NO["options"][2], "")
    with pytest.raises(UsageError, match="approve it, deny it"):
        answering(YES_NO, "please do not")
    with pytest.raises(UsageError, match="blank"):
        answering(COLOURS, "  ")


def test_two_options_of_one_label_are_told_apart_by_their_ids() -> None:
    same = question(("Yes", "allow_once"), ("Yes", "allow_always"))
    assert spelled(same["options"][1], same) == "Yes-1"
    assert spelled(YES_NO["options"][0], YES_NO) == "Yes"


# The commands


@pytest.fixture
def served(acting_server: Served) -> Served:
    return acting_server


def asks(served: Served, prompt: str, face: str = STREAM) -> str:
    task_id = served.open(prompt, face=face)
    served.shows(task_id, status="PENDING_CONFIRMATION")
    return task_id


def answer_of(served: Served, task_id: str) -> str:
    served.shows(task_id, status="COMPLETED")
    return str(served.api.get(any_route(f"/api/tasks/{task_id}/messages"))["items"][-1]["text"])


def witness(served: Served, prompt: str) -> tuple[str, Path]:
    """A session whose agent writes down what it received, and where."""
    ledger = served.folder / f"ledger-{len(list(served.folder.glob('ledger-*')))}"
    program = write_program(served.folder / f"program-{ledger.name}", command(STREAM, ledger=ledger))
    body = {"agent": "scripted", "driver": "claude-stream", "argv": [program], "cwd": str(served.folder)}
    task_id = str(served.api.ask("POST", "/api/tasks", {**body, "prompt": prompt})["task_id"])
    served.shows(task_id, status="PENDING_CONFIRMATION")
    return task_id, ledger


def test_what_is_asked_is_listed_with_the_commands_that_answer_it(served: Served) -> None:
    task_id = asks(served, 'request Bash {"command": "rm x"} -> gone; say done')
    listed = served.cli("approvals")
    assert listed.returncode == 0
    assert f"interlock approve {task_id}" in listed.stdout
    assert '  Allow Bash?\n  tool Bash {"command": "rm x"}\n' in listed.stdout
    (told,) = [one for one in served.json("approvals")["approvals"] if one["session_id"] == task_id]
    assert told["tool"] == "Bash"
    done = served.cli("approve", task_id, "--reason", "on a branch")
    assert (done.returncode, done.stdout) == (0, "approved with 'Yes', saying 'on a branch': Allow Bash?\n")
    assert answer_of(served, task_id) == "done"
    # It is over: clear, and exit code 2, by whatever name.
    gone = served.cli("approve", task_id, told["approval_id"])
    assert (gone.returncode, gone.stdout) == (2, "")
    assert "already" in gone.stderr
    assert served.cli("deny", task_id).returncode == 2


def test_a_refusal_reaches_the_agent_as_one(served: Served) -> None:
    task_id = asks(served, "request Bash {} -> done it; say went on")
    done = served.json("deny", task_id, "1", "--reason", "not here")
    assert (done["is_allowed"], done["option"], done["text"]) == (False, "No", "not here")
    served.shows(task_id, attention="none")
    tools = [
        one for one in served.api.get(any_route(f"/api/tasks/{task_id}/messages"))["items"] if one["role"] == "tool"
    ]
    assert tools[0]["status"] in ("failed", "cancelled")


def test_an_answer_is_the_option_that_was_named(served: Served) -> None:
    task_id, ledger = witness(served, "ask Which? | red | green; say ok")
    wrong = served.cli("answer", task_id, "--option", "blue")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "1. 'red', 2. 'green'" in wrong.stderr
    assert served.cli("approve", task_id).returncode == 2
    done = served.cli("answer", task_id, "--option", "2")
    assert (done.returncode, done.stdout) == (0, "answered with 'green': Which?\n")
    assert answer_of(served, task_id) == "ok"
    received = [str(entry) for entry in read_ledger(ledger) if entry.what == "answer"]
    assert len(received) == 1
    assert "green" in received[0]


def test_an_answer_in_words_behind_the_name_of_the_question(served: Served) -> None:
    task_id, ledger = witness(served, "ask Which? | red | green; say ok")
    name = served.task(task_id)["approvals"][0]["approval_id"]
    assert served.cli("answer", task_id, name, "a dark blue").returncode == 0
    served.shows(task_id, status="COMPLETED")
    assert any("a dark blue" in str(entry) for entry in read_ledger(ledger) if entry.what == "answer")


@pytest.mark.deep
def test_more_than_one_yes_is_not_approved_blindly(served: Served) -> None:
    task_id = asks(served, "ask Which? | red | green; say ok", face="acp")
    wrong = served.cli("approve", task_id)
    assert wrong.returncode == 2
    assert "--option LABEL" in wrong.stderr
    assert served.task(task_id)["approvals"], "nothing was decided"
    assert json.loads(served.cli("answer", task_id, "green", "--json").stdout)["option"] == "green"
    assert answer_of(served, task_id) == "ok"


def test_nothing_is_asked_of_nobody(served: Served) -> None:
    task_id = served.open()
    lines = (f"approve {task_id}", f"deny {task_id}", f"answer {task_id} x", "approve ses_unknown", f"answer {task_id}")
    for done in run_many(lines, served.home):
        assert (done.code, done.out) == (2, ""), done


def test_what_an_agent_is_about_to_ask_is_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some say that they need somebody before their screen shows what for."""
    needs = with_badge({"task_id": "ses_1", "live": {"activity": "working", "attention": "approval"}})
    looks: list[Body] = [
        {"summary": needs, "approvals": []},
        {"summary": needs, "approvals": [{"approval_id": "apr_1"}]},
    ]

    class Api:
        def get(self, _: str) -> object:
            return looks.pop(0)

    monkeypatch.setattr(decide, "find_task", lambda *_: {"task_id": "ses_1"})
    api = cast("ServerApi", Api())
    assert find_question(api, "ses_1", "")["approval_id"] == "apr_1"
    quiet = with_badge({"task_id": "ses_1", "live": {"activity": "quiet", "attention": "error"}})
    looks += [{"summary": quiet, "approvals": []}]
    with pytest.raises(UsageError, match="no open question"):
        find_question(api, "ses_1", "")
    monkeypatch.setattr(decide, "SHOWN_WITHIN_SECONDS", 0.0)
    looks += [{"summary": needs, "approvals": []}] * 3
    with pytest.raises(UsageError, match="no open question"):
        find_question(api, "ses_1", "")
