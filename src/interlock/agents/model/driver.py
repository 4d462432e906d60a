"""The model driver: a model API, run as an agent by our own loop. pydantic-ai is imported with the first spawn.

Laws:
1. A spawn starts no process of its own; what its tools start carries its spawn id, and is ended with it.
2. One turn at a time: a prompt that comes while a turn is open is refused, and had no effect.
3. After `stop` nothing of the spawn runs, and `Exited` is the last observation, whether somebody reads or not.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import Meta, Struct

from interlock.agents.model.approvals import Approvals
from interlock.agents.model.attempts import RetryPolicy
from interlock.agents.model.calls import ModelCaller
from interlock.agents.model.channel import LoopChannel
from interlock.agents.model.tools import builtin
from interlock.agents.model.tools.builtin import builtin_tools
from interlock.agents.model.tools.children import CHECKPOINT_TOOL, HARMLESS_RULES, ChildCalls, child_tools
from interlock.agents.model.tools.shell import shell_environment
from interlock.agents.model.tools.tool import Tool, tool_from
from interlock.agents.model.tools.workspace import Workspace
from interlock.agents.model.turn import LoopPolicy, Turn
from interlock.agents.observations import BecameReady, Exited, Observation
from interlock.agents.port import AgentSpec, Capabilities, Decision, NotDelivered, ProcessIdentity, Prompt, StopReport
from interlock.agents.processes.stopping import stop_tree
from interlock.lifecycle.decisions.permissions import Rule, parse_rule
from interlock.lifecycle.stop_conditions import DEFAULT_CONDITIONS, StopCondition
from interlock.projections.replay.items import ReplayItem
from interlock.vocabulary.errors import ContractError, UsageError
from interlock.vocabulary.events.audit import DeliveryStage
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import SpawnId
from interlock.vocabulary.states import DriverKind

if TYPE_CHECKING:
    from pydantic_ai.models import Model


# What a spec may say to the model driver, in `options`.


class ModelOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every option, each with its default.

    `permissions` and `write_policy` are rules of `lifecycle/decisions/permissions.py`. `tools` names the built-in tools
    to offer.
    `settings` go to the provider (`max_tokens`, `temperature`, ...). `stop` are conditions, the first match wins.
    `children` names the configured agents that it may start, `plans` the trusted plans that it may run. As a child, it
    has `permissions_above`: the rules of those above it, each list by itself, which hold beside its own.
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
    children: tuple[str, ...] = ()
    plans: tuple[str, ...] = ()
    permissions_above: tuple[tuple[str, ...], ...] = ()

    def rules(self) -> tuple[tuple[Rule, ...], ...]:
        """Its own rules, then those above it. The strictest holds."""
        lists = (self.permissions, *self.permissions_above)
        return tuple(tuple(parse_rule(line) for line in (*lines, *HARMLESS_RULES)) for lines in lists)


def read_options(given: Mapping[str, Json]) -> ModelOptions:
    """Read the options of a spec. `UsageError` names the one that is wrong."""
    try:
        options = msgspec.convert(dict(given), ModelOptions)
    except msgspec.ValidationError as wrong:
        known = ", ".join(ModelOptions.__struct_fields__)
        raise UsageError(
            f"an option of the model driver is wrong: {wrong}", remedy=f"the options are {known}"
        ) from wrong
    names = (*builtin.NAMES, CHECKPOINT_TOOL)
    unknown = sorted(set(options.tools) - set(names))
    if unknown:
        raise UsageError(f"there is no built-in tool {unknown[0]!r}", remedy=f"there are {', '.join(names)}")
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
        self._child_calls: ChildCalls | None = None

    def use_child_calls(self, calls: ChildCalls) -> None:
        """Offer the tools about children to the agents that may have them."""
        self._child_calls = calls

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
        tools = _tools(spec, options, spawn_id, (*self._tools_about_children(options, spawn_id), *self._tools))
        caller = self._caller
        if caller is None:  # in a thread: to import the library takes seconds
            caller = await asyncio.to_thread(_open_caller, spec, options, self._model)
        return ModelHandle(spawn_id, caller, tools, rules=rules, policy=_policy(options))

    def _tools_about_children(self, options: ModelOptions, spawn_id: SpawnId) -> tuple[Tool, ...]:
        if self._child_calls is None:
            return ()
        return child_tools(
            self._child_calls,
            spawn_id,
            children=options.children,
            plans=options.plans,
            has_checkpoint=CHECKPOINT_TOOL in options.tools,
        )


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


DRIVER_NAME: Final = "model"
CAPABILITIES: Final = Capabilities(
    reports_approvals=True,
    streams_text=True,
    reports_usage=True,
    reports_thoughts=True,
    owns_text=True,
    can_interrupt=True,
    needs_history=True,
)


class ModelHandle:
    """One conversation partner. It remembers rules that a person added, and nothing of the conversation."""

    def __init__(
        self,
        spawn_id: SpawnId,
        caller: ModelCaller,
        tools: Mapping[str, Tool],
        *,
        rules: Sequence[Sequence[Rule]],
        policy: LoopPolicy,
    ) -> None:
        self._spawn_id = spawn_id
        self._caller = caller
        self._tools = tools
        self._policy = policy
        self._channel = LoopChannel()
        self._approvals = Approvals(tuple(map(tuple, rules)), self._channel)
        self._turn: Turn | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[StopReport] | None = None
        self._used_tokens: int | None = None
        self._history_length = 0
        self._channel.tell_now(BecameReady())

    @property
    def spawn_id(self) -> SpawnId:
        return self._spawn_id

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    @property
    def argv(self) -> tuple[str, ...]:
        """No program: the driver's name and the model's."""
        return (DRIVER_NAME, self._caller.name)

    @property
    def process(self) -> ProcessIdentity | None:
        return None

    @property
    def where(self) -> Json:
        return None

    def observations(self) -> AsyncIterator[Observation]:
        """Everything, in order. The loop goes on only when the next one is asked for: see `LoopChannel`."""
        return self._channel.read()

    async def submit(self, prompt: Prompt) -> DeliveryStage:
        """Begin a turn. `NotDelivered` while another is open, or after `stop`."""
        if self._stopping is not None:
            raise NotDelivered("the agent was stopped")
        if self._task is not None and not self._task.done():
            raise NotDelivered("a turn is open")
        if len(prompt.history) < self._history_length:
            self._used_tokens = None  # somebody made room meanwhile
        self._history_length = len(prompt.history)
        turn = Turn(
            turn_id=prompt.turn_id,
            history=_history(prompt.history),
            prompt=prompt.text,
            caller=self._caller,
            tools=self._tools,
            policy=self._policy,
            approvals=self._approvals,
            channel=self._channel,
            used_tokens=self._used_tokens,
        )
        self._turn, self._task = turn, asyncio.create_task(self._run(turn))
        return DeliveryStage.ACCEPTED

    async def _run(self, turn: Turn) -> None:
        try:
            await turn.run()
        except Exception as error:  # it ends no turn by an error: this is one that nothing provides for
            self._channel.fail(error)
        finally:
            self._used_tokens = turn.used_tokens

    async def interrupt(self) -> None:
        """End the open turn; without one this does nothing."""
        if self._turn is not None:
            self._turn.interrupt()

    async def decide(self, decision: Decision) -> None:
        """Answer a question. `NotDelivered` if it is not open."""
        self._approvals.answer(decision)

    async def stop(self) -> StopReport:
        """Interrupt the turn, end what its tools started, let go of the connections. Safe to call twice."""
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop())
        return await asyncio.shield(self._stopping)

    async def release(self) -> None:
        """The same as `stop`: a model does not outlive us."""
        await self.stop()

    async def _stop(self) -> StopReport:
        if self._turn is not None and self._task is not None:
            self._turn.interrupt()
            await asyncio.wait((self._task,))
        try:
            return await stop_tree(None, self._spawn_id)
        finally:
            try:
                await self._caller.close()
            finally:
                self._channel.tell_now(Exited(code=0))


def _history(items: Sequence[Json]) -> list[ReplayItem]:
    """The conversation so far: items of the replay projection, as they are or as JSON."""
    try:
        return [msgspec.convert(msgspec.to_builtins(item), ReplayItem) for item in items]
    except msgspec.ValidationError as wrong:
        raise ContractError(f"the history is not that of the replay projection: {wrong}") from wrong
