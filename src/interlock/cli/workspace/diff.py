"""`interlock diff`: what each turn of a session did to its work tree, between its own two trees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.home import HomeOption, JsonFlag, SessionArgument, read_log, slices, tell_damage
from interlock.cli.log.stored_sessions import as_number, find_session
from interlock.cli.pager import print_paged
from interlock.cli.tables import Line, Tone
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.ids import TurnId

if TYPE_CHECKING:
    from interlock.agents.git.comparing import TreeChange
    from interlock.cli.wire.json_shapes import FileChangeJson, TurnDiffJson, WorkspaceDiffJson
    from interlock.log.port import LogDamage
    from interlock.log.sqlite.store import SqliteLog
    from interlock.projections.workspace import TurnTrees
    from interlock.runtime.workspace.turn_diffs import TurnDiff

TurnOption = Annotated[str, Parameter(help="Only this turn: its number, or its id.")]
StatFlag = Annotated[bool, Parameter(negative="", help="Files and counts, without the lines.")]
VerifyFlag = Annotated[bool, Parameter(negative="", help="Check that each tree that the log names is kept whole.")]
_TONES: Final = {"+": Tone.CALM, "-": Tone.URGENT, "@": Tone.ACTIVE}
_WORDS: Final = {"A": "new", "D": "deleted", "M": "changed", "T": "another kind"}


def diff(
    session: SessionArgument,
    /,
    *,
    turn: TurnOption = "",
    stat: StatFlag = False,
    verify: VerifyFlag = False,
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Print what each turn did to the files, turn by turn: the difference between the tree at its start and the tree
    at its end, both kept in the repository. A turn without both is unknown; what changed between turns is told apart.
    """

    from interlock.runtime.workspace.turn_diffs import WHOLE, diff_of

    async def work(log: SqliteLog) -> int:
        turns, damage = await _turns_of(log, session)
        wanted = _choose(turns, turn)
        patch_of = None if stat else WHOLE
        found = [diff_of(one, before, verify=verify, patch_of=patch_of) for before, one in wanted]
        if json:
            output.print_json(_json_of(found))
        elif found:
            print_paged([line for one in found for line in _lines(one)])
        else:
            output.note(
                "no turn of this session has a record: in a folder without git, only those that changed files have"
            )
        if tell_damage(damage):
            return ExitCode.DAMAGED_LOG
        return _exit_code(found)

    return read_log(home, work)


async def _turns_of(log: SqliteLog, session: str) -> tuple[list[TurnTrees], list[LogDamage]]:
    from interlock.projections.workspace import WorkspaceView

    session_id = (await find_session(log, session)).session_id
    view, damage = WorkspaceView(), list["LogDamage"]()
    async for found in slices(log, session_id):
        view.feed(found.events)
        damage += found.damage
    return list(view.turns.values()), damage


def _choose(turns: Sequence[TurnTrees], named: str) -> list[tuple[TurnTrees | None, TurnTrees]]:
    """The turns that are meant, each with the one before it. Without a name: all, if any has a tree."""
    pairs = list(zip([None, *turns], turns, strict=False))
    if not named:
        return pairs if any(one.has_record for one in turns) else []
    number = as_number(named)
    found = [pair for pair in pairs if pair[1].turn_id == TurnId(named)]
    found = found or [pair for pair in pairs if pair[1].number == number]
    if not found:
        raise UsageError(f"there is no turn {named} in this session", remedy=f"it has {len(turns)}")
    return found


def _exit_code(found: Sequence[TurnDiff]) -> ExitCode:
    if any(one.damage for one in found):
        return ExitCode.FAILED
    known = sum(not one.unknown for one in found)
    if found and all(one.turn.is_certain and not one.unknown for one in found):
        return ExitCode.COMPLETED
    return ExitCode.PARTIAL if known else ExitCode.UNKNOWN


# What is printed


def _lines(one: TurnDiff) -> Iterator[Line]:
    turn = one.turn
    if one.between:
        yield [(f"before turn {turn.number}, not by a turn of this session: {_counts(one.between)}", Tone.DOUBTFUL)]
        yield from (_file_line(change) for change in one.between)
    head = f"turn {turn.number}  {turn.turn_id}  "
    if one.unknown:
        yield [(head, ""), (f"unknown: {one.unknown}", Tone.DOUBTFUL)]
    else:
        yield [(head, ""), (_counts(one.changes) + ("" if turn.is_certain else ", in doubt"), "")]
    yield from ([("  damaged: ", Tone.URGENT), (text, "")] for text in one.damage)
    yield from ([("  in doubt: ", Tone.DOUBTFUL), (text, "")] for text in turn.doubts)
    yield from ([("  no patch: ", Tone.DOUBTFUL), (one.trouble, "")] for _ in one.trouble[:1])
    yield from (_file_line(change, turn) for change in one.changes)
    yield from ([(line, _tone(line))] for line in one.patch.splitlines())


def _tone(line: str) -> str:
    return Tone.PLAIN if line.startswith(("+++", "---")) else _TONES.get(line[:1], Tone.PLAIN)


def _file_line(change: TreeChange, turn: TurnTrees | None = None) -> Line:
    unknown = "" if turn is not None and turn.is_manifest else "binary"
    lines = unknown if change.added is None else f"+{change.added} -{change.removed}"
    review = None if turn is None else turn.reviews.get(change.path)
    said = "" if review is None else f"  ({review.act.value.replace('_', ' ')})"
    return [(f"  {_WORDS.get(change.change, change.change):<8} {lines:>10}  {output.escape(change.path)}{said}", "")]


def _counts(changes: Sequence[TreeChange]) -> str:
    if not changes:
        return "changed no file"
    added, removed = sum(one.added or 0 for one in changes), sum(one.removed or 0 for one in changes)
    count = f"{len(changes)} {'file' if len(changes) == 1 else 'files'}"
    is_uncounted = all(one.added is None for one in changes)
    return count if is_uncounted else f"{count} +{added} -{removed}"


def _json_of(found: Sequence[TurnDiff]) -> WorkspaceDiffJson:
    return {"turns": [_turn_json(one) for one in found]}


def _turn_json(one: TurnDiff) -> TurnDiffJson:
    start, end = one.turn.start, one.turn.end
    return {
        "turn_id": one.turn.turn_id,
        "number": one.turn.number,
        "is_known": not one.unknown,
        "is_certain": one.turn.is_certain and not one.unknown,
        "unknown": one.unknown,
        "tree_before": "" if start is None else start.tree,
        "tree_after": "" if end is None else end.tree,
        "start_seq": one.turn.start_seq,
        "end_seq": one.turn.end_seq,
        "files": [_file_json(change, one.turn) for change in one.changes],
        "between": [_file_json(change) for change in one.between],
        "doubts": list(one.turn.doubts),
        "damage": list(one.damage),
        "patch": one.patch,
    }


def _file_json(change: TreeChange, turn: TurnTrees | None = None) -> FileChangeJson:
    review = None if turn is None else turn.reviews.get(change.path)
    return {
        "path": change.path,
        "change": change.change,
        "before": change.before,
        "after": change.after,
        "added": change.added,
        "removed": change.removed,
        "review": "new" if review is None else review.act.value,
    }
