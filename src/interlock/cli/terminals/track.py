"""`interlock debug track`: replay a recording, one verdict a frame."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from cyclopts import Parameter
from msgspec import Struct

from interlock.agents.profiles import load_profiles
from interlock.agents.recording_files import open_recording
from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.home import JsonFlag
from interlock.monitor.scoring.recording import Frame, Header
from interlock.monitor.scoring.replay import StreamStateReducer
from interlock.monitor.tracker import Verdict
from interlock.screen.selection import select_reader

RecordingArgument: TypeAlias = Annotated[
    str, Parameter(allow_leading_hyphen=True, help="A recording (*.ndjson, *.ndjson.gz), or - for stdin.")
]
CliOption: TypeAlias = Annotated[
    str | None, Parameter(name="--cli", help="Read it as this CLI, whatever the recording says.")
]


class TrackedOption(Struct, frozen=True):
    """One option of a dialog."""

    text: str
    selected: bool


class Tracked(Struct, frozen=True):
    """One frame's verdict, as `track --json` prints it."""

    t: float
    availability: str
    business_state: str
    surface_business_state: str
    input_mode: str
    ui_context: str
    activity: str
    attention: str
    rule: str
    events: tuple[str, ...]
    draft: str | None
    kind: str | None
    options: tuple[TrackedOption, ...]
    anomalies: tuple[str, ...]


def track(recording: RecordingArgument, /, *, cli: CliOption = None, json: JsonFlag = False) -> int:
    """Say of every frame what is known at that moment. Without --json only changes are printed."""
    profiles = load_profiles()
    reducer: StreamStateReducer | None = None
    frames = 0
    shown: tuple[str, ...] = ()
    with open_recording(recording) as records:
        for record in records:
            if isinstance(record, Header):
                reader = select_reader(profiles, cli or record.cli, record.version)
                reducer = StreamStateReducer(record, reader)
                for anomaly in reader.anomalies:
                    output.note(f"{recording}: {anomaly.message}")
            verdict = reducer.reduce(record) if reducer else None
            if verdict is None or not isinstance(record, Frame):
                continue
            frames += 1
            if json:
                output.print_json(tracked(verdict))
                output.flush()
            else:
                shown = print_change(verdict, shown)
    if not frames:
        output.note(f"{recording}: holds no frame, so there is nothing to say; record the pane for longer")
    return ExitCode.COMPLETED


def tracked(verdict: Verdict) -> Tracked:
    """A verdict in the words of the command's JSON."""
    surface = verdict.surface
    block = surface.block
    return Tracked(
        t=verdict.at_seconds,
        availability=surface.availability.value,
        business_state=verdict.business_state.value,
        surface_business_state=surface.business_state.value,
        input_mode=surface.input_mode.value,
        ui_context=surface.ui_context,
        activity=verdict.activity.value,
        attention=verdict.attention.value,
        rule=verdict.rule,
        events=tuple(event.value for event in verdict.events),
        draft=verdict.draft,
        kind=block.kind.value if block else None,
        options=tuple(TrackedOption(option.text, option.is_selected) for option in block.options) if block else (),
        anomalies=tuple(anomaly.code for anomaly in surface.anomalies),
    )


def print_change(verdict: Verdict, shown: tuple[str, ...], began_seconds: float = 0.0) -> tuple[str, ...]:
    """Print a line if something changed since `shown`, which is what the last call returned. Time counts from
    `began_seconds`: a clock that began with the machine tells nobody anything."""
    now = (verdict.business_state.value, verdict.activity.value, verdict.attention.value)
    if now != shown or verdict.events:
        events = f"  [{', '.join(verdict.events)}]" if verdict.events else ""
        attention = "" if verdict.attention == "none" else f", needs: {verdict.attention}"
        at_seconds = verdict.at_seconds - began_seconds
        output.print_text(f"{at_seconds:9.3f}  {verdict.activity}{attention}  ({verdict.rule}){events}")
    return now
