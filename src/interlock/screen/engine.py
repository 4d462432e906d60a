"""Read one screen by a profile: regions, draft, rules, endings, options, text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from interlock.screen.assessment import (
    Availability,
    BlockKind,
    OperatorBlock,
    ParserMetadata,
    SurfaceAnomaly,
    SurfaceAssessment,
    SurfaceEvidence,
    TurnEnd,
)
from interlock.screen.conditions import Condition, ScreenScene, check, rows_matching
from interlock.screen.options import read_options, unselected
from interlock.screen.profile import ComposerSpec, Profile, ProfileRule, Proof
from interlock.screen.projection import DialogProjection, normalize_projection_text, project_dialog
from interlock.screen.regions import Located
from interlock.screen.snapshot import Row, Snapshot, Span

# The draft in a composer: what somebody typed, told from placeholder and ghost text by its style.


def read_draft(spec: ComposerSpec, located: Located) -> str | None:
    """The typed text, "" for none; None where there is no composer. What is in doubt counts as typed."""
    region = located[spec.region]
    if region is None:
        return None
    texts = (_typed(spec, located.rows[number]) for number in region)
    draft = "\n".join(text for text in texts if text is not None).strip()
    return "" if spec.placeholder and spec.placeholder.fullmatch(draft) else draft


def _typed(spec: ComposerSpec, row: Row) -> str | None:
    if spec.ignore and spec.ignore.search(row.text):
        return None
    mark = spec.mark.match(row.text) if spec.mark else None
    start = mark.end() if mark else 0
    edge = spec.edge.search(row.text, start) if spec.edge else None
    end = edge.start() if edge else len(row.text)
    kept = [
        row.text[max(span.start, start) : min(span.end, end)]
        for span, after in zip(row.spans, (*row.spans[1:], None), strict=False)  # a blank row has no span
        if span.end > start and not _is_ghost(spec, span, after)
    ]
    return "".join(kept).replace("\u200b", "").rstrip()


def _is_ghost(spec: ComposerSpec, span: Span, after: Span | None) -> bool:
    """In the style of a ghost, or a cursor of one column right before one."""
    if any(ghost.fits(span.style) for ghost in spec.ghosts):
        return True
    is_cursor = spec.cursor is not None and span.end - span.start == 1 and spec.cursor.fits(span.style)
    return is_cursor and after is not None and any(ghost.fits(after.style) for ghost in spec.ghosts)


_MAX_EXCERPT: Final = 2048
_PADDING: Final = re.compile(r" {3,}|[─╌▔═━]{4,}")
_DEAD: Final = SurfaceEvidence("pane.dead")
_BLANK: Final = SurfaceEvidence("screen.blank")
_SILENT: Final = SurfaceEvidence("no_rule")


@dataclass(frozen=True, slots=True)
class ScreenReading:
    """One screen, read. `draft` is the text in the composer; None where no composer was found."""

    assessment: SurfaceAssessment
    projection: DialogProjection
    draft: str | None


def read_screen(
    snapshot: Snapshot, profile: Profile, metadata: ParserMetadata, anomalies: tuple[SurfaceAnomaly, ...] = ()
) -> ScreenReading:
    """Never raises, whatever is on the screen."""
    scene = _scene(snapshot, profile)
    return ScreenReading(_assess(scene, profile, metadata, anomalies), _project(scene, profile), scene.draft)


def holds(conditions: Iterable[Condition], snapshot: Snapshot, profile: Profile) -> bool:
    """Whether all conditions hold on a screen."""
    return _rows_behind(conditions, _scene(snapshot, profile)) is not None


def _scene(snapshot: Snapshot, profile: Profile) -> ScreenScene:
    located = Located(snapshot.rows, profile.regions)
    draft = None if profile.composer is None else read_draft(profile.composer, located)
    return ScreenScene(snapshot, located, draft)


def _rows_behind(conditions: Iterable[Condition], scene: ScreenScene) -> tuple[int, ...] | None:
    rows: list[int] = []
    for condition in conditions:
        found = check(condition, scene)
        if found is None:
            return None
        rows += found
    return tuple(sorted(set(rows)))


def _assess(
    scene: ScreenScene, profile: Profile, metadata: ParserMetadata, anomalies: tuple[SurfaceAnomaly, ...]
) -> SurfaceAssessment:
    if scene.snapshot.is_dead:
        gone = Availability.DISCONNECTED
        return SurfaceAssessment(gone, evidence=(_DEAD,), parser_metadata=metadata, anomalies=anomalies)
    for rule in profile.rules:
        rows = _rows_behind(rule.when, scene)
        if rows is not None:
            return _by_rule(rule, rows, scene, profile, metadata, anomalies)
    said = _BLANK if scene.snapshot.is_blank else _SILENT
    return SurfaceAssessment(evidence=(said,), parser_metadata=metadata, anomalies=anomalies)


def _by_rule(
    rule: ProfileRule,
    rows: tuple[int, ...],
    scene: ScreenScene,
    profile: Profile,
    metadata: ParserMetadata,
    anomalies: tuple[SurfaceAnomaly, ...],
) -> SurfaceAssessment:
    end, evidence = _ending(scene, profile)
    is_blocked = rule.kind is not None
    return SurfaceAssessment(
        availability=rule.availability,
        business_state=rule.state,
        input_mode=rule.input,
        ui_context=rule.context,
        evidence=(SurfaceEvidence(rule.id, rows), *evidence),
        operator_excerpt=_excerpt(scene, rule, profile) if is_blocked else None,
        parser_metadata=metadata,
        anomalies=anomalies,
        turn_end=end,
        block=_block(rule, rule.kind, scene, profile) if rule.kind is not None else None,
        is_weak=rule.proof is Proof.WEAK,
        is_unended=rule.is_unended,
    )


def _block(rule: ProfileRule, kind: BlockKind, scene: ScreenScene, profile: Profile) -> OperatorBlock:
    region = scene.located[rule.region]
    spec = profile.options.get(rule.options) if rule.options else None
    if region is None or spec is None:
        return OperatorBlock(kind)
    return OperatorBlock(kind, read_options(spec, scene.located.rows, region))


def _ending(scene: ScreenScene, profile: Profile) -> tuple[TurnEnd | None, tuple[SurfaceEvidence, ...]]:
    for ending in profile.endings:
        rows = _rows_behind(ending.when, scene)
        if rows is not None:
            return ending.end, (SurfaceEvidence(ending.id, rows),)
    return None, ()


def _excerpt(scene: ScreenScene, rule: ProfileRule, profile: Profile) -> str:
    """The text of a dialog. Which option is selected, and what ticks, is left out: neither makes it another dialog."""
    spec = profile.options.get(rule.options) if rule.options else None
    texts = [scene.located.rows[number].text for number in scene.located[rule.region] or ()]
    if spec is not None:
        texts = [unselected(spec, text) for text in texts]
    text = normalize_projection_text("\n".join(text.strip() for text in texts if text.strip()), profile.volatile)
    text = _PADDING.sub("  ", text)
    half = _MAX_EXCERPT // 2
    return text if len(text) <= _MAX_EXCERPT else f"{text[: half - 1]}…{text[-half:]}"


def _project(scene: ScreenScene, profile: Profile) -> DialogProjection:
    rows = scene.located.rows
    composer = scene.located[profile.composer.region] if profile.composer else None
    is_chrome = _chrome_test(profile.chrome)
    dialog = (row.text for row in rows[: composer.start if composer else None])
    kept = [text for text in dialog if not is_chrome(text)]
    return project_dialog(
        scene.snapshot.raw_text,
        "\n".join(row.text for row in rows),
        "\n".join(kept).strip("\n"),
        volatile=profile.volatile,
        composer_rows=composer or (),
        prompt_rows=rows_matching(profile.prompts, scene.located) if profile.prompts else (),
    )


@lru_cache(maxsize=64)
def _chrome_test(chrome: tuple[re.Pattern[str], ...]) -> Callable[[str], bool]:
    return lru_cache(maxsize=2048)(lambda text: any(pattern.search(text) for pattern in chrome))
