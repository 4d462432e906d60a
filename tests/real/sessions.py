"""How a test starts a CLI: `with claude({"turn": (Text("Hello."),)}) as agent:`, where `claude` is a fixture."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final, TypeAlias

from interlock.cli.terminals.score import score_files
from interlock.testing.scripted_model import ScriptedModel, Step
from tests.real.harness import Harness
from tests.real.recipes import Recipe

# A loaded machine paints late, and a short scenario has few frames.
ALLOWED_MISSES: Final = 0.05

Session: TypeAlias = Callable[[Mapping[str, Iterable[Step]]], AbstractContextManager[Harness]]


def session_of(recipe: Recipe, executable: Path, root: Path, test: str) -> Session:
    """A function that starts the CLI against a model with these scripts."""
    recordings = os.environ.get("INTERLOCK_REAL_RECORDINGS")

    @contextmanager
    def start(scripts: Mapping[str, Iterable[Step]]) -> Iterator[Harness]:
        with ScriptedModel(scripts) as model:
            with Harness(
                recipe,
                executable,
                model,
                root,
                scenario=test.removeprefix("test_"),
                save_to=Path(recordings) if recordings else None,
            ) as agent:
                yield agent
            assert model.faults == ()
            recorded = root / f"{agent.scenario}.ndjson.gz"
            agent.save(recorded)
            check_verdicts(recorded, recipe.cli)

    return start


def check_verdicts(recording: Path, cli: str) -> None:
    """The tracker's verdicts on the run against its truth, as on any recording: none unsafe, hardly one missed."""
    score = score_files([recording])[0][cli]
    frames = sum(score.frames.values())
    missed = [miss for miss in score.misses if miss.verdict != "completed"]
    assert [miss for miss in score.misses if miss.is_unsafe] == []
    assert len(missed) <= ALLOWED_MISSES * frames, missed
