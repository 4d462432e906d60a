"""Write the pages of docs/ that are made from code: `make docs`. With --check, name the stale ones, change nothing."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from typing import Any, Final

import msgspec

import interlock.vocabulary.events.envelope  # noqa: F401  # declares every event type
from interlock.agents.drivers import DRIVERS
from interlock.agents.port import Capabilities, Driver
from interlock.cli.exit_codes import ExitCode
from interlock.lifecycle import render
from interlock.lifecycle.table import ContextT, Machine, StateT
from interlock.machines import MACHINES
from interlock.runtime.config.agent_choice import drivers_of
from interlock.runtime.config.keys import (
    ConfigKey,
    Table,
    agent_table,
    dotted,
    expected,
    known_keys,
    table_of,
    variable_of,
)
from interlock.runtime.config.sections import BUILTIN_AGENTS, OFF, PER_AGENT, Config
from interlock.server.http.frames_schema import frames_schema
from interlock.vocabulary.events.registry import DECLARATIONS, Declaration
from interlock.vocabulary.events.schema import json_schema
from tools.answer_types import answer_types
from tools.cli_table import ACCURACY, accuracy_with_table, readme_with_table
from tools.client_page import client_page
from tools.commands_page import commands_page
from tools.http_page import http_page
from tools.lab_page import lab_page, read_results
from tools.markdown import MARKER, default, page, summary, table, type_name
from tools.share_files import share_files
from tools.socket_page import socket_page
from tools.states_page import states_page

__all__ = ["MARKER", "main", "pages", "type_name"]

DOCS: Final = Path(__file__).parent.parent / "docs"
FOLDERS: Final = ("machines", "reference")
README: Final = DOCS.parent / "README.md"
FEATURES: Final = DOCS / "features.md"
MACHINES_ROW: Final = "| Machines |"

CAPABILITIES: Final[Mapping[str, tuple[str, str]]] = {
    "reports_approvals": ("asks", "what it waits for is told, and an answer can be given"),
    "streams_text": ("live text", "text is told while it is written"),
    "reports_usage": ("usage", "tokens are told, and costs where the agent knows them"),
    "reports_thoughts": ("thoughts", "reasoning is told while it is written"),
    "owns_text": ("owns text", "the whole answer reaches us, so that a missing one is a failure"),
    "can_interrupt": ("interrupt", "a turn can be ended while the agent stays"),
    "can_resume": ("resume", "a later process takes the conversation up by the agent's own session id"),
    "needs_history": ("needs history", "it remembers nothing: each prompt brings the conversation, from the log"),
    "outlives_runtime": ("outlives us", "it goes on when the runtime ends, and is adopted by the next one"),
    "is_one_shot": ("one shot", "a process takes one prompt and ends"),
    "is_foreign": ("adopted", "somebody else started it, and only a command that names it ends it; told of one agent"),
    "is_read_only": ("watched only", "nothing reaches it, until it is adopted with `--control`; told of one agent"),
}
"""Each capability: the head of its column, and what it means."""

Pages = Mapping[str, str]


def pages() -> Pages:
    """Every generated page, by its path below docs/. The same code always gives the same text."""
    made = {f"machines/{name}.md": machine_page(name, group) for name, group in MACHINES.items()}
    made["machines/client.md"] = client_page()
    made["machines/README.md"] = index_page(MACHINES)
    made["../README.md"] = readme_with_table(README.read_text(encoding="utf-8"))
    made["../src/interlock/vocabulary/wire/json_types.py"] = answer_types()
    made["features.md"] = features(FEATURES.read_text(encoding="utf-8"))
    made |= {f"../share/{path}": text for path, text in share_files().items()}
    made["reference/lab.md"] = lab_page(read_results())
    made["reference/accuracy.md"] = accuracy_with_table(ACCURACY.read_text(encoding="utf-8"))
    made["reference/exit-codes.md"] = exit_codes_page()
    made["reference/commands.md"] = commands_page()
    made["reference/states.md"] = states_page()
    made["reference/drivers.md"] = drivers_page(DRIVERS)
    made["reference/configuration.md"] = configuration_page()
    made["reference/http.md"] = http_page()
    made["reference/websocket.md"] = socket_page()
    made["reference/frames.schema.json"] = json.dumps(frames_schema(), indent=2, sort_keys=True) + "\n"
    made["reference/events.md"] = events_page(DECLARATIONS)
    made["reference/events.schema.json"] = json.dumps(json_schema(), indent=2, sort_keys=True) + "\n"
    return made


def features(text: str) -> str:
    """The page of features as it is, with its row about the machines made anew."""
    row = (
        f"{MACHINES_ROW} {len(MACHINES)} pure machines ({', '.join(MACHINES)}), each a table that its `step` runs,"
        " drawn and walked. | `interlock debug machines turn`, [docs/machines](machines/README.md) |"
    )
    lines = text.splitlines()
    places = [place for place, line in enumerate(lines) if line.startswith(MACHINES_ROW)]
    if len(places) != 1:
        raise ValueError(f"the page of features needs one row that begins with {MACHINES_ROW!r}, and has {len(places)}")
    lines[places[0]] = row
    return "\n".join(lines) + "\n"


def machine_page(name: str, group: Sequence[Machine[Any, Any]]) -> str:
    """The laws once, as machines of one file share them; then diagram, matrix and edges of each."""
    laws = dict.fromkeys(cleandoc(machine.laws) for machine in group)
    return page(name, *laws, *(machine_section(machine) for machine in group))


def machine_section(machine: Machine[StateT, ContextT]) -> str:
    """One machine of a page: diagram, matrix and edges."""
    matrix = ((f"`{row.input}`", row.kind, *row.cells) for row in render.matrix(machine))
    edges = (
        (row.source, f"`{row.input}`", row.guard, row.target + (" (reopens)" if row.reopens else ""))
        for row in render.edge_rows(machine)
    )
    return "\n\n".join(
        (
            f"## {machine.title}",
            f"```mermaid\n{render.mermaid(machine)}\n```",
            "### What every input does in every state",
            table(("Input", "Kind", *render.state_names(machine)), matrix),
            "`stays`: an observation without an edge keeps the state. "
            "`refused`: a command without an edge raises `ContractError` and changes nothing.",
            "### Edges, in the order in which they are tried",
            table(("From", "Input", "While", "To"), edges),
        )
    )


def index_page(machines: Mapping[str, Sequence[Machine[Any, Any]]]) -> str:
    """One line a machine, with its size."""
    rows = [
        (
            f"[{name}]({name}.md)",
            one.title,
            str(len(render.state_names(one))),
            str(len(one.inputs)),
            str(len(one.edges)),
        )
        for name, group in machines.items()
        for one in group
    ]
    return page(
        "The machines",
        table(("Machine", "Decides", "States", "Inputs", "Edges"), rows),
        "The machine by which a client follows a task holds texts and versions as well, and is no table:"
        " [client](client.md).",
    )


def exit_codes_page() -> str:
    """The exit codes of every command."""
    rows = [(str(code.value), code.name.lower().replace("_", " "), code.meaning) for code in ExitCode]
    return page("Exit codes", "Every command ends with one of these.", table(("Code", "Name", "Meaning"), rows))


def drivers_page(drivers: Mapping[str, tuple[str, str]]) -> str:
    """Every driver: what it runs, and what it declares that it can do."""
    made = [_declared(module, name) for module, name in drivers.values()]
    runs = ((f"`{one.name}`", one.kind.value, _first_line(type(one).__module__)) for one in made)
    # A capability without words here is a mistake, and stops the build.
    heads = [CAPABILITIES[field.name] for field in fields(Capabilities)]
    marks = ((f"`{one.name}`", *_marks(one.capabilities)) for one in made)
    return page(
        "Drivers",
        "`AgentSpec.driver` names one of these; `interlock.agents.drivers` lists their classes. A driver's module says"
        " which options it takes. What the columns below are for is told in [running"
        " agents](../explanation/running-agents.md).",
        table(("Driver", "Kind", "What it runs"), runs),
        "## What each can do",
        table(("Driver", *(head for head, _ in heads)), marks),
        table(("Column", "Means"), heads),
    )


def _declared(module: str, name: str) -> Driver:
    """A driver to ask for what it declares. That depends on nothing it is made with, and some need something."""
    made: type[Driver] = getattr(import_module(module), name)
    return object.__new__(made)


def _first_line(module: str) -> str:
    return (import_module(module).__doc__ or "").partition("\n")[0]


def _marks(capabilities: Capabilities) -> list[str]:
    return ["yes" if getattr(capabilities, field.name) else "" for field in fields(Capabilities)]


CONFIGURATION_SAMPLE: Final = """\
[run]
stall_after_seconds = 300
idle_ttl_seconds = 1800

[surface]
completion_stability_seconds = 1.5

[pool]
total = 6
per_agent = { codex = 2 }

[agents.claude]
driver = "claude-stream"
model = "opus"
run = { turn_budget_seconds = 3600 }
surface = { unknown_to_stalled_timeout_seconds = 90 }

[agents.goose]
driver = "acp"
argv = ["goose", "acp"]

[notify]
desktop = true
command = ["my-notifier", "--urgent"]
kinds = ["approval", "question", "failed", "completed"]
"""


def configuration_page() -> str:
    """Every key of the configuration: what may stand there, its default, and its variable."""
    root = table_of(Config)
    agents = root.members["agents"]
    assert isinstance(agents, Table), "agents are a table"
    sections = [agent_table(agents, "NAME") if name == "agents" else one for name, one in root.members.items()]
    known = (
        (name, " ".join(one.argv), ", ".join(f"`{driver}`" for driver in drivers_of(one)))
        for name, one in BUILTIN_AGENTS.items()
    )
    return page(
        "Configuration",
        "One TOML file: `INTERLOCK_CONFIG`, else `interlock/config.toml` in the XDG config folder (`~/.config`). All of"
        " it may be left out. `interlock config show` prints every value and where it came from, `interlock config"
        " check` lists every mistake with its line.",
        f"```toml\n{CONFIGURATION_SAMPLE}```",
        "A variable wins over the file, the file over the default. In a variable a string needs no quotes, a list is"
        " split into words as a shell would (or is a TOML list), and a table is a TOML inline table, which takes the"
        f' place of the whole one. A limit is switched off by `"{OFF}"`. In the name of a variable a dash of an'
        " agent's name is an underscore. An agent that the file does not have is made by the variable of its program"
        " (`INTERLOCK_AGENTS_NAME_ARGV`), and by no other.",
        "A mistake is refused, with the key named, and nothing is used: an unknown key, a value of another type or out"
        " of its range, a file that is not TOML, a variable that belongs to no key.",
        *(configuration_section(section) for section in sections if isinstance(section, Table)),
        "`agents.NAME.run` and `agents.NAME.surface` take every key of `[run]` and `[surface]`, for that agent alone.",
        "In a terminal two clocks can call an open turn *stalled*, for two different things, and the first one that is"
        " over does: `run.stall_after_seconds` while the screen can be read and nothing gets on, and"
        " `surface.unknown_to_stalled_timeout_seconds` while no rule of the profile reads the screen at all. Neither"
        " replaces the other, and switching the first one off leaves the second. What follows from a stall is decided"
        " by `run.stalled_is_terminal` alone. `[surface]` holds for agents in terminals only, is read by the server at"
        " its start (and by `interlock debug inspect`), and must keep `unknown_to_stalled_timeout_seconds` the longest"
        " of its three. `interlock debug score` and `interlock debug track` always measure with the defaults.",
        "## Agents that are known",
        "Each of them may be changed; the first driver is the one that runs it unless a mode is asked for.",
        table(("Agent", "Program", "Drivers"), known),
    )


def configuration_section(section: Table) -> str:
    """The keys of one table."""
    rows = [
        (f"`{_key_name(key)}`", _takes(key), _given(key), f"`{variable_of(key.path)}`", key.description)
        for key in known_keys(section)
        if section.path[0] != "agents" or key.path[2] not in PER_AGENT
    ]
    head = ("Key", "Takes", "Default", "Variable", "What it is for")
    return f"## [{dotted(section.path)}]\n\n{section.description}\n\n{table(head, rows)}"


def _key_name(key: ConfigKey | Table) -> str:
    return dotted((*key.path, "KEY") if isinstance(key, Table) else key.path)


def _takes(key: ConfigKey | Table) -> str:
    if isinstance(key, ConfigKey):
        return expected(key.kind)
    return "any value" if key.entry is Any else expected(key.entry)


def _given(key: ConfigKey | Table) -> str:
    if isinstance(key, Table):
        return "none"
    return f"`{OFF if key.default is None else msgspec.json.encode(key.default).decode()}`"


def events_page(declarations: Mapping[str, Declaration]) -> str:
    """Every event type: who it is for, whether it is kept, and its fields."""
    rows = [
        (f"[`{one.type}`](#{one.type})", one.audience.value, one.durability.value, summary(one.payload))
        for one in declarations.values()
    ]
    overview = table(("Type", "Audience", "Durability", "What it says"), rows)
    return page("Events", overview, *(event_section(one) for one in declarations.values()))


def event_section(one: Declaration) -> str:
    """The fields of one event type."""
    rows = [(f"`{f.encode_name}`", type_name(f.type), default(f)) for f in msgspec.structs.fields(one.payload)]
    fields = table(("Field", "Type", "Default"), rows) if rows else "No fields."
    return f"## {one.type}\n\n{summary(one.payload)}\n\n{fields}"


def stale(docs: Path, wanted: Pages) -> list[str]:
    """What differs between the folder and the code, one line each."""
    found = []
    for name, text in wanted.items():
        path = docs / name
        if not path.exists():
            found.append(f"missing: docs/{name}")
        elif path.read_text(encoding="utf-8") != text:
            found.append(f"stale: docs/{name}")
    return found + [f"extra: docs/{path.relative_to(docs).as_posix()}" for path in leftovers(docs, wanted)]


def leftovers(docs: Path, wanted: Pages) -> list[Path]:
    """Pages that we once made and that nothing asks for now. What a person wrote has no marker and is left alone."""
    return [
        path
        for folder in FOLDERS
        for path in sorted((docs / folder).glob("*.md"))
        if path.relative_to(docs).as_posix() not in wanted and path.read_text(encoding="utf-8").startswith(MARKER)
    ]


def write(docs: Path, wanted: Pages) -> None:
    """Make the folder say what the code says."""
    for path in leftovers(docs, wanted):
        path.unlink()
    for name, text in wanted.items():
        (docs / name).parent.mkdir(parents=True, exist_ok=True)
        (docs / name).write_text(text, encoding="utf-8")


def main(argv: Sequence[str], docs: Path = DOCS) -> int:
    """Write the pages, or with --check compare them. Returns 1 for stale pages and 2 for a wrong argument."""
    if list(argv) not in ([], ["--check"]):
        print("usage: python -m tools.docs [--check]", file=sys.stderr)
        return 2
    wanted = pages()
    if not argv:
        write(docs, wanted)
        print(f"docs: {len(wanted)} pages written")
        return 0
    differences = stale(docs, wanted)
    for line in differences:
        print(line, file=sys.stderr)
    if differences:
        print("The generated pages do not match the code. To mend them: make docs", file=sys.stderr)
        return 1
    print(f"docs: {len(wanted)} pages are current")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
