"""Where a log may be cut: between turns, and never inside a tool pair. Compaction and fork use the same places.

After an event lies a boundary when no turn is open there, by `turn_states`, and the conversation is settled, or nothing
but the next turn's prompt will settle it. Then what is before the cut reads the same with and without what follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from interlock.lifecycle.turn import TurnFacts
from interlock.lifecycle.turns import TurnFold
from interlock.projections.replay.conversation import Conversation
from interlock.projections.replay.fence import ReplayFence
from interlock.vocabulary.events.conversation import HistoryCompaction, UserMessage
from interlock.vocabulary.events.envelope import Event, audience
from interlock.vocabulary.events.registry import Audience
from interlock.vocabulary.ids import SessionId, TurnId
from interlock.vocabulary.states import TurnState

TurnKey: TypeAlias = tuple[SessionId, TurnId]
_OPEN: Final = frozenset({TurnState.RUNNING, TurnState.WAITING})


def _is_open(turn: TurnFacts) -> bool:
    """Whether more of a turn may come. That events of it are lost ends no turn."""
    return turn.state in _OPEN or (turn.state is TurnState.UNKNOWN and not turn.is_over)


@dataclass(slots=True)
class Cuts:
    """The boundaries of a log, as positions of the event before each, and where each turn's conversation begins."""

    boundaries: list[int] = field(default_factory=list)
    turn_starts: dict[TurnKey, int] = field(default_factory=dict)
    open_turns: tuple[TurnKey, ...] = ()


def find_cuts(events: Sequence[Event]) -> Cuts:
    """Walk a log once. A turn begins, for the model, with its first replay event; without one it does not count."""
    cuts, turns, conversation, fence = Cuts(), TurnFold(), Conversation(), ReplayFence()
    open_turns: dict[TurnKey, None] = {}
    doubtful: list[int] = []  # boundaries that hold only if a prompt, or nothing, is what the model sees next
    for position, event in enumerate(events):
        turn = turns.add(event)
        if turn is not None:
            _note(open_turns, turns, (turn.session_id, turn.turn_id))
        is_given = fence.refuses(event) is None and audience(event) is Audience.REPLAY
        if is_given and not isinstance(event.data, HistoryCompaction):
            conversation.take(position, event)
            if isinstance(event.data, UserMessage) and conversation.is_settled:
                cuts.boundaries += doubtful
            doubtful = []
            if turn is not None:
                cuts.turn_starts.setdefault((turn.session_id, turn.turn_id), position)
        if turns.turns and not open_turns:
            (cuts.boundaries if conversation.is_settled else doubtful).append(position)
    cuts.boundaries += doubtful
    cuts.open_turns = tuple(open_turns)
    return cuts


def _note(open_turns: dict[TurnKey, None], turns: TurnFold, touched: TurnKey) -> None:
    """Keep track of open turns. A new turn may leave an older one behind, so all of them (hardly ever two) are seen."""
    open_turns[touched] = None
    for key in [key for key in open_turns if not _is_open(turns.turns[key])]:
        del open_turns[key]
