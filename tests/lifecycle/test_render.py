"""Drawings are read from the table: exact for a small machine, complete and terminating for any machine."""

from __future__ import annotations

import re
from enum import StrEnum

from hypothesis import given
from hypothesis import strategies as st

from interlock.lifecycle import render
from interlock.lifecycle.table import Edge, Machine


class Light(StrEnum):
    RUNNING = "running"
    WAITING = "waiting"
    DONE = "done"


def calls_are_open(context: int) -> bool:
    return context > 0


def light(*extra: Edge[Light, int]) -> Machine[Light, int]:
    """The shape of a run: running to waiting and done, waiting to running and done."""
    return Machine(
        name="light",
        title="A light",
        states=Light,
        initial=Light.RUNNING,
        edges=(
            Edge(Light.RUNNING, "suspend", Light.WAITING, calls_are_open),
            Edge(Light.RUNNING, "finish", Light.DONE),
            Edge(Light.WAITING, "resume", Light.RUNNING),
            Edge(Light.WAITING, "finish", Light.DONE),
            Edge(Light.WAITING, "died", Light.DONE),
            *extra,
        ),
        laws="Done is done.",
        commands=frozenset({"suspend", "finish", "resume"}),
        observations=frozenset({"died", "tick"}),
        terminal=frozenset({Light.DONE}),
    )


RUN_DIAGRAM = """\
start
  |
  v
running -------> done
  |
  v
waiting -------> done
  |
  +-----------> running"""


def test_the_ascii_diagram_of_a_run_is_exact() -> None:
    assert render.ascii_diagram(light()) == RUN_DIAGRAM


def test_a_reopening_edge_is_drawn_and_marked() -> None:
    drawn = render.ascii_diagram(light(Edge(Light.DONE, "resume", Light.RUNNING, reopens=True)))
    assert drawn == f"{RUN_DIAGRAM}\n\ndone -------> running (reopens)"


def test_an_exit_to_another_terminal_state_opens_nothing() -> None:
    burial: Edge[Light, int] = Edge(Light.DONE, "bury", Light.WAITING, reopens=True)
    end: Edge[Light, int] = Edge(Light.RUNNING, "finish", Light.DONE)
    lamp = Machine(
        name="lamp",
        title="A lamp",
        states=Light,
        initial=Light.RUNNING,
        edges=(end, burial),
        laws="",
        commands=frozenset({"finish", "bury"}),
        terminal=frozenset({Light.DONE, Light.WAITING}),
    )
    assert "(reopens)" not in render.mermaid(lamp) + render.ascii_diagram(lamp) + render.outline(lamp)
    assert not any(row.reopens for row in render.edge_rows(lamp))


def test_the_outline_names_every_input_and_groups_its_sources() -> None:
    assert render.outline(light()).splitlines() == [
        "suspend  (command, else refused)",
        "    running -> waiting  while calls are open",
        "finish  (command, else refused)",
        "    running, waiting -> done",
        "resume  (command, else refused)",
        "    waiting -> running",
        "died  (observation, else stays)",
        "    waiting -> done",
        "tick  (observation, else stays)",
    ]


def test_mermaid_has_entry_exit_guards_and_merged_labels() -> None:
    assert render.mermaid(light()).splitlines() == [
        "stateDiagram-v2",
        "    [*] --> running",
        "    running --> waiting : suspend [calls are open]",
        "    running --> done : finish",
        "    waiting --> running : resume",
        "    waiting --> done : finish<br/>died",
        "    done --> [*]",
    ]


def test_mermaid_escapes_names_that_would_end_a_statement() -> None:
    class Odd(StrEnum):
        END = "end"
        TWO_WORDS = "two-words"

    machine: Machine[Odd, int] = Machine(
        name="odd",
        title="Odd",
        states=Odd,
        initial=Odd.END,
        edges=(Edge(Odd.END, "chat:done;", Odd.TWO_WORDS),),
        laws="",
        observations=frozenset({"chat:done;"}),
    )
    assert render.mermaid(machine).splitlines()[1:] == [
        '    state "end" as end_',
        '    state "two-words" as two_words',
        "    [*] --> end_",
        "    end_ --> two_words : chat#58;done#59;",
    ]


def test_the_matrix_says_what_every_pair_does() -> None:
    assert {row.input: (row.kind, *row.cells) for row in render.matrix(light())} == {
        "suspend": ("command", "waiting [calls are open]; else refused", "refused", "refused"),
        "finish": ("command", "done", "done", "refused"),
        "resume": ("command", "refused", "running", "refused"),
        "died": ("observation", "stays", "done", "stays"),
        "tick": ("observation", "stays", "stays", "stays"),
    }


def test_the_edge_list_keeps_table_order() -> None:
    rows = render.edge_rows(light())
    assert [(row.source, row.input, row.target, row.guard) for row in rows] == [
        ("running", "suspend", "waiting", "calls are open"),
        ("running", "finish", "done", ""),
        ("waiting", "resume", "running", ""),
        ("waiting", "finish", "done", ""),
        ("waiting", "died", "done", ""),
    ]


class Node(StrEnum):
    A = "na"
    B = "nb"
    C = "nc"
    D = "nd"
    E = "ne"


@st.composite
def machines(draw: st.DrawFn) -> Machine[Node, int]:
    nodes = st.sampled_from(list(Node))
    terminal = draw(st.frozensets(nodes, max_size=3))
    pairs = draw(st.lists(st.tuples(nodes, st.sampled_from(("x", "y")), nodes), max_size=12))
    edges: tuple[Edge[Node, int], ...] = tuple(
        Edge(source, on, target, reopens=source in terminal and target != source) for source, on, target in pairs
    )
    return Machine(
        name="any",
        title="Any",
        states=Node,
        initial=draw(nodes),
        edges=edges,
        laws="",
        commands=frozenset({"x"}),
        observations=frozenset({"y"}),
        terminal=terminal,
    )


def arrows_in_ascii(text: str) -> list[tuple[str, str]]:
    """Read a diagram back: a state line sets the source, arrow lines and the chain below it are its targets."""
    found: list[tuple[str, str]] = []
    source, enters = "", False
    for line in text.splitlines():
        if line == "  v":
            enters = True
        elif branch := re.fullmatch(r"  \+-----------> (\w+)(?: \(reopens\))?", line):
            found.append((source, branch[1]))
        elif state := re.fullmatch(r"(\w+)(?: -------> (\w+)(?: \(reopens\))?)?", line):
            if enters and source:
                found.append((source, state[1]))
            source, enters = state[1], False
            if state[2]:
                found.append((source, state[2]))
        elif line == "":
            source = ""
    return found


@given(machines())
def test_any_machine_is_drawn_completely_and_each_arrow_once(machine: Machine[Node, int]) -> None:
    text = render.ascii_diagram(machine)
    _, _, body = text.partition("  v\n")
    expected = sorted((arrow.source, arrow.target) for arrow in render.arrows(machine))
    assert sorted(arrows_in_ascii(body)) == expected
    assert all(re.search(rf"\b{node.value}\b", text) for node in Node)


@given(machines())
def test_any_machine_has_a_full_matrix_and_mermaid_names_every_state(machine: Machine[Node, int]) -> None:
    rows = render.matrix(machine)
    assert {row.input for row in rows} == machine.inputs
    assert all(len(row.cells) == len(Node) and all(row.cells) for row in rows)
    assert all(re.search(rf"\b{node.value}\b", render.mermaid(machine)) for node in Node)
