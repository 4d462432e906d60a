"""Which dialog stands on a screen, and what a decision means in it."""

from __future__ import annotations

import sys

import pytest

from interlock.agents.observations import OptionKind
from interlock.agents.port import Decision, NotDelivered
from interlock.agents.profiles import builtin_profiles
from interlock.agents.terminal.dialogs import DialogAnswer, ScreenDialog, answer_to, dialog_on, is_same_dialog, offered
from interlock.agents.terminal.launch import recognise
from interlock.screen.assessment import BlockKind, Option
from interlock.screen.selection import select_reader
from interlock.screen.snapshot import read_snapshot
from tests.each_row import each_row
from tests.screen.profiles.frames import snapshot_at

RULE = "─" * 60
BASH = f"""● I will do it.

{RULE}
 Bash command

   {{command}}
   Wait a while

 Do you want to proceed?
 {{first}} 1. Yes
 {{second}} 2. Yes, and don't ask again for sleep commands
   3. No

 Esc to cancel · Tab to amend
"""


def dialog_of(command: str, *, selected: int = 0) -> ScreenDialog:
    reader = select_reader(builtin_profiles(), "claude", "2.1.325")
    marks = {"first": "❯" if selected == 0 else " ", "second": "❯" if selected == 1 else " "}
    snapshot = read_snapshot(BASH.format(command=command, **marks), columns=80, height=24)
    found = dialog_on(reader.parse_snapshot(snapshot).assessment, snapshot, reader.profile)
    assert found is not None
    return found


def decision(*, is_allowed: bool = True, label: str = "", key: str = "", text: str = "") -> Decision:
    return Decision(request_id="1", is_allowed=is_allowed, option_label=label, option_id=key, text=text)


def test_what_is_to_be_allowed_is_told_word_for_word() -> None:
    asked = dialog_of("sleep 20s")
    assert asked.question == "Bash command\nsleep 20s\nWait a while\nDo you want to proceed?"
    assert [(one.label, one.kind) for one in offered(asked)] == [
        ("Yes", OptionKind.ALLOW_ONCE),
        ("Yes, and don't ask again for sleep commands", OptionKind.ALLOW_ALWAYS),
        ("No", OptionKind.REJECT_ONCE),
    ]


def test_another_word_makes_another_dialog_and_another_selection_does_not() -> None:
    asked = dialog_of("sleep 20s")
    assert dialog_of("sleep 20s", selected=1).identity == asked.identity
    assert dialog_of("sleep 20s", selected=1).selected == 1
    assert dialog_of("sleep 30s").identity != asked.identity


@pytest.mark.parametrize(
    ("before", "after", "seconds"),
    [
        ("make, running for 3s", "make, running for 4s", 1.0),
        ("make, running for 59s", "make, running for 1m 1s", 2.0),
        ("make, since 11:59", "make, since 12:00", 60.0),
        ("make, 9s left", "make, 3s left", 6.0),
    ],
)
def test_a_duration_that_goes_on_with_the_time_makes_no_other_dialog(before: str, after: str, seconds: float) -> None:
    assert is_same_dialog(dialog_of(before), dialog_of(after), seconds)


@each_row(
    ("before", "after", "seconds"),
    [
        ("sleep 20s", "sleep 30s", 1.0),
        ("sleep 20s", "sleep 5m", 3600.0),
        ("sleep 20s", "sheep 20s", 1.0),
        ("rm cache 12% 3s", "rm cache 13% 4s", 1.0),
        ("rm 3s", "rm 3s 4s", 1.0),
        ("rm -r 1", "rm -r 2", 1.0),
    ],
)
def test_another_word_or_number_makes_another_dialog_however_little_it_differs(
    before: str, after: str, seconds: float
) -> None:
    assert not is_same_dialog(dialog_of(before), dialog_of(after), seconds)


PERMISSION = """
  ┃  △ Permission required
  ┃    # Runs a command {glyph}
  ┃
  ┃  $ {command}
  ┃
  ┃   Allow once   Allow always   Reject                      ⇆ select  enter confirm
"""


def permission(glyph: str, command: str) -> ScreenDialog:
    reader = select_reader(builtin_profiles(), "opencode")
    snapshot = read_snapshot(PERMISSION.format(glyph=glyph, command=command), columns=100, height=24)
    found = dialog_on(reader.parse_snapshot(snapshot).assessment, snapshot, reader.profile)
    assert found is not None
    return found


def test_a_spinner_in_a_dialog_makes_no_other_one() -> None:
    asked, ticked = permission("⠋", "make"), permission("⠙", "make")
    assert asked.question != ticked.question
    assert is_same_dialog(asked, ticked, 0.1)
    assert not is_same_dialog(asked, permission("⠙", "make all"), 0.1)


@pytest.mark.parametrize("is_allowed", [True, False])
def test_what_asks_for_leave_is_not_answered_before_its_options_are_drawn(is_allowed: bool) -> None:
    asked = ScreenDialog(BlockKind.APPROVAL, "Run it?", (), "Run it?")
    assert asked.is_unfinished
    with pytest.raises(NotDelivered, match="options of the dialog are not on the screen"):
        answer_to(asked, decision(is_allowed=is_allowed))


@pytest.mark.parametrize(
    ("cli", "name", "t", "is_in_a_row"),
    [("opencode", "full", 32.0, True), ("opencode", "d_ask", 28.0, False), ("qwen", "full", 28.0, False)],
)
def test_whether_options_stand_beside_each_other_is_told(cli: str, name: str, t: float, is_in_a_row: bool) -> None:
    reader, snapshot = select_reader(builtin_profiles(), cli), snapshot_at(cli, name, t)
    found = dialog_on(reader.parse_snapshot(snapshot).assessment, snapshot, reader.profile)
    assert found is not None
    assert found.is_in_a_row is is_in_a_row


def test_options_are_chosen_by_their_text() -> None:
    asked = dialog_of("sleep 20s")
    assert answer_to(asked, decision(label="Yes")) == DialogAnswer(0)
    assert answer_to(asked, decision(label="Yes, and don't ask again")) == DialogAnswer(1)
    assert answer_to(asked, decision()) == DialogAnswer(0)
    assert answer_to(asked, decision(is_allowed=False)) == DialogAnswer(2)
    assert answer_to(asked, decision(is_allowed=False, text="not now")) == DialogAnswer(2)


@pytest.mark.parametrize("label", ["Maybe", "Y", "yes"])
def test_a_text_that_fits_no_option_or_several_chooses_none(label: str) -> None:
    with pytest.raises(NotDelivered):
        answer_to(dialog_of("sleep 20s"), decision(label=label))


def test_a_question_takes_one_of_its_answers_or_words() -> None:
    options = (Option("Red", is_selected=True), Option("Blue", key="b"), Option("Type something."))
    asked = ScreenDialog(BlockKind.QUESTION, "Which?", options, "Which?")
    assert {one.kind for one in offered(asked)} == {OptionKind.CHOICE}
    assert answer_to(asked, decision(label="Blue")) == DialogAnswer(1)
    assert answer_to(asked, decision(key="b")) == DialogAnswer(1)
    assert answer_to(asked, decision(text="Green")) == DialogAnswer(2, "Green")
    assert answer_to(asked, decision(label="Type something.", text="Green")) == DialogAnswer(2, "Green")
    assert answer_to(asked, decision(is_allowed=False)) == DialogAnswer(None)
    with pytest.raises(NotDelivered, match="asks for one of"):
        answer_to(asked, decision())


def test_a_dialog_that_takes_several_answers_is_not_answered_by_one() -> None:
    asked = ScreenDialog(
        BlockKind.QUESTION, "Which?", (Option("Lint", is_selected=True),), "Which?", takes_several=True
    )
    with pytest.raises(NotDelivered, match="several"):
        answer_to(asked, decision(label="Lint"))


@each_row(
    ("argv", "cli", "words"),
    [
        (("claude", "--debug"), "claude", 1),
        (("/opt/bin/codex.js",), "codex", 1),
        (("node", "--no-warnings", "/opt/codex.js", "--no-daemon"), "codex", 3),
        ((sys.executable, "-m", "interlock.testing.scripted_agent"), "scripted", 3),
        (("sh", "-c", "claude"), None, 0),
        (("vim", "claude"), None, 0),
    ],
)
def test_a_command_line_is_recognised_by_its_program(argv: tuple[str, ...], cli: str | None, words: int) -> None:
    found = recognise(builtin_profiles(), argv)
    assert (found and found.cli) == cli
    assert found is None or (found.argv is not None and len(found.argv) == words)


def test_long_dialogs_that_begin_alike_are_told_whole_and_are_two() -> None:
    """What a person allows is the end of a command, too."""
    rows = [f"  echo {'x' * 180} {at}" for at in range(24)]
    asked = []
    for last in ("echo harmless", "rm -rf ~"):
        text = "\n".join(
            [
                "\u2500" * 200,
                " Bash command",
                "",
                *rows,
                f"  {last}",
                "",
                " Do you want to proceed?",
                " \u276f 1. Yes",
                "   2. No",
                "",
                " Esc to cancel",
            ]
        )
        reader = select_reader(builtin_profiles(), "claude", "2.1.325")
        snapshot = read_snapshot(text, columns=220, height=50)
        found = dialog_on(reader.parse_snapshot(snapshot).assessment, snapshot, reader.profile)
        assert found is not None
        assert last in found.question
        asked.append(found)
    first, second = asked
    assert not is_same_dialog(first, second, 0.1)
