"""`interlock search`: as a person types it, against a real server."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.harness import interlock
from tests.cli.serving import Served, serving


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("search")) as found:
        yield found


def test_a_prompt_is_found_by_its_words_and_hostile_text_is_harmless(served: Served) -> None:
    session = served.done("Say the zebra is \x1b[31mstriped\x07", title="colours")
    found = served.cli("search", "zebra", "--session", session)
    assert found.returncode == 0, found
    assert "zebra" in found.stdout
    assert "colours" in found.stdout
    assert "\x1b" not in found.stdout
    assert "\x07" not in found.stdout
    told = json.loads(served.cli("search", "zebra", "--json").stdout)
    assert {one["session_id"] for one in told["messages"]} == {session}
    assert told["is_complete"]
    assert {"user", "answer"} <= {one["role"] for one in told["messages"]}
    one = served.cli("search", "zebra", "--limit", "1")
    assert "add --after" in one.stderr
    assert served.cli("search", "giraffe").stderr.strip().endswith("no message matches")


def test_a_session_that_was_renamed_is_found_by_the_name_that_it_has_now(served: Served) -> None:
    session = served.done("Say the okapi is shy.", title="before")
    assert served.cli("search", "okapi").stdout.count("before")
    assert served.cli("session", "rename", session, "afterwards").returncode == 0
    told = json.loads(served.cli("search", "okapi", "--json").stdout)
    assert {one["title"] for one in told["messages"]} == {"afterwards"}


@pytest.mark.parametrize(
    "words", [("--limit", "0", "a"), ("--role", "king", "a"), ("--since", "yesterday", "a"), (), ("!!!",)]
)
def test_what_cannot_be_searched_for_is_a_clear_error(served: Served, words: tuple[str, ...]) -> None:
    found = served.cli("search", *words)
    assert found.returncode == 2, found
    assert "Traceback" not in found.stderr
    assert found.stderr.strip()


def test_the_page_can_be_typed(served: Served) -> None:
    served.done("say Done.", title="shop")
    page = Path("docs/how-to/search-transcripts.md").read_text(encoding="utf-8")
    blocks = [block.partition("```")[0] for block in page.split("```sh\n")[1:]]
    lines = [shlex.split(line, comments=True) for block in blocks for line in block.splitlines()]
    assert len(lines) == 6
    for program, *words in lines:
        done = served.cli(*words)
        assert (program, done.returncode in (0, 3)) == ("interlock", True), done.stderr


def test_without_a_server_it_says_how_to_start_one(tmp_path: Path) -> None:
    found = interlock("search", "zebra", env={"INTERLOCK_HOME": str(tmp_path)})
    assert found.returncode == 8
    assert "interlock up" in found.stderr
