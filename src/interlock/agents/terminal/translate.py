"""What a tracker's verdicts mean in the words common to every driver. One translator a spawn; no I/O.

Laws:
1. `StandingSeen` is told on edges of either axis, and when another rule decides: what a person is told of a turn in its
   tenth minute does not rest on its first second. It has rows of the screen only where the screen decides.
2. A dialog is one approval from its first frame until the screen shows something else, and a tick is nothing else. Its
   id is never used again. One that asks for leave and offers no choice may be half drawn: it is told once it stood for
   a moment (`settle`). One that still stands after our answer is asked anew, with the reason.
3. A turn that was submitted ends once: as the tracker says, or `silent` where nothing at all came of it and the screen
   is at rest. A turn that somebody else began ends too, and is a surprise when it begins. Every end names its turn:
   that of one prompt may be seen while the next one is already being typed.
4. The end of a process is not told here.
5. Progress is told about once a second while it is seen, and not at all while there is none.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from itertools import count
from typing import Final, TypeAlias

from interlock.agents.observations import (
    ApprovalAsked,
    ApprovalGone,
    BecameReady,
    ChannelLost,
    Observation,
    Progressed,
    PromptReached,
    StandingSeen,
    TurnEnded,
    TurnEnding,
    Warned,
)
from interlock.agents.pane_tracker import LiveVerdict
from interlock.agents.terminal.dialogs import ScreenDialog, dialog_on, is_same_dialog, offered
from interlock.agents.tmux import watcher
from interlock.agents.tmux.capture import PaneCapture
from interlock.monitor.arbitration.axes import ATTENTION_OF_BLOCK
from interlock.monitor.debounce import TurnSource
from interlock.monitor.results import CompletedResult, FailedResult, FailureKind, InterruptedResult, Phase, ReadyResult
from interlock.monitor.tracker import Verdict
from interlock.screen.assessment import BusinessState
from interlock.screen.selection import ScreenReader
from interlock.screen.snapshot import Snapshot
from interlock.vocabulary.events.audit import (
    SURFACE_ROWS_MAX_BYTES,
    SURFACE_SLICE_MAX_BYTES,
    Anomaly,
    DeliveryStage,
    SurfaceEvent,
    SurfaceResult,
)
from interlock.vocabulary.evidence import EvidenceSource
from interlock.vocabulary.ids import TurnId

# What a kernel's result carries, in the form in which the log keeps it. Text is cut to a bound.

EndResult: TypeAlias = CompletedResult | InterruptedResult | FailedResult


def recorded(result: EndResult) -> SurfaceResult:
    """Assessment, projection slices, parser metadata and, of a completion, its diagnostics and basis."""
    surface, projection = result.observation.assessment, result.observation.projection
    parser, payload = surface.parser_metadata, result.payload
    terms = result.mode_diagnostics if isinstance(result, CompletedResult) else None
    policy = None if terms is None else terms.policy
    return SurfaceResult(
        result=result.kind,
        basis="" if terms is None else terms.basis.value,
        observer="" if payload is None else payload.source,
        observed="" if payload is None else _cut(payload.text),
        availability=surface.availability.value,
        business_state=surface.business_state.value,
        input_mode=surface.input_mode.value,
        ui_context=surface.ui_context,
        turn_end="" if surface.turn_end is None else surface.turn_end.value,
        head=_cut(projection.head),
        tail=_cut(projection.tail, is_tail=True),
        projection_sha256=hashlib.sha256(projection.key.encode("utf-8", "replace")).hexdigest(),
        parser_family=parser.parser_family,
        profile=parser.profile_id,
        selection_source=parser.selection_source,
        detected_version=parser.detected_version or "",
        saw_working=terms is not None and terms.saw_working,
        saw_projection_change=terms is not None and terms.saw_projection_change,
        stability_seconds=None if policy is None else policy.completion_stability_seconds,
        unknown_to_stalled_seconds=None if policy is None else policy.unknown_to_stalled_timeout_seconds,
        watched_gap_seconds=None if policy is None else policy.watched_gap_seconds,
        stalled_is_terminal=None if policy is None else policy.stalled_is_terminal,
    )


def _cut(text: str, *, is_tail: bool = False) -> str:
    data = text.encode("utf-8", "replace")
    kept = data[-SURFACE_SLICE_MAX_BYTES:] if is_tail else data[:SURFACE_SLICE_MAX_BYTES]
    return kept.decode("utf-8", "ignore")


_NOT_OURS: Final = TurnId("")
_PROGRESS_EVERY_SECONDS: Final = 1.0
_AFTER_DIALOG: Final = (BusinessState.WORKING, BusinessState.IDLE)


@dataclass(frozen=True, slots=True)
class DialogEpisode:
    """One dialog from its first frame to its last: as it was seen last, and when. `is_answered`: our answer was on its
    way into it.

    `gone_at`: when we saw that the answer was taken. The same words after that are another dialog.
    """

    request_id: str
    dialog: ScreenDialog
    seen_at: float
    is_answered: bool = False
    gone_at: float | None = None


class Translator:
    """Feed it every verdict on one pane."""

    def __init__(self, reader: ScreenReader, prefix: str, *, is_adopted: bool) -> None:
        """`prefix` begins every request id. `is_adopted`: the turn that is seen first may be one that we began."""
        self._reader, self._prefix = reader, prefix
        self._numbers = count(1)
        self._snapshot: Snapshot | None = None
        self._stood: tuple[object, ...] | None = None
        self.episode: DialogEpisode | None = None
        self.unfinished: ScreenDialog | None = None
        self._unfinished_at = -math.inf
        self._is_submitted = False
        self._awaits_start = False
        self._knows_turn = is_adopted
        self._turn_id = None if is_adopted else _NOT_OURS
        self._progressed_at = -math.inf
        self._progress_told_at = -math.inf

    def begin(self) -> list[Observation]:
        """What is to be said before anything is seen."""
        return [Warned(kind=one.code, message=one.message, details=dict(one.details)) for one in self._reader.anomalies]

    def submitted(self, turn_id: TurnId) -> None:
        """A prompt was submitted: its turn is open from here on."""
        self._is_submitted, self._knows_turn, self._awaits_start = True, True, False
        self._turn_id = turn_id

    def await_start(self) -> None:
        """The prompt was accepted and not seen to start: the start is told when it shows."""
        self._awaits_start = self._is_submitted

    def answered(self, request_id: str, gone_at: float | None = None) -> None:
        """Our answer is on its way into a dialog; or, with a time, the dialog was seen to be gone then."""
        if self.episode is not None and self.episode.request_id == request_id:
            self.episode = replace(self.episode, is_answered=True, gone_at=gone_at)

    @property
    def last_words(self) -> str:
        """The last rows that were seen."""
        rows = () if self._snapshot is None else [row.text for row in self._snapshot.rows if row.text.strip()]
        return "\n".join(rows[-10:])

    def see(self, live: LiveVerdict) -> list[Observation]:
        """What a verdict says."""
        verdict = live.verdict
        if isinstance(live.cause, watcher.PaneSeen):
            self._snapshot = live.cause.capture.snapshot
        told: list[Observation] = _channel(live)
        told += [_warned(output) for output in verdict.outputs if isinstance(output, Anomaly)]
        told += self._standing(verdict)
        if isinstance(live.cause, watcher.PaneSeen):
            # Only a new frame says something about a dialog: what else is told comes with the frame from before.
            told += self._dialogs(verdict, live.cause.capture)
        told += self._progress(verdict)
        told += self._turn(verdict)
        if any(isinstance(output, ReadyResult) for output in verdict.outputs):
            told.append(BecameReady())
        return told

    def _standing(self, verdict: Verdict) -> list[Observation]:
        standing = verdict.standing
        stood = (standing.activity, standing.attention, *((one.source, one.rule) for one in standing.evidence))
        if stood == self._stood or standing.since_seconds is None:
            return []
        self._stood = stood
        return [
            StandingSeen(
                standing=standing,
                rows=self._rows(verdict) if standing.rung is EvidenceSource.SCREEN else "",
                frame_sha256=self._frame_sha256(),
                profile=verdict.surface.parser_metadata.profile_id,
            )
        ]

    def _ended(self, result: EndResult, verdict: Verdict) -> SurfaceEvent:
        standing = verdict.standing
        return SurfaceEvent(
            activity=standing.activity,
            attention=standing.attention,
            evidence=standing.evidence,
            rows=self._rows(verdict),
            frame_sha256=self._frame_sha256(),
            profile=verdict.surface.parser_metadata.profile_id,
            ended=recorded(result),
        )

    def _rows(self, verdict: Verdict) -> str:
        if self._snapshot is None or not verdict.surface.evidence:
            return ""
        rows = self._snapshot.rows
        numbers = sorted({at for one in verdict.surface.evidence for at in one.rows if at < len(rows)})
        text = "\n".join(rows[at].text for at in numbers)
        return text.encode("utf-8", "replace")[:SURFACE_ROWS_MAX_BYTES].decode("utf-8", "ignore")

    def _frame_sha256(self) -> str:
        if self._snapshot is None:
            return ""
        text = "\n".join(row.text for row in self._snapshot.rows)
        return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()

    def _dialogs(self, verdict: Verdict, capture: PaneCapture) -> list[Observation]:
        shown, at = dialog_on(verdict.surface, capture.snapshot, self._reader.profile), capture.captured_at_seconds
        told: list[Observation] = []
        is_redrawn = self._is_redrawn(shown)
        if self.episode is not None and not is_redrawn and _is_over(self.episode, shown, verdict, capture):
            told += self._close()
        if self.episode is not None and shown is not None and not is_redrawn:
            self.episode = replace(self.episode, dialog=shown, seen_at=at)
        if (self.episode is not None and not is_redrawn) or shown is None or not shown.is_unfinished:
            self.unfinished = None
        elif self.unfinished is None or not is_same_dialog(self.unfinished, shown, at - self._unfinished_at):
            self.unfinished, self._unfinished_at = shown, at
        if self.episode is None and shown is not None and self.unfinished is None:
            told.append(self._open(shown, at))
        return told

    def _is_redrawn(self, shown: ScreenDialog | None) -> bool:
        """Whether half a dialog stands where a whole one did: that one is being drawn again, or the next one comes."""
        if self.episode is None or self.episode.gone_at is not None or shown is None:
            return False
        return shown.is_unfinished and not self.episode.dialog.is_unfinished

    def _close(self) -> list[Observation]:
        episode, self.episode = self.episode, None
        return [] if episode is None else [ApprovalGone(request_id=episode.request_id, is_answered=episode.is_answered)]

    def ask_again(self, request_id: str, problem: str) -> list[Observation]:
        """Our answer went into a dialog, and it still stands: it is asked anew, with the reason."""
        episode = self.episode
        if episode is None or episode.request_id != request_id:
            return []
        gone = ApprovalGone(request_id=request_id, is_answered=False)
        return [gone, replace(self._open(episode.dialog, episode.seen_at), problem=problem)]

    def settle(self, unfinished: ScreenDialog) -> list[Observation]:
        """A dialog without options stood for a moment: if it still does, it has none."""
        if self.unfinished is not unfinished:
            return []
        self.unfinished = None
        return [*self._close(), self._open(unfinished, self._unfinished_at)]

    def _open(self, dialog: ScreenDialog, seen_at: float) -> ApprovalAsked:
        self.episode = DialogEpisode(f"{self._prefix}-{next(self._numbers)}", dialog, seen_at)
        return _asked(self.episode)

    def _turn(self, verdict: Verdict) -> list[Observation]:
        told: list[Observation] = []
        turn = verdict.turn
        is_inferred = turn is not None and turn.source is TurnSource.INFERRED and turn.shows_work
        if is_inferred and not self._knows_turn:
            self._knows_turn = True
            told.append(Warned(kind="turn_not_submitted", message="the agent works on something that we did not send"))
        if self._awaits_start and turn is not None and (turn.shows_work or turn.was_answered):
            self._awaits_start = False
            told.append(PromptReached(stage=DeliveryStage.STARTED))
        ends = [end for output in verdict.outputs if (end := self._end(output, verdict)) is not None]
        if not ends and self._is_submitted and turn is None and self._is_quiet(verdict):
            ends = [TurnEnded(ending=TurnEnding.SILENT, error_message="nothing came of the prompt")]
        ends = [replace(end, turn_id=self._turn_id) if isinstance(end, TurnEnded) else end for end in ends]
        if any(isinstance(end, TurnEnded) for end in ends):
            self._is_submitted = self._knows_turn = self._awaits_start = False
            self._turn_id = _NOT_OURS
        return told + ends

    def _progress(self, verdict: Verdict) -> list[Observation]:
        seen, now = verdict.progress, verdict.at_seconds
        if seen is None or seen.at_seconds <= self._progressed_at:
            return []
        if now - self._progress_told_at < _PROGRESS_EVERY_SECONDS:
            return []
        self._progressed_at, self._progress_told_at = seen.at_seconds, now
        return [Progressed(source=seen.source, rule=seen.rule)]

    def _is_quiet(self, verdict: Verdict) -> bool:
        return verdict.business_state is BusinessState.IDLE and self.episode is None

    def _end(self, output: object, verdict: Verdict) -> Observation | None:
        match output:
            case CompletedResult():
                return TurnEnded(ending=TurnEnding.NATURAL, surface=self._ended(output, verdict))
            case InterruptedResult():
                return TurnEnded(ending=TurnEnding.INTERRUPTED, surface=self._ended(output, verdict))
            case FailedResult(phase=Phase.COMPLETION, failure=FailureKind.TURN_FAILED | FailureKind.STALLED as failure):
                is_stall = failure is FailureKind.STALLED
                return TurnEnded(
                    ending=TurnEnding.ERROR,
                    error_kind="stalled" if is_stall else "agent_error",
                    error_message="nothing usable was seen for too long" if is_stall else self._rows(verdict),
                    surface=self._ended(output, verdict),
                )
            case FailedResult(phase=Phase.COMPLETION, failure=failure):
                # That we cannot read the screen says nothing about the turn.
                return Warned(kind=f"surface_{failure.value}", message="the screen cannot be read in mid-turn")
            case _:
                return None


def _is_over(episode: DialogEpisode, shown: ScreenDialog | None, verdict: Verdict, capture: PaneCapture) -> bool:
    if shown is not None:
        is_after_answer = episode.gone_at is not None and capture.captured_at_seconds > episode.gone_at
        elapsed = capture.captured_at_seconds - episode.seen_at
        return is_after_answer or not is_same_dialog(episode.dialog, shown, elapsed)
    return not verdict.surface.operator_blocked and verdict.surface.business_state in _AFTER_DIALOG


def _warned(anomaly: Anomaly) -> Warned:
    return Warned(kind=anomaly.kind, message=anomaly.message, details=anomaly.details)


def _asked(episode: DialogEpisode) -> ApprovalAsked:
    dialog = episode.dialog
    return ApprovalAsked(
        request_id=episode.request_id,
        attention=ATTENTION_OF_BLOCK[dialog.kind],
        question=dialog.question,
        options=offered(dialog),
    )


def _channel(live: LiveVerdict) -> list[Observation]:
    match live.cause:
        case watcher.ChannelDown(reason=reason):
            return [Warned(kind="channel_down", message=f"tmux cannot be reached now: {reason}")]
        case watcher.PaneChannelLost(reason=reason):
            return [ChannelLost(message=f"tmux cannot be reached any more: {reason}")]
        case watcher.PaneMoved(session_id=session_id):
            return [ChannelLost(message=f"somebody moved the pane to session {session_id}")]
        case _:
            return []
