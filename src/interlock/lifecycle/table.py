"""What every machine is made of: edges in a table, and one way to run the table.

Laws:
1. A machine is a table. `Machine.next_state` reads the table and nothing else, so a diagram drawn from it cannot lie.
2. Every (state, input) pair has one outcome: it moves, it stays, or it is refused. None is undefined.
3. Strict with ourselves: a *command* without an edge raises `ContractError` and changes nothing.
   Lenient with the world: an *observation* without an edge keeps the state.
4. Edges of one (state, input) pair are tried in table order; the first whose guard holds wins.
5. A terminal state has no edge out, except those declared `reopens`. One that leads to another terminal state is
   declared as well, and drawn without the word: it opens nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

from interlock.vocabulary.errors import ContractError

StateT = TypeVar("StateT", bound=StrEnum)
ContextT = TypeVar("ContextT")


class StepOutcome(StrEnum):
    """What a table says about one (state, input) pair."""

    MOVES = "moves"
    STAYS = "stays"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Edge(Generic[StateT, ContextT]):
    """One arrow: in `source`, input `on`, while `when` holds, leads to `target`."""

    source: StateT
    on: str
    target: StateT
    when: Callable[[ContextT], bool] | None = None
    reopens: bool = False

    @property
    def guard(self) -> str:
        """The guard's name in words, empty for an edge that is always open."""
        return "" if self.when is None else self.when.__name__.replace("_", " ")


def from_each(
    sources: Iterable[StateT],
    on: str,
    target: StateT,
    when: Callable[[ContextT], bool] | None = None,
    *,
    reopens: bool = False,
) -> tuple[Edge[StateT, ContextT], ...]:
    """Write the same arrow once for several sources."""
    return tuple(Edge(source, on, target, when, reopens) for source in sources)


@dataclass(frozen=True, slots=True)
class Machine(Generic[StateT, ContextT]):
    """A named table. `commands` are ours and strict; `observations` come from outside (timers too) and are lenient."""

    name: str
    title: str
    states: type[StateT]
    initial: StateT
    edges: tuple[Edge[StateT, ContextT], ...]
    laws: str
    commands: frozenset[str] = frozenset()
    observations: frozenset[str] = frozenset()
    terminal: frozenset[StateT] = frozenset()
    _by_pair: Mapping[tuple[StateT, str], tuple[Edge[StateT, ContextT], ...]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        index: dict[tuple[StateT, str], tuple[Edge[StateT, ContextT], ...]] = {}
        for edge in self.edges:
            self._check(edge)
            pair = (edge.source, edge.on)
            index[pair] = (*index.get(pair, ()), edge)
        object.__setattr__(self, "_by_pair", index)

    def _check(self, edge: Edge[StateT, ContextT]) -> None:
        if edge.on not in self.inputs:
            raise ContractError(f"{self.name}: edge on {edge.on!r}, which is not an input of this machine")
        if edge.source in self.terminal and edge.target != edge.source and not edge.reopens:
            raise ContractError(f"{self.name}: {edge.source} is terminal; an exit must be declared reopens=True")

    @property
    def inputs(self) -> frozenset[str]:
        return self.commands | self.observations

    def edges_for(self, state: StateT, on: str) -> tuple[Edge[StateT, ContextT], ...]:
        """The arrows that may be taken from `state` on input `on`, in the order in which they are tried."""
        return self._by_pair.get((state, on), ())

    def outcome(self, state: StateT, on: str) -> StepOutcome:
        """What the table says of a pair, guards aside: the cell that the documentation shows."""
        if self.edges_for(state, on):
            return StepOutcome.MOVES
        return StepOutcome.REFUSED if on in self.commands else StepOutcome.STAYS

    def next_state(self, state: StateT, on: str, context: ContextT) -> StateT:
        """Run the table: the target of the first open edge, the same state, or `ContractError` for a command."""
        for edge in self.edges_for(state, on):
            if edge.when is None or edge.when(context):
                return edge.target
        if on in self.observations:
            return state
        known = on in self.commands
        raise ContractError(f"{self.name}: {on!r} is {'illegal in state' if known else 'no input of'} {state.value!r}")
