"""What the pages say is true: Python blocks run, samples are what commands print, links lead somewhere."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from interlock.cli.demo.log import STORIES, Story, play
from interlock.log.memory import MemoryLog
from interlock.machines import MACHINES
from interlock.testing.scribe import Scribe
from interlock.vocabulary.events.codec import encode_event
from interlock.vocabulary.events.conversation import AssistantMessage, UserMessage
from interlock.vocabulary.events.registry import DECLARATIONS
from tests.docs.running import blocks

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FEATURES = (ROOT / "docs" / "features.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_python_block_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scribe = Scribe()
    scribe.write(UserMessage(text="hello"), AssistantMessage(text="hi"), turn="trn_1")
    (tmp_path / "session.ndjson").write_bytes(b"\n".join(map(encode_event, scribe.events)))
    monkeypatch.chdir(tmp_path)
    for block in blocks(page.read_text(encoding="utf-8"), "python"):
        exec(compile(block, str(page), "exec"), {"__name__": "__main__"})
        assert "trn_1 completed" in capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_link_leads_to_a_file(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", text) + re.findall(r'src(?:set)?="(?!https?:)([^"]+)"', text)
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_picture_is_on_some_page() -> None:
    pages = [README, *(page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md"))]
    kept = [picture.name for picture in (ROOT / "docs" / "pictures").iterdir()]
    assert kept
    assert [name for name in kept if not any(f"pictures/{name}" in page for page in pages)] == []


def test_the_page_of_features_counts_right() -> None:
    assert f"{len(DECLARATIONS)} event types" in FEATURES
    named = re.search(r"(\d+) pure machines \(([^)]*)\)", FEATURES)
    assert named is not None
    assert (int(named[1]), named[2].split(", ")) == (len(MACHINES), list(MACHINES))


def test_the_readme_is_short_and_has_its_picture_before_its_commands() -> None:
    words = re.sub(r"^\|.*$|<[^>]*>|\]\([^)]*\)", "", README, flags=re.MULTILINE).split()
    assert len(words) < 550
    order = [README.index(part) for part in ("can prove", 'src="docs/pictures/', "make demo", "Limits")]
    assert order == sorted(order)


def test_the_commands_of_the_readme_exist() -> None:
    targets = re.findall(r"^make (\w+)", "\n".join(blocks(README, "sh")), re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert targets == ["demo", "test"]
    assert all(f"\n{target}:" in makefile for target in targets)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.told)
def test_every_story_of_the_demo_reads_as_it_is_told(story: Story) -> None:
    told = {
        "ran a tool, then answered": "completed",
        "the stream broke after half an answer": "partial_failed",
        "the process ended cleanly, and said nothing": "failed",
        "the answer is there, and a tool never came back": "partial_failed",
        "asked for an approval": "waiting",
        "a person pressed Escape": "interrupted",
        "ten minutes were up": "timed_out",
        "the runtime was killed in the middle of the answer": "abandoned",
        "it runs, and an old process reports its end": "running",
    }
    record, _ = asyncio.run(play(MemoryLog(), story, 1))
    assert record.state.value == told[story.told]
