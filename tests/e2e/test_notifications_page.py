"""`docs/how-to/notifications.md`: its commands run and show what the page shows; its tables are understood."""

from __future__ import annotations

import pytest

from interlock.projections.attention import MAX_QUESTION
from interlock.projections.attention_ledger import NoticeKind
from interlock.runtime.config.loading import parse
from interlock.runtime.config.sections import NotifySection
from interlock.runtime.notify.notifier import BELL_LEDGER_NAME, DELIVERY_SECONDS, LEDGER_NAME
from tests.docs.running import blocks
from tests.e2e.shell import ROOT, empty_home, processes_of
from tests.e2e.test_walkthrough import walk

NAME = "docs/how-to/notifications.md"
PAGE = (ROOT / NAME).read_text(encoding="utf-8")


@pytest.mark.deep
@pytest.mark.timeout(200)
def test_it_can_be_typed_into_a_shell() -> None:
    with empty_home() as home:
        walk(NAME, home)
        assert processes_of(home) == []


def test_every_table_is_understood() -> None:
    link, desktop, bell, kinds, ntfy = (parse(block, {}).config.notify for block in blocks(PAGE, "toml"))
    assert link.link == "https://agents.example.org/sessions/{session}"
    assert (desktop.desktop, bell.bell) == (True, False)
    assert kinds == NotifySection(kinds=tuple(NoticeKind), quiet_seconds=10.0)
    assert ntfy.ntfy.startswith("https://")


def test_what_it_says_is_true_of_the_code() -> None:
    assert f"`{LEDGER_NAME}`" in PAGE
    assert f"`{BELL_LEDGER_NAME}`" in PAGE
    assert f"at most {MAX_QUESTION:,} characters" in PAGE
    assert DELIVERY_SECONDS == 10.0
    assert "at most ten seconds" in PAGE
    assert NotifySection().bell
