"""`interlock demo`: what works today, shown with the real code on histories that are written here, not recorded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final, NamedTuple

from cyclopts import Parameter

from interlock.cli import output
from interlock.lifecycle.closing import Ending, closing_batch
from interlock.lifecycle.turns import TurnFold, TurnRecord, fold_turns
from interlock.testing.scribe import Scribe
from interlock.vocabulary.audit import RunState, StreamCheckpoint, TurnStarted
from interlock.vocabulary.conversation import AssistantMessage, ToolCall, ToolResult, UserMessage
from interlock.vocabulary.ids import CallId, RunId, StreamId
from interlock.vocabulary.registry import Payload
from interlock.vocabulary.run import CANCELLED, NATURAL_END, SUSPENDED, RunStatus, TerminationReason
from interlock.vocabulary.states import DriverKind

INTRODUCTION: Final = """\
Interlock watches coding agents and never claims more than it can prove.

This early version starts no agent yet. Below, scripted histories of one turn
each are folded by the real classifier, the one that every later surface asks.
`interlock machines turn` prints the table that it runs.
"""
CLOSING_WORDS: Final = """\
PROOF names the events that decided, by type and sequence number.
A turn whose end cannot be proven is left open."""

RUN: Final = RunId("run_demo")
BEGIN: Final = (
    UserMessage(text="Fix the failing test"),
    TurnStarted(driver=DriverKind.STREAM),
    RunState(run_id=RUN, status=RunStatus.RUNNING),
)
CALL: Final = ToolCall(call_id=CallId("call_1"), name="shell", args={"command": "pytest -q"})
RESULT: Final = ToolResult(call_id=CallId("call_1"), ok=True, output="1 failed")
FIXED: Final = "Fixed: the clock was read twice."


class Story(NamedTuple):
    """What happened in a turn, and how its owner saw it end; an open turn has no ending."""

    told: str
    events: tuple[Payload, ...] = ()
    ending: Ending | None = None
    owner_alive: bool = True
    late: tuple[Payload, ...] = ()


def ends(reason: TerminationReason, text: str = "") -> Ending:
    return Ending(run_id=RUN, reason=reason, text=text, budget_seconds=600, elapsed_seconds=600.4)


STORIES: Final = (
    Story("ran a tool, then answered", (CALL, RESULT), ends(NATURAL_END, FIXED)),
    Story("the stream broke after half an answer", (), ends(TerminationReason.error("connection reset"), "Fixed: the")),
    Story("the process ended cleanly, and said nothing", (CALL, RESULT), ends(NATURAL_END)),
    Story(
        "the answer is there, and a tool never came back",
        (CALL, AssistantMessage(text=FIXED), RunState(run_id=RUN, status=RunStatus.DONE, reason=NATURAL_END)),
    ),
    Story("asked for an approval", (CALL, RunState(run_id=RUN, status=RunStatus.WAITING, reason=SUSPENDED))),
    Story("a person pressed Escape", (CALL,), ends(CANCELLED, "Looking at")),
    Story("ten minutes were up", (CALL,), ends(TerminationReason.stopped("timeout"), "Still")),
    Story(
        "the runtime was killed in the middle of the answer",
        (StreamCheckpoint(stream_id=StreamId("str_1"), offset=10, text="Fixed: the"),),
        owner_alive=False,
    ),
    Story(
        "it runs, and an old process reports its end",
        late=(RunState(run_id=RUN, status=RunStatus.DONE, reason=NATURAL_END),),
    ),
)


def demo(*, json: Annotated[bool, Parameter(negative="")] = False) -> None:
    """Fold scripted histories of one turn each, and print how each turn stands and why.

    Parameters
    ----------
    json
        Print JSON for a script.
    """
    told = [(story.told, *play(story)) for story in STORIES]
    if json:
        output.print_json([{"happened": happened, "turn": record} for happened, record, _ in told])
        return
    output.print_text(INTRODUCTION)
    rows = [(happened, record.state.value, _proof(record), _detail(record, fold)) for happened, record, fold in told]
    output.print_table(("WHAT HAPPENED", "THE TURN IS", "PROOF", "AND"), rows)
    output.print_text(f"\n{CLOSING_WORDS}")


def play(story: Story) -> tuple[TurnRecord, TurnFold]:
    """Write a story's events, close its turn as the runtime would, and classify what is in the log then."""
    scribe = Scribe("ses_demo")
    scribe.write(*BEGIN, *story.events, turn="trn_demo", spawn="spn_2")
    fold = fold_turns(scribe.events)
    (facts,) = fold.turns.values()
    batch = closing_batch(facts, story.ending) if story.ending is not None else ()
    for event in (*scribe.write(*batch, turn="trn_demo"), *scribe.write(*story.late, turn="trn_demo", spawn="spn_1")):
        fold.add(event)
    (record,) = fold.records(owner_alive=story.owner_alive)
    return record, fold


def _proof(record: TurnRecord) -> str:
    return ", ".join(f"{proof.where} #{proof.seq}" for proof in record.evidence) or "none"


def _detail(record: TurnRecord, fold: TurnFold) -> str:
    return "; ".join(_details(record, fold)) or "nothing is odd"


def _details(record: TurnRecord, fold: TurnFold) -> Iterable[str]:
    if record.error_kind:
        yield record.error_kind
    if record.settles_as is not None:
        yield f"recovery would write {record.settles_as.value}"
    if record.state.value == "waiting":
        yield "next: " + ", ".join(action.command or action.kind.value for action in record.next_actions[:1])
    for finding in fold.findings:
        yield finding.message
