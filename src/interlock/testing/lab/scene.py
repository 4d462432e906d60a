"""One scenario under way: the verbs in which scenarios are written, and the truth that each of them knows.

The truth comes from the model's gates and requests and from files that the tool writes, never from what is being
scored. Where it cannot be known for a moment (between Enter and the request, between the last word and the last paint)
it is `unscored`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from interlock.agents.terminal.launch import Where
from interlock.agents.tmux.panes import adopt
from interlock.testing.lab.filming import Film
from interlock.testing.lab.product import Product, is_alive
from interlock.testing.lab.recipes import Recipe
from interlock.testing.lab.results import COMPLETED, SentPrompt, Tally
from interlock.testing.scripted_model import Received, RequestKind, RequestOutcome, ScriptedModel
from interlock.vocabulary.errors import InterlockError, Unreachable
from interlock.vocabulary.ids import PromptId
from interlock.vocabulary.states import Activity, TurnState
from interlock.vocabulary.wire.approval import Approval

T = TypeVar("T")

STEP_SECONDS: Final = 75.0
# The first prompt waits for the CLI to start; opencode needs most of a minute for that on a busy machine.
START_SECONDS: Final = 150.0
END_SECONDS: Final = 60.0
LOOK_EVERY_SECONDS: Final = 0.03
# How long a state is held, so that the scorer has frames to count: it leaves out the first seconds of each.
HOLD_SECONDS: Final = 3.0
# How long a CLI may paint after the model's last word, and after the request for an approval.
PAINT_SECONDS: Final = 2.0
PAINTED_WITHIN_SECONDS: Final = 30.0
STOPS_WITHIN_SECONDS: Final = 20.0
# How long the server may take until it says what the screen shows.
SAYS_SECONDS: Final = 20.0
# How long a CLI may take until it tells the model that a command in the background has ended.
OWN_TURN_SECONDS: Final = 10.0
# A tool that runs until `let_tool_end`, within bounds, and shows by a file that it still does. It writes, so that a CLI
# asks first. A script of the project: Gemini CLI and Qwen Code refuse command substitution.
HELD_COMMAND: Final = "touch made.txt; sh held.sh"
_HELD_SCRIPT: Final = """\
i=0
while [ $i -lt 900 ] && [ ! -e go ]; do touch beat; sleep 0.1; i=$((i + 1)); done
touch over.txt
echo over
"""


def write_held_script(project: Path) -> None:
    (project / "held.sh").write_text(_HELD_SCRIPT, encoding="utf-8")


class ScenarioStopped(Exception):
    """A step did not happen in time: the rest of the scenario makes no sense."""


class Scene:
    """What a scenario may do. Every wait is bounded, and `ScenarioStopped` says which one ended."""

    def __init__(
        self, recipe: Recipe, product: Product, model: ScriptedModel, film: Film, hold_seconds: float = HOLD_SECONDS
    ) -> None:
        self.recipe, self.product, self.model, self.film = recipe, product, model, film
        self._hold_seconds = hold_seconds
        self.tally = Tally()

    @property
    def project(self) -> Path:
        return self.product.place.project

    @staticmethod
    def now() -> float:
        return asyncio.get_running_loop().time()

    # Waiting

    async def until(self, look: Callable[[], T | None], what: str, seconds: float = STEP_SECONDS) -> T:
        """The first look that gives something true."""
        deadline = self.now() + seconds
        while not (found := look()):
            if self.now() > deadline:
                raise ScenarioStopped(f"not within {seconds:g} s: {what}")
            await asyncio.sleep(LOOK_EVERY_SECONDS)
        return found

    async def hold(self, since: float | None = None) -> None:
        """Let a state stand, since a time at which it is sure to be painted: the scorer needs frames to count."""
        began = self.now() if since is None else since
        if self._hold_seconds > 0:
            await asyncio.sleep(max(0.0, began + self._hold_seconds - self.now()))

    def requests_of(self, prompt: SentPrompt) -> list[Received]:
        return [one for one in self.model.requests if one.kind is RequestKind.MAIN and prompt.token in one.prompt]

    def _request(self, prompt: SentPrompt, part: int) -> Received | None:
        return next((one for one in reversed(self.requests_of(prompt)) if one.part == part), None)

    async def begins_by_itself(self, asked: int) -> bool:
        """Whether the CLI asks the model without a prompt, after so many requests; wait until that is answered."""
        try:
            await self.until(lambda: len(self.model.requests) > asked, "the CLI asked the model", OWN_TURN_SECONDS)
        except ScenarioStopped:
            return False
        await self.until(
            lambda: all(one.outcome is not RequestOutcome.PENDING for one in self.model.requests), "the model answered"
        )
        return True

    def has_reached(self, gate: str) -> bool:
        try:
            self.model.wait_reached(gate, within_seconds=0.0)
        except Unreachable:
            return False
        return True

    # Telling the truth

    def truth(self, state: str, detail: str, at_seconds: float | None = None) -> None:
        self.film.truth(self.now() if at_seconds is None else at_seconds, state, detail)

    # The agent's start

    async def started(self) -> Where:
        """Have the server start the agent, and record its screen from then on."""
        await self.product.handle.start()
        deadline = self.now() + STEP_SECONDS
        while (where := await self.product.where()) is None:
            if self.now() > deadline:
                raise ScenarioStopped("the agent was not started")
            await asyncio.sleep(0.2)
        self.film.start(self.product.tmux(where), where.pane_id)
        self.truth("unscored", "starting")
        return where

    # Prompts

    async def send(self, script: str, *, ends: frozenset[TurnState] | None = COMPLETED) -> SentPrompt:
        """Give a prompt to the server, and go on."""
        number = len(self.tally.prompts)
        token = f"lab{number}q{id(self) % 0xFFFFFF:06x}"
        prompt = SentPrompt(PromptId(""), script, token, ends)
        self.tally.prompts.append(prompt)
        self.truth("unscored", "submitting")
        prompt.prompt_id = await self.product.handle.send(prompt.text)
        return prompt

    async def arrived(self, prompt: SentPrompt) -> Received:
        """Wait until the model was asked."""
        seconds = START_SECONDS if prompt is self.tally.prompts[0] else STEP_SECONDS
        received = await self.until(lambda: self._request(prompt, 0), f"the model received {prompt.text!r}", seconds)
        if not prompt.has_arrived:
            self.truth("working", "thinking", received.received_at)
            prompt.has_arrived = True
        return received

    async def at_gate(self, prompt: SentPrompt, gate: str, detail: str) -> None:
        """Wait until the model stands at a gate, and hold that state for a while."""
        await self.arrived(prompt)
        await self.until(lambda: self.has_reached(gate), f"the model reached {gate!r}")
        self.truth("working", detail)
        await self.hold()

    async def answered(self, prompt: SentPrompt, part: int = 0) -> Received:
        """Wait until the model has said all that it says to one request."""
        await self.arrived(prompt)

        def closed() -> Received | None:
            received = self._request(prompt, part)
            return received if received is not None and received.outcome is not RequestOutcome.PENDING else None

        return await self.until(closed, f"the end of part {part} of {prompt.text!r}")

    async def finish(self, prompt: SentPrompt, part: int = 0, detail: str = "done") -> None:
        """The model says its last words; then the server says how the turn ended, and the agent is idle."""
        last = await self.answered(prompt, part)
        await self.over(prompt, last.closed_at, detail)

    async def over(self, prompt: SentPrompt, at_seconds: float, detail: str, *, is_sure: bool = True) -> None:
        """The turn was over at that time, in truth. Wait for the server's word, and hold the idle agent. Where that is
        not sure (nothing but the screen tells of a refusal, or an interrupt had no effect) it is not scored."""
        prompt.over_at = at_seconds
        self.truth("unscored", "ending", at_seconds)
        painted = await self._painted(at_seconds, lambda: not self.film.shows(self.recipe.working or "\0"))
        if is_sure:
            self.truth("idle", detail, painted)
        await self.turn_end(prompt)
        await self.hold(painted)

    async def _painted(self, since: float, is_shown: Callable[[], bool]) -> float:
        """When a state that began at `since` is painted: after a while, and once the CLI's own words are there or gone.
        A machine that is busy with other work paints late. What is never painted counts as late reading."""
        due = since + PAINT_SECONDS
        while not is_shown() and self.now() < since + PAINTED_WITHIN_SECONDS:
            await asyncio.sleep(LOOK_EVERY_SECONDS)
            due = max(due, self.now() + PAINT_SECONDS / 2)
        return due if is_shown() else since + PAINT_SECONDS

    async def turn_end(self, prompt: SentPrompt, seconds: float = END_SECONDS) -> TurnState | None:
        """How the server says that the turn ended; None if it does not say so in time."""
        try:
            return (await self.product.handle.wait_turn(prompt.prompt_id, seconds)).state
        except (TimeoutError, InterlockError):
            return None

    # Questions

    async def asked(self, prompt: SentPrompt, part: int = 0, detail: str = "approval") -> Approval:
        """The model asked for a tool, and the CLI asks the person. Wait until the server knows, and hold it."""
        called = await self.answered(prompt, part)
        return await self._dialog(called.closed_at, detail)

    async def asked_at_start(self) -> Approval | None:
        """A dialog of the CLI before its first prompt; None if the server knows of none within the bound. Only the
        screen tells when it is there: no model is asked, and some CLIs show their composer first."""
        try:
            await self.until(lambda: self.film.shows("trust"), "the CLI asked whether to trust the folder")
            return await self._dialog(self.now() - PAINT_SECONDS, "trust")
        except ScenarioStopped:
            return None

    async def _dialog(self, since: float, detail: str) -> Approval:
        self.tally.questions += 1
        self.truth("unscored", "asking", since)
        words = () if detail == "trust" else self.recipe.asking
        shown = await self._painted(since, lambda: not words or any(self.film.shows(one) for one in words))
        self.truth("blocked", detail, shown)
        found = await self.until(lambda: self.product.handle.approvals, "the server saw the question", STEP_SECONDS / 2)
        self.tally.questions_seen += 1
        await self.hold(shown + 1.0)
        return found[0]

    async def decide(self, approval: Approval, *, is_allowed: bool, option: str = "") -> None:
        """Answer what is asked now: a question that is read anew, once all of it is painted, has another id."""
        standing = next(iter(self.product.handle.approvals), approval)
        self.truth("unscored", "deciding")
        await self.product.handle.decide(standing.approval_id, is_allowed=is_allowed, option=option)

    async def tool_runs(self) -> None:
        """The tool that was allowed is at work; hold that."""
        await self.until((self.project / "made.txt").exists, "the tool ran")
        self.tally.answers += self.recipe.asks_leave
        self.truth("working", "tool_running")
        await self.hold()

    def let_tool_end(self) -> None:
        (self.project / "go").touch()

    # Ending by force

    async def interrupt(
        self, prompt: SentPrompt, *, has_stopped: Callable[[], bool], seconds: float = STOPS_WITHIN_SECONDS
    ) -> bool:
        """Ask the server to interrupt. `has_stopped` tells whether the work stopped, and the answer says so. The agent
        itself must live on."""
        where = await self.product.where()
        self.tally.interrupts += 1
        self.truth("unscored", "interrupting")
        try:
            await self.product.handle.cancel()
        except (InterlockError, TimeoutError) as refused:
            self.check(f"the interrupt was taken ({refused})", holds=False)
        try:
            await self.until(has_stopped, "the work stopped", seconds)
            stopped = True
        except ScenarioStopped:
            stopped = False
        at = self.now()
        # Not `interrupted`: that names the very moment of the end, and this is some time after it.
        await self.over(prompt, at, "stopped", is_sure=stopped)
        prompt.over_at = None  # how long a CLI takes to stop says nothing of how fast an end is reported
        is_same = where is not None and is_alive(where.pid or where.pane_pid)
        self.tally.killed += not is_same
        self.tally.interrupted += stopped and is_same
        return stopped

    def is_dropped(self, prompt: SentPrompt) -> bool:
        """The CLI hung up on the model."""
        requests = self.requests_of(prompt)
        return bool(requests) and requests[-1].outcome is RequestOutcome.DROPPED

    def tool_has_stopped(self) -> Callable[[], bool]:
        """A function that tells whether the held tool has stopped to show that it runs."""
        beat = self.project / "beat"
        seen: list[tuple[float, float]] = []

        def look() -> bool:
            stamp = beat.stat().st_mtime if beat.exists() else 0.0
            if not seen or seen[-1][1] != stamp:
                seen.append((self.now(), stamp))
            return self.now() - seen[-1][0] > 1.5 and not (self.project / "over.txt").exists()

        return look

    async def tool_runs_on(self) -> bool:
        """Whether the held tool still shows that it runs."""
        beat = self.project / "beat"
        stamp = beat.stat().st_mtime if beat.exists() else 0.0
        try:
            return await self.until(lambda: beat.exists() and beat.stat().st_mtime != stamp, "it runs", STEP_SECONDS)
        except ScenarioStopped:
            return False

    # A person at the same terminal

    async def type_by_hand(self, *keys: str, text: str = "") -> None:
        """Press keys in the agent's pane, as a person who is attached there, or type a text there."""
        where = await self.product.where()
        assert where is not None
        adopted = await adopt(self.product.tmux(where), where.pane_id)
        try:
            if text:
                await adopted.pane.send_text(text)
            if keys:
                await adopted.pane.send_keys(*keys)
        finally:
            await adopted.pane.client.close()

    # Other checks

    def check(self, name: str, *, holds: bool) -> None:
        self.tally.checks[name] = holds

    def activity(self) -> Activity | None:
        """What the server says that the agent does."""
        badge = self.product.handle.state.badge
        return badge.activity if badge is not None else None

    async def says(self, activity: Activity, seconds: float = SAYS_SECONDS) -> bool:
        """Whether the server says so of the agent within a time."""
        try:
            return await self.until(lambda: self.activity() is activity, activity, seconds)
        except ScenarioStopped:
            return False
