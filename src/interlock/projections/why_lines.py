"""An explanation in plain text, for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from msgspec import structs

from interlock.lifecycle.turn import Basis
from interlock.projections.why import Explanation, PathStep, SurfaceStep
from interlock.vocabulary.actions import NextActionKind
from interlock.vocabulary.advice import advice_lines
from interlock.vocabulary.ending_words import ending_detail
from interlock.vocabulary.events.audit import SurfaceResult, TurnReply
from interlock.vocabulary.evidence import TELLS_WHERE
from interlock.vocabulary.states import Attention


def told_lines(explanation: Explanation) -> list[str]:
    """What `interlock why` prints. Who reads that needs no advice to run this very command."""
    advice = (action for action in explanation.next_actions if action.kind is not NextActionKind.EXPLAIN_TURN)
    return render_lines(structs.replace(explanation, next_actions=tuple(advice)))


def render_lines(explanation: Explanation) -> list[str]:
    """The explanation line by line. Quoted text is not escaped: whoever prints it does that."""
    record = explanation.record
    name = explanation.turn_id or "any turn"
    if record is None:
        lines = [f"{name}: unknown: the log holds no such turn{_as_of(explanation)}"]
        return [*lines, *_advice(explanation)]
    settles = f", to be recorded as {record.settles_as.value}" if record.settles_as is not None else ""
    detail = ending_detail(record.state.value, record.error_kind, record.error_message)
    kind = f" ({detail})" if detail else ""
    basis = "" if record.basis is Basis.RUN_EVENTS else ", by its messages alone"
    lines = [f"{name}: {record.state.value}{kind}{settles}{basis}{_as_of(explanation)}"]
    if explanation.is_time_doubtful:
        lines.append("  the clock went back: later events bear earlier times; ask by sequence number to be exact")
    lines += _section("evidence", (_line(piece.seq, piece.at, piece.says) for piece in explanation.evidence))
    if explanation.other_events:
        plural = "" if explanation.other_events == 1 else "s"
        lines.append(f"  {explanation.other_events} other event{plural}, not relevant")
    lines += _section(
        "seen, and did not count",
        (_line(piece.seq, piece.at, f"{piece.says}: {piece.because}") for piece in explanation.not_counted),
    )
    lines += _section("answered by rules", (_line(piece.seq, piece.at, piece.says) for piece in explanation.by_rule))
    lines += _section("files", (_line(piece.seq, piece.at, piece.says) for piece in explanation.files))
    lines += _section("timeline", map(_path_line, explanation.path))
    lines += _section("the terminal", (line for step in explanation.surface for line in _surface_lines(step)))
    if explanation.reply is not None:
        lines += _section("reply contract", [_reply_words(explanation.reply)])
    lines += _section("findings", (f"{finding.kind.value}: {finding.message}" for finding in record.findings))
    title = "not completed; missing" if explanation.is_final else "not completed yet; missing"
    lines += _section(title, explanation.missing)
    return [*lines, *_advice(explanation)]


def _reply_words(reply: TurnReply) -> str:
    return f"{reply.kind}: met" if reply.is_met else f"{reply.kind}: not met: {reply.problem}"


def _as_of(explanation: Explanation) -> str:
    return "" if explanation.as_of_seq is None else f" as of event {explanation.as_of_seq}"


def _section(title: str, lines: Iterable[str]) -> list[str]:
    body = [f"  {line}" for line in lines]
    return [f"{title}:", *body] if body else []


def _line(seq: int | None, at: datetime, text: str) -> str:
    return f"{'?' if seq is None else seq:>6}  {at.isoformat()}  {text}"


def _path_line(step: PathStep) -> str:
    change = f"started {step.after.value}" if step.before is None else f"{step.before.value} -> {step.after.value}"
    return _line(step.seq, step.at, f"{change}: {step.says}")


def _surface_lines(step: SurfaceStep) -> Iterator[str]:
    attention = "" if step.attention is Attention.NONE else f", attention {step.attention.value}"
    told = [one.rule + (f" ({one.where})" if one.rule in TELLS_WHERE else "") for one in step.evidence]
    rules = f" by {', '.join(told)}" if told else ""
    yield _line(step.seq, step.at, f"{step.activity.value}{attention}{rules}")
    rows = step.rows if step.ended is None else step.ended.tail or step.rows
    if step.ended is not None:
        yield f"          {_end_words(step.ended)}"
    yield from (f"          | {row}" for row in rows.splitlines())


def _end_words(ended: SurfaceResult) -> str:
    """What the end of a turn rests on, in one line."""
    if ended.basis == "completion_observer":
        found = f" ({ended.observed.splitlines()[0]})" if ended.observed else ""
        by = f"reported by {ended.observer.replace('_', ' ')}{found}, and the screen agreed"
    elif ended.stability_seconds is not None:
        by = f"the screen was ready and did not change for {ended.stability_seconds:g} s"
    else:
        by = "as the screen says"
    seen = [word for word, is_so in (("work", ended.saw_working), ("new text", ended.saw_projection_change)) if is_so]
    saw = f"; seen since the prompt: {' and '.join(seen)}" if seen else ""
    read = f"; read by profile {ended.profile}" if ended.profile else ""
    return f"{ended.result}: {by}{saw}{read}"


def _advice(explanation: Explanation) -> list[str]:
    actions = ((action.kind.value, action.command) for action in explanation.next_actions)
    return _section("next", advice_lines(actions, explanation.session_id or ""))
