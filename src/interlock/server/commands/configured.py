"""Agents by the server's own configuration: for a caller that names an agent and no way to run it, such as the page.

Laws:
1. What the caller says of the folder, title, prompt and model is the caller's. The program, its driver, options,
   environment and policy are the configuration's; none of their values is told.
2. An agent whose program is not there, and a folder that is not there, are refused before anything is opened.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from msgspec import structs

from interlock.agents.port import AgentSpec
from interlock.runtime.config.agent_choice import choose_agent, drivers_of
from interlock.runtime.config.sections import Config
from interlock.server.http.problems import Unfit
from interlock.server.http.shapes import ConfiguredAgent
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.wire.resources import OpenTask


class ConfiguredAgents:
    """The agents of a configuration, as the environment of the server has their programs."""

    def __init__(self, config: Config, environ: Mapping[str, str]) -> None:
        self._config = config
        self._environ = environ

    def lines(self) -> tuple[ConfiguredAgent, ...]:
        """Every agent, by name, and whether its program is there now. It looks along PATH."""
        return tuple(self._line(name) for name in sorted(self._config.agents))

    def _line(self, name: str) -> ConfiguredAgent:
        agent = self._config.agents[name]
        spec = choose_agent(self._config, name, self._environ, cwd=os.sep)
        return ConfiguredAgent(
            name=name,
            driver=agent.driver,
            drivers=drivers_of(agent),
            model=agent.model,
            is_installed=self._has_program(spec),
        )

    def filled(self, asked: OpenTask) -> OpenTask:
        """A task of which only the agent is named, with all that the configuration says of it. `Unfit` where that
        cannot run."""
        if asked.argv or asked.options or asked.environment:
            raise Unfit("a program, options or variables were given, and no driver", remedy="name the driver, too")
        if not Path(asked.cwd).is_absolute() or not Path(asked.cwd).is_dir():
            raise Unfit(f"there is no folder {asked.cwd!r}", remedy="give the whole path of one on this machine")
        try:
            spec = choose_agent(self._config, asked.agent, self._environ, cwd=asked.cwd, model=asked.model)
        except UsageError as error:
            raise Unfit(str(error).removesuffix(f"; {error.remedy}"), remedy=error.remedy) from error
        if not self._has_program(spec):
            raise Unfit(f"{asked.agent} is not installed", remedy="`interlock doctor` says what is there")
        own = self._config.agents[asked.agent].run
        policy = structs.asdict(own) if own != self._config.run else None
        return structs.replace(
            asked,
            driver=spec.driver,
            argv=spec.argv,
            model=spec.model,
            options=dict(spec.options),
            environment=dict(spec.environment),
            policy=policy if asked.policy is None else asked.policy,
        )

    def _has_program(self, spec: AgentSpec) -> bool:
        if not spec.argv:
            return True
        program = str(Path(spec.cwd, spec.argv[0])) if os.sep in spec.argv[0] else spec.argv[0]
        return shutil.which(program, path=spec.environment.get("PATH", self._environ.get("PATH"))) is not None
