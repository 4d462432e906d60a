"""How to run a session of the log again: the log keeps no secrets, so they are looked up where they came from.

Laws:
1. What the log keeps is taken from the log, also where the configuration says something else by now.
2. A variable whose value is not known again is named, and its agent is not started without it: with another HOME or
   another key it would act as somebody else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from msgspec import structs, to_builtins

from interlock.agents.pool.masking import MASK
from interlock.agents.port import AgentSpec
from interlock.runtime.config.agent_choice import argv_of, environment_of
from interlock.runtime.config.loading import agent_section
from interlock.runtime.config.sections import Config
from interlock.runtime.redaction.redactor import Redactor
from interlock.runtime.redaction.values import secret_values
from interlock.runtime.runtime import SpecSource, spec_from_log
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import SessionOpened
from interlock.vocabulary.ids import SessionId


def specs_by(config: Config, environ: Mapping[str, str]) -> SpecSource:
    """As the log has it, with the secrets that the configuration has for an agent of that name."""

    def spec_of(session_id: SessionId, opened: SessionOpened) -> AgentSpec:
        kept = spec_from_log(session_id, opened)
        try:
            agent = agent_section(config, opened.agent)
        except UsageError:
            return kept
        values = environment_of(agent, environ)
        argv = argv_of(agent, opened.driver)
        redactor = Redactor(secret_values(values))
        is_same_command = any(MASK in word for word in opened.argv) and redactor.argv(argv) == opened.argv
        whole = structs.replace(opened, options=to_builtins(agent.options) or None)
        has_same_options = opened.driver == agent.driver and redactor.payload(whole).options == opened.options
        return replace(
            kept,
            argv=argv if is_same_command else kept.argv,
            options=agent.options if has_same_options else kept.options,
            environment={name: values[name] for name in opened.environment if name in values},
            forgotten=tuple(name for name in opened.environment if name not in values),
        )

    return spec_of
