"""`interlock debug replay`: what a model would be given of a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from cyclopts import Parameter

from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.home import HomeOption, JsonFlag, SessionArgument, read_log, tell_damage
from interlock.cli.log.event_lines import columns_left, shorten
from interlock.cli.log.stored_sessions import find_session
from interlock.log.port import Slice
from interlock.log.sqlite.store import SqliteLog
from interlock.projections.replay.explain import Explained, explain
from interlock.projections.replay.items import ReplayItem, encode_items, prefix_digests
from interlock.projections.replay.provider_input import fold_replay, prefix_changes
from interlock.vocabulary.errors import UsageError


def replay(
    session: SessionArgument,
    /,
    *,
    model: str = "",
    dialect: str = "",
    explain: Annotated[bool, Parameter(negative="")] = False,
    digest: Annotated[bool, Parameter(negative="")] = False,
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Print the provider-neutral items of a session, in the order in which a model is given them.

    Parameters
    ----------
    model
        The model that would be asked. Without it no reasoning is replayed.
    dialect
        The dialect that it would be asked in.
    explain
        Print, for every event, whether it is in or out and by which rule.
    digest
        Print the SHA-256 of the whole input, and every place where its prefix changed.
    """
    if explain and digest:
        raise UsageError("--explain and --digest are two answers", remedy="ask for one at a time")

    async def work(log: SqliteLog) -> int:
        found = await log.read((await find_session(log, session)).session_id)
        if explain:
            _print_reasons(found, model, dialect, json=json)
        elif digest:
            _print_digest(found, model, dialect, json=json)
        else:
            _print_items(fold_replay(found.events, model=model, dialect=dialect).items(), json=json)
        return ExitCode.DAMAGED_LOG if tell_damage(found.damage) else ExitCode.COMPLETED

    return read_log(home, work)


def _print_items(items: Sequence[ReplayItem], *, json: bool) -> None:
    for index, item in enumerate(items):
        line = encode_items((item,)).rstrip()
        if json:
            output.print_json(msgspec.Raw(line))
            continue
        fields = msgspec.json.decode(line, type=dict[str, object])
        kind = str(fields.pop("type"))
        # Where an item is one text, the text says it best; else all its fields do.
        told = repr(fields["text"]) if fields.keys() == {"text"} else output.encode_json(fields)
        start = f"{index:>6}  {kind:<18} "
        output.print_text(start + shorten(output.escape(told), columns_left(len(start))))


def _print_reasons(found: Slice, model: str, dialect: str, *, json: bool) -> None:
    reasons = explain(found.events, model=model, dialect=dialect)
    if json:
        for reason in reasons:
            output.print_json(reason)
    else:
        output.print_table(("SEQ", "TYPE", "IN", "ITEM", "RULE", "BECAUSE"), [_row(reason) for reason in reasons])


def _row(reason: Explained) -> tuple[str, ...]:
    item = "" if reason.item is None else str(reason.item)
    return str(reason.seq), reason.type, "in" if reason.included else "out", item, reason.rule.value, reason.reason


def _print_digest(found: Slice, model: str, dialect: str, *, json: bool) -> None:
    fold = fold_replay(found.events, model=model, dialect=dialect)
    items = fold.items()
    sha256 = prefix_digests(items)[-1]
    changes = prefix_changes(found.events, model=model, dialect=dialect)
    if json:
        answer = {"version": found.version, "items": len(items), "settled_items": fold.settled_count, "sha256": sha256}
        output.print_json({**answer, "prefix_changes": changes})
        return
    output.print_text(f"{sha256}  {len(items)} items, {fold.settled_count} of them final, at event {found.version}")
    for change in changes:
        output.print_text(f"prefix changed at event {change.seq}: {change.reason} ({change.kept_items} items kept)")
