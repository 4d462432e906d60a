"""One agent in a terminal, in the words of the driver port.

Laws:
1. Keys are pressed for one command at a time. A person who types in the same pane is not held back, but noticed.
2. What is seen after Enter is told after the receipts of the prompt; what is seen before it belongs to the time before.
3. `Exited` is told once, when the very process is gone; letting go of a living agent ends the observations without it.
   Where we fail to watch for that end ourselves, the observations end with that error.
4. A pane that bears another mark than ours is not typed into, not stopped and not closed.
5. Whatever ends a handle, nothing of ours is left: no connection, no task, no socket; and no pane if the agent is over.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from interlock.agents.evidence.hooks import HookHeard
from interlock.agents.observations import (
    BecameReady,
    ChannelLost,
    ComposerSeen,
    Exited,
    Observation,
    PromptReached,
    ScreenLeft,
    StandingSeen,
    TurnEnded,
    TurnEnding,
    Warned,
)
from interlock.agents.pane_tracker import LiveVerdict, Told
from interlock.agents.port import (
    AnswerNotTaken,
    Capabilities,
    Decision,
    DeliveryUnknown,
    NotDelivered,
    ProcessIdentity,
    Prompt,
    ScreenSeen,
    StopReport,
)
from interlock.agents.processes.identity import is_alive
from interlock.agents.processes.stopping import StopPolicy, stop_tree
from interlock.agents.terminal import showing
from interlock.agents.terminal.answering import AnswerPolicy, answer_dialog
from interlock.agents.terminal.dialogs import ScreenDialog, answer_to
from interlock.agents.terminal.ending import EndWatch, process_gone
from interlock.agents.terminal.hub import TerminalHub, TerminalWatcher
from interlock.agents.terminal.keyboard import Keyboard
from interlock.agents.terminal.launch import SAYS_STALE_RESUME, Where
from interlock.agents.terminal.listening import ShimChannel
from interlock.agents.terminal.side_files import Beside, Fence
from interlock.agents.terminal.translate import Translator
from interlock.agents.tmux.panes import Pane
from interlock.agents.tmux.typing import TypedTurn, TypingOutcome, TypingPolicy
from interlock.agents.tmux.watcher import PaneDied, PaneGone, PaneSeen
from interlock.log.home_identity import NotOurs
from interlock.monitor.observer.reply import contract_of
from interlock.monitor.policy import DEFAULT_POLICIES, MonitorPolicies
from interlock.monitor.sources.hooks import read_hook
from interlock.monitor.tracker import TuiTrackerSession, Verdict
from interlock.screen.assessment import BusinessState
from interlock.screen.selection import ScreenReader
from interlock.vocabulary.errors import PeerFault, Unreachable
from interlock.vocabulary.events.audit import Anomaly, DeliveryStage
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import SpawnId
from interlock.vocabulary.states import Activity

TERMINAL_CAPABILITIES: Final = Capabilities(
    reports_approvals=True, owns_text=False, can_interrupt=True, can_resume=True, outlives_runtime=True
)
# A busy machine draws late, and a step that was not seen in time would not be claimed.
_PATIENT: Final = TypingPolicy(typed_within_seconds=10, accepted_within_seconds=10, started_within_seconds=5)
_CONCLUDED_WITHIN_SECONDS: Final = 1.0
_LEFT_ROWS, _LEFT_COLUMNS, _LEFT_BYTES = 200, 500, 16_384
_EXIT_TOLD_WITHIN_SECONDS: Final = 5.0
_logger: Final = logging.getLogger("interlock.agents")


@dataclass(frozen=True, slots=True)
class TerminalPolicy:
    """How long to wait. `quit_within_seconds`: for an idle CLI that was asked to leave. `drawn_within_seconds`:
    for the options of a dialog; without them it cannot be answered, so that nothing is lost by the wait."""

    monitor: MonitorPolicies = DEFAULT_POLICIES
    typing: TypingPolicy = _PATIENT
    answering: AnswerPolicy = field(default_factory=AnswerPolicy)
    stopping: StopPolicy = field(default_factory=StopPolicy)
    interrupted_within_seconds: float = 8.0  # less than the runtime waits for each request to end a turn
    quit_within_seconds: float = 2.0
    drawn_within_seconds: float = 5.0


@dataclass(frozen=True, slots=True)
class TerminalSetup:
    """Everything that a driver put together for one agent. `resume`: the session that it was to take up."""

    agent: str
    spawn_id: SpawnId
    argv: tuple[str, ...]
    where: Where
    process: ProcessIdentity
    pane: Pane
    hub: TerminalHub
    ear: ShimChannel | None
    reader: ScreenReader
    resume: str = ""
    is_adopted: bool = False


class TerminalHandle:
    """Make it with a driver. Observations are kept from the beginning, whoever reads them when."""

    def __init__(self, station: TerminalSetup, policy: TerminalPolicy) -> None:
        self._station, self._policy = station, policy
        self._translator = Translator(station.reader, f"dialog-{secrets.token_hex(4)}", is_adopted=station.is_adopted)
        self._keyboard = Keyboard(station.pane, station.reader)
        self._pressing = asyncio.Lock()
        where = station.where
        self._beside = Beside(where.cli, where.home, station.process, station.spawn_id)
        self._told: asyncio.Queue[Observation | Exception | None] = asyncio.Queue()
        self._held: list[Observation] | None = None
        self._typed = TypedTurn()
        self._is_over = False
        self._is_seen = False
        self._screen: ScreenSeen | None = None
        self._has_turn = False
        self._has_draft = False
        self._verdict: Verdict | None = None
        self._is_expecting = False
        self._gone: StandingSeen | None = None
        self._concluded = asyncio.Event()
        self._end = EndWatch(station.process, station.ear, lambda why: self._emit(ChannelLost(message=why)))
        self._following: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[StopReport] | None = None
        self._drawing: ScreenDialog | None = None
        self._drawn: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to watch. The driver calls it once."""
        station = self._station
        for observation in self._translator.begin():
            self._emit(observation)
        monitor = self._policy.monitor.of(station.agent)
        session = TuiTrackerSession(station.reader, monitor, saw_start=not station.is_adopted)
        station.hub.watch(station.pane, session, TerminalWatcher(self._on_verdict, self._on_failure))
        loop = asyncio.get_running_loop()
        self._following = loop.create_task(self._follow_to_end())
        self._reading = loop.create_task(self._read_beside())

    @property
    def spawn_id(self) -> SpawnId:
        return self._station.spawn_id

    @property
    def capabilities(self) -> Capabilities:
        where = self._station.where
        is_read_only = not (where.is_own or where.control)
        return replace(TERMINAL_CAPABILITIES, is_foreign=not where.is_own, is_read_only=is_read_only)

    @property
    def argv(self) -> tuple[str, ...]:
        return self._station.argv

    @property
    def process(self) -> ProcessIdentity | None:
        return self._station.process

    @property
    def where(self) -> Json:
        return self._station.where.as_json()

    @property
    def screen(self) -> ScreenSeen | None:
        return self._screen

    async def observations(self) -> AsyncIterator[Observation]:
        """Everything from the start, until the agent has ended or was let go. Raises what the watch for its end failed
        on."""
        while (observation := await self._told.get()) is not None:
            if isinstance(observation, Exception):
                raise observation
            if isinstance(observation, Exited) and (left := _left(self._screen)) is not None:
                yield left
            if isinstance(observation, TurnEnded):
                self._is_expecting = False
                observation = await self._in_words(observation)
            elif isinstance(observation, BecameReady) and self._is_expecting:
                self._is_expecting = False
                if (ended := await self._beside.ended()) is not None:
                    yield ended
            yield observation

    async def _in_words(self, ended: TurnEnded) -> TurnEnded:
        """The end of a turn with what only the transcript has: the answer, or an error that the screen did not tell."""
        if ended.ending is TurnEnding.NATURAL:
            return replace(ended, text=await self._beside.answer())
        if ended.ending is TurnEnding.ERROR and not ended.error_message:
            told = await self._beside.ended()
            if told is not None and told.ending is TurnEnding.ERROR:
                return replace(ended, error_message=told.error_message)
        return ended

    def expect(self, prompt: str) -> None:
        """Say, after an adoption, which prompt was open. Call it before anything is read.

        If its turn ended while nobody watched, and the transcript tells how, `TurnEnded` comes before `BecameReady`.
        Without such proof `BecameReady` comes alone: then nobody knows how the turn ended.
        """
        self._is_expecting = True
        self._keyboard.remember(prompt)
        self._beside.sent(prompt, Fence())

    async def is_attended(self) -> bool:
        """Whether a person is attached to the session of the pane. `Unreachable` if tmux cannot be asked."""
        client = self._station.pane.client
        modes = await client.command("list-clients", "-t", client.session_id, "-F", "#{client_control_mode}")
        return "0" in modes.split()

    def tell(self, told: Told) -> None:
        """Give the tracker evidence from beside the screen: a hook, a file of the agent."""
        self._station.hub.tell(self._station.pane.pane_id, told)

    def hear_hook(self, heard: HookHeard) -> None:
        """Take in a hook that fired in this agent's process tree. One of another session says nothing about it."""
        if not heard.session_id or heard.session_id != self._beside.session_id:
            return
        reading = read_hook(heard.payload, at_seconds=heard.at_seconds, spawn_id=self.spawn_id)
        for anomaly in reading.anomalies:
            self._on_anomaly(anomaly)
        self.tell(lambda session, now: session.on_claims(reading.claims, now))

    async def submit(self, prompt: Prompt) -> DeliveryStage:
        """Type a prompt into an empty composer that is ready, and press Enter."""
        async with self._pressing:
            self._check_open()
            fence = await self._beside.fence()
            has_entered = False

            def on_enter() -> None:
                nonlocal has_entered
                has_entered = True
                self._held = []
                self._beside.sent(prompt.text, fence, prompt.turn_id)
                self.tell(self._submitted(prompt))

            stages: list[DeliveryStage] = []
            self._typed = TypedTurn(on_enter)
            try:
                outcome = await self._keyboard.submit(prompt.text, self._policy.typing, self._typed)
                stages = _stages(outcome, has_entered=has_entered)
            except (Unreachable, PeerFault) as error:
                if isinstance(error, NotDelivered):
                    raise
                stages = [DeliveryStage.TYPED] if has_entered else []
                kind = DeliveryUnknown if has_entered else NotDelivered
                raise kind(f"the terminal was lost while the prompt was typed: {error}") from error
            finally:
                self._release_held(stages)
                self._watch_composer(is_typing=False)
            return self._receipt(outcome, stages)

    def _submitted(self, prompt: Prompt) -> Told:
        observer = None if prompt.reply is None else contract_of(prompt.reply).observer

        def take_in(session: TuiTrackerSession, now: float) -> Verdict:
            self._translator.submitted(prompt.turn_id)
            return session.on_submit(now, prompt.text, prompt.turn_id, observer)

        return take_in

    def _release_held(self, stages: list[DeliveryStage]) -> None:
        held, self._held = self._held or [], None
        for observation in (*(PromptReached(stage=stage) for stage in stages), *held):
            self._emit(observation)

    def _receipt(self, outcome: TypingOutcome, stages: list[DeliveryStage]) -> DeliveryStage:
        if not stages:
            raise NotDelivered(f"the prompt was not submitted: {outcome.accepted.evidence or outcome.typed.evidence}")
        if stages[-1] is DeliveryStage.TYPED:
            raise DeliveryUnknown(f"Enter was pressed, and nothing proves acceptance: {outcome.accepted.evidence}")
        if stages[-1] is DeliveryStage.ACCEPTED:
            self._translator.await_start()
        return stages[-1]

    async def interrupt(self) -> None:
        """Press the CLI's own key, and see that it rests. `DeliveryUnknown` if that is not seen in time."""
        async with self._pressing:
            self._check_open()
            await self._keyboard.interrupt(lambda: self._has_turn, self._policy.interrupted_within_seconds)

    async def decide(self, decision: Decision) -> None:
        """Answer the dialog that was asked about, by the text of an option, and see it gone. One that still stands
        afterwards is asked anew."""
        async with self._pressing:
            self._check_open()
            episode = self._translator.episode
            if episode is None or episode.request_id != decision.request_id or episode.gone_at is not None:
                raise NotDelivered(f"question {decision.request_id!r} is not open any more")
            answer = answer_to(episode.dialog, decision)
            station = self._station
            try:
                gone_at = await answer_dialog(
                    station.pane,
                    station.reader,
                    episode.dialog,
                    episode.seen_at,
                    answer,
                    self._policy.answering,
                    lambda: self._translator.answered(decision.request_id),
                )
            except AnswerNotTaken as error:
                for observation in self._translator.ask_again(decision.request_id, str(error)):
                    self._emit(observation)
                raise
            self._translator.answered(decision.request_id, gone_at)
            if decision.text and not answer.text:
                self._emit(Warned(kind="answer_text_not_given", message="the dialog took the answer, and no words"))

    async def stop(self) -> StopReport:
        """Leave the CLI if that is quick, then end everything that it started, and its pane."""
        if self._stopping is None:
            self._stopping = asyncio.get_running_loop().create_task(self._stop())
        return await asyncio.shield(self._stopping)

    async def release(self) -> None:
        """Let go: the agent lives on in its pane, and can be adopted."""
        await self._let_go(is_over=False)

    async def disown(self) -> None:
        """Take our mark off a pane that somebody else started, so that another home may adopt it."""
        if not self._station.where.is_own:
            with suppress(Unreachable, PeerFault):
                await self._station.pane.disown()

    def _check_open(self) -> None:
        if self.capabilities.is_read_only:
            raise NotDelivered("this agent is only watched; `interlock adopt --control` lets commands reach it")
        if self._is_over or self._stopping is not None:
            raise NotDelivered("the agent is gone, or was let go")

    def _emit(self, observation: Observation) -> None:
        if self._is_over:
            return
        if self._held is not None:
            self._held.append(observation)
            if isinstance(observation, TurnEnded | Exited):
                self._typed.ended()
        else:
            self._told.put_nowait(observation)

    def _on_verdict(self, live: LiveVerdict) -> None:
        self._screen = showing.see(self._screen, live.cause)
        if isinstance(live.cause, PaneDied | PaneGone):
            self._end.pane_ended(live.cause)
        elif isinstance(live.cause, PaneSeen) and not self._is_seen:
            # The first frame begins a new process, for a tracker; what its shim said before would be void.
            self._is_seen = True
            if self._station.ear is not None:
                declared = self._station.reader.profile.native_status
                self._station.ear.attach(self.tell, self._on_anomaly, declared, self._station.process.pid)
        self._has_turn, self._verdict = live.verdict.turn is not None, live.verdict
        self._beside.near_end(is_near=self._has_turn and live.verdict.surface.business_state is BusinessState.IDLE)
        self._watch_composer(is_typing=self._pressing.locked())
        for observation in self._translator.see(live):
            if isinstance(observation, StandingSeen) and observation.standing.activity is Activity.GONE:
                self._gone = observation  # told when the process itself is gone: a pane may die alone
                self._concluded.set()
            else:
                self._emit(observation)
        self._watch_drawing()

    def _watch_composer(self, *, is_typing: bool) -> None:
        """Tell whether a person's draft stands in the composer. What shows while we type is ours; a composer that
        cannot be seen, as under a dialog, holds what it held."""
        verdict = self._verdict
        if is_typing or verdict is None or (verdict.draft is None and not verdict.surface.submit_ready):
            return
        has_draft = bool(verdict.draft) and not self._keyboard.is_ours(verdict.draft or "")
        if has_draft is not self._has_draft:
            self._has_draft = has_draft
            self._emit(ComposerSeen(has_draft=has_draft))

    def _watch_drawing(self) -> None:
        """Give a dialog that may be half drawn a moment, each one its own."""
        drawing = self._translator.unfinished
        if drawing is self._drawing:
            return
        if self._drawn is not None:
            self._drawn.cancel()
        self._drawing, self._drawn = drawing, None
        if drawing is not None and not self._is_over:
            loop = asyncio.get_running_loop()
            self._drawn = loop.call_later(self._policy.drawn_within_seconds, self._settle_dialog, drawing)

    def _settle_dialog(self, drawing: ScreenDialog) -> None:
        try:
            for observation in self._translator.settle(drawing):
                self._emit(observation)
        except Exception as error:  # a timer has nobody else to tell
            self._told.put_nowait(error)

    def _on_failure(self, why: str) -> None:
        self._screen = showing.lose(self._screen, why)
        self._emit(ChannelLost(message=why))

    def _on_anomaly(self, anomaly: Anomaly) -> None:
        self._emit(Warned(kind=anomaly.kind, message=anomaly.message, details=anomaly.details))

    async def _read_beside(self) -> None:
        """Without what stands beside the screen the screen still tells; that it is missing is said."""
        try:
            await self._beside.follow(self.tell, self._emit)
        except Exception as error:
            _logger.error("the files of agent %s are read no more", self.spawn_id, exc_info=error)
            self._emit(Warned(kind="evidence_failed", message=f"{type(error).__name__}: {error}"))

    async def _follow_to_end(self) -> None:
        try:
            await self._tell_end()
        except Exception as error:
            if self._is_over:  # nobody reads any more
                _logger.error("agent %s is over, and cannot be let go of", self.spawn_id, exc_info=error)
            self._told.put_nowait(error)

    async def _tell_end(self) -> None:
        exited = await self._end.ended()
        self.tell(lambda session, now: session.on_exit(now, exited.code, exited.signal))
        with suppress(TimeoutError):
            async with asyncio.timeout(_CONCLUDED_WITHIN_SECONDS):
                await self._concluded.wait()
        if self._gone is not None:
            self._emit(self._gone)
        self._emit(self._told_of(exited))
        if self._stopping is None:
            await self._let_go(is_over=True)

    def _told_of(self, exited: Exited) -> Exited:
        words = self._translator.last_words
        is_stale = bool(self._station.resume) and SAYS_STALE_RESUME.search(words) is not None
        return replace(exited, stderr_tail="" if exited.code == 0 else words, is_stale_resume=is_stale)

    async def _stop(self) -> StopReport:
        station = self._station
        if self.capabilities.is_read_only:  # also after its end: nothing that it started is ours
            await self._let_go(is_over=not is_alive(station.process))
            return StopReport()
        await self._refuse_foreign()
        if not self._is_over:
            with suppress(Unreachable, PeerFault, TimeoutError):
                async with asyncio.timeout(self._policy.quit_within_seconds):
                    if await self._keyboard.quit():
                        await process_gone(station.process)
        report = await stop_tree(station.process, station.spawn_id, self._policy.stopping)
        if self._following is not None:
            await asyncio.wait({self._following}, timeout=_EXIT_TOLD_WITHIN_SECONDS)
        await self._let_go(is_over=True)
        return report

    async def _refuse_foreign(self) -> None:
        """`NotOurs` if another home or process has taken the pane. A terminal that is gone tells nothing."""
        try:
            await self._station.pane.check_owner()
        except NotOurs:
            self._stopping = None
            raise
        except (Unreachable, PeerFault):
            return

    async def _let_go(self, *, is_over: bool) -> None:
        if self._is_over:
            return
        self._is_over = True
        if self._drawn is not None:
            self._drawn.cancel()
        self._screen = showing.lose(self._screen, "no one watches it any more")
        self._told.put_nowait(None)
        station = self._station
        if is_over:
            with suppress(Unreachable, PeerFault):
                await (station.pane.kill() if station.where.is_own else station.pane.disown())
        await station.hub.leave(station.pane.pane_id)
        if station.ear is not None:
            await station.ear.close(is_over=is_over)
        tasks = {task for task in (self._following, self._reading) if task and task is not asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _stages(outcome: TypingOutcome, *, has_entered: bool) -> list[DeliveryStage]:
    if not has_entered:
        return []
    stages = [DeliveryStage.TYPED]
    if outcome.accepted:
        stages.append(DeliveryStage.ACCEPTED)
        if outcome.started:
            stages.append(DeliveryStage.STARTED)
    return stages


def _left(seen: ScreenSeen | None) -> ScreenLeft | None:
    """The last screen, of a bounded size: the rows at its foot count most."""
    rows = [] if seen is None else [row.text[:_LEFT_COLUMNS] for row in seen.snapshot.rows][-_LEFT_ROWS:]
    while rows and not rows[-1].strip():
        rows.pop()
    while rows and sum(len(row.encode("utf-8", "replace")) + 1 for row in rows) > _LEFT_BYTES:
        rows.pop(0)
    return ScreenLeft(rows="\n".join(rows), columns=seen.snapshot.columns) if rows and seen is not None else None
