"""The explorer must see what it is for: each kind of fault in a small machine is found, and named with a way there."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

import pytest

from interlock.lifecycle.table import Edge, Machine
from interlock.testing.explore import Exploration, LawBroken, check_table, explore, labelled_by
from interlock.vocabulary.errors import ContractError


class Door(StrEnum):
    SHUT = "shut"
    OPEN = "open"
    GONE = "gone"


EDGES: tuple[Edge[Door, None], ...] = (
    Edge(Door.SHUT, "push", Door.OPEN),
    Edge(Door.OPEN, "pull", Door.SHUT),
    Edge(Door.OPEN, "fire", Door.GONE),
)


def machine(*edges: Edge[Door, None]) -> Machine[Door, None]:
    return Machine(
        name="door",
        title="A door",
        states=Door,
        initial=Door.SHUT,
        edges=edges or EDGES,
        laws="",
        commands=frozenset({"push", "pull"}),
        observations=frozenset({"fire"}),
        terminal=frozenset({Door.GONE}),
    )


DOOR = machine()


def step(state: Door, given: str) -> Door:
    return DOOR.next_state(state, given, None)


def walk(
    step: Callable[[Door, str], Door] = step, inputs: tuple[str, ...] = ("push", "pull", "fire")
) -> Exploration[Door, str]:
    return explore(start=[Door.SHUT], inputs=lambda _: inputs, step=step)


def test_a_walk_counts_what_it_saw() -> None:
    found = walk()
    check_table(found, DOOR)
    assert found.summary("door") == "door: 3 states, 5 transitions, 4 refused"
    assert found.refused == {("shut", "pull"), ("open", "push"), ("gone", "push"), ("gone", "pull")}
    assert found.reached() == {"shut", "open", "gone"}


def test_the_trace_is_a_shortest_way() -> None:
    trace = walk().trace(Door.GONE)
    assert [line.split(":")[0].strip() for line in trace.splitlines() if not line.startswith("    ")] == [
        "start",
        "push",
        "fire",
    ]


def test_what_happens_outside_the_table_is_found() -> None:
    def leaky(state: Door, given: str) -> Door:
        return Door.SHUT if state is Door.GONE else step(state, given)

    with pytest.raises(LawBroken, match="gone --fire--> shut happened, and is not in the table"):
        check_table(walk(leaky), DOOR)


def test_a_command_that_silently_does_nothing_is_found() -> None:
    def lenient(state: Door, given: str) -> Door:
        try:
            return step(state, given)
        except ContractError:
            return state

    with pytest.raises(LawBroken, match="not in the table"):
        check_table(walk(lenient), DOOR)


def test_a_refused_observation_is_found() -> None:
    def touchy(state: Door, given: str) -> Door:
        if (state, given) == (Door.SHUT, "fire"):
            raise ContractError("not now")
        return step(state, given)

    with pytest.raises(LawBroken, match="fire is an observation and was refused in shut"):
        check_table(walk(touchy), DOOR)


def test_a_dead_edge_is_found() -> None:
    with pytest.raises(LawBroken, match="dead edge shut --fire--> gone"):
        check_table(walk(), machine(*EDGES, Edge(Door.SHUT, "fire", Door.GONE)))


def test_an_input_that_was_never_tried_is_found_unless_it_is_left_out_on_purpose() -> None:
    found = walk(inputs=("push", "fire"))
    edges = (EDGES[0], EDGES[2])
    with pytest.raises(LawBroken, match=r"inputs never tried \['pull'\]"):
        check_table(found, machine(*edges))
    check_table(found, machine(*edges), unused={"pull"})


def test_an_unreachable_state_is_found() -> None:
    found = walk(inputs=("push", "pull"))
    with pytest.raises(LawBroken, match=r"unreachable states \['gone'\]"):
        check_table(found, machine(*EDGES[:2]), unused={"fire"})


def test_an_input_outside_the_table_may_only_change_what_is_remembered() -> None:
    found = explore(
        start=[Door.SHUT],
        inputs=lambda _: ("push", "pull", "fire", "knock"),
        step=lambda s, i: s if i == "knock" else step(s, i),
    )
    with pytest.raises(LawBroken, match="knock"):
        check_table(found, DOOR)
    check_table(found, DOOR, silent={"knock"})


def test_a_broken_state_law_comes_with_its_trace() -> None:
    with pytest.raises(LawBroken, match=r"(?s)doors stay.*start: .*push: .*fire: "):
        explore(
            start=[Door.SHUT],
            inputs=lambda _: ("push", "fire"),
            step=step,
            state_laws={"doors stay": lambda s: s is not Door.GONE},
        )


def test_a_broken_step_law_comes_with_its_trace() -> None:
    laws = {"nobody pulls": lambda before, given, after: given != "pull"}
    with pytest.raises(LawBroken, match=r"(?s)nobody pulls.*push: .*pull: "):
        explore(start=[Door.SHUT], inputs=lambda _: ("push", "pull"), step=step, step_laws=laws)


def test_another_error_than_a_refusal_is_a_finding_with_a_trace() -> None:
    def buggy(state: Door, given: str) -> Door:
        if state is Door.OPEN:
            raise ZeroDivisionError
        return step(state, given)

    with pytest.raises(ZeroDivisionError) as caught:
        walk(buggy)
    assert "push" in "".join(caught.value.__notes__)


def test_a_walk_without_end_is_stopped() -> None:
    with pytest.raises(LawBroken, match="more than 10 states"):
        explore(start=[0], inputs=lambda _: (1,), step=lambda state, given: state + given, limit=10)


def test_states_that_cannot_reach_a_goal_are_named() -> None:
    assert walk().stuck(lambda state: state is Door.SHUT) == [Door.GONE]
    assert walk().stuck(lambda state: state is Door.GONE) == []


def test_a_label_is_read_from_an_attribute() -> None:
    assert labelled_by("initial")(DOOR) == "shut"
    assert labelled_by("name")(DOOR) == "door"
