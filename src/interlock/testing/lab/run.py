"""Runs one scenario, from an empty folder to its result. Nothing of it is left but the result and the recording."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from interlock.agents.profiles import load_profiles
from interlock.agents.recording_files import open_recording
from interlock.lifecycle.turns import TurnRecord
from interlock.monitor.scoring.readings import Score, score_recording
from interlock.monitor.scoring.recording import Header, Truth
from interlock.monitor.scoring.replay import replay_timeline
from interlock.screen.selection import select_reader
from interlock.testing.lab.filming import Film, WallClock
from interlock.testing.lab.product import Product, product
from interlock.testing.lab.recipes import LabFolder, Recipe
from interlock.testing.lab.results import (
    LabReading,
    ScenarioResult,
    SentPrompt,
    Tally,
    count_ends,
    is_altered,
    is_given_up,
    times_delivered,
    turn_of,
)
from interlock.testing.lab.scenarios import Scenario
from interlock.testing.lab.scene import HOLD_SECONDS, ScenarioStopped, Scene, write_held_script
from interlock.testing.lab.sizes import USUAL_SIZE, TerminalSize
from interlock.testing.scripted_model import Received, ScriptedModel
from interlock.vocabulary.errors import InterlockError
from interlock.vocabulary.events.audit import DeliveryReceipt, DeliveryStage, RunState
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import TurnId
from interlock.vocabulary.run import RunStatus

SCENARIO_SECONDS: Final = 300.0
_LONGEST_BASE: Final = 40
_CLASSES: Final = ("idle", "working", "blocked")
_ENTERED: Final = (DeliveryStage.TYPED, DeliveryStage.ACCEPTED, DeliveryStage.STARTED)
# Enter comes before the request that follows from it.
_ENTER_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True)
class Subject:
    """The CLI that is checked: where its program is, of which version, how it is set up, and in what terminal."""

    recipe: Recipe
    executable: Path
    version: str
    profile: str
    size: TerminalSize = USUAL_SIZE

    @property
    def argv(self) -> tuple[str, ...]:
        return (str(self.executable), *self.recipe.arguments_at(self.version))


@dataclass(frozen=True, slots=True)
class LabPace:
    """`limit_seconds`: the longest that a scenario may take. `hold_seconds`: how long it lets each state stand."""

    limit_seconds: float = SCENARIO_SECONDS
    hold_seconds: float = HOLD_SECONDS


async def run_scenario(subject: Subject, scenario: Scenario, recording: Path, pace: LabPace) -> ScenarioResult:
    """Drive the CLI through a scenario, write its recording, and count."""
    began, clock = time.monotonic(), WallClock()
    following = asyncio.create_task(clock.follow())
    folder = Path(tempfile.mkdtemp(prefix="ilab-", dir=_short_folder()))
    try:
        place = LabFolder(folder / "a")
        place.make()
        write_held_script(place.project)
        unprompted = [scenario.unprompted] if scenario.unprompted else []
        with ScriptedModel(scenario.scripts_for(subject.recipe), queue=unprompted) as model:
            subject.recipe.seed(place, model.url)
            if scenario.asks_at_start and subject.recipe.unseed is not None:
                subject.recipe.unseed(place)
            film = Film(subject.recipe.cli, subject.version, scenario.name)
            async with product(subject.recipe, subject.argv, place, folder, model.url, subject.size) as made:
                scene = Scene(subject.recipe, made, model, film, pace.hold_seconds)
                try:
                    await _play(scene, scenario, pace.limit_seconds)
                finally:
                    await film.stop()
                counted = await _counted(subject, scenario, scene, made, clock)
        film.save(recording)
        return _with_reading(counted, recording, time.monotonic() - began)
    finally:
        following.cancel()
        shutil.rmtree(folder, ignore_errors=True)


def _short_folder() -> str:
    """Paths of sockets may not be long: a short folder where the usual one is far down."""
    usual = tempfile.gettempdir()
    return "/tmp" if len(usual) > _LONGEST_BASE and os.access("/tmp", os.W_OK | os.X_OK) else usual


async def _play(scene: Scene, scenario: Scenario, limit_seconds: float) -> None:
    """Play, and keep why it ended early, if it did."""
    try:
        async with asyncio.timeout(limit_seconds):
            await scene.started()
            await scenario.play(scene)
    except ScenarioStopped as stopped:
        scene.tally.trouble = str(stopped)
    except TimeoutError:
        scene.tally.trouble = f"the scenario was not over within {limit_seconds:g} s"
    except InterlockError as refused:
        scene.tally.trouble = str(refused)


async def _counted(
    subject: Subject, scenario: Scenario, scene: Scene, made: Product, clock: WallClock
) -> ScenarioResult:
    tally, requests = scene.tally, scene.model.requests
    events = await made.events()
    turns = {one.turn_id: one for one in await made.handle.turns()}
    for prompt in tally.prompts:
        if (at := _entered_at(prompt, requests, events, clock)) is not None:
            scene.film.submitted(at, prompt.text)
    delivered = [times_delivered(prompt, requests) for prompt in tally.prompts]
    missing = [prompt for prompt in tally.prompts if not times_delivered(prompt, requests)]
    lost = [prompt for prompt in missing if is_given_up(prompt, events, turns)]
    ends = count_ends(tally.prompts, requests, events, turns, tally.own_turns)
    if scene.model.faults and not tally.trouble:
        tally.trouble = f"the model's record: {scene.model.faults[0]}"
    return ScenarioResult(
        cli=subject.recipe.cli,
        version=subject.version,
        scenario=scenario.name,
        profile=subject.profile,
        size=str(subject.size),
        trouble=tally.trouble,
        prompts=len(tally.prompts),
        delivered=delivered.count(1),
        doubled=sum(1 for count in delivered if count > 1),
        altered=sum(is_altered(prompt, requests) for prompt in tally.prompts),
        lost=len(lost),
        lost_and_said=tuple(_said_of(prompt, events, turns) for prompt in lost),
        waiting=len(missing) - len(lost),
        false_deliveries=ends.false_deliveries,
        interrupts=tally.interrupts,
        interrupted=tally.interrupted,
        killed=tally.killed,
        questions=tally.questions,
        questions_seen=tally.questions_seen,
        answers=tally.answers,
        ends=ends.due,
        ends_reported=ends.reported,
        ends_right=ends.right,
        fabricated=ends.fabricated,
        end_delays_seconds=end_delays(tally, events, clock),
        checks=tally.checks,
        notes=tuple(tally.notes),
    )


def _said_of(prompt: SentPrompt, events: tuple[Event, ...], turns: Mapping[TurnId, TurnRecord]) -> str:
    turn_id = turn_of(prompt, events)
    if turn_id is None or turn_id not in turns:
        return "no turn"
    turn = turns[turn_id]
    return f"{turn.state.value}: {turn.error_message}" if turn.error_message else turn.state.value


def _entered_at(
    prompt: SentPrompt, requests: tuple[Received, ...], events: tuple[Event, ...], clock: WallClock
) -> float | None:
    """When Enter was pressed on a prompt: as the log says, and not after the request that followed from it."""
    told = [
        clock.monotonic_of(one.ts.timestamp())
        for one in events
        if isinstance(one.data, DeliveryReceipt)
        and one.data.prompt_id == prompt.prompt_id
        and one.data.stage in _ENTERED
    ]
    asked = [one.received_at - _ENTER_SECONDS for one in requests if prompt.token in one.prompt]
    return min([*told, *asked], default=None)


def end_delays(tally: Tally, events: tuple[Event, ...], clock: WallClock) -> tuple[float, ...]:
    """For each turn that ended: how long after its true end the log says so."""
    ended: dict[TurnId | None, float] = {
        one.turn_id: clock.monotonic_of(one.ts.timestamp())
        for one in events
        if isinstance(one.data, RunState) and one.data.status is RunStatus.DONE
    }
    owned = [(prompt.over_at, ended.get(turn_of(prompt, events))) for prompt in tally.prompts]
    return tuple(round(end - over, 3) for over, end in owned if over is not None and end is not None)


def _with_reading(result: ScenarioResult, recording: Path, seconds: float) -> ScenarioResult:
    with open_recording(str(recording)) as opened:
        records = list(opened)
    header = next(one for one in records if isinstance(one, Header))
    truths = [one for one in records if isinstance(one, Truth)]
    reader = select_reader(load_profiles(), header.cli, header.version)
    score = Score()
    score_recording(score, str(recording), truths, list(replay_timeline(header, records, reader)))
    frames = {state: (score.frames[state, state], score.count(state)) for state in _CLASSES if score.count(state)}
    reading = LabReading(unsafe=score.unsafe, frames=frames)
    return msgspec.structs.replace(result, reading=reading, seconds=round(seconds, 1))
