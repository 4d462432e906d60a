"""The keys that answer, act and ask: each takes what is on the screen at that moment, and carries it to the server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from typing import Final

from interlock.cli.look.session_lines import PAGE, task_path
from interlock.cli.server.api import Body, ServerApi
from interlock.cli.tables import Line, Tone
from interlock.cli.top import actions as deeds
from interlock.cli.top.actions import ActionMessage, Draft
from interlock.cli.top.bell import Ringing
from interlock.cli.top.board import GRACE_SECONDS, BoardApp
from interlock.cli.top.keys import help_lines
from interlock.cli.top.layout import pages
from interlock.cli.top.layout.questions import can_approve, can_deny, can_reply, question_lines, whole_question
from interlock.cli.top.panels import AskWords, Panel, Sure
from interlock.cli.top.panes import QuestionsPane
from interlock.client.client import Client
from interlock.client.task import TaskHandle
from interlock.vocabulary.errors import InterlockError

_ASK_LINES: Final = 8
Laid = Callable[[int], Sequence[Line]]


class TopApp(BoardApp):
    """The board with all its keys. `find_api` is for what the client has no word for."""

    def __init__(
        self,
        client: Client,
        find_api: Callable[[], ServerApi],
        *,
        is_light: bool = False,
        grace_seconds: float = GRACE_SECONDS,
        handles_signals: bool = False,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        ringing: Ringing | None = None,
    ) -> None:
        super().__init__(
            client,
            is_light=is_light,
            grace_seconds=grace_seconds,
            handles_signals=handles_signals,
            clock=clock,
        )
        self.find_api = find_api
        self.ringing = ringing
        # Words that were typed and not sent, by session and question.
        self.drafts: dict[tuple[str, str], Draft] = {}

    def on_ready(self) -> None:
        if self.ringing is not None and self._driver is not None:
            ringing = self.ringing.ring(
                self.client, self._driver, lambda why: self.say(ActionMessage(why, Tone.DOUBTFUL))
            )
            self.run_worker(ringing, group="bell")

    def action_approve(self) -> None:
        self._answer(deeds.approve, can_approve)

    def action_deny(self) -> None:
        self._answer(deeds.deny, can_deny)

    def action_choose(self, number: int) -> None:
        async def choose(handle: TaskHandle, asked: Body) -> ActionMessage:
            return await deeds.choose(handle, asked, number)

        self._answer(choose, lambda _: True)

    def action_unasked(self) -> None:
        """A key that answers, where nothing is asked that it could answer."""
        if self._meant() is not None:
            self.say(ActionMessage("that key is no answer to this question: see its keys", Tone.DOUBTFUL))

    def on_questions_pane_chosen(self, chosen: QuestionsPane.Chosen) -> None:
        self.action_choose(chosen.number)

    def _answer(
        self,
        how: Callable[[TaskHandle, Body], Coroutine[None, None, ActionMessage]],
        is_possible: Callable[[Body], bool],
    ) -> None:
        asked = self._meant()
        if asked is None or self.selected is None:
            return
        if not is_possible(asked):
            self.say(ActionMessage("that key is no answer to this question: see its options", Tone.DOUBTFUL))
            return
        self.start(how(self.selected.handle, asked))

    def _meant(self) -> Body | None:
        """The question that a key means, or a word about why there is none."""
        asked = self.question
        if asked is None and self.line is not None and self.line.get("open_approvals"):
            self.say(ActionMessage("what it asks is not here yet: press again in a moment", Tone.DOUBTFUL))
        elif asked is None:
            self.say(ActionMessage("no open question here; n: next agent waiting for you"))
        elif not self.sessions.is_connected:
            self.say(ActionMessage("the server is not heard: it can be answered when that is back", Tone.DOUBTFUL))
        elif asked["state"] != "open":
            self.say(ActionMessage("already answered"))
        elif not self.is_ripe:
            self.say(ActionMessage("this question has only just appeared: press again if you mean it", Tone.DOUBTFUL))
        else:
            return asked
        return None

    def action_reply(self) -> None:
        asked = self._meant()
        if asked is None or self.selected is None:
            return
        if not can_reply(asked):
            self.say(
                ActionMessage("words are no answer to a yes-or-no question: approve, deny or choose", Tone.DOUBTFUL)
            )
            return
        handle, key = self.selected.handle, (self.selected_id, str(asked["approval_id"]))
        above = question_lines([asked], 0, max(20, self.size.width - 4), _ASK_LINES, self.clock())[:-1]

        def reply(text: str | None) -> None:
            if text is not None:
                self.drafts.pop(key, None)
                self.start(deeds.reply(handle, asked, text))

        self._ask(f"{self.called}: your answer", above, key, reply)

    def action_send(self) -> None:
        chosen = self.chosen()
        if chosen is None:
            return
        handle, key = chosen.handle, (self.selected_id, "")
        waiting = len(handle.queue.waiting)
        queued = f", {waiting} in the queue before it" if waiting else ""

        def send(text: str | None) -> None:
            if text is not None:
                draft = self.drafts[key] = deeds.drafted(text, self.drafts.get(key))
                self.start(self._send(handle, draft, key))

        self._ask(f"{self.called}: your prompt{queued}", (), key, send)

    async def _send(self, handle: TaskHandle, draft: Draft, key: tuple[str, str]) -> ActionMessage:
        """Send it. The draft is kept until it is known to have been taken."""
        said = await deeds.send(handle, draft)
        if self.drafts.get(key) == draft:
            del self.drafts[key]
        return said

    def _ask(self, title: str, above: Sequence[Line], key: tuple[str, str], then: Callable[[str | None], None]) -> None:
        known = self.drafts.get(key)

        def leave(text: str) -> None:
            if text.strip():
                self.drafts[key] = deeds.drafted(text, self.drafts.get(key))
            else:
                self.drafts.pop(key, None)

        _ = self.push_screen(AskWords(title, above, "" if known is None else known.text, leave), then)

    def action_cancel(self) -> None:
        self._make_sure(f"{self.called}: interrupt the turn?", deeds.cancel)

    def action_stop(self) -> None:
        self._make_sure(f"{self.called}: stop the agent, with all that it started?", deeds.stop)

    def _make_sure(self, question: str, how: Callable[[TaskHandle], Coroutine[None, None, ActionMessage]]) -> None:
        chosen = self.chosen()
        if chosen is None:
            return
        handle = chosen.handle

        def go(is_sure: bool | None) -> None:
            if is_sure:
                self.start(how(handle))
            else:
                self.say(ActionMessage("cancelled"))

        _ = self.push_screen(Sure(question), go)

    # Pages

    def action_help(self) -> None:
        _ = self.push_screen(Panel("keys", lambda _: help_lines()))

    def action_whole(self) -> None:
        asked = self.question
        if asked is None:
            self.say(ActionMessage("no open question here; n: next agent waiting for you"))
        else:
            _ = self.push_screen(Panel(f"{self.called}: what it asks", lambda width: whole_question(asked, width)))

    def action_attach(self) -> None:
        if self.line is not None:
            _ = self.push_screen(Panel(f"{self.called}: its terminal", pages.attach_page(self.line)))

    def action_why(self) -> None:
        chosen = self.chosen()
        if chosen is not None:
            self._open_page(f"{self.called}: why it says so", _why(chosen.handle))

    def action_spawns(self) -> None:
        if self.selected_id:
            path, now = f"{task_path(self.selected_id)}/spawns", self.clock()
            self._open_page(f"{self.called}: process history", _spawns(self.find_api, path, now))

    def action_usage(self) -> None:
        if self.selected_id:
            path = f"{task_path(self.selected_id)}/usage"
            self._open_page(f"{self.called}: what it used", _usage(self.find_api, path))

    def _open_page(self, title: str, work: Coroutine[None, None, Laid]) -> None:
        """A page whose content has to be asked for."""
        panel = Panel(title, pages.sentence_page("asking", Tone.FAINT))

        async def fill() -> None:
            try:
                laid = await work
            except InterlockError as trouble:
                laid = pages.sentence_page(f"this could not be asked: {trouble}", Tone.DOUBTFUL)
            panel.show(laid)

        _ = self.push_screen(panel)
        self.run_worker(fill(), group="pages")


async def _why(handle: TaskHandle) -> Laid:
    return pages.why_page(await handle.why())


async def _spawns(find_api: Callable[[], ServerApi], path: str, now: datetime) -> Laid:
    rows = await asyncio.to_thread(lambda: list(find_api().pages(path, limit=PAGE)))
    return pages.spawns_page(rows, now)


async def _usage(find_api: Callable[[], ServerApi], path: str) -> Laid:
    return pages.usage_page(await asyncio.to_thread(lambda: find_api().get(path)))
