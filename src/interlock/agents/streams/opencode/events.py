"""What opencode's server tells by its event stream. Pure.

Laws:
1. A turn ends when the session becomes idle after it was busy with this prompt. An idle that trails the turn before
   does not count.
2. A tool part that is `running` may still be asked about, and a question may come before its tool part: it is always
   told, after its call.
3. A retry voids the text of the dead attempt, and its parts are not listened to any more.
4. Sessions of other people are left out; those that ours started are told as its children.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from interlock.agents.observations import (
    ApprovalGone,
    MessageEnded,
    Observation,
    PromptReached,
    RetryBegun,
    TextArrived,
    TextVoided,
    ThoughtArrived,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    TurnEnding,
    UsageReported,
    UsageScope,
    traced,
)
from interlock.agents.streams.opencode.questions import permission, question
from interlock.vocabulary.events.audit import DeliveryStage
from interlock.vocabulary.events.conversation import ToolError
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.foreign_json import amount, as_text, count, mapping, string

_ABORTED: Final = "MessageAbortedError"
_GONE: Final = {"permission.replied": True, "question.replied": True, "question.rejected": True}


class OpencodeEvents:
    """The events of one session. `begin` it for each prompt."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self._children: set[str] = set()
        self._is_open = False
        self._begin_anew()

    @property
    def is_turn_open(self) -> bool:
        return self._is_open

    def begin(self) -> None:
        """A prompt is being given: what comes from now on is about it."""
        self._is_open = True
        self._begin_anew()

    def undo(self) -> None:
        """The prompt did certainly not arrive."""
        self._is_open = False

    def interrupting(self) -> None:
        """The turn is being broken off at our wish."""
        self._is_interrupting = True

    def feed(self, event: Mapping[str, Json]) -> list[Observation]:
        """What one event means. It never raises."""
        kind, said = string(event.get("type")), mapping(event.get("properties"))
        session = string(said.get("sessionID"))
        info = mapping(said.get("info"))
        if kind == "session.created" and string(info.get("parentID")) in (self.session_id, *self._children):
            self._children.add(session)
            return []
        if session in self._children:
            return self._of_child(kind, said, session)
        return self._own(kind, said) if session == self.session_id and self._is_open else []

    def ended(self) -> list[Observation]:
        """Nothing more will be told. An open turn ends without a word."""
        was_open, self._is_open = self._is_open, False
        return [TurnEnded(ending=TurnEnding.SILENT)] if was_open else []

    def _begin_anew(self) -> None:
        self._roles: dict[str, str] = {}
        self._kinds: dict[str, str] = {}
        self._dead: set[str] = set()
        self._writing: set[str] = set()
        self._told: set[str] = set()
        self._returned: set[str] = set()
        self._has_started = self._is_accepted = self._is_interrupting = False
        self._finish, self._error = "", mapping(None)

    def _own(self, kind: str, said: Mapping[str, Json]) -> list[Observation]:
        match kind:
            case "message.updated":
                return self._message(mapping(said.get("info")))
            case "session.status":
                return self._status(mapping(said.get("status")))
            case "session.error":
                self._error = mapping(said.get("error"))
                return []
            case "message.part.delta" | "message.part.updated" | "permission.asked" | "question.asked":
                return self._content(kind, said, "")
            case _ if kind in _GONE:
                return [ApprovalGone(request_id=string(said.get("requestID")))]
            case "session.idle" | "session.updated" | "session.diff":
                return []
            case _:
                return [traced(as_text(dict(said)))]

    def _of_child(self, kind: str, said: Mapping[str, Json], child: str) -> list[Observation]:
        if kind == "message.updated":
            info = mapping(said.get("info"))
            self._roles[string(info.get("id"))] = string(info.get("role"))
        if kind in _GONE:
            return [ApprovalGone(request_id=string(said.get("requestID")))]
        return self._content(kind, said, child)

    def _content(self, kind: str, said: Mapping[str, Json], child: str) -> list[Observation]:
        match kind:
            case "message.part.delta":
                return self._delta(said, child)
            case "message.part.updated":
                return self._part(mapping(said.get("part")), child)
            case "permission.asked":
                return [*self._asked_about(said, child), *permission(said, child)]
            case "question.asked":
                return question(said, child)
            case _:
                return []

    def _asked_about(self, said: Mapping[str, Json], child: str) -> list[Observation]:
        """The call that a question is about, where the question comes before the call itself."""
        call_id, name = string(mapping(said.get("tool")).get("callID")), string(said.get("permission"))
        if not call_id or call_id in self._told:
            return []
        self._told.add(call_id)
        return [ToolCalled(call_id=call_id, name=name or "tool", args=said.get("metadata"), sub_agent=child)]

    def _message(self, info: Mapping[str, Json]) -> list[Observation]:
        role = string(info.get("role"))
        self._roles[string(info.get("id"))] = role
        if role == "assistant":
            self._finish = string(info.get("finish"))
            self._error = mapping(info.get("error")) or self._error
        if role != "user" or self._is_accepted:
            return []
        self._is_accepted = True
        return [PromptReached(stage=DeliveryStage.ACCEPTED)]

    def _status(self, status: Mapping[str, Json]) -> list[Observation]:
        match status.get("type"):
            case "busy" if not self._has_started:
                self._has_started = True
                return [PromptReached(stage=DeliveryStage.STARTED)]
            case "retry":
                reason, attempt = string(status.get("message")), count(status.get("attempt"))
                voided: list[Observation] = [TextVoided(reason=reason)] if self._writing else []
                self._dead |= self._writing
                self._writing.clear()
                return [*voided, RetryBegun(message=reason, attempt=attempt)]
            case "idle" if self._has_started or self._error:
                self._is_open = False
                return [self._ending()]
            case _:
                return []

    def _ending(self) -> TurnEnded:
        if self._error.get("name") == _ABORTED or (self._is_interrupting and self._finish != "stop"):
            return TurnEnded(ending=TurnEnding.INTERRUPTED)
        if self._error:
            message = string(mapping(self._error.get("data")).get("message")) or string(self._error.get("name"))
            return TurnEnded(ending=TurnEnding.ERROR, error_kind="agent_error", error_message=message)
        match self._finish:
            case "stop" | "tool-calls":  # it stops after a call that was refused
                return TurnEnded(ending=TurnEnding.NATURAL)
            case "length":
                return TurnEnded(ending=TurnEnding.STOPPED, stop_code="token_budget")
            case "":
                return TurnEnded(ending=TurnEnding.SILENT)
            case other:
                said = f"the agent ended by {other[:200]!r}"
                return TurnEnded(ending=TurnEnding.ERROR, error_kind="unknown_stop_reason", error_message=said)

    def _delta(self, said: Mapping[str, Json], child: str) -> list[Observation]:
        part, delta = string(said.get("partID")), string(said.get("delta"))
        is_ours = self._roles.get(string(said.get("messageID"))) == "assistant"
        if not is_ours or not delta or part in self._dead or said.get("field") != "text":
            return []
        if self._kinds.get(part) == "reasoning":
            return [ThoughtArrived(text=delta, sub_agent=child)]
        if not child:
            self._writing.add(part)
        return [TextArrived(text=delta, message_id=part, sub_agent=child)]

    def _part(self, part: Mapping[str, Json], child: str) -> list[Observation]:
        part_id, kind = string(part.get("id")), string(part.get("type"))
        self._kinds[part_id] = kind
        is_ours = self._roles.get(string(part.get("messageID"))) == "assistant"
        match kind:
            case "text" if is_ours and part_id not in self._dead and "end" in mapping(part.get("time")):
                text = string(part.get("text"))
                self._writing.discard(part_id)
                self._dead.add(part_id)
                return [MessageEnded(text=text, message_id=part_id, sub_agent=child)] if text else []
            case "tool":
                return self._tool(part, child)
            case "step-finish" if not child:
                return _usage(part)
            case _:
                return []

    def _tool(self, part: Mapping[str, Json], child: str) -> list[Observation]:
        call_id, state = string(part.get("callID")), mapping(part.get("state"))
        status = string(state.get("status"))
        if not call_id or call_id in self._returned or status not in ("running", "completed", "error"):
            return []
        name, args = string(part.get("tool")) or "tool", state.get("input")
        called: list[Observation] = []
        if call_id not in self._told:
            self._told.add(call_id)
            called.append(ToolCalled(call_id=call_id, name=name, args=args, sub_agent=child))
        if status == "running":
            return called
        self._returned.add(call_id)
        return [*called, _returned(call_id, state, child)]


def _returned(call_id: str, state: Mapping[str, Json], child: str) -> ToolReturned:
    if state.get("status") == "completed":
        return ToolReturned(call_id=call_id, output=state.get("output"), sub_agent=child)
    message = string(state.get("error")) or "the agent gave no reason"
    kind = "denied" if "rejected permission" in message else "tool_failed"
    return ToolReturned(call_id=call_id, error=ToolError(kind=kind, message=message), sub_agent=child)


def _usage(part: Mapping[str, Json]) -> list[Observation]:
    """The figures of one model call. A model without a price costs 0 here, which nobody knows to be true."""
    tokens = mapping(part.get("tokens"))
    report = UsageReported(
        scope=UsageScope.CALL,
        input_tokens=count(tokens.get("input")),
        output_tokens=count(tokens.get("output")),
        cached_input_tokens=count(mapping(tokens.get("cache")).get("read")),
        cost_usd=amount(part.get("cost")) or None,
    )
    return [report] if tokens else []
