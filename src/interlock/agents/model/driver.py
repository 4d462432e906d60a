"""The model driver: a model API, run as an agent by our own loop. pydantic-ai is imported with the first spawn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from interlock.agents.model.calls import ModelCaller
from interlock.agents.model.handle import CAPABILITIES, DRIVER_NAME, ModelHandle
from interlock.agents.model.tools.builtin import builtin_tools
from interlock.agents.model.tools.shell import shell_environment
from interlock.agents.model.tools.tool import Tool, tool_from
from interlock.agents.model.tools.workspace import Workspace
from interlock.agents.model.turn import LoopPolicy
from interlock.agents.port import AgentSpec, Capabilities
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.ids import SpawnId
from interlock.vocabulary.states import DriverKind

if TYPE_CHECKING:
    from pydantic_ai.models import Model
from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from interlock.agents.model.attempts import RetryPolicy
from interlock.agents.model.tools import builtin
from interlock.lifecycle.decisions.permissions import Rule, parse_rule
from interlock.lifecycle.stop_conditions import DEFAULT_CONDITIONS, StopCondition
from interlock.vocabulary.events.registry import Json

# What a spec may say to the model driver, in `options`.


class ModelOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every option, each with its default.

    `permissions` and `write_policy` are rules of `lifecycle/decisions/permissions.py`. `tools` names the built-in tools
    to offer.
    `settings` go to the provider (`max_tokens`, `temperature`, ...). `stop` are conditions, the first match wins.
    """

    instructions: str = ""
    base_url: str = ""
    tools: tuple[str, ...] = builtin.NAMES
    permissions: tuple[str, ...] = builtin.DEFAULT_RULES
    write_policy: tuple[str, ...] = ()
    stop: tuple[StopCondition, ...] = DEFAULT_CONDITIONS
    retry: RetryPolicy = RetryPolicy()
    settings: dict[str, Json] = {}
    context_window_tokens: Annotated[int, Meta(ge=1)] | None = None

    def rules(self) -> tuple[Rule, ...]:
        return tuple(parse_rule(line) for line in self.permissions)


def read_options(given: Mapping[str, Json]) -> ModelOptions:
    """Read the options of a spec. `UsageError` names the one that is wrong."""
    try:
        options = msgspec.convert(dict(given), ModelOptions)
    except msgspec.ValidationError as wrong:
        known = ", ".join(ModelOptions.__struct_fields__)
        raise UsageError(
            f"an option of the model driver is wrong: {wrong}", remedy=f"the options are {known}"
        ) from wrong
    unknown = sorted(set(options.tools) - set(builtin.NAMES))
    if unknown:
        raise UsageError(f"there is no built-in tool {unknown[0]!r}", remedy=f"there are {', '.join(builtin.NAMES)}")
    return options


class ModelDriver:
    """Runs any model that pydantic-ai knows, by its name `provider:model` in the spec.

    A Python caller may bring a model object instead, or a caller of its own, and tools: functions with types.
    """

    def __init__(
        self,
        *,
        model: Model | None = None,
        caller: ModelCaller | None = None,
        tools: Sequence[Tool | Callable[..., object]] = (),
    ) -> None:
        self._model = model
        self._caller = caller
        self._tools = tuple(tool if isinstance(tool, Tool) else tool_from(tool) for tool in tools)

    @property
    def name(self) -> str:
        return DRIVER_NAME

    @property
    def kind(self) -> DriverKind:
        return DriverKind.MODEL

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    async def spawn(self, spec: AgentSpec, spawn_id: SpawnId) -> ModelHandle:
        """Make ready to take prompts; the model itself is asked with the first one. See `ModelOptions`."""
        if spec.argv or spec.resume:
            raise UsageError("a model has neither a program nor a session of its own", remedy="leave out argv, resume")
        options = read_options(spec.options)
        rules = options.rules()
        tools = _tools(spec, options, spawn_id, self._tools)
        caller = self._caller
        if caller is None:  # in a thread: to import the library takes seconds
            caller = await asyncio.to_thread(_open_caller, spec, options, self._model)
        return ModelHandle(spawn_id, caller, tools, rules=rules, policy=_policy(options))


def _policy(options: ModelOptions) -> LoopPolicy:
    return LoopPolicy(instructions=options.instructions, conditions=options.stop, retry=options.retry)


def _tools(spec: AgentSpec, options: ModelOptions, spawn_id: SpawnId, own: Sequence[Tool]) -> dict[str, Tool]:
    workspace = Workspace(spec.cwd, options.write_policy)
    built_in = builtin_tools(workspace, spawn_id=spawn_id, environment=shell_environment(spec.environment))
    # A tool that the caller brings stands for a built-in one of the same name.
    return {tool.name: tool for tool in (*(one for one in built_in if one.name in options.tools), *own)}


def _open_caller(spec: AgentSpec, options: ModelOptions, model: Model | None) -> ModelCaller:
    try:
        from interlock.agents.model import provider
    except ImportError as missing:
        remedy = "pip install 'interlock[model]'"
        raise UsageError(f"the model driver needs pydantic-ai ({missing.name} is missing)", remedy=remedy) from missing
    opened = model
    if opened is None:
        opened = provider.open_model(spec.model, base_url=options.base_url, environment=spec.environment)
    return provider.PydanticCaller(
        opened,
        name=spec.model,
        settings=options.settings,
        window_tokens=options.context_window_tokens,
        is_ours=model is None,
    )
