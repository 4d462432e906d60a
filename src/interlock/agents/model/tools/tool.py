"""Tools of the model loop: typed Python functions, their schema, and calls that always come to a result.

Laws:
1. Arguments are checked against the function's types before it runs; what does not fit is told to the model.
2. A call comes to one `ToolCallOutcome`: also where the tool raises, outlasts its time, or gives what JSON cannot hold.
3. A tool that does not end when it is cancelled is left behind, after a grace period, and the outcome says so.
4. What a tool gives is bounded: a longer text is cut, and says so.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import typing
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from interlock.agents.model.calls import ToolOffer
from interlock.lifecycle.decisions.toolcall import EndKind
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import PermissionBehavior
from interlock.vocabulary.events.conversation import ToolError
from interlock.vocabulary.events.registry import Json

DEFAULT_TIMEOUT_SECONDS: Final = 600.0
GRACE_SECONDS: Final = 15.0
MAX_OUTPUT_CHARACTERS: Final = 100_000
_MAX_MESSAGE_CHARACTERS: Final = 2000
T = TypeVar("T")


class ToolFailure(Exception):
    """A tool's own way to fail: the model is told `kind` and the message, and `output` if there is some."""

    def __init__(self, kind: str, message: str, output: Json = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.output = output


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallOutcome:
    """What a call came to."""

    output: Json = None
    error: ToolError | None = None


Arguments: TypeAlias = dict[str, Json]
Runner: TypeAlias = Callable[[Arguments], Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool. `settle_arguments` puts arguments into the one form that rules are matched against and that is run.

    `gate` is the tool's own say on a call, besides the permission rules; both must allow it.
    """

    name: str
    description: str
    schema: dict[str, Json]
    run: Runner
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    settle_arguments: Callable[[Arguments], Arguments] = dict
    gate: Callable[[Arguments], PermissionBehavior] = lambda _: PermissionBehavior.ALLOW

    @property
    def offer(self) -> ToolOffer:
        return ToolOffer(name=self.name, description=self.description, schema=self.schema)


def tool_from(
    function: Callable[..., object],
    *,
    name: str = "",
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    settle_arguments: Callable[[Arguments], Arguments] = dict,
    gate: Callable[[Arguments], PermissionBehavior] = lambda _: PermissionBehavior.ALLOW,
) -> Tool:
    """A tool from a function whose arguments all have types. Its docstring is what the model reads.

    A plain function runs in a thread of its own, so that it holds nothing up; an async one in the loop.
    """
    called = name or function.__name__
    arguments = _arguments_type(function, called)

    async def run(given: Arguments) -> object:
        values = msgspec.structs.asdict(msgspec.convert(given, arguments))
        if inspect.iscoroutinefunction(function):
            return await function(**values)
        return await _in_thread(lambda: function(**values))

    return Tool(
        name=called,
        description=inspect.getdoc(function) or "",
        schema=_schema(arguments),
        run=run,
        timeout_seconds=timeout_seconds,
        settle_arguments=lambda given: settle_arguments(_checked(given, arguments)),
        gate=gate,
    )


def _arguments_type(function: Callable[..., object], name: str) -> type[msgspec.Struct]:
    hints = typing.get_type_hints(function, include_extras=True)
    fields: list[Any] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name not in hints or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise UsageError(f"argument {parameter.name!r} of tool {name!r} has no type", remedy="annotate it")
        is_needed = parameter.default is parameter.empty
        field = (parameter.name, hints[parameter.name])
        fields.append(field if is_needed else (*field, parameter.default))
    return msgspec.defstruct(f"{name}_arguments", fields, kw_only=True, forbid_unknown_fields=True)


def _schema(arguments: type[msgspec.Struct]) -> dict[str, Json]:
    try:
        (_,), parts = msgspec.json.schema_components((arguments,))
    except TypeError as wrong:
        raise UsageError(f"{arguments.__name__}: {wrong}", remedy="use types that JSON can hold") from wrong
    schema: dict[str, Json] = dict(parts.pop(arguments.__name__))
    schema.pop("title", None)
    return {**schema, "$defs": parts} if parts else schema


def _checked(given: Arguments, arguments: type[msgspec.Struct]) -> Arguments:
    msgspec.convert(given, arguments)
    return dict(given)


async def _in_thread(function: Callable[[], T]) -> T:
    """Run in a daemon thread. One that hangs is left behind, and keeps neither the loop nor the program."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def settle(value: T | None, wrong: BaseException | None) -> None:
        if result.done():
            return  # nobody waits any more
        if wrong is not None:
            result.set_exception(wrong)
        else:
            result.set_result(typing.cast(T, value))

    def work() -> None:
        value, wrong = None, None
        try:
            value = function()
        except Exception as raised:  # handed to who waits for it
            wrong = raised
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, value, wrong)

    threading.Thread(target=work, name="interlock-tool", daemon=True).start()
    return await result


def settle_arguments(tool: Tool, args: Json) -> Arguments | ToolError:
    """The arguments in their one form, or why they do not fit."""
    if not isinstance(args, dict):
        return ToolError(kind="invalid_arguments", message="the arguments are not a JSON object")
    try:
        return tool.settle_arguments(args)
    except ToolFailure as wrong:
        return ToolError(kind=_own_kind(wrong.kind), message=str(wrong)[:_MAX_MESSAGE_CHARACTERS])
    except Exception as wrong:  # a tool may bring a check of its own, which may raise anything
        return ToolError(kind="invalid_arguments", message=str(wrong)[:_MAX_MESSAGE_CHARACTERS])


async def run_tool(
    tool: Tool, arguments: Mapping[str, Json], *, grace_seconds: float = GRACE_SECONDS
) -> ToolCallOutcome:
    """Run a call. Raises nothing but the caller's own cancellation, and then the tool was cancelled too."""
    running = asyncio.ensure_future(tool.run(dict(arguments)))
    try:
        await asyncio.wait((running,), timeout=tool.timeout_seconds)
        if not running.done():
            return await _overdue(tool, running, grace_seconds)
    except asyncio.CancelledError:
        await _end(running, grace_seconds)
        raise
    return _outcome(running)


async def _overdue(tool: Tool, running: asyncio.Future[object], grace_seconds: float) -> ToolCallOutcome:
    has_ended = await _end(running, grace_seconds)
    what = "was ended" if has_ended else "did not end when it was told to, and may still run"
    return ToolCallOutcome(error=ToolError(kind="tool_timeout", message=f"over {tool.timeout_seconds:g} s; it {what}"))


async def _end(running: asyncio.Future[object], grace_seconds: float) -> bool:
    running.cancel()
    await asyncio.wait((running,), timeout=grace_seconds)
    if running.done() and not running.cancelled():
        running.exception()  # seen: nobody else will ask
    return running.done()


def _outcome(running: asyncio.Future[object]) -> ToolCallOutcome:
    try:
        return ToolCallOutcome(output=_written(running.result()))
    except ToolFailure as wrong:
        error = ToolError(kind=_own_kind(wrong.kind), message=str(wrong)[:_MAX_MESSAGE_CHARACTERS])
        return ToolCallOutcome(output=_written_or_nothing(wrong.output), error=error)
    except asyncio.CancelledError:
        return ToolCallOutcome(error=ToolError(kind="tool_error", message="the tool cancelled itself"))
    except Exception as wrong:  # a tool may raise anything; it is told to the model
        told = f"{type(wrong).__name__}: {wrong}"[:_MAX_MESSAGE_CHARACTERS]
        return ToolCallOutcome(error=ToolError(kind="tool_error", message=told))


def _own_kind(kind: str) -> str:
    """The kinds that say how a call was settled without its tool are not a tool's to use."""
    return "tool_error" if kind in set(EndKind) or not kind.strip() else kind


def _written(result: object) -> Json:
    """What a tool gave, as plain JSON of bounded size."""
    try:
        encoded = msgspec.json.encode(result)
    except (TypeError, ValueError, RecursionError, OverflowError) as wrong:
        raise ToolFailure("unserialisable_result", f"the tool gave what cannot be written as JSON: {wrong}") from wrong
    if len(encoded) <= MAX_OUTPUT_CHARACTERS:
        plain: Json = msgspec.json.decode(encoded)
        return plain
    text = result if isinstance(result, str) else encoded.decode()
    return cut_text(text, MAX_OUTPUT_CHARACTERS)


def _written_or_nothing(output: object) -> Json:
    try:
        return _written(output)
    except ToolFailure:
        return None  # the failure itself is what matters


def cut_text(text: str, characters: int) -> str:
    """The beginning and the end of a text that is too long."""
    if len(text) <= characters:
        return text
    half = characters // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"
