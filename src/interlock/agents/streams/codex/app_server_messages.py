"""What Codex's app-server tells about one thread, translated message by message.

Laws:
1. A message gives a list of observations, never an exception; what is not known is `Traced`, bookkeeping is nothing.
2. Only `turn/completed` of our turn on our thread ends the turn. The status of a thread claims nothing; threads beside
   ours (titles, sub-agents) are traced, and only their questions are passed on.
3. When the agent tries again, the unfinished text of the dead attempt is voided. A message that was told to be whole
   stays: Codex keeps it too.
4. The answer is the last whole message of the turn.
5. A question that is open when its turn ends is gone, and nobody answered it unless we did.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, assert_never

from interlock.agents.observations import (
    ApprovalGone,
    MessageEnded,
    Observation,
    PromptReached,
    RetryBegun,
    SessionNamed,
    TextArrived,
    TextVoided,
    ThoughtArrived,
    TurnEnded,
    TurnEnding,
    Warned,
    traced,
)
from interlock.agents.port import Decision, NotDelivered
from interlock.agents.streams.codex.approvals import CodexQuestion, question_of
from interlock.agents.streams.codex.exec_lines import retry_of
from interlock.agents.streams.codex.items import CodexCalls, item_of, snake
from interlock.agents.streams.codex.usage import ThreadUsage
from interlock.agents.streams.jsonrpc import Answered, Incoming, Notified, PeerId, PeerRefused, RpcRequest, Unread
from interlock.vocabulary.events.audit import DeliveryStage
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.foreign_json import Fields, inner, members, text

_ENDINGS: Final[Mapping[str, TurnEnding]] = {
    "completed": TurnEnding.NATURAL,
    "failed": TurnEnding.ERROR,
    "interrupted": TurnEnding.INTERRUPTED,
}
# What Codex says of itself and what it repeats: no news for us.
_BOOKKEEPING: Final = frozenset(
    {"thread/started", "thread/status/changed", "account/rateLimits/updated", "remoteControl/status/changed"}
    | {"turn/diff/updated", "thread/goal/cleared", "thread/readState/changed"}
)
_SILENT_ITEMS: Final = frozenset({"user_message", "agent_message", "reasoning"})
_WARNINGS: Final = frozenset({"warning", "guardianWarning", "configWarning", "deprecationNotice", "model/rerouted"})


@dataclass(slots=True)
class _Open:
    """A question that is open, and whether we have answered it."""

    peer_id: PeerId
    thread_id: str
    question: CodexQuestion
    is_answered: bool = False


@dataclass(slots=True)
class _Turn:
    """The turn that is open. `writing` and `thought` hold the items that came in pieces."""

    id: str
    writing: set[str] = field(default_factory=set)
    thought: set[str] = field(default_factory=set)
    answer: str | None = None
    error: str = ""


class CodexThread:
    """One thread of an app-server. Feed it every message, in order."""

    def __init__(self) -> None:
        self.id = ""
        self.model = ""
        self._is_prompt_sent = False
        self._turn: _Turn | None = None
        self._calls = CodexCalls()
        self._usage = ThreadUsage()
        self._open: dict[str, _Open] = {}

    # What the driver asks and says

    @property
    def turn_id(self) -> str:
        """The turn that is open; blank if none is."""
        return self._turn.id if self._turn is not None else ""

    @property
    def is_starting(self) -> bool:
        """Whether a prompt is on its way to a turn that has not begun: Codex would not find it to interrupt it."""
        return self._is_prompt_sent

    @property
    def is_busy(self) -> bool:
        """Whether a turn is open, or a prompt on its way."""
        return self._is_prompt_sent or self._turn is not None

    @property
    def has_commands_left(self) -> bool:
        """Whether commands of turns that are over may still run."""
        return bool(self._calls.left)

    def commands_listed(self, answer: Fields) -> list[Observation]:
        """Take in Codex's own list of the commands that run on; a part of one says nothing."""
        if not isinstance(answer.get("data"), list) or answer.get("nextCursor"):
            return []
        running = [text(one, "itemId") for one in members(answer, "data") if isinstance(one, dict)]
        return self._calls.only_run(frozenset(running))

    def prompt_sent(self) -> None:
        self._is_prompt_sent = True

    def prompt_failed(self) -> None:
        self._is_prompt_sent = False

    def knows(self, asked: RpcRequest) -> bool:
        """Whether this request is a question that `reply` can answer; else it must be refused."""
        return _request_id(asked.id) in self._open

    def reply(self, decision: Decision) -> tuple[PeerId, Fields]:
        """The answer to an open question, and the request that it answers. The question counts as answered then."""
        open_question = self._open.get(decision.request_id)
        if open_question is None or open_question.is_answered:
            raise NotDelivered(f"no question {decision.request_id!r} waits for an answer")
        result = open_question.question.reply(decision)
        open_question.is_answered = True
        return open_question.peer_id, result

    def reply_failed(self, decision: Decision) -> None:
        """The answer did not get there: the question is still open."""
        if decision.request_id in self._open:
            self._open[decision.request_id].is_answered = False

    def ended(self) -> list[Observation]:
        """What is left to say once no more messages will come."""
        turn, self._turn = self._turn, None
        if turn is None:
            return []
        if turn.error:
            return [TurnEnded(ending=TurnEnding.ERROR, error_kind="agent_error", error_message=turn.error)]
        return [TurnEnded(ending=TurnEnding.SILENT)]

    # What the agent says

    def read(self, message: Incoming, raw: bytes) -> list[Observation]:
        """What a message tells. `raw` is its line, for the trace."""
        match message:
            case Unread(line=line):
                torn: list[Observation] = [] if line.is_whole else [Warned(kind="torn_line")]
                return [*torn, traced(raw)]
            case PeerRefused():
                return []  # Who asked is told.
            case Answered(method=method, result=result):
                return self._answered(method, result)
            case RpcRequest():
                told = self._asked(message)
            case Notified(method=method, params=params):
                told = self._notified(method, params)
            case _:
                assert_never(message)
        return [traced(raw)] if told is None else told

    def _answered(self, method: str, result: Fields) -> list[Observation]:
        if method in ("thread/start", "thread/resume"):
            return self._named(inner(result, "thread"), is_new=method == "thread/start")
        if method == "turn/start" and self._is_prompt_sent:
            self._begin(text(inner(result, "turn"), "id"))
        return []

    def _named(self, thread: Fields, *, is_new: bool) -> list[Observation]:
        if not text(thread, "id"):
            return []
        self.id, self.model = text(thread, "id"), text(thread, "model")
        if is_new:
            self._usage.begin_thread()
        path, version = text(thread, "path"), text(thread, "cliVersion")
        return [SessionNamed(native_session_id=self.id, model=self.model, version=version, transcript_path=path)]

    def _asked(self, asked: RpcRequest) -> list[Observation] | None:
        thread_id, item_id = text(asked.params, "threadId"), text(asked.params, "itemId")
        question = question_of(
            asked,
            _request_id(asked.id),
            call_id=item_id if item_id in self._calls.open else "",
            sub_agent="" if thread_id in ("", self.id) else thread_id,
        )
        if question is None:
            return None
        self._open[question.shown.request_id] = _Open(asked.id, thread_id, question)
        return [question.shown]

    def _notified(self, method: str, params: Fields) -> list[Observation] | None:
        if method == "serverRequest/resolved":
            return self._resolved(params.get("requestId"))
        if text(params, "threadId") not in ("", self.id):
            return None
        if method in _BOOKKEEPING:
            return []
        if method in _WARNINGS:
            return [Warned(kind=snake(method).replace("/", "_"), message=_warning(params))]
        match method:
            case "turn/started":
                return self._started(text(inner(params, "turn"), "id"))
            case "turn/completed":
                return self._completed(inner(params, "turn"))
            case "thread/tokenUsage/updated":
                return self._usage.read(inner(params, "tokenUsage"), self.model)
            case "thread/closed":
                return [Warned(kind="thread_closed", message="Codex has put the thread away")]
            case _:
                return self._in_turn(method, params)

    def _resolved(self, peer_id: Json) -> list[Observation] | None:
        gone = self._open.pop(_request_id(peer_id), None) if isinstance(peer_id, int | str) else None
        if gone is None:
            return None
        return [ApprovalGone(request_id=gone.question.shown.request_id, is_answered=gone.is_answered)]

    # A turn

    def _begin(self, turn_id: str) -> None:
        if turn_id and turn_id != self.turn_id:
            self._turn = _Turn(turn_id)
            self._usage.begin_turn()

    def _started(self, turn_id: str) -> list[Observation] | None:
        if not turn_id:
            return None
        self._begin(turn_id)
        if not self._is_prompt_sent:
            return [Warned(kind="unasked_turn", message="Codex began a turn without a prompt")]
        self._is_prompt_sent = False
        return [PromptReached(stage=DeliveryStage.STARTED)]

    def _completed(self, told: Fields) -> list[Observation] | None:
        turn = self._turn
        if turn is None or text(told, "id") != turn.id:
            return None
        self._turn, self._is_prompt_sent = None, False
        status = text(told, "status")
        ending = _ENDINGS.get(status, TurnEnding.ERROR)
        waiting = frozenset(one.question.shown.call_id for one in self._open.values() if not one.is_answered)
        left = self._calls.leave(is_natural=ending is TurnEnding.NATURAL, waiting=waiting)
        return [*self._gone(), *left, _ended(turn, ending, told)]

    def _gone(self) -> list[Observation]:
        """Our thread asks nothing any more. Questions of other threads stay."""
        ours = [name for name, one in self._open.items() if one.thread_id in ("", self.id)]
        return [ApprovalGone(request_id=name, is_answered=self._open.pop(name).is_answered) for name in ours]

    def _in_turn(self, method: str, params: Fields) -> list[Observation] | None:
        turn = self._turn
        if turn is None or text(params, "turnId") != turn.id:
            return self._calls.ended_late(item_of(params)) if method == "item/completed" else None
        item_id, delta = text(params, "itemId"), text(params, "delta")
        match method:
            case "item/agentMessage/delta" if delta:
                turn.writing.add(item_id)
                return [TextArrived(text=delta, message_id=item_id)]
            case "item/reasoning/summaryTextDelta" | "item/reasoning/textDelta" if delta:
                turn.thought.add(item_id)
                return [ThoughtArrived(text=delta)]
            case "item/started":
                item = item_of(params)
                return [] if text(item, "type") in _SILENT_ITEMS else self._calls.began(item)
            case "item/completed":
                return self._item_completed(turn, item_of(params))
            case "error":
                return _failing(turn, params)
            case _:
                return None

    def _item_completed(self, turn: _Turn, item: Fields) -> list[Observation] | None:
        item_id = text(item, "id")
        match text(item, "type"):
            case "agent_message":
                turn.writing.discard(item_id)
                turn.answer = text(item, "text")
                return [MessageEnded(text=turn.answer, message_id=item_id, model=self.model)]
            case "reasoning":
                parts = members(item, "summary") or members(item, "content")
                thought = "\n".join(part for part in parts if isinstance(part, str))
                return [ThoughtArrived(text=thought)] if thought and item_id not in turn.thought else []
            case "user_message":
                return []
            case "sub_agent_activity":
                return self._calls.agent_moved(item)
            case _:
                return self._calls.ended(item)


def _request_id(peer_id: PeerId) -> str:
    """A number and a word are two ids, also where they are spelled alike."""
    return f'"{peer_id}"' if isinstance(peer_id, str) else str(peer_id)


def _warning(params: Fields) -> str:
    if target := text(params, "toModel"):
        return f"the model is {target} now, not {text(params, 'fromModel')}"
    return text(params, "message") or text(params, "summary")


def _failing(turn: _Turn, params: Fields) -> list[Observation] | None:
    error = inner(params, "error")
    message, more = text(error, "message"), text(error, "additionalDetails")
    if params.get("willRetry") is not True:
        turn.error = message or "an error without a word"
        return None
    retry = retry_of(message)
    whole = f"{message} ({more})" if more else message
    told: list[Observation] = [RetryBegun(message=whole, attempt=retry.attempt if retry else None)]
    if turn.writing:
        turn.writing.clear()
        told.append(TextVoided(reason=whole))
    return told


def _ended(turn: _Turn, ending: TurnEnding, told: Fields) -> TurnEnded:
    if ending is TurnEnding.INTERRUPTED:
        return TurnEnded(ending=ending)
    if ending is TurnEnding.NATURAL:
        return TurnEnded(ending=ending, text=_answer(members(told, "items")) or turn.answer)
    error = inner(told, "error")
    info = error.get("codexErrorInfo")
    kind = info if isinstance(info, str) else next(iter(info), "") if isinstance(info, dict) else ""
    status = text(told, "status")
    message = text(error, "message") or turn.error or f"the turn ended as {status[:100]!r} without a word"
    more = text(error, "additionalDetails")
    details: Json = {"additional_details": more} if more else None
    return TurnEnded(ending=ending, error_kind=snake(kind) or "agent_error", error_message=message, details=details)


def _answer(items: list[Json]) -> str:
    """The last message among the items that a finished turn repeats."""
    texts = [text(item, "text") for item in items if isinstance(item, dict) and text(item, "type") == "agentMessage"]
    return texts[-1] if texts else ""
