"""Checks of the agent's text: what is clean, what was cut short, and whether what was streamed is what was kept."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from interlock.projections.checks.case import Case, Check, CheckId, Issue, failure, judged, look_at, of_type, warning
from interlock.projections.turn_evidence import Dossier
from interlock.vocabulary.events.audit import StreamCheckpoint, TurnFailed
from interlock.vocabulary.events.conversation import AssistantMessage, MessageSource, UserMessage
from interlock.vocabulary.states import TurnState


def check_assistant_canonicalization(case: Case) -> Check:
    """Text that was cut short is marked so and precedes its failure record; a failed turn has no clean answer."""
    applies = any(isinstance(event.data, AssistantMessage) for event in case.events)
    issues = [issue for turn in case.turns for issue in _message_issues(turn)]
    return judged(CheckId.ASSISTANT_CANONICALIZATION, issues, applies=applies, passed="all assistant text is clean")


def _message_issues(turn: Dossier) -> Iterator[Issue]:
    messages = list(of_type(turn.counted, AssistantMessage))
    partial = [(event, message) for event, message in messages if message.metadata.partial]
    name, look = turn.turn_id, look_at(turn)
    if partial:
        length = sum(len(message.text) for _, message in partial)
        text = f"turn {name} kept {length} code points of partial text, which are not an answer"
        events = [event for event, _ in partial]
        yield warning("partial_kept", text, events, turn_id=name, next_actions=turn.record.next_actions or look)
    needs_failure = turn.state not in (TurnState.COMPLETED, TurnState.UNKNOWN)
    if partial and turn.facts.failure is None and needs_failure:
        text = f"turn {name} kept partial text, and no turn_failed says why"
        yield failure("partial_without_failure", text, [partial[-1][0]], turn_id=name, next_actions=look)
    if turn.facts.answer is not None and turn.state.is_terminal and turn.state is not TurnState.COMPLETED:
        answers = [event for event in turn.counted if event.seq == turn.facts.answer.proof.seq]
        text = f"turn {name} is {turn.state.value}, and a clean answer stands in it, which the model will see again"
        yield warning("clean_answer_in_failed_turn", text, answers, turn_id=name, next_actions=look)
    final = [event for event, message in messages if not message.metadata.intermediate]
    if len(final) > 1:
        text = f"turn {name} has {len(final)} messages that would each be its last"
        yield warning("several_answers", text, final, turn_id=name, next_actions=look)
    for event, message in messages:
        said = message.metadata.terminal_status
        if said is not None and not message.metadata.partial:
            text = f"turn {name}: a message that counts as clean says that the turn ended {said.value}"
            yield failure("failure_on_clean_message", text, [event], turn_id=name, next_actions=look)
        elif said is not None and turn.state.is_terminal and said is not turn.state:
            text = f"turn {name}: its partial text says {said.value}, the turn is {turn.state.value}"
            yield failure("partial_disagrees", text, [event], turn_id=name, next_actions=look)
    yield from _order_issues(turn)
    yield from _length_issues(turn)
    yield from _stream_issues(turn)


def _length_issues(turn: Dossier) -> Iterator[Issue]:
    """A closing batch says how much partial text it keeps; that text must be there."""
    for event, failed in of_type(turn.counted, TurnFailed):
        said = failed.details.get("partial_text_length") if isinstance(failed.details, dict) else None
        kept = [len(message.text) for _, message in of_type(turn.counted, AssistantMessage) if message.metadata.partial]
        if isinstance(said, int) and said not in kept:
            text = f"turn {turn.turn_id}: its failure speaks of {said} code points of partial text, which are not there"
            yield failure("partial_text_lost", text, [event], turn_id=turn.turn_id, next_actions=look_at(turn))


def _stream_issues(turn: Dossier) -> Iterator[Issue]:
    """Text that was streamed is kept, and a message goes on from it: else it holds another attempt's words, or none."""
    kept: StreamCheckpoint | None = None
    for event in turn.counted:
        if isinstance(event.data, StreamCheckpoint) and (kept is None or event.data.attempt >= kept.attempt):
            kept = event.data
        elif isinstance(event.data, AssistantMessage):
            is_streamed = event.data.metadata.source is MessageSource.STREAM
            if kept is not None and is_streamed and not event.data.text.startswith(kept.text):
                text = f"turn {turn.turn_id}: a message does not go on from the text that was streamed before it"
                yield warning(
                    "text_departs_from_stream", text, [event], turn_id=turn.turn_id, next_actions=look_at(turn)
                )
            kept = None
    if kept is not None and kept.text.strip() and turn.state.is_terminal:
        text = f"turn {turn.turn_id} streamed {kept.offset} code points, and its end keeps none of them"
        yield failure("streamed_text_lost", text, turn.counted[-1:], turn_id=turn.turn_id, next_actions=look_at(turn))


def _order_issues(turn: Dossier) -> Iterator[Issue]:
    for one, following in pairwise(turn.counted):
        if isinstance(one.data, UserMessage | AssistantMessage) and one.data == following.data:
            text = f"turn {turn.turn_id}: the same {one.type} was recorded twice in a row"
            events = [one, following]
            yield warning("repeated_message", text, events, turn_id=turn.turn_id, next_actions=look_at(turn))
    failed_at = next((at for at, event in enumerate(turn.counted) if isinstance(event.data, TurnFailed)), None)
    after = [] if failed_at is None else [event for event, _ in of_type(turn.counted[failed_at:], AssistantMessage)]
    if after:
        text = f"turn {turn.turn_id}: text was recorded after the failure that it should precede"
        yield warning("text_after_failure", text, after, turn_id=turn.turn_id, next_actions=look_at(turn))
