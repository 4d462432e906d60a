"""`interlock session history`: every life of an agent's process, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from interlock.cli import output
from interlock.cli.look.session_lines import duration, find_task, read_moment, short_ids
from interlock.cli.server import options
from interlock.cli.server.api import ServerApi, home_folder
from interlock.cli.tables import Column, TableRow, Tone, table
from interlock.cli.wire.routes import PAGE, SPAWNS, task_spawns

if TYPE_CHECKING:
    from interlock.cli.wire.json_shapes import SpawnsJson
    from interlock.vocabulary.wire.json_types import SpawnRowJson

_COLUMNS = (
    Column("SESSION"),
    Column("AGENT", 6, gives=1),
    Column("STATE"),
    Column("PID", is_number=True),
    Column("BEGAN"),
    Column("FOR", is_number=True),
    Column("END", 14),
)
_TONES = {"running": Tone.ACTIVE, "failed": Tone.URGENT, "unclean": Tone.DOUBTFUL, "unknown": Tone.DOUBTFUL}


def spawns(
    session: options.SessionArgument | None = None,
    /,
    *,
    home: options.HomeOption = None,
    json: options.JsonFlag = False,
) -> int:
    """List every life of an agent, of one session or of all, oldest first within a session.

    `unknown`: nobody looked whether it lives. `unclean`: it is gone, and nobody saw its end.
    """
    api = ServerApi.of_home(home_folder(home))
    route = SPAWNS if session is None else task_spawns(find_task(api, session)["task_id"])
    rows = list(api.items(route, limit=PAGE))
    if json:
        told: SpawnsJson = {"spawns": rows}
        output.print_json(told)
    elif rows:
        now, shorts = datetime.now(UTC), short_ids(list({str(row["session_id"]) for row in rows}))
        output.print_painted(table(_COLUMNS, [_row(row, shorts, now) for row in rows]))
    else:
        output.note("no agent was started yet")
    return 0


def _row(spawn: SpawnRowJson, shorts: Mapping[str, str], now: datetime) -> TableRow:
    began, standing = read_moment(spawn["began"]), str(spawn["standing"])
    cells = (
        shorts[str(spawn["session_id"])],
        str(spawn["agent"]),
        standing,
        str(spawn["pid"] or ""),
        "" if began is None else f"{began.astimezone():%m-%d %H:%M:%S}",
        life_of(spawn, now),
        end_of(spawn),
    )
    plain = [Tone.PLAIN] * (len(cells) - 3)
    return TableRow(cells, (Tone.PLAIN, Tone.PLAIN, _TONES.get(standing, Tone.PLAIN), *plain))


def life_of(spawn: SpawnRowJson, now: datetime) -> str:
    """For how long it has run, or ran; nothing where nobody knows. Of one that outlived a server, the next one measured
    its own part only: its life is from the first beginning to the end."""
    began, ended = read_moment(spawn["began"]), read_moment(spawn["ended"])
    if spawn["is_adopted"] and began is not None and ended is not None:
        return duration((ended - began).total_seconds())
    if spawn["duration_seconds"] is not None:
        return duration(spawn["duration_seconds"])
    is_running = spawn["standing"] == "running" and began is not None
    return duration((now - began).total_seconds()) if is_running and began is not None else ""


def end_of(spawn: SpawnRowJson) -> str:
    """How it ended: the reason, then the code or the signal, then what was said."""
    said = [str(spawn["reason"] or "")]
    if spawn["signal"] is not None:
        said.append(f"signal {spawn['signal']}")
    elif spawn["exit_code"] is not None:
        said.append(f"code {spawn['exit_code']}")
    said.append("" if spawn["attempt"] is None else f"restart {spawn['attempt']}")
    said.append("left running" if spawn["is_released"] and spawn["standing"] != "exited" else "")
    said.append(str(spawn["message"]))
    return ", ".join(one for one in said if one)
