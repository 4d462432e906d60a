"""`interlock blame`: which turn of which session changed a file last, by the log and the trees that it names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from cyclopts import Parameter

from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.home import HomeOption, JsonFlag, read_log

if TYPE_CHECKING:
    import apsw

    from interlock.agents.git.running import Git
    from interlock.cli.wire.json_shapes import FileBlameJson, FileVersionJson
    from interlock.log.sqlite.store import SqliteLog
    from interlock.vocabulary.events.workspace import WorkspaceChanged

FileArgument = Annotated[Path, Parameter(help="A file in a git work tree; it may be deleted.")]
# Written by `encode_event`, whose first key is the type.
_TYPE: Final = "workspace_changed"


@dataclass(frozen=True, slots=True)
class _Edge:
    """One recorded tree, with the session that it is of."""

    session_id: str
    at: datetime
    told: WorkspaceChanged


@dataclass(slots=True)
class _Found:
    """The last change of the file: by a turn, or between turns (`edge` is the start that showed it). `entry` is the
    file in the last tree that is known. `others`: turns in other work trees that made the same of it."""

    edge: _Edge | None = None
    is_of_turn: bool = False
    change: str = ""
    entry: str | None = None
    unknown_turns: int = 0
    others: tuple[_Edge, ...] = ()


def blame(file: FileArgument, /, *, home: HomeOption = None, json: JsonFlag = False) -> int:
    """Print which turn of which session changed FILE last, and whether it changed since.

    It rests on the trees at the start and end of each turn. What changed between turns was no turn of these sessions,
    and is said so, unless a turn in another work tree of the repository left the file byte for byte as it is: its work
    was merged. Exit code 7: no turn is known that changed the file.
    """
    from interlock.agents.git.looking import decoded, look_at_one, path_in
    from interlock.agents.git.repository import NoRepository, OddRepository, find_repository
    from interlock.vocabulary.errors import UsageError

    place = Path(os.path.abspath(file))  # noqa: PTH100  (a link is a file of its own, and is not resolved)
    try:
        repository = find_repository(_folder_of(place))
    except OddRepository as error:
        raise UsageError(str(error), remedy="look at its `.git/config` with git") from error
    except NoRepository:
        return _blame_listed(place, home, json=json)
    path = path_in(repository.root, _folder_of(place).resolve() / place.relative_to(_folder_of(place)))

    async def work(log: SqliteLog) -> int:
        root, now = str(repository.root), look_at_one(repository, path)
        edges = await log.query(lambda connection: list(_edges(connection, root, str(repository.common))))
        here = [edge for edge in edges if _is_below(edge.told.root, root)]
        with repository.objects() as objects:
            found = _last_change(objects, here, os.fsdecode(path))
            if not found.is_of_turn or found.entry != now:
                elsewhere = [edge for edge in edges if not _is_below(edge.told.root, root)]
                _look_elsewhere(objects, elsewhere, path, now, found)
        told = _json_of(decoded(path), root, found, now)
        if json:
            output.print_json(told)
        else:
            output.print_text("\n".join(output.escape(line) for line in _lines(told)))
        return ExitCode.COMPLETED if found.edge is not None else ExitCode.UNKNOWN

    return read_log(home, work)


def _blame_listed(place: Path, home: Path | None, *, json: bool) -> int:
    """Of a folder without git: the last turn whose record names the file, with the hash that it left."""
    from interlock.runtime.workspace.manifest import digest_of

    place = _folder_of(place).resolve() / place.relative_to(_folder_of(place))

    async def work(log: SqliteLog) -> int:
        edges = await log.query(lambda connection: list(_edges(connection, "/", "")))
        found, now = _Found(), digest_of(place)
        for edge in edges:
            told = edge.told
            if not _is_below(str(place), told.root) or told.repository:
                continue
            path = str(place.relative_to(told.root))
            change = next((one for one in told.files if one.path == path), None)
            found.unknown_turns += not told.manifest or (change is None and told.file_count > len(told.files))
            if change is not None:
                found.edge, found.is_of_turn, found.entry = edge, True, change.after
                found.change = _change_word(change.before, change.after)
        root = str(place.parent) if found.edge is None else found.edge.told.root
        told_json = _json_of(str(place.relative_to(root)), root, found, now)
        if json:
            output.print_json(told_json)
        else:
            output.print_text("\n".join(output.escape(line) for line in _lines(told_json)))
        return ExitCode.COMPLETED if found.edge is not None else ExitCode.UNKNOWN

    return read_log(home, work)


def _folder_of(place: Path) -> Path:
    """The nearest folder that is there: the file may be deleted with its own."""
    return next(one for one in place.parents if one.is_dir())


def _is_below(place: str, root: str) -> bool:
    return place == root or place.startswith(f"{root}/")


def _edges(connection: apsw.Connection, root: str, common: str) -> Iterator[_Edge]:
    """Every tree that was recorded of a work tree, or another one of its repository, in the order of the log."""
    from interlock.vocabulary.errors import MalformedEvent
    from interlock.vocabulary.events.codec import decode_event
    from interlock.vocabulary.events.workspace import WorkspaceChanged

    rows = connection.execute("SELECT line FROM events WHERE instr(line, ?) ORDER BY position", (_TYPE.encode(),))
    for (line,) in rows:
        try:
            event = decode_event(bytes(line))
        except MalformedEvent:
            continue
        told = event.data
        if isinstance(told, WorkspaceChanged) and (told.repository == common or _is_below(told.root, root)):
            yield _Edge(event.session_id, event.ts, told)


def _last_change(objects: Git, edges: list[_Edge], path: str) -> _Found:
    """Step from tree to tree: a turn changed what differs between its own two, somebody else what differs elsewhere."""
    from interlock.agents.git.comparing import entry_at
    from interlock.vocabulary.events.workspace import WorkspacePhase

    found, entries, starts = _Found(), dict[str, str | None](), dict[tuple[str, str], str | None]()
    for edge in edges:
        told, turn = edge.told, (edge.session_id, edge.told.turn_id)
        if told.tree and told.tree not in entries:
            entries[told.tree] = entry_at(objects, told.tree, path)
        now = entries.get(told.tree)
        if now is None:
            found.unknown_turns += 1
            continue
        if told.phase is WorkspacePhase.START:
            starts[turn] = now
            _note(found, edge, now, is_of_turn=False)
        else:
            found.unknown_turns += turn not in starts
            _note(found, edge, now, is_of_turn=starts.get(turn, now) != now)
        found.entry = now
    return found


def _note(found: _Found, edge: _Edge, now: str, *, is_of_turn: bool) -> None:
    """A tree that is as the one before it, whichever turn that was of, tells of no change."""
    before = found.entry
    if before is not None and before != now:
        found.edge, found.is_of_turn = edge, is_of_turn
        found.change = _change_word(before, now)


def _look_elsewhere(objects: Git, edges: list[_Edge], path: bytes, now: str, found: _Found) -> None:
    """A turn in another work tree whose own change left the file as it is now, if the file was not so there before all
    turns. The first that did, if there are more."""
    from interlock.agents.git.comparing import entry_at
    from interlock.agents.git.looking import decoded
    from interlock.vocabulary.events.workspace import WorkspacePhase

    first, starts, made = dict[str, str](), dict[tuple[str, str], str](), dict[str, tuple[_Edge, str]]()
    for edge in edges:
        told, turn = edge.told, (edge.session_id, edge.told.turn_id)
        if told.tree:
            first.setdefault(told.root, told.tree)
        if told.phase is WorkspacePhase.START:
            starts[turn] = told.tree
        elif told.tree and starts.get(turn) and _may_have_changed(told, starts[turn], decoded(path)):
            before, after = (entry_at(objects, tree, os.fsdecode(path)) for tree in (starts[turn], told.tree))
            if after == now and before is not None and before != now:
                made[told.root] = edge, _change_word(before, now)
    for root in list(made):
        if entry_at(objects, first[root], os.fsdecode(path)) in (now, None):
            del made[root]  # it was brought back there: that it is so here says nothing
    if made:
        (found.edge, found.change), *others = made.values()
        found.is_of_turn, found.entry, found.others = True, now, tuple(edge for edge, _ in others)


def _change_word(before: str, now: str) -> str:
    return "made" if not before else "changed" if now else "deleted"


def _may_have_changed(end: WorkspaceChanged, start_tree: str, path: str) -> bool:
    """Whether the record of a turn's end names the file, or does not name all."""
    is_whole = end.base == start_tree and end.file_count == len(end.files)
    return not is_whole or any(one.path == path for one in end.files)


# What is printed


def _json_of(path: str, root: str, found: _Found, now: str) -> FileBlameJson:
    edge = found.edge
    since = None if found.entry is None else found.entry != now
    last: FileVersionJson | None = None
    if edge is not None:
        last = {
            "session_id": edge.session_id if found.is_of_turn else None,
            "turn_id": edge.told.turn_id if found.is_of_turn else None,
            "at": edge.at.isoformat(),
            "change": found.change,
            "work_tree": edge.told.root,
            "doubts": [*_doubts(edge.told, path), *(_same_words(one) for one in found.others)],
        }
    return {
        "path": path,
        "last": last,
        "is_known": edge is not None,
        "is_here": edge is None or _is_below(edge.told.root, root),
        "changed_since": since,
        "unknown_turns": found.unknown_turns,
    }


def _doubts(told: WorkspaceChanged, path: str) -> Iterator[str]:
    """Of what makes a tree prove less: what concerns this file."""
    from interlock.projections.workspace import doubts_of

    others = {one for one in told.late if one != path}
    yield from doubts_of(msgspec.structs.replace(told, late=tuple(set(told.late) - others), not_kept=()))


def _same_words(other: _Edge) -> str:
    return f"turn {other.told.turn_id} of {other.session_id} made the same of it in {other.told.root}"


def _lines(told: FileBlameJson) -> Iterator[str]:
    last = told["last"]
    if last is None:
        yield f"{told['path']}: no turn that is known changed it"
    elif last["turn_id"] is None:
        yield f"{told['path']}: {last['change']} between turns, seen at {last['at']}: by no turn that is known"
    else:
        yield f"{told['path']}: {last['change']} by turn {last['turn_id']} of {last['session_id']}, {last['at']}"
    if last is not None:
        merged = "" if told["is_here"] else ": the file here is byte for byte as that turn left it"
        yield f"  in {last['work_tree']}{merged}"
        yield from (f"  in doubt: {doubt}" for doubt in last["doubts"])
    if told["changed_since"]:
        yield "  it changed since, and by no turn that is known"
    if told["unknown_turns"]:
        yield f"  {told['unknown_turns']} recorded edges of turns have no tree that can be read: one of them may have"
