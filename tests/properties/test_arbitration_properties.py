"""Arbitration on any history: its laws hold after whatever came before."""

from __future__ import annotations

from functools import reduce

from hypothesis import assume, given
from hypothesis import strategies as st

from interlock.monitor.arbitration.agent_status import Standing
from interlock.monitor.arbitration.arbiter import step
from interlock.monitor.arbitration.claims import RANK, ChildNews, Claim
from interlock.monitor.arbitration.state import (
    Arbitration,
    ArbitrationInput,
    ChannelClosed,
    ChannelOpened,
    ProcessExited,
    ProcessSpawned,
    TurnSubmitted,
)
from interlock.monitor.observation import ObservationTimerFired
from interlock.vocabulary.evidence import EvidenceSource
from interlock.vocabulary.states import Activity, Attention

R = EvidenceSource
SOURCES: list[EvidenceSource] = [rung for rung in RANK if rung is not R.OPERATOR]
LOWER: list[EvidenceSource] = [R.PANE_TITLE, R.SCREEN, R.SILENCE]
ACTIVITIES = st.sampled_from([None, Activity.WORKING, Activity.QUIET, Activity.SETTLING, Activity.STALLED])
ATTENTIONS = st.sampled_from([None, None, Attention.NONE, Attention.NONE, Attention.APPROVAL, Attention.ERROR])
NAMES = st.frozensets(st.sampled_from("ab"), max_size=2)
NEWS = st.none() | st.builds(ChildNews, NAMES, NAMES, st.none() | NAMES)
# Halves and quarters of seconds, so that times meet each other and the deadlines.
GAPS = st.sampled_from([0.0, 0.25, 0.5, 1.0, 1.75, 2.0, 5.0, 40.0])
LATENESS = st.sampled_from([0.0, 0.0, 0.0, 0.25, 3.0])

History = list[tuple[float, ArbitrationInput]]


@st.composite
def claims(draw: st.DrawFn, rungs: list[EvidenceSource], attentions: st.SearchStrategy[Attention | None]) -> Claim:
    """A claim whose `at_seconds` is how late it comes: `dated` makes a time of it."""
    attention = draw(attentions)
    return Claim(
        rung=draw(st.sampled_from(rungs)),
        at_seconds=draw(LATENESS),
        rule="r",
        activity=draw(ACTIVITIES),
        attention=attention,
        is_dialog=attention is Attention.APPROVAL,
        withdraws=draw(st.sampled_from([False] * 9 + [True])),
        children=draw(NEWS),
    )


def dated(claim: Claim, now: float, *, at: float | None = None) -> Claim:
    fields = {name: getattr(claim, name) for name in Claim.__slots__}
    return Claim(**fields | {"at_seconds": now - claim.at_seconds if at is None else at})


def inputs(
    rungs: list[EvidenceSource] = SOURCES, attentions: st.SearchStrategy[Attention | None] = ATTENTIONS
) -> st.SearchStrategy[ArbitrationInput]:
    return claims(rungs, attentions) | st.just(ObservationTimerFired())


ANYTHING: st.SearchStrategy[ArbitrationInput] = st.one_of(
    inputs(),
    inputs(),
    st.builds(ChannelOpened, st.sampled_from(SOURCES)),
    st.builds(ChannelClosed, st.sampled_from(SOURCES)),
    st.sampled_from([ProcessExited(exit_code=0), ProcessSpawned(), ProcessSpawned(), TurnSubmitted()]),
)


def histories(input: st.SearchStrategy[ArbitrationInput] = ANYTHING, size: int = 8) -> st.SearchStrategy[History]:
    return st.lists(st.tuples(GAPS, input), max_size=size)


def follow(state: Arbitration, history: History) -> Arbitration:
    """Apply a history of gaps and inputs, from the present of the state."""

    return reduce(lambda state, item: at(state, item[1], present(state) + item[0]), history, state)


def at(state: Arbitration, input: ArbitrationInput, now: float) -> Arbitration:
    return step(state, dated(input, now) if isinstance(input, Claim) else input, now)[0]


def present(state: Arbitration) -> float:
    return max(state.at_seconds, 100.0)


def told(state: Arbitration, *inputs: ArbitrationInput, after: float = 1.0) -> Arbitration:
    """Apply inputs at one instant, a while later."""
    now = present(state) + after
    for input in inputs:
        state, _ = step(state, dated(input, now, at=now) if isinstance(input, Claim) else input, now)
    return state


def says(rung: EvidenceSource, activity: Activity | None, attention: Attention | None = None) -> Claim:
    is_dialog = attention is Attention.APPROVAL
    return Claim(rung=rung, at_seconds=0, rule="r", activity=activity, attention=attention, is_dialog=is_dialog)


def verdict(standing: Standing) -> tuple[object, ...]:
    bases = (standing.activity_basis, standing.attention_basis)
    return standing.activity, standing.attention, *((basis.rung, basis.confidence) for basis in bases)


SAID = st.sampled_from([Activity.WORKING, Activity.QUIET, Activity.STALLED])


def decides(state: Arbitration, rung: EvidenceSource, said: Activity) -> bool:
    """Whether a rung has its way. A quiet agent may be settling, by children that another rung told of."""
    shown = state.standing.activity
    is_said = shown is said or (said is Activity.QUIET and shown is Activity.SETTLING)
    return is_said and state.standing.activity_basis.rung is rung


def is_native(input: ArbitrationInput) -> bool:
    return getattr(input, "rung", None) is R.NATIVE_STATUS


@given(histories(size=16))
def test_a_native_status_changes_no_claim_but_to_unknown(history: History) -> None:
    """Law 11 against the same history without it: whoever forges one gains nothing but a doubt that ends."""
    heard, unheard = (told(Arbitration(), ChannelOpened(R.NATIVE_STATUS)) for _ in range(2))
    for gap, input in history:
        now = present(heard) + gap  # one clock for both: what is left out takes its time, too
        heard = at(heard, input, now)
        unheard = at(unheard, ObservationTimerFired() if is_native(input) else input, now)
        assert heard.standing.attention is unheard.standing.attention
        assert heard.standing.activity in (unheard.standing.activity, Activity.UNKNOWN)
        assert R.NATIVE_STATUS not in (heard.standing.activity_basis.rung, heard.standing.attention_basis.rung)
    heard, unheard = (told(state, ObservationTimerFired(), after=300) for state in (heard, unheard))
    assert verdict(heard.standing) == verdict(unheard.standing)


@given(histories(), SAID, histories(inputs(LOWER)))
def test_no_reading_overrules_a_file_that_is_newer_than_every_edge(
    before: History, said: Activity, after: History
) -> None:
    state = told(follow(Arbitration(), before), ProcessSpawned())
    state = follow(told(state, says(R.NATIVE_FILE, said)), after)
    assert decides(state, R.NATIVE_FILE, said)


@given(histories(), st.sampled_from([Activity.WORKING, Activity.QUIET]), histories(inputs(LOWER)))
def test_no_reading_overrules_a_hook_within_two_seconds(before: History, said: Activity, after: History) -> None:
    state = told(follow(Arbitration(), before), ProcessSpawned())
    state = told(state, says(R.HOOK, said))
    until = present(state) + 2
    for item in after:
        if present(state) + item[0] >= until:
            break
        state = follow(state, [item])
        assert decides(state, R.HOOK, said)


@given(histories(), SAID, histories(inputs([R.SCREEN, R.SILENCE])))
def test_no_screen_overrules_a_pushed_title(before: History, said: Activity, after: History) -> None:
    state = told(follow(Arbitration(), before), ProcessSpawned(), ChannelOpened(R.PANE_TITLE))
    state = follow(told(state, says(R.PANE_TITLE, said)), after)
    assert decides(state, R.PANE_TITLE, said)


@given(histories(), histories())
def test_after_a_proven_exit_the_agent_is_gone_until_a_new_spawn(before: History, after: History) -> None:
    assume(not any(isinstance(input, ProcessSpawned) for _, input in after))
    state = follow(told(follow(Arbitration(), before), ProcessExited(signal=9)), after)
    assert (state.standing.activity, state.standing.attention) == (Activity.GONE, Attention.NONE)
    assert told(state, ProcessSpawned()).standing.activity is Activity.STARTING


@given(histories())
def test_when_everything_is_stale_the_activity_is_unknown(before: History) -> None:
    state = told(follow(Arbitration(), before), *(ChannelClosed(rung) for rung in SOURCES))
    state, _ = step(state, ObservationTimerFired(), present(state) + 60)
    assert state.standing.activity is (Activity.GONE if state.exited else Activity.UNKNOWN)
    assert not state.standing.is_ready
    assert state.deadline is None


NO_EVIDENCE = inputs(SOURCES, st.sampled_from([None, Attention.APPROVAL])) | inputs(
    [R.PANE_TITLE, R.SILENCE], st.just(Attention.NONE)
)


@given(histories(), histories(NO_EVIDENCE), histories(inputs([rung for rung in SOURCES if rung is not R.SCREEN])))
def test_a_dialog_on_the_screen_blocks_until_something_says_that_it_is_gone(
    before: History, quiet: History, others: History
) -> None:
    state = told(follow(Arbitration(), before), ProcessSpawned(), ChannelOpened(R.NATIVE_STATUS))
    seen = told(state, says(R.SCREEN, None, Attention.APPROVAL))
    assert follow(seen, quiet).standing.attention is Attention.APPROVAL
    watched = told(state, ChannelOpened(R.SCREEN), says(R.SCREEN, None, Attention.APPROVAL))
    assert follow(watched, others).standing.attention is Attention.APPROVAL
    gone = told(follow(watched, quiet), says(R.SCREEN, Activity.WORKING, Attention.NONE))
    asked_elsewhere = any(isinstance(input, Claim) and input.is_dialog for _, input in quiet)
    assert asked_elsewhere or gone.standing.attention is Attention.NONE


BATCHES = st.lists(claims(SOURCES, ATTENTIONS), min_size=2, unique_by=lambda claim: claim.rung)


@given(histories(), GAPS, BATCHES, st.data())
def test_the_order_of_claims_of_different_rungs_at_one_instant_does_not_matter(
    before: History, gap: float, batch: list[Claim], data: st.DataObject
) -> None:
    state = follow(Arbitration(), before)
    shuffled = data.draw(st.permutations(batch))
    one, other = told(state, *batch, after=gap), told(state, *shuffled, after=gap)
    assert verdict(one.standing) == verdict(other.standing)
    later = present(one) + 60
    assert verdict(step(one, ObservationTimerFired(), later)[0].standing) == verdict(
        step(other, ObservationTimerFired(), later)[0].standing
    )


@given(histories())
def test_deadlines_lie_ahead_and_firing_them_in_time_changes_nothing_but_the_telling(history: History) -> None:
    late = timely = Arbitration()
    late_said: list[object] = []
    timely_said: list[object] = []
    for gap, input in history:
        now = present(late) + gap
        while timely.deadline is not None and timely.deadline < now:
            assert timely.deadline > timely.at_seconds
            timely, outputs = step(timely, ObservationTimerFired(), timely.deadline)
            timely_said += outputs
        given_now = dated(input, now) if isinstance(input, Claim) else input
        timely, outputs = step(timely, given_now, now)
        timely_said += outputs
        late, outputs = step(late, given_now, now)
        late_said += outputs
    assert (timely, timely_said) == (late, late_said)


def test_a_voice_that_was_fresh_only_between_two_inputs_of_an_instant_decides_nothing() -> None:
    """Found by a search: the file told of the dialog, and the hook then made the file stale, or came before it."""
    on_screen = says(R.SCREEN, None, Attention.APPROVAL)
    state = told(told(Arbitration(), ProcessSpawned()), on_screen)
    looked_away, hook, file = (
        says(R.SCREEN, None),
        says(R.HOOK, Activity.WORKING),
        says(R.NATIVE_FILE, None, Attention.APPROVAL),
    )
    one = told(state, looked_away, file, hook, after=0.0)
    other = told(state, hook, looked_away, file, after=0.0)
    assert verdict(one.standing) == verdict(other.standing)
    assert one.standing.attention_basis.rung is R.SCREEN
