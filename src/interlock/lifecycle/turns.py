"""`turn_states`: the one function that says how each turn of a log stands, and why.

It works on any prefix of a log, never raises, and a turn that it calls terminal stays as it is whatever is appended.
`TurnFold` is the same, one event at a time: the cost of the next event does not depend on history.

Lost events (a gap in the sequence, or what a reader reports by `lose`) make `unknown`:
- every turn that was open when they were written, for any of them may have been its end;
- the next turn, if the first event that is read of it is not its prompt: its beginning may be lost as well. A prompt is
  the first event of its turn, so a turn whose prompt is read has lost nothing before it;
- which turn is the newest, until an event of a turn follows (`lost_since`): a whole turn may be lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Final

from msgspec import Struct

from interlock.lifecycle.turn import (
    Basis,
    Finding,
    FindingKind,
    LostEvents,
    TurnFacts,
    add_loss,
    has_answer,
    is_clean_end,
    lose_events,
    lose_owner,
    step,
    was_cancelled,
)
from interlock.vocabulary.actions import (
    NextAction,
    NextActionKind,
    decide,
    diagnose_session,
    explain_turn,
    repair_log,
    verify_log,
)
from interlock.vocabulary.ending_words import ending_words
from interlock.vocabulary.events.audit import RunState, StreamCheckpoint, TurnFailed, TurnStarted
from interlock.vocabulary.events.conversation import AssistantMessage, ToolCall, ToolResult, UserMessage
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.registry import PayloadClass
from interlock.vocabulary.evidence import Evidence, EvidenceSource
from interlock.vocabulary.ids import IMPORTED_TURN_PREFIX, RunId, SessionId, SpawnId, TurnId
from interlock.vocabulary.run import TerminationReason
from interlock.vocabulary.states import TurnState

TURN_PAYLOADS: Final[frozenset[PayloadClass]] = frozenset(
    {UserMessage, AssistantMessage, ToolCall, ToolResult, StreamCheckpoint, TurnStarted, TurnFailed, RunState}
)

LOG_DAMAGED: Final = "log_damaged"
"""The error kind of an `unknown` turn."""

_ADVICE: Final[dict[TurnState, tuple[NextActionKind, ...]]] = {
    TurnState.PARTIAL_FAILED: (NextActionKind.USE_PARTIAL_RESULT, NextActionKind.SEND_AGAIN),
    TurnState.FAILED: (NextActionKind.SEND_AGAIN,),
    TurnState.INTERRUPTED: (NextActionKind.SEND_AGAIN,),
    TurnState.TIMED_OUT: (NextActionKind.RAISE_TIMEOUT, NextActionKind.REDUCE_SCOPE),
}


class TurnRecord(Struct, frozen=True, kw_only=True):
    """How one turn stands. `settles_as` is what recovery would write for a turn that is read as abandoned. `lost`: the
    events whose loss leaves open how an `unknown` turn stands; its other fields are what is left of it."""

    session_id: SessionId
    turn_id: TurnId
    state: TurnState
    basis: Basis
    first_seq: int | None = None
    last_seq: int | None = None
    run_id: RunId | None = None
    spawn_id: SpawnId | None = None
    reason: TerminationReason | None = None
    error_kind: str = ""
    error_message: str = ""
    cancel_requested: bool = False
    settles_as: TurnState | None = None
    lost: tuple[LostEvents, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    findings: tuple[Finding, ...] = ()
    next_actions: tuple[NextAction, ...] = ()


class TurnFold:
    """Every turn of a log, in the order in which the turns began."""

    def __init__(self, *, only: frozenset[TurnId] | None = None, prompts_before: int = 0, after: int = 0) -> None:
        """For a part of a log, after a `seq`: `only` are the turns that begin in it, `prompts_before` counts prompts
        without a turn id before it. What it says of other turns is left out."""
        self.turns: dict[tuple[SessionId, TurnId], TurnFacts] = {}
        self.findings: list[Finding] = []
        self._after = after
        self._reached: dict[SessionId, int] = {}
        self._lost: dict[SessionId, tuple[LostEvents, ...]] = {}  # since the last event of a turn
        self._open_turns: dict[tuple[SessionId, TurnId], None] = {}
        self._latest: dict[SessionId, tuple[SessionId, TurnId]] = {}
        self._imported = prompts_before
        self._only = only

    def add(self, event: Event) -> TurnFacts | None:
        """Fold one event, and return its turn as it stands now, or None for an event that decides about no turn."""
        seq = event.seq
        if seq is not None:
            reached = self._reached.get(event.session_id, self._after)
            if seq > reached:
                self._reached[event.session_id] = seq
                if seq > reached + 1:
                    self._note_loss(event.session_id, LostEvents(reached + 1, seq - 1))
        key = self._key(event) if type(event.data) in TURN_PAYLOADS else None
        if key is None or (self._only is not None and key[1] not in self._only):
            return None
        turn = self.turns.get(key) or self._open(key, event)
        following, findings = step(turn, event)
        self.turns[key] = following
        self.findings.extend(findings)
        if (following.state is not turn.state or following.has_run_ended) and following.is_over:
            self._open_turns.pop(key, None)
        if self._lost and following is not turn:
            self._lost.pop(event.session_id, None)
        return following

    def lose(self, session_id: SessionId, first_seq: int | None, last_seq: int | None) -> None:
        """Take note of events that no reader gets. Only those after the last event that was folded are news: a gap
        before it was seen. Without a `seq` it is not known where the session ends."""
        reached = self._reached.get(session_id, self._after)
        if first_seq is None:
            self._note_loss(session_id, LostEvents(reached + 1, None))
        elif (last := first_seq if last_seq is None else last_seq) > reached:
            self._reached[session_id] = last
            self._note_loss(session_id, LostEvents(reached + 1, last))

    def pass_over(self, session_id: SessionId, seq: int) -> None:
        """Count no number up to this one as lost: the caller wrote what it does not fold."""
        if seq > self._reached.get(session_id, self._after):
            self._reached[session_id] = seq

    def lost_since(self, session_id: SessionId) -> LostEvents | None:
        """The events that are lost since the last event of a turn. A whole turn may be among them: then the newest that
        is read is not the newest that there is."""
        lost = self._lost.get(session_id)
        return None if lost is None else LostEvents(lost[0].first_seq, lost[-1].last_seq)

    def _note_loss(self, session_id: SessionId, lost: LostEvents) -> None:
        known = self._lost.get(session_id, ())
        if known and known[-1].last_seq is None and lost.last_seq is None:
            return  # it was told before that nobody knows where the session ends
        self._lost[session_id] = add_loss(known, lost)
        for key in [key for key in self._open_turns if key[0] == session_id]:
            self._mark(key, lose_events(self.turns[key], lost), lost)

    def _mark(self, key: tuple[SessionId, TurnId], turn: TurnFacts, lost: LostEvents) -> None:
        self.turns[key] = turn
        self.findings.append(Finding(FindingKind.EVENTS_LOST, key[1], _lost_words(turn), lost.first_seq))

    def records(self, *, owner_alive: bool = True) -> list[TurnRecord]:
        """Read every turn. Without a living owner, open turns are read as abandoned; the fold itself is unchanged."""
        return [record_of(turn if owner_alive else lose_owner(turn)) for turn in self.turns.values()]

    def _key(self, event: Event) -> tuple[SessionId, TurnId] | None:
        if event.turn_id is not None:
            return event.session_id, event.turn_id
        if isinstance(event.data, UserMessage):  # imported logs have no turn ids: there, position decides
            self._imported += 1
            return event.session_id, TurnId(f"{IMPORTED_TURN_PREFIX}{self._imported}")
        latest = self._latest.get(event.session_id)
        return latest if latest is not None and latest[1].startswith(IMPORTED_TURN_PREFIX) else None

    def _open(self, key: tuple[SessionId, TurnId], event: Event) -> TurnFacts:
        latest = self._latest.get(event.session_id)
        if latest is not None and self.turns[latest].basis is Basis.MESSAGES_ONLY:
            self.turns[latest] = lose_owner(self.turns[latest])  # the conversation went on without an end to it
        if latest is not None and latest[1].startswith(IMPORTED_TURN_PREFIX):
            self._open_turns.pop(latest, None)  # position ties events to the newest turn alone
        self._latest[event.session_id] = key
        self._open_turns[key] = None
        begun, losses = TurnFacts(session_id=key[0], turn_id=key[1], first_seq=event.seq), self._lost.get(key[0])
        if losses is None or isinstance(event.data, UserMessage):
            return begun
        self._mark(key, reduce(lose_events, losses, begun), losses[0])
        return self.turns[key]


def fold_turns(events: Iterable[Event]) -> TurnFold:
    fold = TurnFold()
    for event in events:
        fold.add(event)
    return fold


def turn_states(events: Iterable[Event], *, owner_alive: bool = True) -> list[TurnRecord]:
    """Say how each turn of a log, or of any prefix of one, stands."""
    return fold_turns(events).records(owner_alive=owner_alive)


def record_of(turn: TurnFacts) -> TurnRecord:
    """What a turn's facts amount to, with the evidence, the oddities and what to do next."""
    is_abandoned = turn.state is TurnState.ABANDONED
    return TurnRecord(
        session_id=turn.session_id,
        turn_id=turn.turn_id,
        state=turn.state,
        basis=turn.basis,
        first_seq=turn.first_seq,
        last_seq=turn.last_seq,
        run_id=turn.run_id,
        spawn_id=turn.spawn_id,
        reason=turn.reason,
        error_kind=error_kind(turn),
        error_message=_error_message(turn),
        cancel_requested=turn.cancel_requested,
        settles_as=settled_state(turn) if is_abandoned else None,
        lost=turn.lost,
        evidence=tuple(_evidence(turn)),
        findings=turn.findings,
        next_actions=next_actions(turn),
    )


def settled_state(turn: TurnFacts) -> TurnState:
    """What an abandoned turn becomes: its useful text, if any was kept, decides."""
    kept = turn.checkpoint is not None and bool(turn.checkpoint.text.strip())
    return TurnState.PARTIAL_FAILED if turn.useful_text is not None or kept else TurnState.FAILED


def error_kind(turn: TurnFacts) -> str:
    """One word for what went wrong, empty for a turn that is open or completed."""
    if turn.state is TurnState.UNKNOWN:
        return LOG_DAMAGED
    if not turn.is_terminal or turn.state is TurnState.COMPLETED:
        return ""
    if turn.failure is not None and turn.failure.terminal_status is turn.state:
        return turn.failure.error_kind
    if turn.reason is None or was_cancelled(turn):
        return turn.state.value
    if not is_clean_end(turn.reason):
        return turn.reason.stop_code or "error"
    return "unpaired_tool_call" if has_answer(turn) else "empty_answer"


def _error_message(turn: TurnFacts) -> str:
    if turn.state is TurnState.UNKNOWN:
        return _lost_words(turn)
    if turn.failure is not None:
        said, details = turn.failure.error_message, turn.failure.details
    else:
        said = turn.reason.value if turn.reason is not None and isinstance(turn.reason.value, str) else ""
        details = None
    return ending_words(turn.state, said, details, cancel_requested=turn.cancel_requested)


def _lost_words(turn: TurnFacts) -> str:
    lost = ", ".join(one.words for one in turn.lost)
    return f"the log is damaged: {lost} cannot be read, so it is not known how this turn stands"


def _evidence(turn: TurnFacts) -> Iterable[Evidence]:
    text = turn.useful_text if turn.answer is None else turn.answer.proof
    for lost in turn.lost:
        yield Evidence(source=EvidenceSource.LOG, rule="events_lost", seq=lost.first_seq, where=lost.words)
    yield from (proof for proof in (text, turn.failure_proof, turn.run_proof) if proof is not None)


def next_actions(turn: TurnFacts) -> tuple[NextAction, ...]:
    """What its failure record advises, or else what helps in a turn's state."""
    if turn.state is TurnState.UNKNOWN:
        check = (verify_log(turn.session_id), repair_log(turn.session_id), diagnose_session(turn.session_id))
        return (explain_turn(turn.session_id, turn.turn_id), *check, NextAction(NextActionKind.ASK_OPERATOR))
    if turn.failure is not None and turn.failure.next_actions:
        return turn.failure.next_actions
    if turn.state in (TurnState.RUNNING, TurnState.COMPLETED):
        return ()
    if turn.state is TurnState.WAITING:
        return (decide(), explain_turn(turn.session_id, turn.turn_id))
    look = (explain_turn(turn.session_id, turn.turn_id), diagnose_session(turn.session_id))
    return (*look, *(NextAction(kind) for kind in _ADVICE.get(turn.state, ())))
