"""Walk a machine, or a small product of machines, through every state that it can reach.

A machine is given as a pure `step` over hashable states. Breadth first, so that a broken law comes with a shortest
trace. `ContractError` from `step` is a refusal, and is counted; any other error is a finding.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, TypeVar

from interlock.lifecycle.table import Machine
from interlock.vocabulary.errors import ContractError

S = TypeVar("S", bound=Hashable)
I = TypeVar("I")  # noqa: E741 - S and I are the usual letters for state and input


class LawBroken(AssertionError):
    """A law does not hold. The message carries the shortest way there."""


@dataclass(slots=True)
class Exploration(Generic[S, I]):
    """What a walk found: every reachable state, how it was first reached, and every edge by name."""

    label: Callable[[S], str]
    named: Callable[[I], str]
    parents: dict[S, tuple[S, I] | None] = field(default_factory=dict)
    sources: dict[S, list[S]] = field(default_factory=lambda: defaultdict(list))
    edges: set[tuple[str, str, str]] = field(default_factory=set)
    refused: set[tuple[str, str]] = field(default_factory=set)
    transitions: int = 0
    refusals: int = 0

    def trace(self, state: S) -> str:
        """The shortest way to `state`, one input a line."""
        steps: list[str] = []
        parent = self.parents.get(state)
        while parent is not None:
            before, by = parent
            steps.append(f"  {self.named(by)}: {by!r}\n    -> {state!r}")
            state, parent = before, self.parents[before]
        return "\n".join([f"  start: {state!r}", *reversed(steps)])

    def reached(self) -> frozenset[str]:
        return frozenset(self.label(state) for state in self.parents)

    def stuck(self, goal: Callable[[S], bool]) -> list[S]:
        """The reachable states from which no state that satisfies `goal` can be reached any more."""
        free = {state for state in self.parents if goal(state)}
        todo = deque(free)
        while todo:
            for source in self.sources[todo.popleft()]:
                if source not in free:
                    free.add(source)
                    todo.append(source)
        return [state for state in self.parents if state not in free]

    def summary(self, name: str) -> str:
        return f"{name}: {len(self.parents)} states, {self.transitions} transitions, {self.refusals} refused"


def explore(
    *,
    start: Iterable[S],
    inputs: Callable[[S], Iterable[I]],
    step: Callable[[S, I], S],
    label: Callable[[S], str] = str,
    named: Callable[[I], str] = str,
    state_laws: Mapping[str, Callable[[S], bool]] | None = None,
    step_laws: Mapping[str, Callable[[S, I, S], bool]] | None = None,
    limit: int = 500_000,
) -> Exploration[S, I]:
    """Visit every reachable state, check every law in each, and return what was seen."""
    found: Exploration[S, I] = Exploration(label, named)
    todo: deque[S] = deque(dict.fromkeys(start))
    for state in todo:
        _arrive(found, state, None, state_laws or {}, limit)
    while todo:
        state = todo.popleft()
        for given in inputs(state):
            following = _take(found, step, state, given)
            if following is None:
                continue
            _check_step(found, state, given, following, step_laws or {})
            if following not in found.parents:
                _arrive(found, following, (state, given), state_laws or {}, limit)
                todo.append(following)
            found.sources[following].append(state)
    return found


def _arrive(
    found: Exploration[S, I],
    state: S,
    parent: tuple[S, I] | None,
    laws: Mapping[str, Callable[[S], bool]],
    limit: int,
) -> None:
    found.parents[state] = parent
    if len(found.parents) > limit:
        raise LawBroken(f"more than {limit} states; the last one came by\n{found.trace(state)}")
    for law, holds in laws.items():
        if not holds(state):
            raise LawBroken(f"{law}\n{found.trace(state)}")


def _check_step(
    found: Exploration[S, I], state: S, given: I, following: S, laws: Mapping[str, Callable[[S, I, S], bool]]
) -> None:
    for law, permits in laws.items():
        if not permits(state, given, following):
            name = found.named(given)
            raise LawBroken(f"{law}\n{found.trace(state)}\n  {name}: {given!r}\n    -> {following!r}")


def _take(found: Exploration[S, I], step: Callable[[S, I], S], state: S, given: I) -> S | None:
    name = found.named(given)
    try:
        following = step(state, given)
    except ContractError:
        found.refusals += 1
        found.refused.add((found.label(state), name))
        return None
    except Exception as error:
        error.add_note(f"found by the explorer:\n{found.trace(state)}\n  {name}: {given!r}")
        raise
    found.transitions += 1
    found.edges.add((found.label(state), name, found.label(following)))
    return following


def check_table(
    found: Exploration[Any, Any],
    machine: Machine[Any, Any],
    *,
    unused: Collection[str] = (),
    silent: Collection[str] = (),
) -> None:
    """Hold a walk against the table that the documentation is drawn from.

    The walk's labels must be the machine's states, and its input names the machine's inputs. Nothing may happen that
    the table does not show, nothing in the table may be dead, every state is reachable, a terminal state is left only
    by an edge that is declared to reopen it. `unused` names inputs of the table that the walk leaves out on purpose;
    `silent` names inputs of the walk that the table does not know, because they only ever change what is remembered.
    """
    _check_seen_in_table(found, machine, silent)
    taken = found.edges
    for edge in machine.edges:
        if edge.on not in unused and (edge.source.value, edge.on, edge.target.value) not in taken:
            raise LawBroken(f"{machine.name}: dead edge {edge.source.value} --{edge.on}--> {edge.target.value}")
    missing = {state.value for state in machine.states} - found.reached()
    if missing:
        raise LawBroken(f"{machine.name}: unreachable states {sorted(missing)}")
    tried = {name for _, name, _ in taken} | {name for _, name in found.refused}
    untried = machine.inputs - tried - set(unused)
    if untried:
        raise LawBroken(f"{machine.name}: inputs never tried {sorted(untried)}")


def _check_seen_in_table(found: Exploration[Any, Any], machine: Machine[Any, Any], silent: Collection[str]) -> None:
    # A table cannot be made with an undeclared exit from a terminal state, so an edge that it shows is a legal one.
    shown = {(edge.source.value, edge.on, edge.target.value) for edge in machine.edges}
    for source, on, target in sorted(found.edges - shown):
        if source != target or (on not in machine.observations and on not in silent):
            raise LawBroken(f"{machine.name}: {source} --{on}--> {target} happened, and is not in the table")
    for source, on in sorted(found.refused):
        if on not in machine.commands:
            raise LawBroken(f"{machine.name}: {on} is an observation and was refused in {source}")


def labelled_by(attribute: str) -> Callable[[object], str]:
    """A `label` for states that keep their machine state in an attribute."""

    def label(state: object) -> str:
        value = getattr(state, attribute)
        return value.value if isinstance(value, StrEnum) else str(value)

    return label
