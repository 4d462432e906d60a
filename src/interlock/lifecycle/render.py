"""A machine's table, drawn: Mermaid, a matrix, an edge list, and plain text for a terminal.

Laws:
1. Everything here is read from the table, so a drawing cannot say what the machine does not do.
2. Every state and every distinct arrow is named in every drawing.
3. The same table gives the same bytes: order comes from the table and the enum, never from a set.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from interlock.lifecycle.table import ContextT, Edge, Machine, StateT, StepOutcome

_NOT_AN_ID: Final = re.compile(r"\W")
_MERMAID_WORDS: Final = frozenset(
    {"class", "classdef", "click", "default", "direction", "end", "note", "state", "style"}
)
_MERMAID_ESCAPES: Final = str.maketrans({"#": "#35;", ":": "#58;", ";": "#59;", "<": "#60;", ">": "#62;"})


class Arrow(Struct, frozen=True):
    """All edges between the same two states, as one arrow. `reopens` only if each of them does."""

    source: str
    target: str
    labels: tuple[str, ...]
    reopens: bool


class MatrixRow(Struct, frozen=True):
    """What one input does in every state, in the enum's order of states."""

    input: str
    kind: str
    cells: tuple[str, ...]


class EdgeRow(Struct, frozen=True):
    """One line of the table, in words."""

    source: str
    input: str
    target: str
    guard: str
    reopens: bool


def state_names(machine: Machine[StateT, ContextT]) -> tuple[str, ...]:
    """The states in the order in which the enum declares them."""
    return tuple(state.value for state in machine.states)


def edge_rows(machine: Machine[StateT, ContextT]) -> tuple[EdgeRow, ...]:
    """Every edge, in table order, which is the order in which they are tried."""
    return tuple(EdgeRow(e.source.value, e.on, e.target.value, e.guard, _reopens(machine, e)) for e in machine.edges)


def _reopens(machine: Machine[StateT, ContextT], edge: Edge[StateT, ContextT]) -> bool:
    """Whether an edge leads back to life. Between two terminal states it is declared as an exit, and opens nothing."""
    return edge.reopens and edge.target not in machine.terminal


def arrows(machine: Machine[StateT, ContextT]) -> tuple[Arrow, ...]:
    """The distinct arrows, parallel edges merged, in the order in which the table first names them."""
    grouped: dict[tuple[str, str], list[Edge[StateT, ContextT]]] = {}
    for edge in machine.edges:
        grouped.setdefault((edge.source.value, edge.target.value), []).append(edge)
    return tuple(
        Arrow(
            source,
            target,
            tuple(dict.fromkeys(_label(machine, e) for e in edges)),
            all(_reopens(machine, e) for e in edges),
        )
        for (source, target), edges in grouped.items()
    )


def _label(machine: Machine[StateT, ContextT], edge: Edge[StateT, ContextT]) -> str:
    guard = f" [{edge.guard}]" if edge.guard else ""
    return f"{edge.on}{guard}{' (reopens)' if _reopens(machine, edge) else ''}"


def inputs_in_order(machine: Machine[StateT, ContextT]) -> tuple[str, ...]:
    """Commands, then observations; within each, those of the table first, as it names them, then the rest by name."""
    named = tuple(dict.fromkeys(edge.on for edge in machine.edges))

    def ordered(group: frozenset[str]) -> tuple[str, ...]:
        return (*(name for name in named if name in group), *sorted(group.difference(named)))

    return (*ordered(machine.commands), *ordered(machine.observations - machine.commands))


def matrix(machine: Machine[StateT, ContextT]) -> tuple[MatrixRow, ...]:
    """One row an input, one cell a state: the target(s) with their guards, `stays`, or `refused`."""
    return tuple(
        MatrixRow(
            name,
            "command" if name in machine.commands else "observation",
            tuple(_cell(machine, state, name) for state in machine.states),
        )
        for name in inputs_in_order(machine)
    )


def _cell(machine: Machine[StateT, ContextT], state: StateT, on: str) -> str:
    edges = machine.edges_for(state, on)
    if not edges:
        return machine.outcome(state, on).value
    parts = [
        f"{e.target.value}{f' [{e.guard}]' if e.guard else ''}{' (reopens)' if _reopens(machine, e) else ''}"
        for e in edges
    ]
    if all(e.when is not None for e in edges):
        # `next_state` is lenient with every observation; only what is a command and nothing else is refused.
        otherwise = StepOutcome.STAYS if on in machine.observations else StepOutcome.REFUSED
        parts.append(f"else {otherwise.value}")
    return "; ".join(parts)


def outline(machine: Machine[StateT, ContextT]) -> str:
    """The whole table for a terminal: each input, where it leads from which states, and what it does elsewhere."""
    lines: list[str] = []
    for on in inputs_in_order(machine):
        otherwise = StepOutcome.STAYS if on in machine.observations else StepOutcome.REFUSED
        lines.append(f"{on}  ({'command' if on in machine.commands else 'observation'}, else {otherwise.value})")
        lines += [f"    {row}" for row in _outline_rows(machine, on)]
    return "\n".join(lines)


def _outline_rows(machine: Machine[StateT, ContextT], on: str) -> Iterator[str]:
    """Edges that differ only in their source, on one line, in the order in which they are tried."""
    sources: dict[tuple[str, str, bool], list[str]] = {}
    for edge in machine.edges:
        if edge.on == on:
            key = (edge.target.value, edge.guard, _reopens(machine, edge))
            sources.setdefault(key, []).append(edge.source.value)
    for (target, guard, reopens), names in sources.items():
        origin = "any state" if len(names) == len(machine.states) else ", ".join(names)
        yield f"{origin} -> {target}{f'  while {guard}' if guard else ''}{'  (reopens)' if reopens else ''}"


def mermaid(machine: Machine[StateT, ContextT]) -> str:
    """A `stateDiagram-v2`, without a fence and without a final newline."""
    lines = ["stateDiagram-v2"]
    lines += [f'    state "{name}" as {_id(name)}' for name in state_names(machine) if _id(name) != name]
    lines.append(f"    [*] --> {_id(machine.initial.value)}")
    drawn = arrows(machine)
    for arrow in drawn:
        label = "<br/>".join(text.translate(_MERMAID_ESCAPES) for text in arrow.labels)
        lines.append(f"    {_id(arrow.source)} --> {_id(arrow.target)} : {label}")
    lines += [f"    {_id(state.value)} --> [*]" for state in machine.states if state in machine.terminal]
    touched = {machine.initial.value, *(a.source for a in drawn), *(a.target for a in drawn)}
    touched.update(state.value for state in machine.terminal)
    lines += [f"    {_id(name)}" for name in state_names(machine) if name not in touched]
    return "\n".join(lines)


def _id(name: str) -> str:
    clean = _NOT_AN_ID.sub("_", name)
    return f"{clean}_" if clean.lower() in _MERMAID_WORDS else clean


def ascii_diagram(machine: Machine[StateT, ContextT]) -> str:
    """The machine as text: one chain down from the initial state, further chains for what that one did not reach."""
    return "\n".join(("start", "  |", "  v", *_blocks(machine)))


def _blocks(machine: Machine[StateT, ContextT]) -> Iterator[str]:
    """Chains until every state that has an arrow out is drawn; then the states that nothing names at all."""
    terminal = frozenset(state.value for state in machine.terminal)
    leaving: dict[str, list[Arrow]] = {name: [] for name in state_names(machine)}
    for arrow in arrows(machine):
        leaving[arrow.source].append(arrow)
    drawn: set[str] = set()
    yield from _chain(machine.initial.value, leaving, terminal, drawn)
    for name, out in leaving.items():
        if name not in drawn and (out or name not in terminal):
            yield ""
            yield from _chain(name, leaving, terminal, drawn)
    named = drawn | {arrow.target for out in leaving.values() for arrow in out}
    for name in leaving:
        if name not in named:
            yield from ("", name)


def _chain(head: str, leaving: dict[str, list[Arrow]], terminal: frozenset[str], drawn: set[str]) -> Iterator[str]:
    """Draw `head`, then follow first-not-yet-drawn, non-terminal targets. `drawn` grows each time, so this ends."""
    state: str | None = head
    while state is not None:
        drawn.add(state)
        down = next((a for a in leaving[state] if not a.reopens and a.target not in drawn | terminal), None)
        # Terminal targets first: the way out of a state is what a reader looks for.
        rest = sorted((a for a in leaving[state] if a is not down), key=lambda a: a.target not in terminal)
        yield f"{state} -------> {_target(rest[0])}" if rest else state
        if rest[1:]:
            yield "  |"
        for arrow in rest[1:]:
            yield f"  +-----------> {_target(arrow)}"
        if down is not None:
            yield from ("  |", "  v")
        state = None if down is None else down.target


def _target(arrow: Arrow) -> str:
    return f"{arrow.target} (reopens)" if arrow.reopens else arrow.target
