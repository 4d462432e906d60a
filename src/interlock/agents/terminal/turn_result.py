"""What a kernel's result carries, in the form in which the log keeps it. Text is cut to a bound."""

from __future__ import annotations

import hashlib
from typing import TypeAlias

from interlock.monitor.results import CompletedResult, FailedResult, InterruptedResult
from interlock.vocabulary.audit import SURFACE_SLICE_MAX_BYTES, SurfaceResult

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
