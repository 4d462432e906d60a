"""What one scenario showed: how it was read, and how it was acted on. Counted from the model's own record of requests,
and from the log of the session; nothing here is the word of a screen."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct

from interlock.lifecycle.turns import TurnRecord
from interlock.testing.lab.sizes import USUAL_SIZE
from interlock.testing.scripted_model import Received, RequestKind, RequestOutcome
from interlock.vocabulary.events.audit import DeliveryReceipt, DeliveryStage
from interlock.vocabulary.events.conversation import UserMessage
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import PromptId, TurnId
from interlock.vocabulary.states import TurnState

FAILED: Final = frozenset({TurnState.FAILED, TurnState.PARTIAL_FAILED})
COMPLETED: Final = frozenset({TurnState.COMPLETED})
INTERRUPTED: Final = frozenset({TurnState.INTERRUPTED})
REFUSED: Final = COMPLETED | INTERRUPTED
"""After a refusal some CLIs end the turn, and others tell the model, which says something more."""
_PROMPT: Final = re.compile(r"SCN:[\w-]+ \w+?(?=SCN:|\b)")


@dataclass(slots=True)
class SentPrompt:
    """A prompt that was given to the server. `token` is a word that stands in it and nowhere else. `ends`: how its turn
    may be said to end; None where the model's own record decides. `has_arrived`: the scenario knows that the model
    was asked. `over_at`: when the model had nothing more to say."""

    prompt_id: PromptId
    script: str
    token: str
    ends: frozenset[TurnState] | None = COMPLETED
    has_arrived: bool = False
    over_at: float | None = None

    @property
    def text(self) -> str:
        return f"SCN:{self.script} {self.token}"


class LabReading(Struct, frozen=True, kw_only=True):
    """The screen, read from the recording. `frames`: for each state of the truth, those read right, and all scored."""

    unsafe: int = 0
    frames: dict[str, tuple[int, int]] = {}

    @property
    def right(self) -> int:
        return sum(right for right, _ in self.frames.values())

    @property
    def scored(self) -> int:
        return sum(count for _, count in self.frames.values())


EARLY_SECONDS: Final = 5.0
"""An end that was said by more than that before the model's last word is a false one. Less may be a busy machine."""


class ScenarioResult(Struct, frozen=True, kw_only=True):
    """One scenario of one CLI version, as `interlock debug lab --json` prints it.

    `size`: columns and rows of the terminal.
    `prompts` were given to the server; by the model's count so many were `delivered` once, `doubled` or `lost`, which
    is typed or given up and never received; `lost_and_said`: how the turn of each was said to stand, and why. What was
    neither is `waiting` in the queue.
    `altered`: delivered, but not as it was given. `false_deliveries`: lost, and still said to be completed.
    `interrupted`: of the `interrupts` asked for, those after which the model's answer or the tool stopped and the agent
    lived; `killed`: those that ended the agent's process. `questions` were asked on the screen, `questions_seen` by the
    server, `answers` had their effect. `ends` of turns were due, `ends_reported` were said in time, `ends_right` with
    the right kind; `fabricated` are ends of turns that no prompt began. `checks` are what else the scenario looks at.
    `notes` are ways of the CLI itself that are good to know. `trouble` is why it ended early.
    """

    cli: str
    version: str
    scenario: str
    profile: str
    size: str = str(USUAL_SIZE)
    seconds: float = 0.0
    trouble: str = ""
    prompts: int = 0
    delivered: int = 0
    doubled: int = 0
    altered: int = 0
    lost: int = 0
    lost_and_said: tuple[str, ...] = ()
    waiting: int = 0
    false_deliveries: int = 0
    interrupts: int = 0
    interrupted: int = 0
    killed: int = 0
    questions: int = 0
    questions_seen: int = 0
    answers: int = 0
    ends: int = 0
    ends_reported: int = 0
    ends_right: int = 0
    fabricated: int = 0
    end_delays_seconds: tuple[float, ...] = ()
    checks: dict[str, bool] = {}
    notes: tuple[str, ...] = ()
    reading: LabReading = LabReading()

    @property
    def subject(self) -> str:
        """What was checked, in words; the size only where it is not the usual one."""
        named = f"{self.cli} {self.version}"
        return named if self.size == str(USUAL_SIZE) else f"{named} {self.size}"

    @property
    def problems(self) -> list[str]:
        """What was not as it should be, in words; the worst first."""
        counted = (
            (self.reading.unsafe, "unsafe readings"),
            (self.false_deliveries, "lost but called completed"),
            (self.doubled, "doubled"),
            (self.altered, "altered"),
            (self.fabricated, "fabricated ends"),
            (sum(one < -EARLY_SECONDS for one in self.end_delays_seconds), "ends said before the model's last word"),
            (self.lost - self.false_deliveries, f"lost (said to be {', '.join(self.lost_and_said) or 'unknown'})"),
            (self.waiting, "still waiting"),
            (self.killed, "killed instead of interrupted"),
            (self.interrupts - self.interrupted - self.killed, "interrupts without effect"),
            (self.questions - self.questions_seen, "questions not seen"),
            (self.questions_seen - self.answers, "answers without effect"),
            (self.ends - self.ends_reported, "ends not reported"),
            (self.ends_reported - self.ends_right, "ends of the wrong kind"),
        )
        said = [f"{count} {words}" for count, words in counted if count > 0]
        said += [f"not so: {name}" for name, holds in self.checks.items() if not holds]
        return [*said, self.trouble] if self.trouble else said


@dataclass(slots=True)
class Tally:
    """What a scenario counts while it runs. `own_turns`: those that the CLI began by itself, by the model's record."""

    prompts: list[SentPrompt] = field(default_factory=list)
    interrupts: int = 0
    interrupted: int = 0
    killed: int = 0
    own_turns: int = 0
    questions: int = 0
    questions_seen: int = 0
    answers: int = 0
    checks: dict[str, bool] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    trouble: str = ""


def times_delivered(prompt: SentPrompt, requests: Iterable[Received]) -> int:
    """How often a prompt stands in the conversation that the model was given: once is right."""
    token = prompt.token.encode()
    return max((one.body.count(token) for one in requests if one.kind is RequestKind.MAIN), default=0)


def is_altered(prompt: SentPrompt, requests: Iterable[Received]) -> bool:
    """Whether the model was given the prompt with something else in its line, such as the rest of a draft. Another
    prompt is nothing else: after a restart some CLIs give the model two in one message."""
    given = [one.prompt for one in requests if one.kind is RequestKind.MAIN and prompt.token in one.prompt]
    lines = [line for text in given for line in text.splitlines() if prompt.token in line]
    return any(_PROMPT.sub("", line).strip() for line in lines)


def turn_of(prompt: SentPrompt, events: Iterable[Event]) -> TurnId | None:
    """The turn that the log gave to a prompt."""
    return next(
        (one.turn_id for one in events if isinstance(one.data, UserMessage) and one.data.prompt_id == prompt.prompt_id),
        None,
    )


def is_given_up(prompt: SentPrompt, events: Sequence[Event], turns: Mapping[TurnId, TurnRecord]) -> bool:
    """Whether the server was through with a prompt: it typed it, or it said how its turn ended."""
    turn_id = turn_of(prompt, events)
    stages = [
        one.data.stage
        for one in events
        if isinstance(one.data, DeliveryReceipt) and one.data.prompt_id == prompt.prompt_id
    ]
    is_over = turn_id is not None and turn_id in turns and turns[turn_id].state.is_terminal
    return is_over or any(stage is not DeliveryStage.QUEUED for stage in stages)


def due_end(prompt: SentPrompt, requests: Sequence[Received]) -> frozenset[TurnState]:
    """How the turn ended in truth: as the scenario says, else as the model's last answer to it went."""
    if prompt.ends is not None:
        return prompt.ends
    own = [one for one in requests if one.kind is RequestKind.MAIN and prompt.token in one.prompt]
    return COMPLETED if own and own[-1].outcome is RequestOutcome.ANSWERED else FAILED


@dataclass(frozen=True, slots=True)
class LabEnds:
    """The ends of the turns of one session, held against the truth."""

    due: int = 0
    reported: int = 0
    right: int = 0
    fabricated: int = 0
    false_deliveries: int = 0


def count_ends(
    prompts: Sequence[SentPrompt],
    requests: Sequence[Received],
    events: Sequence[Event],
    turns: Mapping[TurnId, TurnRecord],
    own_turns: int = 0,
) -> LabEnds:
    """An end is due for each prompt that reached the model. A turn that ended without one is fabricated, unless it is
    one of those that the CLI began by itself."""
    ours = {turn_id: prompt for prompt in prompts if (turn_id := turn_of(prompt, events)) is not None}
    arrived = [turn_id for turn_id, prompt in ours.items() if times_delivered(prompt, requests)]
    others = sum(1 for turn_id, one in turns.items() if turn_id not in ours and one.state in COMPLETED)
    ended = {turn_id: turn.state for turn_id, turn in turns.items() if turn.state.is_terminal}
    return LabEnds(
        due=sum(1 for prompt in prompts if times_delivered(prompt, requests)),
        reported=sum(1 for turn_id in arrived if turn_id in ended),
        right=sum(1 for turn_id in arrived if ended.get(turn_id) in due_end(ours[turn_id], requests)),
        fabricated=max(0, others - own_turns),
        false_deliveries=sum(
            1 for turn_id in ours if turn_id not in arrived and ended.get(turn_id) is TurnState.COMPLETED
        ),
    )
