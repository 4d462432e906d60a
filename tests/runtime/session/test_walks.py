"""The tables of a session's machines, walked through every state that they can reach."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Final

import pytest

from interlock.agents.observations import TurnEnded, TurnEnding
from interlock.agents.port import Capabilities
from interlock.lifecycle.table import Machine
from interlock.monitor.arbitration.agent_status import Standing
from interlock.runtime.policy import RunPolicy
from interlock.runtime.session import turn_way
from interlock.runtime.session.agent import life as agent_life
from interlock.runtime.session.agent.life import AgentLife, AgentStage, LifeInput, StopRung
from interlock.runtime.session.turn_way import TurnInput, TurnStage, TurnWay
from interlock.testing.explore import check_table, explore, labelled_by
from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.ids import SpawnId
from interlock.vocabulary.states import Activity, ExitReason
from tests.each_row import each_row

POLICY: Final = RunPolicy(turn_budget_seconds=50, resubmit_attempts=3)
ONE, OTHER = SpawnId("spn_1"), SpawnId("spn_2")
KINDS: Final = (Capabilities(), Capabilities(is_one_shot=True, can_interrupt=False))
DEADLINES: Final = {
    agent_life.PRESUMED_READY: "presume_ready_at_seconds",
    agent_life.RESTART_DUE: "restart_at_seconds",
    agent_life.RUNG_DUE: "rung_due_seconds",
    agent_life.COMPOSER_SETTLED: "composer_free_at_seconds",
    turn_way.RETRY_DUE: "retry_at_seconds",
}


LIFE_DEADLINES: Final = (
    "presume_ready_at_seconds",
    "restart_at_seconds",
    "rung_due_seconds",
    "composer_free_at_seconds",
)


@dataclass(frozen=True, slots=True)
class Fire:
    """One deadline falls due, and no other."""

    on: str


def fire_life(life: AgentLife, given: Fire) -> AgentLife:
    field = DEADLINES[given.on]
    at = getattr(life, field)
    if at is None:
        return life
    others: dict[str, Any] = {name: getattr(life, name) for name in LIFE_DEADLINES if name != field}
    cleared: dict[str, Any] = dict.fromkeys(others)
    alone = replace(life, **cleared)
    moved, _ = agent_life.step(alone, agent_life.AgentDeadlinePassed(), at, POLICY)
    return replace(moved, **others)


def step_life(life: AgentLife, given: LifeInput | Fire) -> AgentLife:
    if isinstance(given, Fire):
        moved = fire_life(life, given)
    else:
        moved, _ = agent_life.step(life, given, 0.0, POLICY)
    return replace(moved, interrupts=min(moved.interrupts, 2), rung_due_seconds=_once(moved.rung_due_seconds))


def _once(at: float | None) -> float | None:
    return None if at is None else 1.0  # when it is due makes no other state


STARTS: Final = tuple(
    agent_life.Started(spawn, kind, is_adopted)
    for spawn in (ONE, OTHER)
    for kind in KINDS
    for is_adopted in (False, True)
)
LIFE_INPUTS: Final[tuple[LifeInput | Fire, ...]] = (
    agent_life.SpawnRequested(ONE),
    agent_life.RestartPlanned(1.0),
    *STARTS,
    agent_life.SpawnFailed(ONE),
    agent_life.SpawnFailed(OTHER),
    agent_life.ReadySeen(),
    agent_life.RestSeen(),
    *(agent_life.TurnBegan(is_prompted) for is_prompted in (False, True)),
    *(agent_life.TurnReported(is_told) for is_told in (False, True)),
    *(agent_life.TurnClosed(is_at_rest) for is_at_rest in (False, True)),
    agent_life.StopRequested(ExitReason.STOPPED),
    agent_life.AgentExited(),
    Fire(agent_life.PRESUMED_READY),
    Fire(agent_life.RESTART_DUE),
)
LADDER_INPUTS: Final[tuple[LifeInput | Fire, ...]] = (
    agent_life.SpawnRequested(ONE),
    *(agent_life.Started(ONE, kind) for kind in KINDS),
    agent_life.TurnBegan(is_prompted=True),
    agent_life.TurnReported(is_told=True),
    *(agent_life.TurnClosed(is_at_rest) for is_at_rest in (False, True)),
    agent_life.ReadySeen(),
    agent_life.InterruptRequested(),
    agent_life.InterruptRequested(is_forced=True),
    agent_life.InterruptWithdrawn(),
    agent_life.InterruptAnswered("lost"),
    agent_life.InterruptAnswered(),
    agent_life.StopRequested(ExitReason.STOPPED),
    Fire(agent_life.RUNG_DUE),
)
STAGE_LAWS: Final = {
    "only a plan has a time for the next start": lambda life: (
        (life.stage is AgentStage.BACKING_OFF) == (life.restart_at_seconds is not None)
    ),
    "what is presumed has a deadline": lambda life: (
        (life.stage is not AgentStage.SILENT) or life.presume_ready_at_seconds is not None
    ),
    "a rung has a deadline": lambda life: (life.rung is StopRung.NONE) == (life.rung_due_seconds is None),
    "who takes prompts is ready": lambda life: not life.can_take_prompt or life.stage is AgentStage.READY,
    "a spent agent is never ready": lambda life: not life.is_used_up or life.stage is not AgentStage.READY,
    "nobody has the name of a spawn without one": lambda life: (
        (life.stage in (AgentStage.ABSENT, AgentStage.BACKING_OFF)) == (life.spawn_id is None)
    ),
}


def test_the_agents_life_takes_every_edge_of_its_table_and_no_other(
    record_property: Callable[[str, object], None],
) -> None:
    found = explore(
        start=[AgentLife()],
        inputs=lambda _: LIFE_INPUTS,
        step=step_life,
        label=labelled_by("stage"),
        named=lambda given: given.on,
        state_laws=STAGE_LAWS,
        step_laws={
            "stopping ends with the process": lambda before, given, after: (
                before.stage is not AgentStage.STOPPING
                or after.stage is AgentStage.STOPPING
                or isinstance(given, agent_life.AgentExited)
            )
        },
    )
    check_table(found, agent_life.LIFE)
    assert not found.stuck(lambda life: life.stage is AgentStage.ABSENT)
    record_property("explored", found.summary("agent"))


def test_the_ladder_takes_every_edge_of_its_table_and_no_other(record_property: Callable[[str, object], None]) -> None:
    found = explore(
        start=[AgentLife()],
        inputs=lambda _: LADDER_INPUTS,
        step=step_life,
        label=labelled_by("rung"),
        named=lambda given: given.on,
        state_laws=STAGE_LAWS,
    )
    taken = {edge for edge in found.edges if edge[0] != edge[2]}
    drawn = {(edge.source.value, edge.on, edge.target.value) for edge in agent_life.LADDER.edges}
    drawn = {edge for edge in drawn if edge[0] != edge[2]}
    assert {(source, target) for source, _, target in taken} == {(source, target) for source, _, target in drawn}
    inputs = agent_life.LADDER.commands | {agent_life.RUNG_DUE}  # the others are its own words for several inputs
    assert {edge for edge in taken if edge[1] in inputs} == {edge for edge in drawn if edge[1] in inputs}
    assert not found.stuck(lambda life: life.rung is StopRung.NONE), "every rung is left"
    record_property("explored", found.summary("agent.ladder"))


def test_a_lost_channel_is_open_again_once_the_agent_is_heard() -> None:
    quiet = agent_life.StandingShown(Standing(activity=Activity.QUIET))
    inputs: tuple[LifeInput, ...] = (agent_life.ChannelBroke(), agent_life.Heard(), quiet)
    found = explore(
        start=[AgentLife(stage=AgentStage.READY, spawn_id=ONE)],
        inputs=lambda _: inputs,
        step=step_life,
        label=labelled_by("channel"),
        named=lambda given: given.on,
        state_laws={"a lost agent takes no prompt": lambda life: not (life.is_lost and life.can_take_prompt)},
    )
    check_table(found, agent_life.CHANNEL)


def test_a_composer_is_free_again_a_moment_after_its_draft_is_gone() -> None:
    inputs: tuple[LifeInput | Fire, ...] = (
        agent_life.DraftAppeared(),
        agent_life.DraftGone(),
        Fire(agent_life.COMPOSER_SETTLED),
    )
    found = explore(
        start=[AgentLife(stage=AgentStage.READY, spawn_id=ONE)],
        inputs=lambda _: inputs,
        step=step_life,
        label=labelled_by("composer"),
        named=lambda given: given.on,
        state_laws={
            "an agent takes a prompt into a free composer only": lambda life: (
                life.can_take_prompt == (life.composer is agent_life.Composer.FREE)
            ),
            "what clears has a deadline": lambda life: (
                (life.composer is agent_life.Composer.CLEARING) == (life.composer_free_at_seconds is not None)
            ),
        },
    )
    check_table(found, agent_life.COMPOSER)


@pytest.mark.parametrize("given", [agent_life.SpawnRequested(ONE), agent_life.TurnBegan(is_prompted=True)])
def test_a_second_agent_and_a_turn_without_one_are_refused(given: LifeInput) -> None:
    busy = AgentLife(stage=AgentStage.STOPPING, spawn_id=ONE)
    with pytest.raises(ContractError):
        agent_life.step(busy, given, 0.0, POLICY)


# The way of a turn


NATURAL: Final = TurnEnded(ending=TurnEnding.NATURAL)
SILENT: Final = TurnEnded(ending=TurnEnding.SILENT)
TURN_INPUTS: Final[tuple[TurnInput | Fire, ...]] = (
    turn_way.PromptGiven(),
    turn_way.PromptNotDelivered(),
    turn_way.PromptKeptOut(),
    turn_way.WorkSeen(),
    turn_way.CancelRequested(),
    turn_way.CancelUndelivered(),
    turn_way.FellSilent(SILENT),
    turn_way.EndReported(NATURAL),
    turn_way.AnswerGiven(),
    turn_way.TurnWayClosed(),
    Fire(turn_way.RETRY_DUE),
)


def step_way(way: TurnWay, given: TurnInput | Fire) -> TurnWay:
    if not isinstance(given, Fire):
        return turn_way.step(way, given, 0.0, POLICY)[0]
    at = way.retry_at_seconds
    if at is None:
        return way
    others: dict[str, Any] = {"budget_ends_seconds": None, "start_by_seconds": None, "silent_by_seconds": None}
    kept: dict[str, Any] = {name: getattr(way, name) for name in others}
    moved, _ = turn_way.step(replace(way, **others), turn_way.TurnDeadlinePassed(), at, POLICY)
    return replace(moved, **kept)


def test_the_way_of_a_turn_takes_every_edge_of_its_table_and_no_other(
    record_property: Callable[[str, object], None],
) -> None:
    found = explore(
        start=[turn_way.dispatched(0.0, POLICY), turn_way.unasked(0.0, POLICY)],
        inputs=lambda _: TURN_INPUTS,
        step=step_way,
        label=labelled_by("stage"),
        named=lambda given: given.on,
        state_laws={
            "a prompt that is given again has a time for it": lambda way: (
                (way.stage in (TurnStage.RETRYING, TurnStage.KEPT_OUT)) <= (way.retry_at_seconds is not None)
            ),
            "a silence has an end": lambda way: (way.stage is TurnStage.SILENT) <= (way.silent_by_seconds is not None),
            "a turn that is held has a report": lambda way: (way.stage is TurnStage.HELD) <= (way.report is not None),
            "an ended turn has no deadline": lambda way: way.stage is not TurnStage.ENDED or way.deadline is None,
            "prompts are given a few times at most": lambda way: way.submits <= POLICY.resubmit_attempts,
        },
        step_laws={"ended is final": lambda before, _, after: before.stage is not TurnStage.ENDED or after == before},
    )
    check_table(found, turn_way.WAY)
    assert not found.stuck(lambda way: way.stage is TurnStage.ENDED)
    record_property("explored", found.summary("turn_way"))


@pytest.mark.parametrize("state", [AgentLife(), turn_way.unasked(0.0, POLICY)], ids=lambda state: type(state).__name__)
def test_every_deadline_of_a_state_makes_it_due(state: AgentLife | TurnWay) -> None:
    names = [one.name for one in fields(state) if re.search(r"_(at|by|due|ends)_seconds$", one.name)]
    assert len(names) == (5 if isinstance(state, AgentLife) else 4)
    for name in names:
        changed: dict[str, Any] = dict.fromkeys(names, 9.0) | {name: 7.0}
        assert replace(state, **changed).deadline == 7.0, name


def test_a_stall_is_left_by_a_sign_of_life() -> None:
    way = turn_way.unasked(0.0, POLICY)
    stalled, outputs = turn_way.step(way, turn_way.TurnDeadlinePassed(5.0), 5.0, POLICY)
    assert (stalled.progress, outputs) == (turn_way.TurnProgress.STALLED, (turn_way.TurnOutput.STALLED,))
    moving, _ = turn_way.step(stalled, turn_way.SignSeen(), 6.0, POLICY)
    assert moving.progress is turn_way.TurnProgress.MOVING


@each_row("machine", [*agent_life.MACHINES, *turn_way.MACHINES], ids=lambda one: str(one.name))
def test_every_state_of_a_drawing_can_be_left(machine: Machine[Any, Any]) -> None:
    left = {edge.source for edge in machine.edges if edge.source != edge.target}
    assert set(machine.states.__members__.values()) - left == set(machine.terminal)
