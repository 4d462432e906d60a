"""`interlock worktree prune`: what was kept for sessions and can go: worktrees, trees of turns, and what was set aside.

Laws:
1. Nothing goes without a proof, and nothing of a session that is not in this log, or is not over.
2. What stays although its session is over is told with the reason.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from cyclopts import Parameter

from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.home import HomeOption, JsonFlag, read_log
from interlock.cli.server.api import ServerApi, home_folder
from interlock.cli.wire.routes import PAGE, TASKS
from interlock.cli.workspace.worktree import remove
from interlock.vocabulary.errors import InterlockError, UsageError
from interlock.vocabulary.events.workspace import WorktreePhase
from interlock.vocabulary.wire.resources import RemoveWorktree

if TYPE_CHECKING:
    import apsw

    from interlock.agents.git.pruning import KeptRef
    from interlock.cli.wire.json_shapes import PrunedKeptJson, PrunedWorktreeJson, PrunedWorktreesJson
    from interlock.log.sqlite.store import SqliteLog

ApplyFlag = Annotated[bool, Parameter(negative="", help="Remove those that nothing is lost with.")]
_LINES: Final = """SELECT session_id, line FROM events WHERE instr(line, 'worktree_changed')
    OR instr(line, 'workspace_changed') OR instr(line, 'session_deleted') ORDER BY position"""
_PAGE: Final = 1000


class _Data(msgspec.Struct):
    repository: str = ""
    source: str = ""
    phase: str = ""
    head: str = ""
    after: str = ""


class _Line(msgspec.Struct):
    type: str
    data: _Data


@dataclass(slots=True)
class _Session:
    """What the log says of one session."""

    is_purged: bool = False
    is_archived: bool = False
    source: str = ""
    merges: list[tuple[str, str]] = field(default_factory=list)


@dataclass(slots=True)
class _Known:
    sessions: dict[str, _Session] = field(default_factory=lambda: defaultdict(_Session))
    repositories: set[str] = field(default_factory=set)


def prune(*, apply: ApplyFlag = False, home: HomeOption = None, json: JsonFlag = False) -> int:
    """List what nothing is lost with, and with --apply remove it: worktrees whose work is merged, or kept by another
    branch, or that are gone; refs that keep the trees of turns of sessions that were purged, or archived with all their
    files in a commit; and folders of the attic whose every file is in the source. The rest stays, each with the reason.

    It looks into the repositories that the log names, and into that of the present folder.
    """
    api = ServerApi.of_home(home_folder(home))
    told: list[PrunedWorktreeJson] = []
    for task in list(api.items(TASKS, limit=PAGE)):
        tree = task["worktree"]
        if tree is not None and tree["phase"] != "removed":
            told.append(_pruned(api, str(task["task_id"]), tree["path"], apply=apply))
    folder = home_folder(home) / "worktrees"

    async def work(log: SqliteLog) -> int:
        known = await log.query(_known)
        after = None
        while True:
            page = await log.sessions(after=after, limit=_PAGE)
            for one in page.sessions:
                known.sessions[one.session_id].is_purged = one.is_purged
            after = page.next_after
            if after is None:
                break
        kept = [*_refs(known, folder, apply=apply), *_attics(known, folder, apply=apply)]
        _tell({"worktrees": told, "kept": kept}, apply=apply, json=json)
        return ExitCode.COMPLETED

    return read_log(home, work)


def _known(connection: apsw.Connection) -> _Known:
    known = _Known()
    for session_id, line in connection.execute(_LINES):
        try:
            read = msgspec.json.decode(bytes(line), type=_Line)
        except msgspec.MsgspecError:
            continue
        session, data = known.sessions[str(session_id)], read.data
        if read.type == "session_deleted":
            session.is_archived = True
        elif read.type in ("worktree_changed", "workspace_changed"):
            known.repositories.update({data.repository} - {""})
            session.source = data.source or session.source
            if data.phase == WorktreePhase.MERGED.value:
                session.merges.append((data.head, data.after))
    return known


def _repositories(known: _Known) -> Iterator[Path]:
    from interlock.agents.git.repository import NoRepository, find_repository

    found = {Path(one) for one in known.repositories}
    with suppress(NoRepository, OSError):
        found.add(find_repository(Path.cwd()).common)
    yield from sorted(found)


def _refs(known: _Known, folder: Path, *, apply: bool) -> Iterator[PrunedKeptJson]:
    from interlock.agents.git.pruning import JOURNAL, kept_refs, proof_of, prune_ref
    from interlock.agents.git.snapshot import ref_of

    owners = {ref_of(name).rpartition("/")[2]: name for name in known.sessions}
    for common in _repositories(known):
        for ref in kept_refs(common):
            session_id = owners.get([*ref.name.split("/"), "", ""][3], "")
            session = known.sessions.get(session_id)
            if session is None or not (session.is_purged or session.is_archived):
                continue  # law 1
            try:
                why = proof_of(ref, is_purged=session.is_purged, merges=session.merges)
                if why and apply:
                    prune_ref(ref, folder / JOURNAL, session_id, why)
            except (InterlockError, OSError) as error:
                yield _kept(ref, session_id, can_go=False, is_removed=False, why=str(error))
                continue
            stays = why or "its files are in no commit of a branch, a remote branch or a tag"
            yield _kept(ref, session_id, can_go=bool(why), is_removed=bool(why) and apply, why=stays)


def _kept(ref: KeptRef, session_id: str, *, can_go: bool, is_removed: bool, why: str) -> PrunedKeptJson:
    return {
        "session_id": session_id,
        "what": "ref",
        "name": ref.name,
        "repository": str(ref.common),
        "commit": ref.object_id,
        "is_removed": is_removed,
        "can_go": can_go,
        "why": why,
    }


def _attics(known: _Known, folder: Path, *, apply: bool) -> Iterator[PrunedKeptJson]:
    from interlock.agents.git.pruning import JOURNAL, attic_folders, attic_loss, prune_attic
    from interlock.agents.git.repository import nearest_root

    for place in attic_folders(folder / "attic"):
        session_id = next((name for name in known.sessions if f"-{name}" in place.name), "")
        session = known.sessions.get(session_id)
        if session is None or not (session.is_purged or session.is_archived):
            continue
        source = nearest_root(Path(session.source)) if session.source else None
        why = "where it came from is not known" if source is None else ""
        is_removed = False
        try:
            loss = "" if source is None else attic_loss(place, source)
            why = why or (f"{loss} is nowhere else" if loss else "")
            if source is not None and not why and apply:
                is_removed = prune_attic(place, source, folder / JOURNAL, session_id)
        except OSError as error:
            why = str(error)
        yield {
            "session_id": session_id,
            "what": "attic",
            "name": str(place),
            "repository": "",
            "commit": "",
            "is_removed": is_removed,
            "can_go": not why,
            "why": why or "every file of it is in the source",
        }


def _tell(told: PrunedWorktreesJson, *, apply: bool, json: bool) -> None:
    if json:
        output.print_json(told)
        return
    lines = [_pruned_words(one, apply=apply) for one in told["worktrees"]]
    lines += [_kept_words(one) for one in told["kept"]]
    if lines:
        output.print_text("\n".join(output.escape_lines(line) for line in lines))
    else:
        output.note("no worktree is there, and nothing is kept for sessions that are over")


def _kept_words(one: PrunedKeptJson) -> str:
    where = f"{one['name']} in {one['repository']}" if one["repository"] else one["name"]
    state = "removed" if one["is_removed"] else "can go" if one["can_go"] else "stays"
    return f"{where}  {state}\n  {one['why']}"


def _pruned(api: ServerApi, session_id: str, path: str, *, apply: bool) -> PrunedWorktreeJson:
    try:
        done = remove(api, session_id, RemoveWorktree(dry_run=not apply))
    except UsageError as error:
        why = str(error).removesuffix(f"; {error.remedy}")
        return {"session_id": session_id, "path": path, "is_removed": False, "can_go": False, "why": why}
    for note in done.notes:
        output.note(f"warning: {note}")
    is_removed = done.worktree.phase is WorktreePhase.REMOVED
    return {"session_id": session_id, "path": path, "is_removed": is_removed, "can_go": True, "why": ""}


def _pruned_words(one: PrunedWorktreeJson, *, apply: bool) -> str:
    if not one["can_go"]:
        return f"{one['path']}  stays\n  {one['why']}"
    return f"{one['path']}  {'removed' if apply else 'can go: nothing would be lost'}"
