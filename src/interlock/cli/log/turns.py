"""`interlock debug turns`: how each turn of a session stands, by the one classifier.

Laws:
1. Where a server runs it is asked, page by page: the command holds what it prints, and no event. What began last
   (`--last`) is read from the log by its index of turns, which costs less than a view of the whole session.
2. Without a server, and of a damaged log, which the log itself names, the log is read. Both ways print the same bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.look.session_lines import find_task
from interlock.cli.server import options
from interlock.cli.server.api import ServerApi, home_folder
from interlock.cli.tables import Column, Line, TableRow, Tone, table
from interlock.cli.wire.routes import PAGE, task_turns
from interlock.vocabulary.advice import advice_lines
from interlock.vocabulary.ending_words import ending_detail
from interlock.vocabulary.errors import InterlockError, UsageError
from interlock.vocabulary.states import TurnState

if TYPE_CHECKING:
    from pathlib import Path

    from interlock.vocabulary.wire.json_types import TurnRecordJson

_COLUMNS = (
    Column("TURN", 14, gives=2, wraps=True),
    Column("STATE"),
    Column("BASIS", 10, gives=3, wraps=True),
    Column("KIND", 8, gives=1, wraps=True),
    Column("EVIDENCE", 18, wraps=True),
    Column("EVENTS"),
)
_TONES = {
    TurnState.COMPLETED: Tone.CALM,
    TurnState.RUNNING: Tone.ACTIVE,
    TurnState.WAITING: Tone.URGENT,
    TurnState.INTERRUPTED: Tone.PLAIN,
}


class TurnsPrinter:
    """What is printed of each turn, kept until all are known: the columns of a table are as wide as their words."""

    def __init__(self, *, json: bool) -> None:
        self._is_json = json
        self._records: list[str] = []
        self._rows: list[TableRow] = []
        self._last: TurnRecordJson | None = None

    def add(self, turn: TurnRecordJson) -> None:
        """Take the next turn."""
        if self._is_json:
            self._records.append(output.encode_json(turn))
        else:
            self._rows.append(_row(turn))
        self._last = turn

    def print(self, session_id: str) -> None:
        """Print all that was taken."""
        if self._is_json:
            output.print_plain_json(
                f'{{"session_id":{output.encode_json(session_id)},"turns":[{",".join(self._records)}]}}'
            )
        elif self._last is not None:
            output.print_painted([*table(_COLUMNS, self._rows), *_next_lines(self._last)])
        else:
            output.note("the session has no turn yet")


def turns(
    session: options.SessionArgument,
    /,
    *,
    last: int | None = None,
    home: options.HomeOption = None,
    json: options.JsonFlag = False,
) -> int:
    """Print every turn with its state, in the order in which the turns began. Exit code 0, or 9 for a damaged log.

    A turn that is open is `abandoned` if it is proven that no process holds the log, and no agent lives that a server
    would find again; `running` or `waiting` else. A turn is `unknown` if the log is damaged and the lost events leave
    open how it stands.

    Parameters
    ----------
    last
        Only the turns that began last, so many of them.
    """
    if last is not None and last < 1:
        raise UsageError(f"--last {last} is no number of turns", remedy="give 1 or more")
    if last is None and _print_as_asked(session, home, json=json):
        return ExitCode.COMPLETED
    from interlock.cli.log.turns_log import turns_by_log

    return turns_by_log(session, TurnsPrinter(json=json), last=last, home=home)


def _print_as_asked(session: str, home: Path | None, *, json: bool) -> bool:
    """Print what the server says; False, and nothing, where there is none or it does not know: then the log says it."""
    printer = TurnsPrinter(json=json)
    try:
        api = ServerApi.of_home(home_folder(home))
        task_id = find_task(api, session)["task_id"]
        for page in api.pages(task_turns(task_id), lambda page: page["next"], limit=PAGE):
            if page["is_damaged"]:
                return False
            for turn in page["items"]:
                printer.add(turn)
    except (InterlockError, KeyError):  # also a server of another version, which does not say it
        return False
    printer.print(task_id)
    return True


def _next_lines(turn: TurnRecordJson) -> list[Line]:
    """What to do about the last turn, where it has ended and did not complete."""
    if not TurnState(turn["state"]).is_terminal:
        return []
    actions = ((one["kind"], one["command"]) for one in turn["next_actions"])
    return [[("next: ", Tone.FAINT), (line, "")] for line in advice_lines(actions, turn["session_id"])]


def _row(turn: TurnRecordJson) -> TableRow:
    settles = "" if turn["settles_as"] is None else f"recovery writes {turn['settles_as']}"
    cells = (
        turn["turn_id"],
        turn["state"],
        turn["basis"],
        ending_detail(turn["state"], turn["error_kind"], turn["error_message"]) or settles,
        ", ".join(f"{proof['where']} #{proof['seq']}" for proof in turn["evidence"]) or "none",
        f"{turn['first_seq']}..{turn['last_seq']}",
    )
    tone = _TONES.get(TurnState(turn["state"]), Tone.DOUBTFUL)
    return TableRow(cells, (Tone.PLAIN, tone, *[Tone.PLAIN] * (len(cells) - 2)))
