"""`interlock demo --log`: the log and its classifier, with histories that are written here and a crash that is real."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from interlock.cli import output
from interlock.cli.demo.crash import crash_and_recover
from interlock.lifecycle.closing import Ending, closing_batch
from interlock.lifecycle.turns import TurnFold, TurnRecord, fold_turns
from interlock.log.port import Log
from interlock.log.sqlite.store import SqliteLog
from interlock.projections.why import why
from interlock.projections.why_lines import render_lines
from interlock.testing.scribe import Scribe
from interlock.vocabulary.advice import advice_lines
from interlock.vocabulary.ending_words import ending_detail
from interlock.vocabulary.events.audit import RunState, StreamCheckpoint, TurnStarted
from interlock.vocabulary.events.conversation import AssistantMessage, ToolCall, ToolResult, UserMessage
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.ids import CallId, RunId, SessionId, StreamId
from interlock.vocabulary.run import CANCELLED, NATURAL_END, SUSPENDED, RunStatus, TerminationReason
from interlock.vocabulary.states import DriverKind

INTRODUCTION: Final = """\
Interlock watches coding agents and never claims more than it can prove.

No agent runs here. Below, scripted histories of one turn each were appended to
a real log on disk and read back; the real classifier, the one that every
surface asks, says how each turn stands.
"""
STORIES_CLOSE: Final = """\
PROOF names the events that decided, by type and sequence number.
A turn whose end cannot be proven is left open.
"""
CRASH: Final = """\
Now a real crash: a second process opened the same log, streamed an answer
into it, and was killed with SIGKILL in the middle of it.

  the next process took the log over by itself: the old writer is provably dead
  the turn was found {before}, with this text on disk: {kept!r}
  recovery closed it as {after}, keeping that text as partial

And why, for two of these turns:
"""
CLOSING_WORDS: Final = """\
Everything above was read back from the log; it is deleted now. To go on:
`interlock --help`, `interlock debug machines turn` for the table that decides."""

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


def show(*, json: bool) -> None:
    """Write the histories to a log of their own, kill a writer for real, and say how each turn stands and why."""
    import asyncio
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="interlock-demo-") as folder:
        asyncio.run(_show(Path(folder) / "home", json=json))


async def _show(home: Path, *, json: bool) -> None:
    async with await SqliteLog.open(home) as log:
        told = [(story, await play(log, story, number)) for number, story in enumerate(STORIES, start=1)]
    if not json:
        output.print_text(INTRODUCTION)
        rows = [
            (story.told, record.state.value, _proof(record), _detail(record, fold)) for story, (record, fold) in told
        ]
        output.print_table(("WHAT HAPPENED", "THE TURN IS", "PROOF", "AND"), rows)
        output.print_text(f"\n{STORIES_CLOSE}")
    before, after, kept = await crash_and_recover(home)
    async with await SqliteLog.open(home, readonly=True) as log:
        broken = (await log.read(_session(2))).events
        crashed = (await log.read(after.session_id)).events
    if json:
        stories = [{"happened": story.told, "turn": record} for story, (record, _) in told]
        output.print_json({"stories": stories, "crash": {"found": before, "recovered": after, "kept_text": kept}})
        return
    output.print_text(CRASH.format(before=before.state.value, kept=kept, after=after.state.value))
    for events in (broken, crashed):
        output.print_text("\n".join(render_lines(why(events))) + "\n")
    output.print_text(CLOSING_WORDS)


async def play(log: Log, story: Story, number: int) -> tuple[TurnRecord, TurnFold]:
    """Write a story's events, close its turn as the runtime would, and classify what the log holds then."""
    session_id = _session(number)
    scribe = Scribe(session_id)
    version = await log.append(session_id, scribe.write(*BEGIN, *story.events, turn="trn_demo", spawn="spn_2"))
    if story.ending is not None:
        (facts,) = fold_turns((await log.read(session_id)).events).turns.values()
        batch = scribe.write(*closing_batch(facts, story.ending), turn="trn_demo")
        version = await log.append(session_id, batch, expected_version=version)
    if story.late:
        await log.append(session_id, scribe.write(*story.late, turn="trn_demo", spawn="spn_1"))
    fold = fold_turns((await log.read(session_id)).events)
    (record,) = fold.records(owner_alive=story.owner_alive)
    return record, fold


def _session(number: int) -> SessionId:
    return SessionId(f"ses_demo_{number}")


def _proof(record: TurnRecord) -> str:
    return ", ".join(f"{proof.where} #{proof.seq}" for proof in record.evidence) or "none"


def _detail(record: TurnRecord, fold: TurnFold) -> str:
    return "; ".join(_details(record, fold)) or "nothing is odd"


def _details(record: TurnRecord, fold: TurnFold) -> Iterable[str]:
    detail = ending_detail(record.state.value, record.error_kind, record.error_message)
    if detail:
        yield detail
    if record.settles_as is not None:
        yield f"recovery would write {record.settles_as.value}"
    if record.state.value == "waiting":
        yield (
            "next: "
            + advice_lines(((one.kind.value, one.command) for one in record.next_actions), record.session_id)[0]
        )
    for finding in fold.findings:
        yield finding.message
