"""The verdict: every conclusion that the claims allow at one instant. The laws stand in `arbitration`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import structs

from interlock.monitor.arbitration import ladder
from interlock.monitor.arbitration.agent_status import NO_BASIS, Confidence, Standing, StatusBasis, basis_of
from interlock.monitor.arbitration.claims import Claim
from interlock.monitor.arbitration.ladder import Axis, Ladders, Pair, Voice
from interlock.monitor.arbitration.state import Arbitration, BlockedNews, Contrary, Dispute, Output, StandingChanged
from interlock.monitor.observer.native_status import DISCREDITED
from interlock.vocabulary.events.audit import Anomaly
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.evidence import HOOKS_CONTRADICTED, NATIVE_CONTRADICTED, Evidence, EvidenceSource
from interlock.vocabulary.states import Activity, Attention

LASTING_SECONDS: Final = 2.0
"""How long a contradiction lasts before it is more than two sources out of step."""

_R = EvidenceSource
_SHOWN_BY: Final = {_R.HOOK: "hook says", _R.PANE_TITLE: "title shows", _R.SCREEN: "screen shows"}
_TELL_OF_DIALOGS: Final = frozenset({_R.NATIVE_FILE, _R.HOOK, _R.SCREEN})


def at_instant(state: Arbitration, now: float) -> Arbitration:
    """The state, with its clock brought up to now: what stood at the end of the last instant is settled."""
    if now <= state.at_seconds:
        return state
    return structs.replace(
        state,
        at_seconds=now,
        ladders=state.settled,
        activity_before=state.standing.activity,
        block_before=state.block,
        block_sighted=None,
        disputes_before=state.disputes,
        contrary_before=state.contrary,
    )


def judge(state: Arbitration, now: float) -> tuple[Arbitration, tuple[Output, ...]]:
    """Draw every conclusion that the claims allow at `now`."""
    before = state.standing
    state = at_instant(state, now)
    if state.exited is not None:
        gone = _stand(before, Activity.GONE, Attention.NONE, state.exited, NO_BASIS, now)
        return _conclude(state, before, gone)
    state, anomalies = _settle(state, now)
    heard = _fresh(state, state.settled, now)
    fresh = ladder.without(heard, _R.NATIVE_STATUS)
    block, sighted = _block_after(state, fresh.attention, now)
    attention, attention_basis = _attention(block, fresh.attention)
    doubt = _doubt(state, heard, fresh)
    activity, activity_basis = _activity(state, block, fresh.activity) if doubt is None else _doubted(doubt)
    after = _stand(before, activity, attention, activity_basis, attention_basis, now)
    state, changed = _conclude(structs.replace(state, block=block, block_sighted=sighted), before, after)
    return state, (*anomalies, *changed)


def _conclude(state: Arbitration, before: Standing, after: Standing) -> tuple[Arbitration, tuple[Output, ...]]:
    state = structs.replace(state, standing=after, deadline=_deadline(state))
    is_same = before.activity is after.activity and before.attention is after.attention
    return state, () if is_same else (StandingChanged(before, after),)


def _stand(
    before: Standing, activity: Activity, attention: Attention, active: StatusBasis, attentive: StatusBasis, now: float
) -> Standing:
    is_same = before.activity is activity and before.attention is attention and before.since_seconds is not None
    return Standing(activity, attention, active, attentive, before.since_seconds if is_same else now)


def _deadline(state: Arbitration) -> float | None:
    due = [at for at in ladder.expiries(state.settled, state.policy.watched_gap_seconds) if at < math.inf]
    due += [dispute.since_seconds + LASTING_SECONDS for dispute in state.disputes if not dispute.is_recorded]
    due += [one.doubt_until for one in state.contrary]
    due += [
        dispute.since_seconds + state.policy.native_doubt_seconds
        for dispute in state.disputes
        if dispute.higher is _R.NATIVE_STATUS
    ]
    return min((at for at in due if at > state.at_seconds), default=None)


def _fresh(state: Arbitration, ladders: Ladders, now: float) -> Ladders:
    return ladder.fresh_voices(ladders, state.edge_at_seconds, now, state.policy.watched_gap_seconds)


def _settle(state: Arbitration, now: float) -> tuple[Arbitration, tuple[Anomaly, ...]]:
    """Laws 3, 9 and 11. What is ended is off the settled ladders; it is gone for good when the instant is over.

    Until then another input of the same instant may still show that whoever ended it was stale.
    """
    fresh = _fresh(state, state.ladders, now)
    if not state.disputes_before and not any(ladder.contradictions(fresh)):
        left = _still_contrary(state.contrary_before, fresh)
        return structs.replace(state, settled=state.ladders, disputes=(), contrary=left), ()
    settled = state.ladders
    for pair in ladder.contradictions(fresh):
        # A fresh file was written after the hook fired, which is an edge.
        if pair.higher.rung is _R.NATIVE_FILE and pair.lower.rung is _R.HOOK:
            settled = ladder.drop_voice(settled, pair.axis, _R.HOOK)
    known = {dispute[:3]: dispute for dispute in state.disputes_before}
    recorded = {dispute[:4] for dispute in state.disputes if dispute.is_recorded}
    contrary = {(one.axis, one.stance): one for one in state.contrary_before}
    anomalies: list[Anomaly] = []
    disputes: list[Dispute] = []
    for pair in ladder.contradictions(_fresh(state, settled, now)):
        key, stance = (pair.axis, pair.higher.rung, pair.lower.rung), pair.higher.stance is True
        is_of_hook = pair.higher.rung is _R.HOOK and pair.lower.rung is _R.SCREEN
        held = contrary.get((pair.axis, stance)) if is_of_hook else None
        dispute = known.get(key) or Dispute(*key, now - (0.0 if held is None else held.held_seconds), stance)
        is_lasting = dispute.is_recorded or now >= dispute.since_seconds + LASTING_SECONDS
        if is_lasting and dispute[:4] not in recorded and not dispute.is_recorded:
            anomalies.append(_disagreement(pair, dispute.since_seconds))
        if is_lasting and is_of_hook:
            settled = ladder.drop_voice(settled, pair.axis, _R.HOOK)
            contrary[pair.axis, stance] = _outlasted(state, pair, held, now)
        if pair.casts_doubt and now >= dispute.since_seconds + state.policy.native_doubt_seconds:
            return _discredit(state, pair, dispute.since_seconds, now, tuple(anomalies))
        disputes.append(dispute._replace(is_recorded=is_lasting, stance=stance))
    for gone in _taken_back(state.disputes_before, disputes):
        held = contrary.get((gone.axis, gone.stance))
        if held is None or not held.is_outlasted:
            contrary[gone.axis, gone.stance] = Contrary(gone.axis, gone.stance, now - gone.since_seconds)
    left = _still_contrary(contrary.values(), fresh)
    return structs.replace(state, settled=settled, disputes=tuple(disputes), contrary=left), tuple(anomalies)


def _outlasted(state: Arbitration, pair: Pair, held: Contrary | None, now: float) -> Contrary:
    """Law 3: what hooks held for too long against the screen. They are doubted if they had taken it back before."""
    stance, doubt, until = pair.higher.stance is True, None, -math.inf
    if held is not None and held.is_outlasted:
        return held
    if held is not None and pair.axis is Axis.ACTIVITY:
        doubt, until = pair, now + state.policy.native_doubt_seconds
    return Contrary(pair.axis, stance, LASTING_SECONDS, is_outlasted=True, doubt=doubt, doubt_until=until)


def _taken_back(before: Iterable[Dispute], disputes: Iterable[Dispute]) -> Iterator[Dispute]:
    """The contradictions between hooks and the screen that are over."""
    standing = {(dispute[:3], dispute.stance) for dispute in disputes}
    for dispute in before:
        is_of_hook = dispute.higher is _R.HOOK and dispute.lower is _R.SCREEN
        if is_of_hook and (dispute[:3], dispute.stance) not in standing:
            yield dispute


def _still_contrary(contrary: Iterable[Contrary], fresh: Ladders) -> tuple[Contrary, ...]:
    """Law 3: the stances of hooks that the screen still contradicts."""
    shown = {
        (axis, voice.stance)
        for axis, voices in zip(Axis, fresh, strict=True)
        for voice in voices
        if voice.rung is _R.SCREEN
    }
    return tuple(one for one in contrary if (one.axis, not one.stance) in shown)


def _discredit(
    state: Arbitration, pair: Pair, since: float, now: float, anomalies: tuple[Anomaly, ...]
) -> tuple[Arbitration, tuple[Anomaly, ...]]:
    """Native status goes, for this spawn; what is left is settled without it."""
    anomaly = Anomaly(
        kind=DISCREDITED,
        source="arbitration",
        message="the native status contradicted the screen for too long, and counts no more",
        details=_both(pair, since),
    )
    rest = structs.replace(
        state, ladders=ladder.without(state.ladders, _R.NATIVE_STATUS), remarks=state.remarks | {DISCREDITED}
    )
    rest, more = _settle(rest, now)
    return rest, (*anomalies, anomaly, *more)


def _doubt(state: Arbitration, heard: Ladders, fresh: Ladders) -> Pair | None:
    """What the agent reports against what decides, where that has lasted; or what its hooks say and take back."""
    for one in state.contrary:
        if one.doubt is not None and state.at_seconds < one.doubt_until:
            return one.doubt
    lasting = {dispute[:3] for dispute in state.disputes if dispute.is_recorded}
    if not lasting:
        return None
    deciding = {axis: voices[0].rung for axis, voices in zip(ladder.Axis, fresh, strict=True) if voices}
    for pair in ladder.contradictions(heard):
        is_lasting = (pair.axis, pair.higher.rung, pair.lower.rung) in lasting
        if pair.casts_doubt and is_lasting and pair.lower.rung is deciding[pair.axis]:
            return pair
    return None


def _doubted(pair: Pair) -> tuple[Activity, StatusBasis]:
    reports, shows = pair.higher.claim, pair.lower.claim
    shown = f"its {_SHOWN_BY[pair.lower.rung]} {_in_words(shows)}"
    if pair.higher.rung is _R.HOOK:
        where = f"its hooks say {_in_words(reports)} ({reports.rule}) and take it back, {shown}"
        evidence = Evidence(source=_R.HOOK, rule=HOOKS_CONTRADICTED, where=where)
    else:
        where = f"it reports {_in_words(reports)} ({reports.rule}), {shown}"
        evidence = Evidence(source=_R.NATIVE_STATUS, rule=NATIVE_CONTRADICTED, where=where)
    return Activity.UNKNOWN, StatusBasis(at_seconds=reports.at_seconds, evidence=(evidence, shows.evidence))


def _in_words(claim: Claim) -> str:
    if claim.is_dialog and claim.attention is not None:
        return f"blocked ({claim.attention.value})"
    return "no dialog" if claim.activity is None else claim.activity.value


def _disagreement(pair: Pair, since: float) -> Anomaly:
    message = "two sources contradict each other"
    return Anomaly(kind="evidence_disagreement", source="arbitration", message=message, details=_both(pair, since))


def _both(pair: Pair, since: float) -> dict[str, Json]:
    return {
        "axis": pair.axis.value,
        "since_seconds": since,
        "higher": told(pair.higher.claim),
        "lower": told(pair.lower.claim),
    }


def told(claim: Claim) -> dict[str, Json]:
    return {
        "source": claim.rung.value,
        "activity": claim.activity and claim.activity.value,
        "attention": claim.attention and claim.attention.value,
        "rule": claim.rule,
        "where": claim.where,
        "at_seconds": claim.at_seconds,
        "excerpt": claim.excerpt,
    }


def _block_after(
    state: Arbitration, voices: tuple[Voice, ...], now: float
) -> tuple[BlockedNews | None, BlockedNews | None]:
    """Laws 4 and 5: the block now, and the one that was on the screen at this very instant.

    Both follow from the end of the instant before and from what is fresh now, never from a voice that was fresh only
    between two inputs of this instant.
    """
    # One that was on the screen at this very instant has been seen, whatever frame came next.
    sighted = state.block_sighted
    block = sighted or state.block_before
    on_screen = next((voice for voice in voices if voice.rung is _R.SCREEN and voice.claim.is_dialog), None)
    shown = on_screen or (voices[0] if voices and voices[0].claim.is_dialog else None)
    if shown is not None:
        seen_at = now if shown.is_renewed else shown.at_seconds
        activity = state.activity_before if block is None else block.activity
        was_on_screen = on_screen is not None or (block is not None and block.was_on_screen)
        block = BlockedNews(shown.claim, seen_at, activity, was_on_screen)
        # A capture that its channel merely renews may still be replaced by the next frame of this instant.
        is_sighting = on_screen is not None and on_screen.at_seconds == now
        return block, block if is_sighting else sighted
    if block is None or any(_says_gone(voice, block, now) for voice in voices):
        return None, sighted
    return block._replace(is_fresh=False), sighted


def _says_gone(voice: Voice, block: BlockedNews, now: float) -> bool:
    """Whether a voice without a dialog is evidence against this one.

    A title may look idle beside a dialog, so it only speaks of one that nothing but a title told of. Of what was told
    at one instant, only the next frame can take back a dialog on the screen.
    """
    is_own = voice.rung is block.claim.rung and not block.was_on_screen
    if voice.rung not in _TELL_OF_DIALOGS and not is_own:
        return False
    said_at = now if voice.rung is _R.SCREEN and voice.is_renewed else voice.at_seconds
    is_enough_at_once = voice.rung is _R.SCREEN or not block.was_on_screen
    return said_at > block.seen_at_seconds or (said_at == block.seen_at_seconds and is_enough_at_once)


def _attention(block: BlockedNews | None, voices: tuple[Voice, ...]) -> tuple[Attention, StatusBasis]:
    if block is not None:
        sure = None if block.is_fresh else Confidence.INFERRED
        return block.claim.attention or Attention.NONE, basis_of(block.claim, sure)
    if not voices:
        return Attention.NONE, NO_BASIS
    return voices[0].claim.attention or Attention.NONE, basis_of(voices[0].claim)


def _activity(state: Arbitration, block: BlockedNews | None, voices: tuple[Voice, ...]) -> tuple[Activity, StatusBasis]:
    if not voices:
        if block is None or not block.is_fresh or block.activity is Activity.UNKNOWN:
            return Activity.UNKNOWN, NO_BASIS
        return block.activity, basis_of(block.claim, Confidence.INFERRED)
    activity = voices[0].claim.activity or Activity.UNKNOWN
    if activity is Activity.QUIET and _has_open_children(state, voices):
        activity = Activity.SETTLING
    return activity, basis_of(voices[0].claim)


def _has_open_children(state: Arbitration, voices: tuple[Voice, ...]) -> bool:
    """Law 7."""
    keeper = next((voice.rung for voice in voices if voice.rung in state.ledgers), None)
    return any(rung is keeper for rung, _ in state.children)
