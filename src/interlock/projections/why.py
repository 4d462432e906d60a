"""`why`: the verdict about a turn and its chain of evidence, from the log as it stood.

Laws:
1. The verdict is that of the one classifier over a prefix of the log; nothing is judged here.
2. What was seen and did not count is listed too, each with the reason.
3. "As it stood" at a sequence number: the events up to it. At a time: the longest prefix of which no event bears a
   later time. Order comes from the log, so a clock that jumped ahead makes this reading show less than was known, never
   more; `is_time_doubtful` says so when later events bear earlier times. A sequence number is exact.
4. A turn that the prefix does not hold has no state: that is the answer, and no error.
5. Where events were lost by then that leave the turn open, it is `unknown`: its path ends with that loss. At a time it
   is not known whether a loss came before it: what directly follows the prefix counts as lost.
6. What explains a turn stands at or after its first event, so a part of the log from there on says the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import takewhile
from typing import Final

from msgspec import Struct, structs

from interlock.lifecycle.turn import Basis, Finding, has_answer, is_clean_end
from interlock.lifecycle.turns import TurnRecord
from interlock.log.port import LogDamage, TurnSlice
from interlock.projections.sentences import sentence
from interlock.projections.turn_evidence import Dossier, dossiers_in, dossiers_of
from interlock.vocabulary.actions import NextAction, diagnose_session, inspect_log
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import (
    PermissionDecision,
    ProcessEvent,
    ProcessEventKind,
    StreamCheckpoint,
    SurfaceEvent,
    SurfaceResult,
    TurnReply,
    TurnStarted,
)
from interlock.vocabulary.events.conversation import AssistantMessage, ToolCall, ToolResult, UserMessage
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.workspace import FileReviewed, WorkspaceChanged
from interlock.vocabulary.evidence import Evidence, Moment
from interlock.vocabulary.ids import SessionId, TurnId
from interlock.vocabulary.states import Activity, Attention, TurnState

_OF_FILES: Final = (WorkspaceChanged, FileReviewed)


class Piece(Struct, frozen=True, kw_only=True):
    """One event of the chain. `because` is empty for what counted, and says why not for what did not."""

    seq: int | None
    at: Moment
    type: str
    says: str
    because: str = ""


class PathStep(Struct, frozen=True, kw_only=True):
    """A change of the turn's state, and the event that made it."""

    seq: int | None
    at: Moment
    before: TurnState | None = None
    after: TurnState
    says: str


class SurfaceStep(Struct, frozen=True, kw_only=True):
    """A verdict about the terminal during the turn, with its rules and the rows that decided.

    `ended`: what the end of the turn rests on, on the step that was written with it.
    """

    seq: int | None
    at: Moment
    activity: Activity
    attention: Attention = Attention.NONE
    rules: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    rows: str = ""
    frame_sha256: str = ""
    profile: str = ""
    ended: SurfaceResult | None = None


class Explanation(Struct, frozen=True, kw_only=True):
    """Why a turn stands as it does. Without `record` the log, as far as it was read, holds no such turn.

    `reply`: whether the answer has the form that its prompt asked for. `by_rule`: questions that rules answered.
    `files`: what was recorded of the work tree at the edges of the turn, and of reviews of its changes.
    `missing` is what `completed` would have needed and did not have. `as_of_seq` is the last event that was read.
    """

    session_id: SessionId | None
    turn_id: TurnId | None
    as_of_seq: int | None
    record: TurnRecord | None = None
    evidence: tuple[Piece, ...] = ()
    not_counted: tuple[Piece, ...] = ()
    path: tuple[PathStep, ...] = ()
    surface: tuple[SurfaceStep, ...] = ()
    reply: TurnReply | None = None
    by_rule: tuple[Piece, ...] = ()
    files: tuple[Piece, ...] = ()
    missing: tuple[str, ...] = ()
    is_final: bool = False
    is_time_doubtful: bool = False
    other_events: int = 0
    next_actions: tuple[NextAction, ...] = ()


def why(
    events: Iterable[Event],
    damage: Iterable[LogDamage] = (),
    *,
    turn_id: TurnId | None = None,
    at: datetime | int | None = None,
    owner_alive: bool = True,
) -> Explanation:
    """Explain a turn, by default the one that began last, as the log stood at a sequence number or a time."""
    log = [event for event in events if event.seq is not None]
    known = _prefix(log, at)
    is_doubtful = isinstance(at, datetime) and any(event.ts <= at for event in log[len(known) :])
    turns = dossiers_of(known, _lost_by(damage, known, at), owner_alive=owner_alive)
    return _choose(turns, log, known, turn_id, is_doubtful=is_doubtful)


def why_last(part: TurnSlice, *, turn_id: TurnId | None = None, owner_alive: bool = True) -> Explanation:
    """Explain a turn that begins in a part of a log, by default the one that began last. It says what `why` says."""
    known = list(part.found.events)
    return _choose(dossiers_in(part, owner_alive=owner_alive), known, known, turn_id, is_doubtful=False)


def _choose(
    turns: list[Dossier], log: list[Event], known: list[Event], turn_id: TurnId | None, *, is_doubtful: bool
) -> Explanation:
    turn = next((one for one in reversed(turns) if turn_id in (None, one.turn_id)), None)
    as_of = known[-1].seq if known else None
    if turn is None:
        return _nothing(log, turn_id, as_of, is_doubtful=is_doubtful)
    return _explain(turn, known, as_of, is_doubtful=is_doubtful)


def _prefix(log: list[Event], at: datetime | int | None) -> list[Event]:
    if at is None:
        return log
    if isinstance(at, datetime):
        if at.tzinfo is None:
            raise UsageError(f"{at.isoformat()} names no time zone", remedy="add one, as in 2026-01-31T12:00:00Z")
        return list(takewhile(lambda event: event.ts <= at, log))
    return list(takewhile(lambda event: event.seq is not None and event.seq <= at, log))


def _lost_by(damage: Iterable[LogDamage], known: list[Event], at: datetime | int | None) -> Iterator[LogDamage]:
    """The damage that such a prefix was read across, as far as its numbers reach."""
    following = (known[-1].seq or 0) + 1 if known else 1
    for one in damage:
        is_near = one.first_seq is not None and one.first_seq <= following
        if at is None or (isinstance(at, datetime) and is_near):
            yield one
        elif isinstance(at, int) and one.first_seq is not None and one.first_seq <= at:
            yield structs.replace(one, last_seq=min(one.last_seq or one.first_seq, at))


def _nothing(log: list[Event], turn_id: TurnId | None, as_of: int | None, *, is_doubtful: bool) -> Explanation:
    session_id = log[0].session_id if log else None
    return Explanation(
        session_id=session_id,
        turn_id=turn_id,
        as_of_seq=as_of,
        missing=("an event that opens such a turn",),
        is_time_doubtful=is_doubtful,
        next_actions=() if session_id is None else (inspect_log(session_id), diagnose_session(session_id)),
    )


def _explain(turn: Dossier, known: list[Event], as_of: int | None, *, is_doubtful: bool) -> Explanation:
    evidence = _deciding(turn)
    ignored = tuple(_not_counted(turn, known, evidence))
    told = {id(event) for event in evidence} | {id(event) for event, _ in ignored}
    return Explanation(
        session_id=turn.key[0],
        turn_id=turn.turn_id,
        as_of_seq=as_of,
        record=turn.record,
        evidence=tuple(_piece(event) for event in evidence),
        not_counted=tuple(_piece(event, because) for event, because in ignored),
        path=tuple(_path(turn)),
        surface=tuple(_surface(turn, known)),
        reply=_reply(turn, known),
        by_rule=tuple(_piece(event) for event in _of_turn(turn, known) if isinstance(event.data, PermissionDecision)),
        files=tuple(_piece(event) for event in _of_turn(turn, known) if isinstance(event.data, _OF_FILES)),
        missing=tuple(_missing(turn)),
        is_final=turn.state.is_terminal or turn.state is TurnState.UNKNOWN,
        is_time_doubtful=is_doubtful,
        other_events=sum(id(event) not in told for event in turn.counted),
        next_actions=turn.record.next_actions,
    )


def _of_turn(turn: Dossier, known: list[Event]) -> Iterator[Event]:
    """What names the turn, since it began (law 6): an event of the envelope's turn, or data that tell of one."""
    first = turn.facts.first_seq or 0
    for event in known:
        named = event.data.turn_id if isinstance(event.data, _OF_FILES) else event.turn_id
        if event.session_id == turn.key[0] and named == turn.turn_id and (event.seq or 0) >= first:
            yield event


def _path(turn: Dossier) -> Iterator[PathStep]:
    """The steps that events made. That events are lost is seen after them, or with the next one."""
    last: PathStep | None = None
    for event, before, after in turn.path:
        if after is not TurnState.UNKNOWN:
            last = PathStep(seq=event.seq, at=event.ts, before=before, after=after, says=sentence(event))
            yield last
    if turn.facts.lost and turn.counted:
        seq, before = turn.facts.lost[0].first_seq, None if last is None else last.after
        says = f"{turn.facts.lost[0].words} cannot be read"
        at = turn.counted[0].ts if last is None else last.at
        yield PathStep(seq=seq, at=at, before=before, after=TurnState.UNKNOWN, says=says)


def _piece(event: Event, because: str = "") -> Piece:
    return Piece(seq=event.seq, at=event.ts, type=event.type, says=sentence(event), because=because)


def _deciding(turn: Dossier) -> tuple[Event, ...]:
    """What the verdict rests on: how the turn began, the proofs that the classifier names, and what is left open."""
    facts = turn.facts
    proofs = {proof.seq for proof in turn.record.evidence}
    is_open = not turn.state.is_terminal

    def decides(event: Event) -> bool:
        match event.data:
            case UserMessage() | TurnStarted():
                return True
            case ToolCall(call_id=call_id, occurrence=occurrence):
                return any(known[:2] == (call_id, occurrence) for known in facts.open_calls)
            case StreamCheckpoint() as checkpoint:
                return is_open and checkpoint is facts.checkpoint
            case ToolResult():
                return False
            case _:
                return event.seq in proofs

    return tuple(event for event in turn.counted if decides(event))


def _not_counted(turn: Dossier, known: list[Event], evidence: tuple[Event, ...]) -> Iterator[tuple[Event, str]]:
    deciding = {id(event) for event in evidence}
    called: set[tuple[str, int]] = set()
    found: list[tuple[Event, str]] = [(event, _refusal(finding)) for event, finding in turn.refused]
    for event in turn.counted:
        because = "" if id(event) in deciding else _set_aside(event, called, is_lost=bool(turn.facts.lost))
        if isinstance(event.data, ToolCall):
            called.add((event.data.call_id, event.data.occurrence))
        if because:
            found.append((event, because))
    found += [(event, "an exit proves no end of a turn; the run says how it ended") for event in _exits(turn, known)]
    return iter(sorted(found, key=lambda one: one[0].seq or 0))


def _refusal(finding: Finding) -> str:
    return f"{finding.kind.value.replace('_', ' ')}: {finding.message.partition(': ')[2]}"


def _set_aside(event: Event, called: set[tuple[str, int]], *, is_lost: bool) -> str:
    match event.data:
        case AssistantMessage() as message:
            if message.metadata.intermediate:
                return "clean text before a tool call is not the answer"
            if message.is_blank:
                return "an answer without words answers nothing"
            return "something came after it, so it is not how the turn ended"
        case ToolResult(call_id=call_id, occurrence=occurrence) if (call_id, occurrence) not in called:
            return "its call may be among the lost events" if is_lost else "no call of this turn is waiting for it"
        case _:
            return ""


def _exits(turn: Dossier, known: list[Event]) -> Iterator[Event]:
    """The exits of the turn's process since the turn began."""
    for event in known:
        is_its = event.spawn_id is not None and event.spawn_id == turn.facts.spawn_id
        is_exit = isinstance(event.data, ProcessEvent) and event.data.kind is ProcessEventKind.EXITED
        is_since = (event.seq or 0) >= (turn.record.first_seq or 0)
        if is_its and is_exit and is_since and event.session_id == turn.key[0]:
            yield event


def _surface(turn: Dossier, known: list[Event]) -> Iterator[SurfaceStep]:
    """Verdicts about the terminal since the turn began that name it, or that name none and fall within it."""
    first = turn.record.first_seq or 0
    last = turn.record.last_seq if turn.state.is_terminal else None
    for event in known:
        data, seq = event.data, event.seq or 0
        is_within = event.turn_id is None and (last is None or seq <= last)
        if isinstance(data, SurfaceEvent) and seq >= first and (event.turn_id == turn.turn_id or is_within):
            yield SurfaceStep(
                seq=event.seq,
                at=event.ts,
                activity=data.activity,
                attention=data.attention,
                rules=tuple(evidence.rule for evidence in data.evidence),
                evidence=data.evidence,
                rows=data.rows,
                frame_sha256=data.frame_sha256,
                profile=data.profile,
                ended=data.ended,
            )


def _reply(turn: Dossier, known: list[Event]) -> TurnReply | None:
    """What was recorded of the reply, since the turn began: what stands before that is no word on it."""
    return next((one.data for one in _of_turn(turn, known) if isinstance(one.data, TurnReply)), None)


def _missing(turn: Dossier) -> Iterator[str]:
    """What `completed` needs and this turn does not have."""
    facts = turn.facts
    if turn.state is TurnState.COMPLETED:
        return
    for lost in facts.lost:
        yield f"{lost.words}, which the log does not hold any more"
    if facts.basis is Basis.RUN_EVENTS:
        if facts.reason is None:
            yield "the end of the run (run_state done)"
        elif not is_clean_end(facts.reason):
            yield f"a clean end of the run; it ended by {facts.reason.stop_code or facts.reason.type.value}"
    if not has_answer(facts):
        yield "a clean answer with words in it, after the last tool result"
    if facts.open_calls:
        yield f"results for {', '.join(sorted(call_id for call_id, _, _ in facts.open_calls))}"
    if facts.failure is not None:
        yield f"no failure record; there is one, {facts.failure.error_kind}"
