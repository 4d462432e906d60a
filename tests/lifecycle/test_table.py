"""The table that every machine is made of: each pair has one outcome, and an illegal table cannot be made."""

from __future__ import annotations

from enum import StrEnum

import pytest

from interlock.lifecycle.table import Edge, Machine, StepOutcome, from_each
from interlock.machines import MACHINES
from interlock.vocabulary.errors import ContractError


class Light(StrEnum):
    RED = "red"
    GREEN = "green"
    BROKEN = "broken"


def is_safe(context: int) -> bool:
    return context > 0


def is_very_safe(context: int) -> bool:
    return context > 1


def light(*extra: Edge[Light, int]) -> Machine[Light, int]:
    return Machine(
        name="light",
        title="A light",
        states=Light,
        initial=Light.RED,
        edges=(
            Edge(Light.RED, "go", Light.GREEN, is_safe),
            Edge(Light.RED, "go", Light.BROKEN, is_very_safe),
            Edge(Light.GREEN, "hit", Light.BROKEN),
            *extra,
        ),
        laws="",
        commands=frozenset({"go"}),
        observations=frozenset({"hit"}),
        terminal=frozenset({Light.BROKEN}),
    )


def test_the_first_open_edge_wins() -> None:
    assert light().next_state(Light.RED, "go", 2) is Light.GREEN


def test_a_command_without_an_open_edge_is_refused_and_names_state_and_input() -> None:
    with pytest.raises(ContractError, match="light: 'go' is illegal in state 'red'"):
        light().next_state(Light.RED, "go", 0)
    with pytest.raises(ContractError, match="light: 'go' is illegal in state 'broken'"):
        light().next_state(Light.BROKEN, "go", 1)


def test_an_observation_without_an_edge_keeps_the_state() -> None:
    assert light().next_state(Light.RED, "hit", 1) is Light.RED


def test_a_foreign_input_is_our_own_mistake() -> None:
    with pytest.raises(ContractError, match="'stop' is no input of"):
        light().next_state(Light.RED, "stop", 1)


def test_an_edge_on_a_foreign_input_cannot_be_declared() -> None:
    with pytest.raises(ContractError, match="'stop', which is not an input"):
        light(Edge(Light.RED, "stop", Light.RED))


def test_an_exit_from_a_terminal_state_must_be_declared() -> None:
    exit_: Edge[Light, int] = Edge(Light.BROKEN, "hit", Light.RED)
    with pytest.raises(ContractError, match="broken is terminal"):
        light(exit_)
    assert light(Edge(Light.BROKEN, "hit", Light.RED, reopens=True)).next_state(Light.BROKEN, "hit", 1) is Light.RED


def test_one_arrow_for_several_sources() -> None:
    edges: tuple[Edge[Light, int], ...] = from_each([Light.RED, Light.GREEN], "hit", Light.BROKEN, is_safe)
    assert [(edge.source, edge.guard) for edge in edges] == [(Light.RED, "is safe"), (Light.GREEN, "is safe")]


@pytest.mark.parametrize("name", MACHINES)
def test_every_pair_of_every_machine_has_one_outcome(name: str) -> None:
    for machine in MACHINES[name]:
        outcomes = {(state, on): machine.outcome(state, on) for state in machine.states for on in machine.inputs}
        for (state, on), outcome in outcomes.items():
            assert (outcome is StepOutcome.MOVES) == bool(machine.edges_for(state, on))
            assert (outcome is StepOutcome.REFUSED) <= (on in machine.commands)


@pytest.mark.parametrize("name", MACHINES)
def test_the_only_exits_from_terminal_states_are_the_declared_ones_of_the_design(name: str) -> None:
    reopening = {"process", "subagent", "completion"}  # the last one watches turn after turn
    declared = any(edge.reopens for machine in MACHINES[name] for edge in machine.edges)
    assert declared == (name in reopening)
