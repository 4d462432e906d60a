"""Claude Code's stream-json, line by line, as observations.

Laws:
1. No line raises, and each gives at least one observation: every line is a sign of life. One that is known and says
   nothing new is `Traced` by a short label, one that is not known by its own text.
2. `TurnEnded` is told for the prompt that was written, and once: by the first result after the agent said that it began
   with that prompt (or, where it says no such thing, by a result that no background task caused).
3. A turn that the agent began by itself (a background task ended, a timer rang) ends in `BecameReady`, not in
   `TurnEnded`; what it cost is one more call. What it says on the way comes as any text. Where the agent tells its
   state, `BecameReady` rests on that: it is told whenever the agent comes to rest with no prompt to work on.
4. The work that is still open in the background is told just before `TurnEnded`.
5. What it remembers is bounded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from interlock.agents.observations import (
    TRACE_MAX_CHARACTERS,
    BecameReady,
    ChildrenChanged,
    Observation,
    PromptReached,
    RetryBegun,
    SessionNamed,
    Traced,
    TurnEnded,
    TurnEnding,
    UsageReported,
    UsageScope,
    Warned,
    traced,
)
from interlock.agents.streams.claude.frames import (
    Children,
    blocks_of,
    error_message,
    is_follow_up,
    is_good,
    label,
    tool_returned,
    turn_ended,
)
from interlock.agents.streams.claude.messages import Costs, Messages, turn_usage, window_tokens
from interlock.agents.streams.claude.questions import Asking
from interlock.vocabulary.events.audit import DeliveryStage
from interlock.vocabulary.foreign_json import Fields, count_of, decode_object, inner, members, text

STALE_RESUME: Final = "No conversation found"
_INTERRUPTED: Final = "[Request interrupted by user"
_MAX_REMEMBERED: Final = 1024


@dataclass(frozen=True, slots=True)
class _Prompt:
    uuid: str
    stage: DeliveryStage = DeliveryStage.TYPED


class ClaudeLines:
    """The reader of one process. `is_resumed`: its session has a past, whose cost is not this one's."""

    def __init__(self, *, is_resumed: bool = False) -> None:
        self._messages = Messages()
        self._children = Children()
        self._costs = Costs(is_resumed=is_resumed)
        self._prompt: _Prompt | None = None
        self._session_id = ""
        self._tells_lifecycle = False
        self._tells_state = False
        self._was_interrupted = False
        self._error_kind = ""
        self._denied: dict[str, None] = {}
        self.asking = Asking()
        self.is_stale_resume = False
        self._readers: Final[dict[str, Callable[[Fields], list[Observation]]]] = {
            "system": self._system,
            "stream_event": lambda frame: self._messages.stream_event(inner(frame, "event"), _writer(frame)),
            "assistant": self._assistant,
            "user": self._user,
            "result": self._result,
            "command_lifecycle": self._lifecycle,
            "control_request": lambda frame: self.asking.request(frame, self._children.call_of),
            "control_response": self.asking.response,
            "control_cancel_request": lambda frame: self.asking.close(text(frame, "request_id"), is_answered=False),
            "rate_limit_event": _rate_limit,
        }

    @property
    def has_open_turn(self) -> bool:
        return self._prompt is not None

    def prompt_written(self, uuid: str) -> None:
        """A prompt goes to the agent now, under this id; a turn is open from here on."""
        self._prompt = _Prompt(uuid)
        self._was_interrupted = False

    def prompt_withdrawn(self) -> None:
        """The prompt did not go out after all."""
        self._prompt = None

    def feed(self, line: bytes) -> list[Observation]:
        """Read one line."""
        frame = decode_object(line)
        if frame is None:
            is_broken = line.lstrip()[:1] == b"{"
            broken: list[Observation] = [Warned(kind="broken_line", message=f"{len(line)} bytes are no whole JSON")]
            return [*(broken if is_broken else []), traced(line)]
        reader = self._readers.get(text(frame, "type"))
        if reader is None:
            return [traced(line)]
        return reader(frame) or [Traced(raw=label(frame))]

    def end(self) -> list[Observation]:
        """No more lines will come: what was open is over without a word."""
        seen = self.asking.end()
        if self._prompt is not None:
            self._prompt = None
            message = "the agent's output ended in mid-turn"
            seen.append(TurnEnded(ending=TurnEnding.SILENT, error_message=message))
        return seen

    # Where the prompt is

    def _reach(self, stage: DeliveryStage) -> list[Observation]:
        order = (DeliveryStage.TYPED, DeliveryStage.ACCEPTED, DeliveryStage.STARTED)
        if self._prompt is None or order.index(stage) <= order.index(self._prompt.stage):
            return []
        self._prompt = replace(self._prompt, stage=stage)
        return [PromptReached(stage=stage)]

    def _lifecycle(self, frame: Fields) -> list[Observation]:
        self._tells_lifecycle = True
        if self._prompt is None or text(frame, "command_uuid") != self._prompt.uuid:
            return []
        match text(frame, "state"):
            case "queued":
                return self._reach(DeliveryStage.ACCEPTED)
            case "started":
                return self._reach(DeliveryStage.STARTED)
            case "cancelled" if self._prompt.stage is not DeliveryStage.STARTED:
                self._prompt = None
                return [TurnEnded(ending=TurnEnding.INTERRUPTED, error_message="cancelled before it was begun")]
            case "completed" if self._prompt.stage is not DeliveryStage.STARTED:
                return self._known_already()
            case _:
                return []

    def _known_already(self) -> list[Observation]:
        """The session holds this very prompt with its answer: the agent does nothing for it now."""
        reached = self._reach(DeliveryStage.ACCEPTED)
        self._prompt = None
        message = "the agent had this prompt before, and did not take it again"
        ended = TurnEnded(ending=TurnEnding.SILENT, error_kind="prompt_known_already", error_message=message)
        return [*reached, ended]

    # What it says of itself

    def _system(self, frame: Fields) -> list[Observation]:
        match text(frame, "subtype"):
            case "init":
                return self._init(frame)
            case "api_retry":
                return self._retry(frame)
            case "permission_denied":
                return self._permission_denied(frame)
            case "session_state_changed":
                return self._state(text(frame, "state"))
            case _:
                return self._children.system(frame)

    def _state(self, state: str) -> list[Observation]:
        self._tells_state = True
        if state != "idle":
            return []
        return [*self._children.model_has_heard(), *([BecameReady()] if self._prompt is None else [])]

    def _init(self, frame: Fields) -> list[Observation]:
        """Each turn begins with one; only another session id is news."""
        seen: list[Observation] = []
        session_id = text(frame, "session_id")
        if session_id and session_id != self._session_id:
            self._session_id = session_id
            version = text(frame, "claude_code_version")
            seen.append(SessionNamed(native_session_id=session_id, model=text(frame, "model"), version=version))
        names_it = self._prompt is not None and self._prompt.uuid in members(frame, "user_message_uuids")
        if names_it or not self._tells_lifecycle:
            seen += self._reach(DeliveryStage.STARTED)
        return seen

    def _retry(self, frame: Fields) -> list[Observation]:
        attempt, most = count_of(frame, "attempt"), count_of(frame, "max_retries")
        status, error = count_of(frame, "error_status"), text(frame, "error")[:64] or "unknown"
        why = f"{error} (HTTP {status})" if status is not None else error
        begun = RetryBegun(message=f"{why}, attempt {attempt} of {most}", attempt=attempt)
        return [begun, *self._messages.void(why)]

    def _permission_denied(self, frame: Fields) -> list[Observation]:
        call_id, name = text(frame, "tool_use_id"), text(frame, "tool_name")
        _remember(self._denied, call_id)
        message = text(frame, "message")[:TRACE_MAX_CHARACTERS]
        return [Warned(kind="permission_denied", message=message, details={"call_id": call_id, "tool": name})]

    # What it does

    def _assistant(self, frame: Fields) -> list[Observation]:
        for block in blocks_of(frame):
            if block.get("name") == "ExitPlanMode":
                self.asking.plan_written(text(inner(block, "input"), "plan"))
        if frame.get("is_api_error_message") is True:
            self._error_kind = text(frame, "error")[:64]
        return self._messages.frame(frame, _writer(frame))

    def _user(self, frame: Fields) -> list[Observation]:
        seen: list[Observation] = []
        for block in blocks_of(frame):
            if text(block, "type") == "tool_result":
                seen += self.asking.call_returned(text(block, "tool_use_id"))
                seen.append(tool_returned(frame, block, _writer(frame), frozenset(self._denied)))
            elif text(block, "text").startswith(_INTERRUPTED) and not _writer(frame) and "isReplay" not in frame:
                self._was_interrupted = True
        return seen

    def _result(self, frame: Fields) -> list[Observation]:
        if any(isinstance(one, str) and one.startswith(STALE_RESUME) for one in members(frame, "errors")):
            self.is_stale_resume = True
        cost_usd = self._costs.turn(frame)
        self._messages.window_tokens = window_tokens(frame) or self._messages.window_tokens
        self._messages.end()
        children = [] if self._tells_state else self._children.model_has_heard()
        seen = self._own_result(frame, cost_usd) if self._is_own(frame) else self._follow_up(frame, cost_usd)
        self._error_kind = ""
        self._was_interrupted = False
        return [*children, *seen]

    def _is_own(self, frame: Fields) -> bool:
        if self._prompt is None:
            return False
        return self._prompt.stage is DeliveryStage.STARTED if self._tells_lifecycle else not is_follow_up(frame)

    def _own_result(self, frame: Fields, cost_usd: float | None) -> list[Observation]:
        self._prompt = None
        seen = self.asking.turn_ended()
        usage = turn_usage(frame, cost_usd)
        if usage is not None:
            seen.append(usage)
        if self._children.open:
            seen.append(ChildrenChanged(open=self._children.open))
        seen.append(turn_ended(frame, error_kind=self._error_kind, was_interrupted=self._was_interrupted))
        return seen

    def _follow_up(self, frame: Fields, cost_usd: float | None) -> list[Observation]:
        seen: list[Observation] = []
        if cost_usd:
            seen.append(UsageReported(scope=UsageScope.CALL, cost_usd=cost_usd))
        if not is_good(frame):
            seen.append(Warned(kind="failed_without_prompt", message=error_message(frame)))
        elif self._prompt is None and not self._tells_state:
            seen.append(BecameReady())
        return seen


def _writer(frame: Fields) -> str:
    """The sub-agent that a frame comes from, by the call that started it; blank for the agent itself."""
    return text(frame, "parent_tool_use_id")


def _rate_limit(frame: Fields) -> list[Observation]:
    info = inner(frame, "rate_limit_info")
    status = text(info, "status")[:64]
    return [] if status in ("", "allowed") else [Warned(kind="rate_limit", message=status, details=dict(info))]


def _remember(names: dict[str, None], name: str) -> None:
    names[name] = None
    if len(names) > _MAX_REMEMBERED:
        del names[next(iter(names))]
