"""What the tutorial tells a newcomer to type works as shown: in a real terminal, in an empty home."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from interlock.cli.commands import COMMANDS, FAMILIES
from tests.docs.running import blocks, samples
from tests.e2e.shell import ROOT, Shell, empty_home, processes_of, shell, shows, terminal

pytestmark = pytest.mark.timeout(200)


def walk(page: str, home: Path) -> None:
    """Type every command of a page, and compare. What it started, it has to end, too."""
    with shell(home) as opened:
        try:
            type_page((ROOT / page).read_text(encoding="utf-8"), opened)
            assert processes_of(home, but_for=opened.pid) == [], "the page leaves something running"
        finally:
            opened.run("interlock down --stop-agents")


def type_page(page: str, opened: Shell) -> None:
    shown = samples(page)
    assert len(shown) > 6
    for command, sample in shown:
        printed, _ = opened.run(command)
        missing = shows(sample, printed)
        assert missing is None, f"$ {command}\n{printed}\nlacks the line: {missing}"


@pytest.mark.deep
@pytest.mark.parametrize(
    "page",
    [
        "docs/tutorial/first-five-minutes.md",
        "docs/how-to/script-a-fleet.md",
        "docs/how-to/approve-from-anywhere.md",
        "docs/how-to/answer-safe-questions-by-rules.md",
        "docs/how-to/run-a-plan.md",
    ],
)
def test_a_page_that_is_typed_into_a_shell(page: str) -> None:
    with empty_home() as home:
        walk(page, home)


def test_the_tutorial_begins_as_the_readme() -> None:
    """Which a fresh clone does for real."""
    (first,) = blocks((ROOT / "docs/tutorial/first-five-minutes.md").read_text(encoding="utf-8"), "sh")
    assert first.split() == ["make", "demo"]
    assert blocks(readme(), "sh")[0].startswith("make demo ")


# The front page


def readme() -> str:
    return (ROOT / "README.md").read_text(encoding="utf-8")


def rows(page: str, head: str) -> list[list[str]]:
    """The cells of each table whose head begins so."""
    tables = page.split(f"\n| {head} |")[1:]
    lines = [line for table in tables for line in table.partition("\n\n")[0].splitlines()[2:]]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_figures_of_the_readme_are_those_that_were_measured() -> None:
    accuracy = (ROOT / "docs/reference/accuracy.md").read_text(encoding="utf-8")
    measured = rows(accuracy.partition("## Recordings that the profiles were written with")[2], "CLI")
    held_out = rows(accuracy.partition("## Recordings that were held out")[2].partition("\n## ")[0], "CLI")
    names = {"Claude Code": "claude", "Gemini CLI": "gemini", "Qwen Code": "qwen", "Mistral Vibe": "vibe"}
    shown = {}
    for name, _, recordings, unsafe, recall, *_ in rows(readme(), "CLI"):
        if recall != "-":  # no recording of that CLI was held out
            shown[names.get(name, name.lower())] = (int(recordings), int(unsafe), recall)
    assert shown == {
        cli: (
            sum(int(row[1]) for row in measured if row[0] == cli),
            sum(int(row[2]) for row in measured if row[0] == cli),
            recall,
        )
        for cli, _, _, recall, *_ in held_out
    }


def test_every_command_that_a_page_names_exists() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs").glob("[eht]*/*.md")]
    named = {
        (words[1], words[2] if words[1] in FAMILIES else "")
        for page in pages
        for code in re.findall(r"`interlock [^`]+`|^\$ interlock .*$", page.read_text("utf-8"), re.MULTILINE)
        if (words := [*code.strip("`$ ").split(), "", ""])[1].isalpha() and words[1].islower()
    }
    assert len(named) > 40
    known = {(family, name) for family, _, name in (one.name.partition(" ") for one in COMMANDS)}
    assert named - known == set()


@pytest.mark.deep
def test_the_demo_is_told_on_a_terminal() -> None:
    with empty_home() as home:
        with shell(home) as opened:
            printed, code = opened.run("interlock demo --tell", 100)
        assert code == 0, printed
        acts = "$ interlock ps\n...approval...deploy...\n$ interlock approve deploy\n"
        whys = "$ interlock why flaky\n...partial_failed...\n$ interlock why deploy\n...completed..."
        assert shows(acts + whys, printed) is None, printed
        assert "Traceback" not in printed
        assert [*processes_of(home), *(home / "tmp").iterdir()] == []


@pytest.mark.deep
def test_the_demo_is_a_board_where_a_person_answers_and_q_ends_it() -> None:
    keys = (("a", "approved"), ("n", "PostgreSQL"), ("2", "answered with 'SQLite'"))
    with empty_home() as home:
        with shell(home) as opened:
            told, code = opened.play("interlock demo", "Allow Bash?", *keys, last="q")
        assert code == 0, told
        assert "To go on" in told
        assert [*processes_of(home), *(home / "tmp").iterdir()] == []


@pytest.mark.deep
@pytest.mark.parametrize("words", ["starting a server", "Allow Bash?"])
@pytest.mark.parametrize("how", ["", "--tell"], ids=["board", "story"])
def test_a_terminal_that_is_closed_takes_the_demo_along(how: str, words: str) -> None:
    with empty_home() as home:
        with terminal(["interlock", "demo", *how.split()], home) as demo:
            demo.until(lambda text: words in text)
            demo.hang_up()
        assert [*processes_of(home), *(home / "tmp").iterdir()] == []


@pytest.mark.deep
def test_ctrl_c_ends_the_story_and_leaves_nothing() -> None:
    with empty_home() as home:
        with terminal(["interlock", "demo", "--tell"], home) as story:
            story.until(lambda text: "asks (approval)" in text)
            story.type("\x03")
            assert story.ends() == 4
            assert "interlock: interrupted" in story.seen
            assert "Traceback" not in story.seen
        assert [*processes_of(home), *(home / "tmp").iterdir()] == []


def test_the_page_of_commands_has_every_command() -> None:
    page = (ROOT / "docs/reference/commands.md").read_text(encoding="utf-8")
    assert re.findall(r"^## interlock (.*)$", page, re.MULTILINE) == [command.name for command in COMMANDS]
    assert all(f"\n## interlock {one.name}\n\n```text\nUsage: interlock {one.name} " in page for one in COMMANDS)
