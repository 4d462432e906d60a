"""Replay a recording on a virtual clock: the time of a frame is all the time there is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final, assert_never

from interlock.monitor.arbitration.claims import SourceReading
from interlock.monitor.observation import Arrival
from interlock.monitor.policy import DEFAULT_POLICY, MonitorPolicy
from interlock.monitor.scoring.recording import Frame, Header, Input, Record, RecordedStatus, snapshot_of
from interlock.monitor.sources.hooks import read_hook
from interlock.monitor.sources.shim_lines import Began, ShimEnded, ShimNews, read_shim_line
from interlock.monitor.tracker import TuiTrackerSession, Verdict
from interlock.screen.selection import ScreenReader
from interlock.vocabulary.evidence import EvidenceSource

SHIM: Final = "shim"
HOOK: Final = "hook"


class StreamStateReducer:
    """Feeds the records of one recording to a tracker. Truth lines are not read."""

    def __init__(
        self,
        header: Header,
        reader: ScreenReader,
        policy: MonitorPolicy = DEFAULT_POLICY,
        arrival: Arrival = Arrival.POLLED,
    ) -> None:
        """`arrival`: how the frames are taken to have come. Pushed, the screen stood as it was between two of them."""
        self._header, self._arrival = header, arrival
        self._session = TuiTrackerSession(reader, policy)
        self._declared = reader.profile.native_status
        self._between: list[Verdict] = []

    def reduce(self, record: Record) -> Verdict | None:
        """The verdict of a frame, with the events of timers and inputs since the frame before; None for the rest."""
        if isinstance(record, Input) and record.submit:
            self._fire_until(record.t)
            self._between.append(self._session.on_submit(record.t, record.prompt))
        if isinstance(record, RecordedStatus):
            self._fire_until(record.t)
            self._between += self._hear(record)
        if not isinstance(record, Frame):
            return None
        self._fire_until(record.t)
        verdict = self._session.on_snapshot(snapshot_of(record, self._header), record.t, self._arrival)
        earlier, self._between = self._between, []
        return replace(
            verdict,
            events=(*(event for past in earlier for event in past.events), *verdict.events),
            outputs=(*(output for past in earlier for output in past.outputs), *verdict.outputs),
        )

    def _hear(self, record: RecordedStatus) -> list[Verdict]:
        if record.source == SHIM:
            news = read_shim_line(bytes(record.data), at_seconds=record.t, declared=self._declared)
            return self._hear_shim(news, record.t)
        if record.source == HOOK:
            return [self._session.on_claims(read_hook(bytes(record.data), at_seconds=record.t).claims, record.t)]
        return []

    def _hear_shim(self, news: ShimNews, t: float) -> list[Verdict]:
        match news:
            case Began():
                return [self._session.on_channel(EvidenceSource.NATIVE_STATUS, t, is_open=True)]
            case ShimEnded(code, signal):
                return [self._session.on_exit(t, code, signal)]
            case SourceReading(claims):
                return [self._session.on_claims(claims, t)]
            case _:
                assert_never(news)

    def _fire_until(self, now: float) -> None:
        while (deadline := self._session.deadline) is not None and deadline <= now:
            self._between.append(self._session.on_timer(deadline))
            if self._session.deadline == deadline:
                return


def replay_timeline(
    header: Header,
    records: Iterable[Record],
    reader: ScreenReader,
    policy: MonitorPolicy = DEFAULT_POLICY,
    arrival: Arrival = Arrival.POLLED,
) -> Iterator[tuple[Frame, Verdict]]:
    """Every frame of a recording with its verdict, in order."""
    reducer = StreamStateReducer(header, reader, policy, arrival)
    for record in records:
        verdict = reducer.reduce(record)
        if verdict is not None and isinstance(record, Frame):
            yield record, verdict
