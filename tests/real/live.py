"""A real CLI in a pane that Interlock itself started, typed into and tracked: no capture of the test's own.

    async with live_agent(CLAUDE, executable, model, tmp_path) as agent:
        await agent.ready()
        await agent.submit("SCN:turn")
        await agent.until(working, "work")

`until` goes forward through the verdicts: each is looked at once, in order, so a test tells a story. When it fails, the
last verdicts and the screen go with the error. Leaving the block ends every process that the run started.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from interlock.agents.pane_tracker import LiveVerdict, PaneTracker, Told
from interlock.agents.profiles import load_profiles
from interlock.agents.tmux.client import TmuxClient
from interlock.agents.tmux.panes import OWN_SESSION, Pane, PaneInfo, start_pane
from interlock.agents.tmux.server import TmuxServer
from interlock.agents.tmux.typing import TypedTurn, TypingOutcome, TypingPolicy, TypingRefusal, type_prompt
from interlock.monitor.arbitration.agent_status import Confidence
from interlock.monitor.arbitration.claims import SourceReading
from interlock.monitor.sources.shim_lines import Began, ShimEnded, read_shim_line
from interlock.monitor.tracker import TrackerEvent, TuiTrackerSession, Verdict
from interlock.screen.assessment import BusinessState, Option
from interlock.screen.profile import NativeStatus
from interlock.screen.selection import select_reader
from interlock.testing.scripted_model import ScriptedModel
from interlock.vocabulary.evidence import EvidenceSource
from tests.real.processes import end_all, family
from tests.real.recipes import LabFolder, Recipe, command_line

WAIT_SECONDS: Final = 45.0
# How long a state that a gate holds is watched. Claude's spinner and Codex's title change several times within it.
HOLD_SECONDS: Final = 1.5
SUBMIT_TRIES: Final = 20
# Two busy cores draw late: a step that was not seen in time would not be claimed.
PATIENT: Final = TypingPolicy(typed_within_seconds=20, accepted_within_seconds=20, started_within_seconds=20)
ENDS: Final = (TrackerEvent.COMPLETED, TrackerEvent.INTERRUPTED, TrackerEvent.FAILED, TrackerEvent.GONE)
Holds = Callable[[Verdict], bool]


def working(verdict: Verdict) -> bool:
    return verdict.business_state is BusinessState.WORKING and verdict.activity == "working"


def ready(verdict: Verdict) -> bool:
    return verdict.surface.submit_ready and verdict.standing.is_ready and verdict.turn is None


def blocked(verdict: Verdict) -> bool:
    return verdict.business_state is BusinessState.AWAITING_OPERATOR and verdict.attention != "none"


def stands(activity: str) -> Holds:
    """All sources together say so."""
    return lambda verdict: verdict.activity == activity


def reported(activity: str, rung: EvidenceSource) -> Holds:
    """The agent itself says so, on this rung."""

    def holds(verdict: Verdict) -> bool:
        basis = verdict.standing.activity_basis
        return verdict.activity == activity and basis.rung is rung and basis.confidence is Confidence.REPORTED

    return holds


def event(wanted: TrackerEvent) -> Holds:
    return lambda verdict: wanted in verdict.events


class LiveAgent:
    """One run of one CLI, as our own tracker sees it."""

    def __init__(self, place: LabFolder, info: PaneInfo, client: TmuxClient, cli: str, version: str) -> None:
        self.place, self.info, self.client = place, info, client
        self.pane = Pane(client, info.pane_id)
        self.reader = select_reader(load_profiles(), cli, version)
        self._tracker = PaneTracker()
        self.seen: list[LiveVerdict] = []
        self.lines: list[bytes] = []  # of the shim
        self.shims: list[asyncio.StreamWriter] = []
        self.status_server: asyncio.Server | None = None
        self._at = 0
        self._changed = asyncio.Condition()
        self._typed = TypedTurn()

    @property
    def last(self) -> Verdict:
        return self.seen[-1].verdict

    @property
    def ends(self) -> list[str]:
        """How each turn ended, in order."""
        return [one.value for live in self.seen for one in live.verdict.events if one in ENDS]

    async def track(self) -> None:
        async with self._tracker as tracker:
            tracker.add(self.pane, TuiTrackerSession(self.reader))
            async for live in tracker:
                self.seen.append(live)
                if any(one in ENDS for one in live.verdict.events):
                    self._typed.ended()
                async with self._changed:
                    self._changed.notify_all()

    async def until(self, holds: Holds, what: str, *, within_seconds: float = WAIT_SECONDS) -> Verdict:
        """The first verdict that holds, after those that earlier calls went through. AssertionError at the deadline."""
        try:
            async with asyncio.timeout(within_seconds), self._changed:
                while True:
                    while self._at < len(self.seen):
                        self._at += 1
                        if holds(verdict := self.seen[self._at - 1].verdict):
                            return verdict
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"within {within_seconds} s no verdict was {what}") from None

    async def stays(self, holds: Holds, what: str, seconds: float = HOLD_SECONDS) -> None:
        """Watch a state that is held from outside: what stands, and every verdict of the next moments."""
        first = len(self.seen) - 1
        await asyncio.sleep(seconds)
        wrong = [live.verdict for live in self.seen[first:] if not holds(live.verdict)]
        assert not wrong, f"not {what}: {[describe(verdict) for verdict in wrong[:3]]}"
        self._at = len(self.seen)

    async def ready(self) -> Verdict:
        """Ready now, or as soon as it is."""
        return self.last if self.seen and ready(self.last) else await self.until(ready, "ready")

    def tell(self, told: Told) -> None:
        self._tracker.tell(self.info.pane_id, told)

    async def type(self, prompt: str, policy: TypingPolicy = PATIENT) -> TypingOutcome:
        """Type a prompt; the session hears of the submit when Enter is pressed, and the typing of the turn's end."""

        def submitted() -> None:
            self._typed = turn
            self.tell(lambda session, now: session.on_submit(now, prompt))

        turn = TypedTurn(submitted)
        return await type_prompt(self.pane, prompt, self.reader.parse_snapshot, policy, turn)

    async def type_when_calm(self, prompt: str) -> TypingOutcome:
        """Type a prompt, and again where nothing was typed because the agent is not calm yet, as a runtime does: right
        after its start Codex paints a welcome, and its title spins for a moment."""
        outcome = await self.type(prompt)
        for _ in range(SUBMIT_TRIES):
            if outcome.refusal not in (TypingRefusal.NOT_READY, TypingRefusal.WORKING):
                break
            await asyncio.sleep(0.5)
            outcome = await self.type(prompt)
        return outcome

    async def submit(self, prompt: str) -> TypingOutcome:
        """Type a prompt that begins a turn, and see every step proven.

        A turn that is over before a capture showed it at work, with an answer that was there before, is proven by its
        end alone: the typing does not claim its start.
        """
        outcome = await self.type_when_calm(prompt)
        assert outcome.typed, outcome
        assert outcome.accepted, outcome
        assert outcome.started or self._typed.is_over, outcome
        assert all(step.evidence for step in (outcome.typed, outcome.accepted, outcome.started))
        return outcome

    async def command(self, prompt: str) -> TypingOutcome:
        """Type a command of the CLI that it answers on its screen, and see it accepted. Whether it begins a turn is the
        CLI's."""
        outcome = await self.type_when_calm(prompt)
        assert (bool(outcome.typed), bool(outcome.accepted), outcome.is_command) == (True, True, True), outcome
        return outcome

    async def choose(self, text: str) -> None:
        """Answer the dialog with the option of this text: move to it, see it selected, press Enter."""
        # Claude says that it waits a moment before it draws the dialog.
        selected = _selected(self.last) or _selected(await self.until(lambda one: _selected(one) is not None, "asking"))
        while selected is not None and not selected[0].startswith(text):
            wanted = next(number for number, one in enumerate(options(self.last)) if one.text.startswith(text))
            await self.pane.send_keys("Down" if selected[1] < wanted else "Up")
            moved = await self.until(lambda one: _selected(one) not in (None, selected), "the next")  # noqa: B023
            selected = _selected(moved)
        await self._confirm(selected)

    async def _confirm(self, selected: tuple[str, int] | None) -> None:
        """Claude takes no Enter in the first moments of a dialog, so press again while the same one stands."""
        for _ in range(10):
            await self.pane.send_keys("Enter")
            try:
                await self.until(lambda one: _selected(one) != selected, "past the dialog", within_seconds=2)
            except AssertionError:
                continue
            self._at -= 1  # what follows the dialog is the caller's to see
            return
        raise AssertionError(f"the dialog stands: {selected}")

    async def hang_up_on_shim(self) -> None:
        """Hear no more of the shim, and nothing of it again."""
        assert self.status_server is not None
        self.status_server.close()
        for shim in self.shims:
            shim.close()

    async def hear_shim(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on what a shim says, until it or the test hangs up."""
        self.shims.append(writer)
        source = EvidenceSource.NATIVE_STATUS
        while line := await reader.readline():
            self.lines.append(line)
            self.tell(_told_by_shim(line, self.reader.profile.native_status))
        self.tell(lambda session, now: session.on_channel(source, now, is_open=False))

    def said_by_shim(self) -> list[tuple[str, str]]:
        """State and kind of the program's own records so far, those of its children left out."""
        records = [record for record in map(json.loads, self.lines) if record["type"] == "status" and not record["id"]]
        return [(record["state"], record["kind"] or "") for record in records]

    def story(self) -> str:
        """The last verdicts that differ from the one before."""
        lines: list[str] = []
        for live in self.seen:
            line = describe(live.verdict)
            if not lines or lines[-1] != line:
                lines.append(line)
        return "\n".join(lines[-25:])


def describe(verdict: Verdict) -> str:
    surface, standing = verdict.surface, verdict.standing
    events = ", ".join(verdict.events)
    return (
        f"{verdict.business_state} (surface {surface.business_state}, {verdict.rule}) {standing.activity}/"
        f"{standing.attention} by {standing.rung} {standing.basis.evidence and standing.basis.evidence[0].rule}"
        f" draft={verdict.draft!r:.40} [{events}]"
    )


def options(verdict: Verdict) -> tuple[Option, ...]:
    return verdict.surface.block.options if verdict.surface.block else ()


def _selected(verdict: Verdict) -> tuple[str, int] | None:
    return next(((one.text, number) for number, one in enumerate(options(verdict)) if one.is_selected), None)


def _told_by_shim(line: bytes, declared: NativeStatus | None) -> Told:
    def take_in(session: TuiTrackerSession, now: float) -> Verdict:
        match read_shim_line(line, at_seconds=now, declared=declared):
            case Began():
                return session.on_channel(EvidenceSource.NATIVE_STATUS, now, is_open=True)
            case ShimEnded(code, signal):
                return session.on_exit(now, code, signal)
            case SourceReading(claims, anomalies):
                assert not anomalies, anomalies
                return session.on_claims(claims, now)

    return take_in


async def interlock(*words: str) -> tuple[int | None, str]:
    """Run a command of ours to its end: its exit code, and what it printed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "interlock.cli", *words, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await process.communicate()
    return process.returncode, printed.decode()


@asynccontextmanager
async def live_agent(
    recipe: Recipe, executable: Path, model: ScriptedModel, root: Path, *, with_shim: bool = False, rows: int = 40
) -> AsyncIterator[LiveAgent]:
    """Start the CLI on a server of our own, track it, and end everything afterwards."""
    place = LabFolder(root)
    place.make()
    recipe.seed(place, model.url)
    folder = tempfile.mkdtemp(prefix="il-live-")  # short: a socket's path has to fit
    server = TmuxServer.own(f"{folder}/tmux")
    status = f"{folder}/status"
    shim = [sys.executable, "-m", "interlock.cli", "shim", "--status-socket", status, "--"] if with_shim else []
    called = ["sh", "-c", command_line(recipe, executable, place, model.url, shim)]
    pids: Sequence[int] = ()
    try:
        info = await start_pane(server, called, cwd=str(place.project), columns=120, rows=rows)
        pids = [info.identity.pid]
        async with await TmuxClient.attach(server, OWN_SESSION) as client:
            agent = LiveAgent(place, info, client, recipe.cli, recipe.version)
            agent.status_server = await asyncio.start_unix_server(agent.hear_shim, status)
            async with agent.status_server, _tracking(agent):
                yield agent
    finally:
        for pid in pids:
            await asyncio.to_thread(end_all, family(pid))
        await server.kill()
        shutil.rmtree(folder)


@asynccontextmanager
async def _tracking(agent: LiveAgent) -> AsyncIterator[None]:
    task = asyncio.create_task(agent.track())
    try:
        yield
    except BaseException as error:
        error.add_note(agent.story())
        rows = (await agent.pane.capture()).snapshot.rows
        error.add_note("\n".join(row.text for row in rows if row.text.strip()))
        raise
    finally:
        for shim in agent.shims:
            shim.close()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    if task.done() and not task.cancelled() and task.exception() is not None:
        raise AssertionError("the tracker failed") from task.exception()
