"""How long `interlock send --wait` takes to return after the model's last byte, with the real Claude Code and Codex.

`make bench` runs this. Each way is a server of its own with one agent; the scripted model says when it wrote its last
byte, and the command's process says when it ended. The ways of one CLI stand beside each other: its JSON stream, which
is the baseline of the ratio; its terminal with the files that it writes of its own session; its terminal with these
files hidden from us, so that the screen and the status that it reports tell; and with its status not listened to
either, by a profile of the user that declares none, so that the screen alone tells. CLIs that are not installed are
left out (`tools/agent_clis.py install claude codex`).

`--prompts 20` sends more of them, `--only codex-terminal` measures one way.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib import resources
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Final

from interlock.testing.scripted_model import RequestKind, ScriptedModel, Text, Think
from interlock.vocabulary.errors import UsageError

if TYPE_CHECKING:
    from interlock.agents.port import AgentSpec
    from tests.real.runtime_agents import Agent

CHECKOUT: Final = Path(__file__).parent.parent
PROMPTS: Final = 9
NATIVE_BUDGET_SECONDS: Final = 0.3
SCREEN_BUDGET_SECONDS: Final = 1.3
_SCRIPTS: Final = {"short": (Think("Let me see."), Text("One. ", "Two. ", "Three.", pace_seconds=0.2))}
_HOMES: Final = {"claude": "CLAUDE_CONFIG_DIR", "codex": "CODEX_HOME"}


class Told(StrEnum):
    """What we have beside the screen of an agent in a terminal."""

    ALL = ""
    STATUS = ", files hidden"
    NOTHING = ", screen alone"


@dataclass(frozen=True, slots=True)
class Way:
    """One agent, and what it tells us."""

    agent: Agent
    told: Told = Told.ALL

    @property
    def name(self) -> str:
        return f"{self.agent.name}{self.told}"


@dataclass(frozen=True, slots=True)
class Delays:
    """Seconds from the model's last byte to the end of the command, one a prompt."""

    name: str
    seconds: tuple[float, ...]

    @property
    def p50(self) -> float:
        return median(self.seconds)

    @property
    def p95(self) -> float:
        return quantiles(self.seconds, n=20)[18] if len(self.seconds) > 1 else self.seconds[0]


def ways() -> list[Way]:
    from tests.real.runtime_agents import CLAUDE_STREAM, CLAUDE_TERMINAL, CODEX_STREAM, CODEX_TERMINAL

    pairs = ((CLAUDE_STREAM, CLAUDE_TERMINAL), (CODEX_STREAM, CODEX_TERMINAL))
    return [way for stream, tui in pairs for way in (Way(stream), *(Way(tui, told) for told in Told))]


def measure(way: Way, prompts: int) -> Delays:
    from tests.real.test_commands import shell_for

    agent, spent = way.agent, list[float]()
    mode = "--tui" if agent.driver == "terminal" else "--stream"
    with tempfile.TemporaryDirectory(prefix="il-bench-") as folder, ScriptedModel(_SCRIPTS) as model:
        spec = agent.spec(model, Path(folder))
        with shell_for(spec if way.told is Told.ALL else blinded(spec, Path(folder))) as shell:
            if way.told is Told.NOTHING:
                deafen(agent.cli, Path(shell.environment["HOME"], ".config", "interlock", "profiles"))
            shell.run("run", agent.cli, mode, "--title", "job", "--wait", "SCN:short first")
            for number in range(prompts):
                shell.run("send", "job", "--wait", f"SCN:short number {number}")
                ended = time.monotonic()
                last = [one.closed_at for one in model.requests if one.kind is RequestKind.MAIN][-1]
                spent.append(ended - last)
    return Delays(way.name, tuple(spent))


def blinded(spec: AgentSpec, folder: Path) -> AgentSpec:
    """The same agent, started so that the place of its files is known to it alone."""
    variable = _HOMES[spec.agent]
    argv = ("/usr/bin/env", f"{variable}={spec.environment[variable]}", *spec.argv)
    return replace(spec, argv=argv, environment={**spec.environment, variable: str(folder / "nothing")})


def deafen(cli: str, own_profiles: Path) -> None:
    """Have the CLI read by its profile without the table that declares its status."""
    source = (resources.files("interlock.screen") / "profiles" / f"{cli}.toml").read_text("utf-8")
    silent, tables = re.subn(r"(?m)^\[native_status\]\n(?:[^\[\n].*\n)*", "", source)
    assert tables == 1, f"the profile of {cli} declares no status"
    own_profiles.mkdir(parents=True)
    (own_profiles / f"{cli}.toml").write_text(silent, "utf-8")


def show(taken: Iterator[Delays]) -> None:
    print(f"{'the last byte to the return of `send --wait`':<46}{'p50':>8}{'p95':>8}{'budget':>8}{'ratio':>8}")
    baseline: Delays | None = None
    for delays in taken:
        baseline = delays if delays.name.endswith("stream") else baseline
        is_stream, is_screen = delays is baseline, delays.name.endswith(Told.NOTHING)
        budget = "-" if is_stream else f"{SCREEN_BUDGET_SECONDS if is_screen else NATIVE_BUDGET_SECONDS:.1f} s"
        ratio = "-" if baseline is None or is_stream else f"{delays.p50 / baseline.p50:.1f}"
        print(f"{delays.name:<46}{delays.p50:>6.2f} s{delays.p95:>6.2f} s{budget:>8}{ratio:>8}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="From the model's last byte to the return of `send --wait`.")
    parser.add_argument("--prompts", type=int, default=PROMPTS)
    parser.add_argument("--only", default="", help="a part of the names of the ways to measure")
    given = parser.parse_args()
    sys.path.insert(0, str(CHECKOUT))  # how a real CLI is started is known to its tests alone
    from tools.agent_clis import installed

    chosen = list[Way]()
    for way in ways():
        try:
            installed(way.agent.cli)
        except UsageError as missing:
            print(missing)
        else:
            chosen += [way] if given.only in way.name else []
    show(measure(way, given.prompts) for way in chosen)


if __name__ == "__main__":
    main()
