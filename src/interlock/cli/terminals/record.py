"""`interlock debug record`: write down what a pane shows, to replay, score and mend profiles with."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Final, TypeAlias

from cyclopts import Parameter
from msgspec import Struct

from interlock.agents.recorder import RecordingFile, record_pane
from interlock.cli.exit_codes import ExitCode
from interlock.cli.home import JsonFlag
from interlock.cli.output import note, print_json, print_text
from interlock.cli.terminals.panes import CliOption, PaneArgument, SocketOption, known_pane
from interlock.monitor.scoring.recording import FORMAT, Frame, Header
from interlock.vocabulary.errors import UsageError

OutputOption: TypeAlias = Annotated[
    Path, Parameter(name=("--output", "-o"), help="The file to write, new; *.ndjson.gz is compressed.")
]
HzOption: TypeAlias = Annotated[float, Parameter(help="Frames a second.")]
SecondsOption: TypeAlias = Annotated[float | None, Parameter(help="Stop after so many seconds.")]
StatusFileOption: TypeAlias = Annotated[
    Path | None, Parameter(help="Take in what `interlock debug shim --status-file` writes meanwhile.")
]

_MAX_HZ: Final = 50


class Recorded(Struct, frozen=True):
    """What was written, as `record --json` prints it."""

    file: str
    cli: str
    version: str | None
    frames: int


def record(
    pane: PaneArgument = "",
    /,
    *,
    output: OutputOption,
    socket: SocketOption = None,
    cli: CliOption = None,
    hz: HzOption = 5.0,
    seconds: SecondsOption = None,
    status_file: StatusFileOption = None,
    json: JsonFlag = False,
) -> int:
    """Record a pane of tmux until its program ends, the time is up, or Ctrl-C. Nothing is changed in the pane.

    The file holds everything that the pane showed, secrets too; only you can read it (0600).
    """
    if not 0 < hz <= _MAX_HZ:
        raise UsageError(f"--hz {hz:g}: a recording has more than 0 and at most {_MAX_HZ} frames a second")
    if status_file is not None and not status_file.is_file():
        raise UsageError(
            f"{status_file}: there is no such file", remedy="start `interlock debug shim --status-file` first"
        )
    return asyncio.run(_record(pane, output, socket, cli, hz, seconds, status_file, json=json))


async def _record(
    pane: str,
    path: Path,
    socket: str | None,
    cli: str | None,
    hz: float,
    seconds: float | None,
    status_file: Path | None,
    *,
    json: bool,
) -> int:
    async with known_pane(pane, socket, cli) as known:
        snapshot = known.adopted.capture.snapshot
        header = Header(FORMAT, known.cli, known.version, snapshot.columns, len(snapshot.rows), path.name, True)
        file = RecordingFile(path)
        try:
            async with asyncio.timeout(seconds):
                async with aclosing(record_pane(known.adopted.pane, header, hz=hz, status_file=status_file)) as records:
                    async for one in records:
                        file.write(one)
                        if file.frames == 1 and isinstance(one, Frame):
                            note(f"recording {known.adopted.info.pane_id} ({known.cli}) to {path}; Ctrl-C ends it")
        except TimeoutError:
            pass
        finally:
            file.close()
            _report(Recorded(str(path), known.cli, known.version, file.frames), json=json)
    return ExitCode.COMPLETED


def _report(recorded: Recorded, *, json: bool) -> None:
    if json:
        print_json(recorded)
    else:
        print_text(f"{recorded.file}: {recorded.frames} frames of {recorded.cli}")
        print_text(f"next: interlock debug track {recorded.file}")
