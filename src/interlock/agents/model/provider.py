"""Any provider through the model layer of pydantic-ai, without its agent loop. Imports pydantic-ai: load it late."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final, cast

from pydantic_ai import exceptions as faults
from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import (
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
)
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse, infer_model
from pydantic_ai.providers import Provider, infer_provider, infer_provider_class
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from interlock.agents.model.calls import (
    CallFault,
    FaultKind,
    ModelQuestion,
    ModelTextDelta,
    Piece,
    ThoughtDelta,
    ToolOffer,
)
from interlock.agents.model.wire import answer_of, clean, messages_of
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.registry import Json

MAX_MESSAGE_CHARACTERS: Final = 500
_OVERFLOW_WORDS: Final = ("prompt is too long", "context length", "context window", "maximum context")


def open_model(name: str, *, base_url: str, environment: Mapping[str, str]) -> Model:
    """The model called `provider:model`. `UsageError` if there is no such provider, or it lacks a key."""

    def provider(provider_name: str) -> Provider[Any]:
        key = environment.get(f"{provider_name.partition('-')[0].upper()}_API_KEY")
        given = {"base_url": base_url, "api_key": key}
        given = {word: value for word, value in given.items() if value}
        return infer_provider_class(provider_name)(**given) if given else infer_provider(provider_name)

    try:
        return infer_model(name, provider_factory=provider)
    except (faults.UserError, ImportError, TypeError, ValueError) as wrong:
        raise UsageError(f"the model {name!r} cannot be used: {wrong}", remedy="name it provider:model") from wrong


class PydanticCaller:
    """A model of pydantic-ai as a `ModelCaller`. It tries each call once: the loop decides what is tried again."""

    def __init__(
        self,
        model: Model,
        *,
        name: str = "",
        settings: Mapping[str, Json] | None = None,
        window_tokens: int | None = None,
        is_ours: bool = True,
    ) -> None:
        """`is_ours`: nobody else uses the model, and `close` closes its connections."""
        self._model = model
        self._is_ours = is_ours
        self._name = name or model.model_id
        self._settings = cast(ModelSettings, {**(settings or {}), "max_retries": 0})
        self._window_tokens = window_tokens

    @property
    def name(self) -> str:
        return self._name

    @property
    def window_tokens(self) -> int | None:
        return self._window_tokens or self._model.context_window

    async def call(self, question: ModelQuestion) -> AsyncGenerator[Piece, None]:
        """Ask, and give the answer as it comes. `CallFault` if it did not come whole."""
        messages = messages_of(question.items, question.instructions)
        parameters = ModelRequestParameters(function_tools=[_definition(tool) for tool in question.tools])
        try:
            async with model_request_stream(
                self._model, messages, model_settings=self._settings, model_request_parameters=parameters
            ) as stream:
                async for event in stream:
                    piece = _delta(event)
                    if piece is not None:
                        yield piece
                yield _whole(stream)
        except CallFault:
            raise
        except Exception as wrong:  # The edge of a foreign library, whose errors are many: each becomes a `CallFault`.
            raise fault_of(wrong) from wrong

    async def close(self) -> None:
        """Let go of the connections that the provider opened for us."""
        if self._is_ours:
            async with self._model:
                pass


def _definition(tool: ToolOffer) -> ToolDefinition:
    return ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=dict(tool.schema))


def _delta(event: object) -> ModelTextDelta | ThoughtDelta | None:
    match event:
        case PartStartEvent(part=TextPart(content=text)) | PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
            return ModelTextDelta(clean(text)) if text else None
        case PartStartEvent(part=ThinkingPart(content=text)):
            return ThoughtDelta(clean(text)) if text else None
        case PartDeltaEvent(delta=ThinkingPartDelta(content_delta=str(text))):
            return ThoughtDelta(clean(text)) if text else None
        case _:
            return None


def _whole(stream: StreamedResponse) -> Piece:
    response = stream.get()
    if response.finish_reason == "content_filter":
        raise CallFault(FaultKind.CONTENT_FILTER, "the provider withheld the rest of the answer")
    if response.finish_reason == "error":
        raise CallFault(FaultKind.SERVER, "the provider ended the answer with an error")
    if response.state != "complete":
        raise CallFault(FaultKind.CONNECTION, f"the answer ended before it was whole ({response.state})")
    return answer_of(response)


_KINDS: Final[tuple[tuple[type[Exception], FaultKind], ...]] = (
    (faults.ModelContextWindowExceededError, FaultKind.CONTEXT_OVERFLOW),
    (faults.ModelAuthenticationError, FaultKind.AUTH),
    (faults.ModelQuotaExceededError, FaultKind.QUOTA),
    (faults.ModelRateLimitError, FaultKind.RATE_LIMIT),
    (faults.ModelTimeoutError, FaultKind.TIMEOUT),
    (faults.ModelRequestTimeout, FaultKind.TIMEOUT),
    (faults.ModelConnectionError, FaultKind.CONNECTION),
    (faults.ModelUnavailableError, FaultKind.SERVER),
    (faults.ModelServerError, FaultKind.SERVER),
    (faults.ContentFilterError, FaultKind.CONTENT_FILTER),
    (TimeoutError, FaultKind.TIMEOUT),
    (OSError, FaultKind.CONNECTION),
)


def fault_of(wrong: Exception) -> CallFault:
    """What a failure of the library comes to. What is not known is the client's, and is not tried again."""
    kind = next((kind for known, kind in _KINDS if isinstance(wrong, known)), FaultKind.CLIENT)
    if kind is FaultKind.CLIENT and any(words in str(wrong).lower() for words in _OVERFLOW_WORDS):
        kind = FaultKind.CONTEXT_OVERFLOW
    # A refusal of credentials may repeat them: its text stays out of our log.
    message = "the provider refused the credentials" if kind is FaultKind.AUTH else str(wrong)
    retry_after = wrong.retry_after if isinstance(wrong, faults.ModelAPIError) else None
    return CallFault(kind, message[:MAX_MESSAGE_CHARACTERS], retry_after_seconds=retry_after)
