"""Every fenced block of every page is run, and here stands by what. A block that nobody runs fails this.

Law: a page may show a block only in a language that some test takes from that page. `HOW` names that test; it has to be
there, and its module has to name the page. Generated pages are compared with the code they are made from.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.running import generated_pages
from tests.each_row import each_row
from tools.docs import MARKER

ROOT = Path(__file__).parents[2]
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("vectors/*.md")])
}
PICTURE = "a drawing in letters"
# Pages of programs: a block of `py` is a file, and one of `console` runs it.
PROGRAMS = {
    "docs/how-to/embed-the-library.md": "tests/docs/test_running_pages.py::test_every_command_prints",
    "docs/explanation/how-a-turn-ends.md": "tests/docs/test_running_pages.py::test_every_command_prints",
    "docs/explanation/the-stall-clock.md": "tests/docs/test_running_pages.py::test_every_command_prints",
    "docs/how-to/run-agents-from-python.md": "tests/docs/test_running_pages.py::test_every_command_prints",
    "docs/how-to/write-a-tool-for-the-model.md": "tests/docs/test_running_pages.py::test_every_command_prints",
    "docs/how-to/install-hooks.md": "tests/docs/test_running_pages.py::test_every_command_prints",
    "docs/how-to/watch-a-terminal-from-python.md": "tests/docs/test_watching_page.py::test_every_command_prints",
    "docs/how-to/use-the-client.md": "tests/client/test_client_page.py::test_every_command_prints",
    "docs/how-to/run-plans-from-python.md": "tests/client/test_plans_page.py::test_every_command_prints",
}
HOW = {
    ("README.md", "sh"): "tests/e2e/test_fresh_clone.py::test_a_newcomer_follows_the_readme",
    ("README.md", "py"): "tests/e2e/test_examples.py::test_the_examples_that_need_a_server",
    ("docs/features.md", "text"): "tests/cli/test_demo.py::test_the_story_is_true_and_shows_every_state",
    ("docs/features.md", "python"): "tests/docs/test_pages.py::test_every_python_block_runs",
    (
        "docs/tutorial/first-five-minutes.md",
        "sh",
    ): "tests/e2e/test_walkthrough.py::test_the_tutorial_begins_as_the_readme",
    ("docs/tutorial/first-five-minutes.md", "console"): "tests/e2e/test_walkthrough.py::test_a_page_that_is_typed",
    ("docs/how-to/script-a-fleet.md", "console"): "tests/e2e/test_walkthrough.py::test_a_page_that_is_typed",
    ("docs/how-to/approve-from-anywhere.md", "console"): "tests/e2e/test_walkthrough.py::test_a_page_that_is_typed",
    (
        "docs/how-to/answer-safe-questions-by-rules.md",
        "console",
    ): "tests/e2e/test_walkthrough.py::test_a_page_that_is_typed",
    ("docs/how-to/run-a-plan.md", "console"): "tests/e2e/test_walkthrough.py::test_a_page_that_is_typed",
    ("docs/how-to/run-a-plan.md", "toml"): "tests/cli/test_plan_files.py::test_the_page_shows_a_plan_that_can_run",
    ("docs/how-to/let-an-agent-start-others.md", "toml"): "tests/cli/test_agent_tools.py::test_the_page_is_true",
    ("docs/how-to/let-an-agent-start-others.md", "json"): "tests/cli/test_agent_tools.py::test_the_page_is_true",
    (
        "docs/how-to/notifications.md",
        "console",
    ): "tests/e2e/test_notifications_page.py::test_it_can_be_typed_into_a_shell",
    ("docs/how-to/open-the-dashboard.md", "toml"): "tests/server/test_browser_logins.py::test_the_page_can_be_typed",
    ("docs/how-to/notifications.md", "toml"): "tests/e2e/test_notifications_page.py::test_every_table_is_understood",
    (
        "docs/how-to/show-a-status-line.md",
        "text",
    ): "tests/docs/test_statusline_page.py::test_the_line_and_the_json_are_those_of_the_command",
    (
        "docs/how-to/show-a-status-line.md",
        "toml",
    ): "tests/docs/test_statusline_page.py::test_the_settings_name_commands_that_there_are",
    ("docs/how-to/run-a-server.md", "console"): "tests/docs/test_server_pages.py::test_every_command_prints",
    ("docs/how-to/follow-a-task-with-curl.md", "console"): "tests/docs/test_server_pages.py::test_every_command_prints",
    ("docs/how-to/read-a-log-after-an-incident.md", "console"): "tests/docs/test_incident_page.py::test_the_page_shows",
    ("docs/explanation/log-integrity.md", "console"): "tests/docs/test_incident_page.py::test_the_page_shows",
    ("docs/how-to/write-a-profile.md", "toml"): "tests/docs/test_profile_page.py::test_its_profile_reads_a_dialog",
    ("docs/how-to/write-a-profile.md", "sh"): "tests/docs/test_profile_page.py::test_a_pane_is_recorded",
    ("docs/how-to/search-transcripts.md", "sh"): "tests/cli/test_search.py::test_the_page_can_be_typed",
    ("docs/how-to/see-which-turn-changed-a-file.md", "sh"): "tests/cli/test_diff.py::test_the_page_can_be_typed",
    ("docs/how-to/see-which-turn-changed-a-file.md", "toml"): "tests/cli/test_diff.py::test_the_page_can_be_typed",
    ("docs/how-to/run-agents-in-worktrees.md", "sh"): "tests/cli/test_worktrees.py::test_the_page_can_be_typed",
    ("docs/how-to/run-agents-in-worktrees.md", "toml"): "tests/cli/test_worktrees.py::test_the_page_can_be_typed",
    ("docs/how-to/review-changes.md", "sh"): "tests/cli/test_diff.py::test_the_page_of_reviews_can_be_typed",
    ("docs/how-to/archive-sessions.md", "sh"): "tests/cli/test_archive_commands.py::test_the_page_can_be_typed",
    ("docs/how-to/check-a-cli-version.md", "sh"): "tests/docs/test_lab_page.py::test_every_command",
    ("docs/how-to/test-with-scripted-agents.md", "pycon"): "tests/docs/test_scripted_agents_page.py::test_the_session",
    (
        "docs/how-to/test-with-scripted-agents.md",
        "console",
    ): "tests/docs/test_scripted_agents_page.py::test_the_command",
    ("docs/how-to/test-with-scripted-agents.md", "text"): "tests/docs/test_scripted_agents_page.py::test_its_lists",
    ("docs/reference/configuration.md", "toml"): "tests/runtime/test_config.py::test_the_page_names_every_key",
    ("docs/explanation/clients-that-converge.md", ""): PICTURE,
    ("docs/explanation/running-agents.md", ""): PICTURE,
    ("docs/explanation/watching-a-terminal.md", ""): PICTURE,
    ("ARCHITECTURE.md", "mermaid"): PICTURE,
    **{(page, language): test for page, test in PROGRAMS.items() for language in ("py", "console")},
}


def languages(page: str) -> list[str]:
    """The language of each block, in the order of the page. Raises where a fence is one that no test would find."""
    opened: str | None = None
    found = []
    for line in page.splitlines():
        fence = re.match(r"\s*(?:>\s*)?(`{3,}|~{3,})(.*)", line)
        if fence is None:
            continue
        if opened is None:
            if not re.fullmatch(r"```[a-z]*", line):
                raise ValueError(f"a block begins in a way that nothing looks for: {line!r}")
            opened = line
            found.append(fence[2])
        elif line == "```":
            opened = None
    if opened is not None:
        raise ValueError("the last block has no end")
    return found


def is_generated(name: str) -> bool:
    return PAGES[name].startswith(MARKER)


def keys_of(name: str) -> set[tuple[str, str]]:
    return {(name, language) for language in languages(PAGES[name])}


@pytest.mark.parametrize("name", sorted(PAGES))
def test_every_block_of_a_page_is_run(name: str) -> None:
    if is_generated(name):
        assert name.removeprefix("docs/") in generated_pages(), "nothing makes this page any more"
    else:
        assert sorted(keys_of(name) - set(HOW)) == []


def test_nothing_is_said_to_run_that_is_not_there() -> None:
    assert sorted(set(HOW) - {key for name in PAGES for key in keys_of(name)}) == []


@each_row("key", [key for key, test in HOW.items() if test != PICTURE], ids="-".join)
def test_what_is_said_to_run_a_block_does_so(key: tuple[str, str]) -> None:
    """It is there, it is not skipped, and it reads that page."""
    file, _, test = HOW[key].partition("::")
    text = (ROOT / file).read_text(encoding="utf-8")
    names = re.findall(r"^def (test_\w+)", text, re.MULTILINE)
    assert [name for name in names if name.startswith(test)], HOW[key]
    assert not re.search(r"mark\.(skip|xfail)|pytest\.skip", text)
    assert Path(key[0]).name in text or 'glob("docs/**/*.md")' in text


@each_row("page", ["```sh\nls\n", "  ```sh\nls\n```\n", "```Sh\n```\n", "~~~\n~~~\n", "> ```\n> ls\n> ```\n"])
def test_a_fence_that_no_test_would_find_is_refused(page: str) -> None:
    with pytest.raises(ValueError, match="block"):
        languages(page)


def test_blocks_are_found_in_their_order() -> None:
    assert languages("```sh\nls\n```\ntext\n```\n````\n~~~\n```\n```py\n```\n") == ["sh", "", "py"]


# Links


def links(name: str) -> list[str]:
    """The targets of a page that are files of ours."""
    return re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)", PAGES[name])


def test_every_page_is_reached_from_the_index() -> None:
    """In one step, or in two for those with an index of their own; and the index from the front page."""
    assert "docs/README.md" in links("README.md")
    near = {reach("docs/README.md", link) for link in links("docs/README.md")}
    indexes = [name for name in near if name.endswith("/README.md") and name in PAGES]
    near |= {reach(name, link) for name in indexes for link in links(name)}
    assert [name for name in PAGES if name.startswith("docs/") and name not in {*near, "docs/README.md"}] == []


def reach(page: str, link: str) -> str:
    return (ROOT / page).parent.joinpath(link).resolve().relative_to(ROOT.resolve()).as_posix()
