"""The search dialog of the board: an answer that comes after it was closed changes nothing."""

from __future__ import annotations

import asyncio

import pytest
from textual.app import App

from interlock.cli.top.dialogs.search import AskSearch
from interlock.cli.top.panes import QuestionsPane
from interlock.vocabulary.errors import Unreachable
from interlock.vocabulary.wire.resources import SearchPage
from tests.contract.harness import run


@pytest.mark.parametrize("is_refused", [True, False])
def test_an_answer_that_comes_after_the_dialog_was_closed_is_dropped(*, is_refused: bool) -> None:
    async def story() -> None:
        asked, may_answer = asyncio.Event(), asyncio.Event()

        async def find(wanted: str) -> SearchPage:
            asked.set()
            await asyncio.shield(may_answer.wait())
            if is_refused:
                raise Unreachable("no server runs")
            return SearchPage(items=(), next=None, is_complete=True, is_cut=False, progress=1.0)

        async with App[None]().run_test() as pilot:
            dialog = AskSearch("words", lambda wanted: (1, 2), find)
            await pilot.app.push_screen(dialog)
            await asked.wait()
            looking = next(one for one in pilot.app.workers if one.group == "search")
            closed = dialog.dismiss(None)
            while dialog.query(QuestionsPane) and looking.is_running:  # noqa: ASYNC110 - it goes piece by piece, and tells nobody
                await asyncio.sleep(0)
            may_answer.set()
            await closed
            await pilot.pause()
            assert looking.error is None or looking.is_cancelled
            assert dialog not in pilot.app.screen_stack

    run(story())
