"""`interlock debug machines`: the tables that decide, as a list or one at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from cyclopts import Parameter
from msgspec import Struct

from interlock.cli import output
from interlock.lifecycle import render
from interlock.lifecycle.table import ContextT, Machine, StateT
from interlock.machines import MACHINES
from interlock.vocabulary.errors import UsageError


class MachineSummary(Struct, frozen=True):
    """One line of the list."""

    name: str
    title: str
    states: int
    inputs: int
    edges: int


class MachineView(Struct, frozen=True):
    """All that the table says, for a script. `matrix` cells are in the order of `states`."""

    name: str
    title: str
    laws: str
    states: tuple[str, ...]
    initial: str
    terminal: tuple[str, ...]
    commands: tuple[str, ...]
    observations: tuple[str, ...]
    edges: tuple[render.EdgeRow, ...]
    matrix: tuple[render.MatrixRow, ...]
    ascii_diagram: str
    mermaid: str


def machines(name: str | None = None, /, *, json: Annotated[bool, Parameter(negative="")] = False) -> None:
    """List the state machines, or print one: its laws, its diagram and its whole table.

    Parameters
    ----------
    name
        The machine to print; all of them are listed without it.
    json
        Print JSON for a script.
    """
    if name is None:
        _print_list(json=json)
    elif name not in MACHINES:
        raise _unknown(name)
    elif json:
        output.print_json({"name": name, "machines": [view(machine) for machine in MACHINES[name]]})
    else:
        # Machines of one file share its laws; they are printed once.
        for laws in dict.fromkeys(machine.laws.strip() for machine in MACHINES[name]):
            output.print_text(f"{laws}\n")
        for machine in MACHINES[name]:
            _print_machine(machine)


def summaries() -> Mapping[str, tuple[MachineSummary, ...]]:
    """What the list shows, by the name that `interlock debug machines NAME` takes."""
    return {key: tuple(_summary(machine) for machine in group) for key, group in MACHINES.items()}


def _summary(machine: Machine[StateT, ContextT]) -> MachineSummary:
    states = len(render.state_names(machine))
    return MachineSummary(machine.name, machine.title, states, len(machine.inputs), len(machine.edges))


def view(machine: Machine[StateT, ContextT]) -> MachineView:
    """Read one machine's table into plain data."""
    inputs = render.inputs_in_order(machine)
    return MachineView(
        name=machine.name,
        title=machine.title,
        laws=machine.laws.strip(),
        states=render.state_names(machine),
        initial=machine.initial.value,
        terminal=tuple(state.value for state in machine.states if state in machine.terminal),
        commands=tuple(name for name in inputs if name in machine.commands),
        observations=tuple(name for name in inputs if name in machine.observations),
        edges=render.edge_rows(machine),
        matrix=render.matrix(machine),
        ascii_diagram=render.ascii_diagram(machine),
        mermaid=render.mermaid(machine),
    )


def _print_list(*, json: bool) -> None:
    found = summaries()
    if json:
        output.print_json({"machines": [{"name": name, "machines": group} for name, group in found.items()]})
        return
    rows = [
        (key, line.name, line.title, str(line.states), str(line.inputs), str(line.edges))
        for key, group in found.items()
        for line in group
    ]
    output.print_table(("NAME", "MACHINE", "DECIDES", "STATES", "INPUTS", "EDGES"), rows)


def _print_machine(machine: Machine[StateT, ContextT]) -> None:
    output.print_text(f"{machine.title}\n\n{render.ascii_diagram(machine)}\n\n{render.outline(machine)}\n")


def _unknown(name: str) -> UsageError:
    from difflib import get_close_matches

    close = get_close_matches(name, MACHINES, n=1)
    guess = f"did you mean {close[0]!r}? " if close else ""
    return UsageError(f"there is no machine {name!r}", remedy=f"{guess}known: {', '.join(MACHINES)}")
