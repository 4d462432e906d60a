"""Which driver runs an agent, and with what: a name, a mode and the configuration become a spec.

Laws:
1. A mode that an agent does not have is refused; nothing else is started in its place.
2. Options belong to the configured driver. Another one gets none, for it would refuse what it does not know.
3. A variable that is to be taken over and is not there is left out; a value that is set wins over one taken over.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import PurePath

from interlock.agents.port import AgentSpec
from interlock.runtime.config.loading import agent_section
from interlock.runtime.config.sections import AgentSection, Config
from interlock.runtime.redaction.values import secret_values
from interlock.vocabulary.errors import UsageError


class Mode(StrEnum):
    """How an agent is talked to: in a terminal, by its JSON stream, by ACP, or as a model without a program."""

    TUI = "tui"
    STREAM = "stream"
    ACP = "acp"
    MODEL = "model"


def choose_agent(
    config: Config, name: str, environ: Mapping[str, str], *, cwd: str, mode: Mode | None = None, model: str = ""
) -> AgentSpec:
    """What to start. `cwd` is where the command was given; a configured folder is relative to it."""
    agent = agent_section(config, name)
    driver = _driver(agent, name, mode)
    return AgentSpec(
        agent=name,
        driver=driver,
        argv=argv_of(agent, driver),
        cwd=str(PurePath(cwd, agent.cwd)),
        environment=environment_of(agent, environ),
        model=model or agent.model,
        options=agent.options if driver == agent.driver else {},
    )


def environment_of(agent: AgentSection, environ: Mapping[str, str]) -> dict[str, str]:
    """What is added to the environment of an agent's process."""
    taken = {name: environ[name] for name in agent.environment.take if name in environ}
    return {**taken, **agent.environment.set}


def configured_secrets(config: Config, environ: Mapping[str, str]) -> frozenset[str]:
    """Every spelling of every secret that the configuration gives an agent, whether or not it was ever run."""
    agents = config.agents.values()
    return frozenset().union(*(secret_values(environment_of(agent, environ)) for agent in agents))


def drivers_of(agent: AgentSection) -> tuple[str, ...]:
    """Every driver that can run an agent, the configured one first."""
    modes = ("terminal" if agent.argv else "", agent.stream_driver, "acp" if agent.acp_argv else "")
    return tuple(dict.fromkeys(name for name in (agent.driver, *modes) if name))


def _driver(agent: AgentSection, name: str, mode: Mode | None) -> str:
    match mode:
        case None:
            return agent.driver
        case Mode.TUI:
            return "terminal"
        case Mode.STREAM if agent.stream_driver:
            return agent.stream_driver
        case Mode.ACP if agent.acp_argv or agent.driver == "acp":
            return "acp"
        case Mode.MODEL:
            return "model"
        case _:
            key = f"agents.{name}.{'stream_driver' if mode is Mode.STREAM else 'acp_argv'}"
            raise UsageError(f"{name} cannot be run by --{mode.value}", remedy=f"leave it out, or set {key}")


def argv_of(agent: AgentSection, driver: str) -> tuple[str, ...]:
    """The program with the arguments that it is given by this driver's way."""
    if driver == "model":
        return ()
    return agent.acp_argv if driver == "acp" and agent.acp_argv else agent.argv
