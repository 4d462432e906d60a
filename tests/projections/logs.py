"""Any log at all, for properties: whatever the vocabulary can say, in any order."""

from __future__ import annotations

from hypothesis import strategies as st
from msgspec import structs

from interlock.lifecycle.turns import TURN_PAYLOADS
from interlock.testing.strategies import events, payloads, structs_of
from interlock.vocabulary.events.audit import RunState
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.ids import RunId, SessionId

TURNS = st.sampled_from([None, "t1", "t2"])
SPAWNS = st.sampled_from([None, None, None, "s1", "s2"])
TURN_EVENTS = st.one_of(*(structs_of(cls) for cls in sorted(TURN_PAYLOADS, key=lambda cls: cls.__name__)))


def _same_run(payload: Payload) -> Payload:
    # Mostly one run, or nearly every turn would be fenced and little would be tried.
    return structs.replace(payload, run_id=RunId("r")) if isinstance(payload, RunState) else payload


ANY_PAYLOAD = TURN_EVENTS.map(_same_run) | payloads()

# As they come: any ids, any sequence numbers, several sessions.
WILD_LOGS = st.lists(events(ANY_PAYLOAD, turn_ids=TURNS, spawn_ids=SPAWNS), max_size=14)

# As a store gives them: one session, numbered from 1.
LOGS = st.lists(
    events(ANY_PAYLOAD, turn_ids=TURNS, spawn_ids=SPAWNS).map(
        lambda event: structs.replace(event, session_id=SessionId("s"))
    ),
    max_size=14,
).map(lambda log: [structs.replace(event, seq=seq) for seq, event in enumerate(log, start=1)])
