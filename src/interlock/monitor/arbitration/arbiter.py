"""Arbitration: how one agent stands, by all that its sources claim about it.

Laws:
1. The best fresh rung decides, an axis at a time; `arbitration_ladder` tells what is fresh. No lower rung overrules a
   higher fresh one. When nothing is fresh the activity is unknown, and never quiet. Native status alone decides nothing
   (law 11).
2. A proven exit overrules every rung and stands until a new spawn; late claims of a dead process change nothing.
3. A hook starts a state and never alone keeps one. A better rung that says otherwise later, or a screen that says
   otherwise for `LASTING_SECONDS`, ends it for good: the same said again counts only once the screen says so no more.
   Hooks that take back what the screen contradicts, and say it again, do not begin anew: the seconds add up. When they
   are too many, the activity is unknown for `native_doubt_seconds`, with both sides as evidence, unless the screen says
   something else before; then the screen decides. A submit forgets what did not add up to that.
4. An open dialog on the screen enters a block against any rung. Rungs that agree on a dialog may differ on its kind:
   the screen's counts, since it reads the dialog itself.
5. A block stays, whatever goes stale, until something later says that the dialog is gone: the screen, a better rung, or
   the rung that told of it. A block with nothing fresh behind it is `inferred`.
6. While a dialog hides what the agent does, the activity is the one from before it.
7. A turn that ended is settling while the best fresh rung with a ledger of children knows of an open one.
8. A submit is an edge: what was said before it says nothing about the new turn. Until something is said, work is due.
9. Two fresh rungs that contradict each other for `LASTING_SECONDS` are an anomaly, once an episode. Below that they are
   out of step, as each tells of an edge in its own time.
10. A due deadline comes before the input that makes us look, and is dated to itself.
11. Native status is what any output can forge: it raises doubt, and no claim rests on it. Where it contradicts what
   decides an axis, that decides for `LASTING_SECONDS`; then the activity is unknown, with both sides as evidence, until
   they agree again or the status is `native_status_seconds` old. A contradiction of `native_doubt_seconds` discredits
   native status for the rest of this spawn, so that no doubt lasts for ever. It neither supports nor ends a hook, makes
   no file stale, ends nothing that we expect, and tells of no children. A file is not doubted: output cannot write one.
   A report of work contradicts nobody while the screen shows background work at a prompt: it may mean that work.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import assert_never

from msgspec import structs

from interlock.monitor.arbitration import ladder
from interlock.monitor.arbitration.agent_status import Confidence, StatusBasis
from interlock.monitor.arbitration.axes import turn_is_open
from interlock.monitor.arbitration.claims import Claim
from interlock.monitor.arbitration.ladder import Ladders
from interlock.monitor.arbitration.state import (
    Arbitration,
    ArbitrationInput,
    ChannelClosed,
    ChannelOpened,
    Output,
    ProcessExited,
    ProcessSpawned,
    TurnSubmitted,
)
from interlock.monitor.arbitration.verdict import at_instant, judge, told
from interlock.monitor.observation import ObservationTimerFired, not_before
from interlock.monitor.observer.native_status import DISCREDITED
from interlock.vocabulary.events.audit import Anomaly
from interlock.vocabulary.evidence import Evidence, EvidenceSource
from interlock.vocabulary.ids import SpawnId
from interlock.vocabulary.states import Activity, Attention

_R = EvidenceSource


def step(state: Arbitration, input: ArbitrationInput, now: float) -> tuple[Arbitration, tuple[Output, ...]]:
    """Apply one input, after every deadline that is due. Refuses nothing but a time that is not finite."""
    now = not_before(state.at_seconds, now)
    said: tuple[Output, ...] = ()
    while state.deadline is not None and state.deadline <= now:
        state, outputs = judge(state, state.deadline)
        said += outputs
    if isinstance(input, ObservationTimerFired):
        return state, said
    after, remarks = _take_in(at_instant(state, now), input, now)
    after, outputs = judge(after, now)
    return after, said + remarks + outputs


def _take_in(state: Arbitration, input: ArbitrationInput, now: float) -> tuple[Arbitration, tuple[Anomaly, ...]]:
    match input:
        case Claim():
            return _hear(state, input, now)
        case ProcessSpawned():
            return _spawn(state, input, now), ()
        case ProcessExited():
            return _exit(state, input, now), ()
        case ChannelOpened() | ChannelClosed():
            return _switch(state, input), ()
        case TurnSubmitted():
            return _submit(state, now), ()
        case ObservationTimerFired():
            return state, ()
        case _:
            assert_never(input)


def _spawn(state: Arbitration, input: ProcessSpawned, now: float) -> Arbitration:
    starting = _our_act("process.spawned", Activity.STARTING, now)
    until = now + state.policy.unknown_to_stalled_timeout_seconds
    return Arbitration(
        policy=state.policy,
        at_seconds=now,
        spawn_id=input.spawn_id,
        spawned_at_seconds=now,
        edge_at_seconds=now,
        # The pane outlives its process, and so do the channels on which it is pushed.
        channels=state.channels & ladder.CAPTURES,
        ladders=ladder.admit(Ladders(), starting, until, after_seconds=now),
        standing=state.standing,
    )


def _exit(state: Arbitration, input: ProcessExited, now: float) -> Arbitration:
    if state.exited is not None or not _is_of_this_spawn(state, input.spawn_id):
        return state
    how = f"signal {input.signal}" if input.signal is not None else f"exit code {input.exit_code}"
    evidence = Evidence(source=_R.EXIT, rule="process.exited", where=input.where)
    basis = StatusBasis(_R.EXIT, Confidence.PROVEN, now, (evidence,), how)
    return Arbitration(
        policy=state.policy,
        at_seconds=now,
        spawn_id=state.spawn_id,
        spawned_at_seconds=state.spawned_at_seconds,
        exited=basis,
        channels=state.channels & ladder.CAPTURES,
        remarks=state.remarks,
        activity_before=state.activity_before,
        standing=state.standing,
    )


def _is_of_this_spawn(state: Arbitration, spawn_id: SpawnId | None) -> bool:
    return spawn_id is None or state.spawn_id is None or spawn_id == state.spawn_id


def _submit(state: Arbitration, now: float) -> Arbitration:
    if state.exited is not None:
        return state
    activity = tuple(voice for voice in state.ladders.activity if voice.at_seconds >= now)
    # The last turn's error is over; an open dialog is not, and neither is the knowledge that there is none.
    attention = tuple(
        voice for voice in state.ladders.attention if voice.stance or voice.claim.attention is Attention.NONE
    )
    ladders = Ladders(activity, attention)
    if all(voice.rung is _R.NATIVE_STATUS for voice in activity):
        due = _our_act("turn.submitted", Activity.WORKING, now)
        ladders = ladder.admit(ladders, due, now + state.policy.watched_gap_seconds, after_seconds=now)
    contrary = tuple(one for one in state.contrary if one.is_outlasted)
    return structs.replace(state, submitted_at_seconds=now, edge_at_seconds=now, ladders=ladders, contrary=contrary)


def _our_act(rule: str, activity: Activity, now: float) -> Claim:
    return Claim(rung=_R.OPERATOR, at_seconds=now, rule=rule, activity=activity)


def _switch(state: Arbitration, input: ChannelOpened | ChannelClosed) -> Arbitration:
    """Either way something may have been missed: what an event source said is void, a capture grows old."""
    rung = input.rung
    is_open = isinstance(input, ChannelOpened)
    channels = state.channels | {rung} if is_open else state.channels - {rung}
    if rung in ladder.CAPTURES and not (isinstance(input, ChannelClosed) and input.is_final):
        ladders = ladder.no_longer_renewed(state.ladders, rung, state.policy.watched_gap_seconds)
        return structs.replace(state, channels=channels, ladders=ladders)
    if is_open and rung not in ladder.CHANNELS:
        return structs.replace(state, channels=channels)
    children = frozenset(child for child in state.children if child[0] is not rung)
    ladders = ladder.without(state.ladders, rung)
    return structs.replace(state, channels=channels, ladders=ladders, children=children, ledgers=state.ledgers - {rung})


def _hear(state: Arbitration, claim: Claim, now: float) -> tuple[Arbitration, tuple[Anomaly, ...]]:
    refused = _refusal(state, claim)
    if refused is not None:
        return _remark(state, refused, claim)
    if claim.at_seconds < state.spawned_at_seconds:
        return state, ()
    if claim.at_seconds > now:
        claim = replace(claim, at_seconds=now)
    if claim.rung is _R.NATIVE_STATUS and DISCREDITED in state.remarks:
        return state, ()
    if claim.rung is _R.HOOK:
        claim = _without_outlasted(state, claim)
    ladders = ladder.admit(state.ladders, claim, _expires_at(state, claim), after_seconds=state.submitted_at_seconds)
    is_edge = claim.rung is _R.HOOK and (claim.activity is not None or claim.attention is not None)
    edge = max(state.edge_at_seconds, claim.at_seconds) if is_edge else state.edge_at_seconds
    return _note_children(structs.replace(state, ladders=ladders, edge_at_seconds=edge), claim), ()


def _without_outlasted(state: Arbitration, claim: Claim) -> Claim:
    """A hook without what the screen has outlasted (law 3): said each second, it would hold what it may only start."""
    outlasted = {(one.axis, one.stance) for one in state.contrary_before if one.is_outlasted}
    if claim.activity is not None and (ladder.Axis.ACTIVITY, turn_is_open(claim.activity)) in outlasted:
        claim = replace(claim, activity=None)
    if claim.attention is not None and (ladder.Axis.ATTENTION, claim.is_dialog) in outlasted:
        claim = replace(claim, attention=None, is_dialog=False)
    return claim


def _expires_at(state: Arbitration, claim: Claim) -> float:
    if claim.rung is _R.NATIVE_STATUS:
        return claim.at_seconds + state.policy.native_status_seconds
    is_lasting = claim.rung not in ladder.CAPTURES or claim.rung in state.channels
    return math.inf if is_lasting else claim.at_seconds + state.policy.watched_gap_seconds


def _refusal(state: Arbitration, claim: Claim) -> str | None:
    """Why a claim cannot count. A frozen screen goes on being captured, so captures after an exit surprise nobody."""
    if not _is_of_this_spawn(state, claim.spawn_id):
        return "claim_of_another_spawn"
    if state.exited is not None:
        return "claim_after_exit"
    if claim.rung is _R.NATIVE_STATUS and claim.rung not in state.channels:
        return "claim_on_closed_channel"
    return None


def _remark(state: Arbitration, kind: str, claim: Claim) -> tuple[Arbitration, tuple[Anomaly, ...]]:
    if kind in state.remarks or (kind == "claim_after_exit" and claim.rung in ladder.CAPTURES):
        return state, ()
    anomaly = Anomaly(
        kind=kind, source="arbitration", message="a claim that cannot count was set aside", details=told(claim)
    )
    return structs.replace(state, remarks=state.remarks | {kind}), (anomaly,)


def _note_children(state: Arbitration, claim: Claim) -> Arbitration:
    if claim.children is None:
        return state
    known = frozenset(name for rung, name in state.children if rung is claim.rung)
    others = frozenset(child for child in state.children if child[0] is not claim.rung)
    open_now = frozenset((claim.rung, name) for name in claim.children.apply(known))
    return structs.replace(state, children=others | open_now, ledgers=state.ledgers | {claim.rung})
