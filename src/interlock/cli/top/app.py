"""The keys that answer, act and ask: each takes what is on the screen at that moment, and carries it to the server."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from textual.app import SuspendNotSupported

from interlock.cli.rules.session_rules import SessionRules, look_at_rules
from interlock.cli.server.api import ServerApi
from interlock.cli.tables import Line, Tone
from interlock.cli.top import actions as deeds
from interlock.cli.top.actions import ActionMessage, Draft
from interlock.cli.top.bell import Ringing
from interlock.cli.top.board import GRACE_SECONDS, BoardApp
from interlock.cli.top.dialogs.new_session import AskNewSession, NewSession, emptied
from interlock.cli.top.dialogs.panels import TAKE_HINT, AskWords, Panel, Sure
from interlock.cli.top.dialogs.review import ReviewScreen
from interlock.cli.top.dialogs.rules import RulesPanel
from interlock.cli.top.following import Selected
from interlock.cli.top.keys import action_at, help_lines
from interlock.cli.top.layout import pages
from interlock.cli.top.layout.questions import can_approve, can_deny, can_reply, question_lines, whole_question
from interlock.cli.top.panes import QuestionsPane, SessionList
from interlock.cli.wire.routes import PAGE, task_approvals, task_spawns, task_usage
from interlock.cli.work.attach import run_tmux
from interlock.client.client import Client
from interlock.client.task import TaskHandle
from interlock.vocabulary.errors import InterlockError
from interlock.vocabulary.ids import TurnId

if TYPE_CHECKING:
    from interlock.vocabulary.wire.json_types import ApprovalJson, TaskSummaryJson

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
        home: Path | None = None,
        run_in_terminal: Callable[[Sequence[str]], int] = run_tmux,
        first: str = "",
    ) -> None:
        super().__init__(
            client,
            is_light=is_light,
            grace_seconds=grace_seconds,
            handles_signals=handles_signals,
            clock=clock,
            first=first,
        )
        self.find_api = find_api
        self.ringing = ringing
        self.home = Path() if home is None else home
        self.run_in_terminal = run_in_terminal
        # Words that were typed and not sent, by session and question.
        self.drafts: dict[tuple[str, str], Draft] = {}
        self._new_draft = NewSession(agent="", folder="")

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
        async def choose(handle: TaskHandle, asked: ApprovalJson) -> ActionMessage:
            return await deeds.choose(handle, asked, number)

        self._answer(choose, lambda _: True)

    def action_unasked(self) -> None:
        """A key that answers, where nothing is asked that it could answer."""
        if self._meant() is not None:
            self.say(ActionMessage("that key is no answer to this question: see its keys", Tone.DOUBTFUL))

    def action_unavailable(self) -> None:
        """A key that would do nothing for what is selected."""
        if self.acted_on() is not None:
            self.say(ActionMessage("this agent has no terminal"))

    def on_questions_pane_chosen(self, chosen: QuestionsPane.Chosen) -> None:
        self.action_choose(chosen.number)

    def _answer(
        self,
        how: Callable[[TaskHandle, ApprovalJson], Coroutine[None, None, ActionMessage]],
        is_possible: Callable[[ApprovalJson], bool],
    ) -> None:
        asked = self._meant()
        if asked is None or self.selected is None:
            return
        if not is_possible(asked):
            self.say(ActionMessage("that key is no answer to this question: see its options", Tone.DOUBTFUL))
            return
        self.start(how(self.selected.handle, asked))

    def _meant(self) -> ApprovalJson | None:
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

    def acted_on(self) -> Selected | None:
        """The session that a key means. Where there is none, that is said."""
        chosen = self.chosen()
        if chosen is None:
            self.say(ActionMessage("no session is selected; N begins one"))
        return chosen

    def action_send(self) -> None:
        chosen = self.acted_on()
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

    def action_seen(self) -> None:
        badge = None if self.line is None else self.line.get("badge")
        if badge is None or badge["is_seen"]:
            self.say(ActionMessage("nothing to mark: no turn has ended since it was last seen"))
        else:
            self.start(self._see())

    async def _see(self) -> ActionMessage:
        chosen, turn_id = self.chosen(), None if self.line is None else self.line.get("turn_id")
        if chosen is None:
            return ActionMessage("nothing to mark")
        told = await chosen.handle.mark_seen(TurnId(turn_id) if turn_id else None)
        if told.is_seen:
            return ActionMessage("seen", Tone.ACTIVE)
        return ActionMessage("not marked: another turn has begun", Tone.DOUBTFUL)

    def action_rename(self) -> None:
        chosen = self.acted_on()
        if chosen is None:
            return
        handle = chosen.handle

        def rename(title: str | None) -> None:
            if title and title.strip():
                self.start(deeds.rename(handle, title))

        title = "" if self.line is None else self.line.get("title", "")
        left = lambda _: self.say(ActionMessage("cancelled"))  # noqa: E731
        _ = self.push_screen(AskWords(f"{self.called}: its new title", (), title, left, TAKE_HINT), rename)

    def action_cancel(self) -> None:
        self._make_sure(f"{self.called}: interrupt the turn?", deeds.cancel)

    def action_stop(self) -> None:
        self._make_sure(f"{self.called}: stop the agent, with all that it started?", deeds.stop)

    def action_restart(self) -> None:
        self._make_sure(f"{self.called}: stop the agent, and start it again?", deeds.restart)

    def action_archive(self) -> None:
        self._make_sure(f"{self.called}: archive it? Its agent is stopped; its log stays.", deeds.archive)

    def action_pause(self) -> None:
        chosen = self.acted_on()
        if chosen is not None:
            self.start(deeds.pause(chosen.handle, is_open=not chosen.handle.queue.is_open))

    def action_new(self) -> None:
        """Ask for agent, folder, worktree and prompt; what is left with esc begins nothing, and is kept."""
        agents = deeds.installed_agents()
        if not agents:
            self.say(ActionMessage("no agent is installed here: `interlock doctor` says which there are", Tone.URGENT))
            return
        here = str((None if self.line is None else self.line.get("folder")) or Path.cwd())
        first = self._new_draft if self._new_draft.prompt else replace(self._new_draft, folder=here)

        def keep(asked: NewSession) -> None:
            self._new_draft = asked
            self.say(ActionMessage("cancelled" if not asked.prompt else "kept: N takes it up again"))

        def begin(asked: NewSession | None) -> None:
            if asked is not None:
                self._new_draft = asked
                self.start(self._begin(asked))

        _ = self.push_screen(AskNewSession(agents, first, keep), begin)

    async def _begin(self, asked: NewSession) -> ActionMessage:
        """Open it, and select it. What was typed is kept until that is known to be done."""
        task = await deeds.begin(self.client, asked.agent, asked.folder, asked.prompt, in_worktree=asked.in_worktree)
        if self._new_draft == asked:
            self._new_draft = emptied(asked)
        self.select_when_known(task.task_id)
        where = f"a worktree of {asked.folder}" if asked.in_worktree else asked.folder
        return ActionMessage(f"{asked.agent} was started in {where}", Tone.ACTIVE)

    def action_enter(self) -> None:
        """The terminal of the agent, here; tmux gives it back. What has no terminal is shown at full size."""
        if not self.has_terminal or self.line is None:
            self.action_zoom()
            return
        self.mark_seen()
        self.run_worker(self._go_to_terminal(self.selected_id), group="attach", exclusive=True)

    async def _go_to_terminal(self, task_id: str) -> None:
        try:
            command = await asyncio.to_thread(lambda: deeds.pane_command(self.find_api(), task_id, self.home))
            with self.suspend():
                code = self.run_in_terminal(command)
        except (InterlockError, OSError) as trouble:
            self.say(ActionMessage(f"its terminal cannot be shown: {trouble}", Tone.DOUBTFUL))
        except SuspendNotSupported:
            self.say(ActionMessage(f"not here; in another window: interlock attach {task_id}", Tone.DOUBTFUL))
        else:
            said = "back from its terminal; the agent goes on" if code == 0 else f"tmux ended with exit code {code}"
            self.say(ActionMessage(said, Tone.PLAIN if code == 0 else Tone.DOUBTFUL))

    def _make_sure(self, question: str, how: Callable[[TaskHandle], Coroutine[None, None, ActionMessage]]) -> None:
        chosen = self.acted_on()
        if chosen is None:
            return
        handle = chosen.handle

        def go(is_sure: bool | None) -> None:
            if is_sure:
                self.start(how(handle))
            else:
                self.say(ActionMessage("cancelled"))

        _ = self.push_screen(Sure(question), go)

    def on_session_list_picked(self, picked: SessionList.Picked) -> None:
        super().on_session_list_picked(picked)
        if picked.is_opened:
            self.action_enter()

    # Pages

    def action_help(self) -> None:
        _ = self.push_screen(Panel("keys", lambda _: help_lines(), action_at))

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
        chosen = self.acted_on()
        if chosen is not None:
            self._open_page(f"{self.called}: why it has this status", _why(chosen.handle))

    def action_review(self) -> None:
        chosen = self.acted_on()
        if chosen is not None and self.line is not None and self.line.get("changes") is None:
            self.say(ActionMessage("no turn of it has recorded files: its folder may be in no git repository"))
        elif chosen is not None:
            _ = self.push_screen(ReviewScreen(self.called, chosen.handle))

    def action_spawns(self) -> None:
        if self.selected_id:
            work = _spawns(self.find_api, self.selected_id, self.clock())
            self._open_page(f"{self.called}: process history", work)

    def action_usage(self) -> None:
        if self.selected_id:
            self._open_page(f"{self.called}: usage", _usage(self.find_api, self.selected_id))

    def action_rules(self) -> None:
        """The rules that answer for this session. Nothing is changed without a key of its own there."""
        chosen, line = self.acted_on(), self.line
        if chosen is not None and line is not None:
            self.run_worker(self._show_rules(self.selected_id, line, self.question), group="pages", exclusive=True)

    async def _show_rules(self, task_id: str, line: TaskSummaryJson, asked: ApprovalJson | None) -> None:
        called, worktree = self.called, line["worktree"]

        def look() -> SessionRules:
            return look_at_rules(
                self.home,
                os.environ,
                session_id=task_id,
                agent=str(line["agent"]),
                folder=str(line.get("folder") or ""),
                source="" if worktree is None else worktree.get("source", ""),
                asked=asked,
                approvals=self.find_api().items(task_approvals(task_id), limit=PAGE),
            )

        try:
            rules = await asyncio.to_thread(look)
        except InterlockError as trouble:
            self.say(ActionMessage(f"its rules cannot be told: {trouble}", Tone.DOUBTFUL))
            return

        def pause(is_paused: bool) -> None:
            self.start(deeds.pause_rules(self.home, task_id, is_paused=is_paused))

        def add(text: str) -> None:
            self.start(deeds.add_rule(rules.path, text))

        _ = self.push_screen(RulesPanel(f"{called}: rules for this session", rules, pause, add))

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


async def _spawns(find_api: Callable[[], ServerApi], task_id: str, now: datetime) -> Laid:
    rows = await asyncio.to_thread(lambda: list(find_api().items(task_spawns(task_id), limit=PAGE)))
    return pages.spawns_page(rows, now)


async def _usage(find_api: Callable[[], ServerApi], task_id: str) -> Laid:
    return pages.usage_page(await asyncio.to_thread(lambda: find_api().get(task_usage(task_id))))
