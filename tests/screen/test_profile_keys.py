"""`[pace]`, `[keys]`, `[arguments]` and `[[override]]` of a profile. A bad value is refused with its line and key."""

from __future__ import annotations

import pytest

from interlock.agents.profiles import builtin_profiles
from interlock.screen.conditions import RowMatches
from interlock.screen.keys import Arguments, Keys, KeyStep, next_step
from interlock.screen.profile import Pace
from interlock.screen.profile_file import read_profile
from interlock.screen.selection import select_reader
from interlock.vocabulary.errors import UsageError
from tests.each_row import each_row

HEAD = 'id = "t"\ncli = "t"\ntitle = "T"\n'
OVERRIDES = """
[pace]
idle_hold_seconds = 2
submit_pause_seconds = 1

[keys]
submit = "C-j"
interrupt = ["Escape"]
quit = ["C-d"]

[[override]]
versions = { before = "1.5" }
pace = { idle_hold_seconds = 3 }
keys = { interrupt = ["C-c"] }

[[override]]
versions = { from = "1.0", before = "2.0" }

[override.keys]
quit = []
"""


def test_a_profile_that_says_nothing_is_interrupted_as_any_program_is() -> None:
    found = read_profile(HEAD, "f")
    assert (found.keys, found.arguments, found.overrides) == (Keys(), Arguments(), ())
    assert (found.keys.submit, [step.press for step in found.keys.interrupt], found.keys.quit) == ("Enter", ["C-c"], ())


def test_steps_are_keys_or_tables_with_what_is_checked() -> None:
    found = read_profile(
        f"""{HEAD}
[keys]
submit = "C-Enter"
quit = ["C-d", "C-d"]
interrupt = [
  {{ press = "Escape", shows = [{{ match = 'again' }}], within_seconds = 2, pause_seconds = 0.5 }},
  {{ press = "C-c", when = [{{ title = 'x' }}] }},
]
""",
        "f",
    ).keys
    first, second = found.interrupt
    assert (first.press, first.within_seconds, first.pause_seconds, first.when) == ("Escape", 2.0, 0.5, ())
    assert isinstance(first.shows[0], RowMatches)
    assert (second.press, len(second.when), second.within_seconds) == ("C-c", 1, 3.0)
    assert (found.submit, found.quit) == ("C-Enter", (KeyStep("C-d"), KeyStep("C-d")))


def test_arguments_hold_the_session_and_the_model_where_they_are_named() -> None:
    text = f'{HEAD}\n[arguments]\nresume = ["--continue={{session}}", "-y"]\nmodel = ["-m", "{{model}}"]\n'
    found = read_profile(text, "f").arguments
    assert found.for_resume("s {model}") == ("--continue=s {model}", "-y")
    assert found.for_model("m {session}") == ("-m", "m {session}")


@pytest.mark.parametrize(
    ("version", "hold", "interrupt", "quits"),
    [("1.4", 3.0, "C-c", 1), ("1.5", 2.0, "Escape", 0), ("2.0", 2.0, "Escape", 1), (None, 2.0, "Escape", 1)],
)
def test_an_override_changes_what_it_names_for_its_versions(
    version: str | None, hold: float, interrupt: str, quits: int
) -> None:
    found = select_reader([read_profile(HEAD + OVERRIDES, "f")], "t", version).profile
    assert (found.pace.idle_hold_seconds, found.pace.submit_pause_seconds) == (hold, 1.0)
    assert found.pace.submit_grace_seconds == Pace().submit_grace_seconds
    assert [step.press for step in found.keys.interrupt] == [interrupt]
    assert (found.keys.submit, len(found.keys.quit)) == ("C-j", quits)


def test_a_version_outside_every_interval_gets_the_keys_of_its_override() -> None:
    text = f'{HEAD}versions = {{ from = "1.0" }}\n[[override]]\nversions = {{ before = "1.5" }}\nkeys.submit = "C-j"\n'
    reader = select_reader([read_profile(text, "f")], "t", "0.9")
    assert (reader.profile.keys.submit, len(reader.anomalies)) == ("C-j", 1)


@each_row(
    ("text", "line", "says"),
    [
        ('[keys]\nsubmit = "Return"\n', 6, "keys.submit: 'Return' is no key; name it as tmux does"),
        ("[keys]\nsubmit = 1\n", 6, "keys.submit: Expected `str`, got `int`"),
        ("[keys]\ninterrupt = []\n", 6, "keys.interrupt: `interrupt` names no key"),
        ('[keys]\ninterrupt = "Escape"\n', 6, "keys.interrupt: Expected `array`, got `str`"),
        ('[keys]\ninterrupt = ["Escape", "Esape"]\n', 6, "keys.interrupt[1]: 'Esape' is no key"),
        ("[keys]\ninterrupt = [{ pause_seconds = 1 }]\n", 6, "missing required field `press`"),
        ('[keys]\ninterrupt = [{ press = "" }]\n', 6, "keys.interrupt[0].press: '' is no key"),
        ('[keys]\ninterrupt = [{ press = "y", pause_seconds = -1 }]\n', 6, "pause_seconds: Expected `float` > 0"),
        ('[keys]\ninterrupt = [{ press = "y", within_seconds = 61 }]\n', 6, "within_seconds: Expected `float` <= 60"),
        ('[keys]\ninterrupt = [{ press = "y", shows = [] }]\n', 6, "`shows` is empty"),
        ('[keys]\ninterrupt = [{ press = "y", when = [{ region = "no", match = "x" }] }]\n', 6, "no region 'no'"),
        ('[keys]\nquit = ["y", "y", "y", "y", "y", "y", "y", "y", "y"]\n', 6, "keys.quit: `quit` has 9 steps"),
        ('[keys]\nleave = ["C-d"]\n', 6, "keys.leave: Object contains unknown field `leave`"),
        ('[pace]\nsubmit_pause_seconds = "1"\n', 6, "pace.submit_pause_seconds: Expected `float`, got `str`"),
        ('[arguments]\nresume = ["--resume"]\n', 6, "arguments.resume: `resume` needs {session}"),
        ('[arguments]\nmodel = ["{session}"]\n', 6, "arguments.model: `model` needs {model}"),
        ('[[override]]\nkeys = { submit = "y" }\n', 5, "missing required field `versions`"),
        ("[[override]]\nversions = {}\n", 6, "override[0].versions: `versions` of an override needs"),
        ('[[override]]\nversions = { from = "x" }\n', 6, "'x' is no version"),
        (
            '[[override]]\nversions = { from = "1" }\n[override.keys]\nsubmit = "y"\n'
            '[[override]]\nversions = { from = "2" }\n[override.keys]\nsubmit = "oh"\n',
            12,
            "override[1].keys.submit: 'oh' is no key",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_line_and_its_key(text: str, line: int, says: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_profile(f"{HEAD}\n{text}", "mine.toml")
    assert str(refused.value).startswith(f"mine.toml:{line}: ")
    assert says in str(refused.value)


def test_a_step_whose_screen_is_not_there_is_left_out() -> None:
    condition = read_profile(f'{HEAD}\n[keys]\ninterrupt = [{{ press = "y", when = [{{ match = "x" }}] }}]\n', "f")
    when = condition.keys.interrupt[0].when
    steps = (KeyStep("a"), KeyStep("b", when=when), KeyStep("c"))
    assert [next_step(steps, after, lambda _: False) for after in (-1, 0, 1, 2)] == [0, 2, 2, None]
    assert [next_step(steps, after, lambda _: True) for after in (-1, 0, 1, 2)] == [0, 1, 2, None]


@each_row(
    ("cli", "interrupt", "quits", "resume"),
    [
        ("claude", "Escape", 2, "--resume s"),
        ("codex", "Escape", 1, "resume s"),
        ("gemini", "Escape", 0, "--resume s"),
        ("qwen", "Escape", 0, "--resume s"),
        ("opencode", "Escape", 0, "--session s"),
        ("pi", "Escape", 0, "--session s"),
        ("vibe", "Escape", 0, ""),
        ("aider", "C-c", 1, ""),
        ("generic", "C-c", 0, ""),
    ],
)
def test_each_profile_names_the_keys_of_its_cli(cli: str, interrupt: str, quits: int, resume: str) -> None:
    profile = select_reader(builtin_profiles(), cli).profile
    assert profile.keys.interrupt[0].press == interrupt
    assert len(profile.keys.quit) == quits
    assert " ".join(profile.arguments.for_resume("s")) == resume


@pytest.mark.parametrize(
    ("version", "pressed"),
    [("0.118.0", ["Escape", "C-c"]), ("0.153.4", ["Escape", "C-c"]), ("0.154.0", ["Escape"]), (None, ["Escape"])],
)
def test_codex_is_interrupted_by_what_its_version_heeds(version: str | None, pressed: list[str]) -> None:
    """Before 0.154 Escape does nothing while an answer streams. Ctrl-C quits an idle Codex, so it has conditions."""
    steps = select_reader(builtin_profiles(), "codex", version).profile.keys.interrupt
    assert [step.press for step in steps] == pressed
    assert all(step.when for step in steps if step.press == "C-c")
