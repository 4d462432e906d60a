"""The cast of `interlock demo`: agents that follow a script, one for each state that a board has to tell apart.

Law: a part says what its agent does, and never what Interlock makes of it. That is heard from the server.

Five play in tmux. Three are run by their JSON stream, for what they show cannot be read off the screen of a scripted
agent: words that were kept of a turn that broke off, a silence, and a question that is no approval.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from interlock.testing.scripted_agent import command

NETWORK: Final = "network"
"""The gate that one agent waits at, in silence, until the demo opens it."""

STALL_SECONDS: Final = 2.0
IDLE_SECONDS: Final = 6.0
TERMINAL: Final = "terminal"
STREAM: Final = "claude-stream"
_FACES: Final = {TERMINAL: "tui", STREAM: "stream-json"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One agent. `script` is what it does, a line a prompt; after a crash the next life plays `next_life`."""

    title: str
    prompt: str
    script: str
    driver: str = STREAM
    next_life: str = ""
    next_prompt: str = ""
    policy: Mapping[str, bool | int | float | None] = field(default_factory=dict)


PARSER: Final = Part(
    title="parser",
    prompt="Fix the failing test",
    script='think 1; call Bash {"command": "pytest -q"} -> 1 failed; think 1; say Fixed: the clock was read twice.',
    driver=TERMINAL,
)
DEPLOY: Final = Part(
    title="deploy",
    prompt="Deploy the new version to staging",
    script='request Bash {"command": "make deploy"} -> deployed; say It is deployed to staging.',
    driver=TERMINAL,
)
SCHEMA: Final = Part(
    title="schema",
    prompt="Add a table for users",
    script="ask Which database is it for? | PostgreSQL | SQLite; usage 5200 340 0.04; say The table is there.",
)
DOCS: Final = Part(
    title="docs",
    prompt="Sum up the changelog",
    script=f"say The changelog has three parts; gate {NETWORK}; usage 2100 90 0.01; say : added, changed, mended.",
    policy={"stall_after_seconds": STALL_SECONDS},
)
FLAKY: Final = Part(
    title="flaky",
    prompt="Why does this test fail now and then?",
    script="say The test reads the clock twice, so; result error_during_execution connection reset",
)
SEARCH: Final = Part(
    title="search",
    prompt="Find every use of the old call",
    script="say It is used in client.py, in server.py, twice in the tests, and I am still looking; hang",
    driver=TERMINAL,
)
MIGRATE: Final = Part(
    title="migrate",
    prompt="Run the migration",
    script="call Bash {} -> 4 of 12 tables; crash SEGV",
    next_prompt="Go on with the migration",
    next_life="call Bash {} -> 12 of 12 tables; say The migration is done.",
    driver=TERMINAL,
)
GREET: Final = Part(
    title="greet",
    prompt="Say hello",
    script="think 1; say Hello.",
    driver=TERMINAL,
    policy={"idle_ttl_seconds": IDLE_SECONDS},
)
CAST: Final = (PARSER, DEPLOY, SCHEMA, DOCS, FLAKY, SEARCH, MIGRATE, GREET)


def driver_of(part: Part, *, has_tmux: bool) -> str:
    """Without tmux every agent is run by its stream."""
    return part.driver if has_tmux else STREAM


def write_agent(part: Part, driver: str, folder: Path) -> str:
    """The program of an agent, for `sh`: temporary folders are often ones from which nothing can be executed.

    A second life is one whose first has left a mark: a process that died remembers nothing.
    """
    first, later, mark = (folder / f"{part.title}.{name}" for name in ("first", "later", "mark"))
    first.write_text(f"{part.script}\n", encoding="utf-8")
    later.write_text(f"{part.next_life or part.script}\n", encoding="utf-8")
    start = shlex.join(command(_FACES[driver], gates=folder, script=first))
    again = shlex.join(command(_FACES[driver], gates=folder, script=later))
    marked = shlex.quote(str(mark))
    program = folder / part.title
    program.write_text(
        f'if [ -e {marked} ]; then exec {again} "$@"; fi\n: > {marked}\nexec {start} "$@"\n', encoding="utf-8"
    )
    return str(program)
