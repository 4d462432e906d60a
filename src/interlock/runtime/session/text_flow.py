"""The short way of a piece of text: in the midst of others it makes the text longer, and changes nothing else.

Laws:
1. A piece goes this way only right behind another one of the same agent which left every machine as it found it. The
   long way (`SessionMachine.hear`) would look at the same states again, and say of this piece what it said of that.
2. Whatever else is heard, ordered or written ends the flow: the next piece goes the long way, and so does the one at
   which a checkpoint is due. That one writes down what is there already, so the flow goes on behind it. What is due by
   the clock is looked at before either way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from interlock.agents.observations import TextArrived
from interlock.lifecycle.process import heard
from interlock.runtime.session.agent.life import AgentLife
from interlock.runtime.session.effects import Append, Effect, Publish
from interlock.runtime.session.inputs import News, Observed
from interlock.runtime.session.state import Session, TextFlow
from interlock.runtime.session.turn_way import TurnWay
from interlock.vocabulary.events.audit import StreamCheckpoint
from interlock.vocabulary.events.presenter import TextDelta
from interlock.vocabulary.states import AgentState, Lifecycle


@dataclass(frozen=True, slots=True)
class Footing:
    """Where the machines of a session stand."""

    life: AgentLife
    way: TurnWay | None
    lifecycle: Lifecycle
    substate: AgentState
    has_questions: bool


def footing(session: Session) -> Footing:
    turn, process = session.turn, session.process
    way = None if turn is None else turn.way
    return Footing(session.life, way, process.lifecycle, process.substate, session.questions.has_any)


def next_piece(session: Session, news: Observed) -> Publish | None:
    """What the long way would do about a piece that goes on where the last one ended; None: it has to be asked."""
    flow, turn, piece = session.flow, session.turn, news.seen
    if flow is None or turn is None or not isinstance(piece, TextArrived) or piece.sub_agent:
        return None
    if flow.spawn_id != news.spawn_id or flow.version != session.book.version:
        return None
    delta = turn.answer.go_on(piece.text, session.now.seconds)
    if delta is None:
        return None
    session.process = heard(session.process, session.now.seconds)
    return Publish(delta, flow.turn_id)


def flow_after(session: Session, news: News, before: Footing, effects: Sequence[Effect]) -> TextFlow | None:
    """The flow that a piece began which went the long way, showed itself and at most wrote a checkpoint; None:
    something else was done, or may be by the next."""
    if not isinstance(news, Observed) or not isinstance(news.seen, TextArrived) or news.seen.sub_agent:
        return None
    is_plain = session.turn is not None and session.life.standing is None and not before.has_questions
    if not effects or not is_plain or footing(session) != before:
        return None
    done, *more = effects
    if not isinstance(done, Publish) or not isinstance(done.data, TextDelta) or not all(map(_is_checkpoint, more)):
        return None
    return TextFlow(news.spawn_id, done.turn_id, session.book.version)


def _is_checkpoint(effect: Effect) -> bool:
    return isinstance(effect, Append) and all(isinstance(event.data, StreamCheckpoint) for event in effect.events)
