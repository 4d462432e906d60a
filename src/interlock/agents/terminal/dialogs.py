"""A dialog on the screen, and which of its options a decision means. Pure.

Laws:
1. What a person is asked to allow is told word for word: nothing is masked. A dialog with another word in it is another
   dialog, and so is one with another number, except a duration or a clock that a profile masks and that went on by no
   more than the time that passed. A spinner is no word. Other dialogs may tick, and stay the same.
2. An option is chosen by its text. Where the text fits none, or more than one, nothing is chosen.
3. What asks for leave is answered only while its options stand on the screen, a denial by Escape too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from interlock.agents.observations import ApprovalOption, OptionKind
from interlock.agents.port import Decision, NotDelivered
from interlock.screen.assessment import BlockKind, InputMode, Option, SurfaceAssessment
from interlock.screen.options import first_option_row
from interlock.screen.profile import Profile, ProfileRule
from interlock.screen.projection import MASK
from interlock.screen.regions import Located
from interlock.screen.snapshot import Snapshot

_YES_AND_NO: Final = 2
_ALLOWING: Final = (BlockKind.APPROVAL, BlockKind.PLAN, BlockKind.TRUST)
_CHOOSING: Final = (BlockKind.QUESTION, BlockKind.OTHER)
_FRAME: Final = re.compile(r"[─━═╌▔│╭╮╰╯┌┐└┘]+")
_SEVERAL: Final = re.compile(r"\[[ x✔✓]\] ")
_YES: Final = re.compile(r"(?:yes|allow|approve|accept|trust|proceed|run|continue)\b", re.IGNORECASE)
_NO: Final = re.compile(r"(?:no|deny|reject|decline|cancel|don.t|abort|quit|exit)\b", re.IGNORECASE)
_LASTING: Final = re.compile(
    r"\b(?:always|don.t ask|allow all|for (?:this|the) (?:session|project)|auto mode|switch to|every|these files)\b",
    re.IGNORECASE,
)
_DURATION: Final = re.compile(r"\b(?:\d+(?:\.\d+)?[dhms]\b ?)+|\b\d{1,2}(?::\d\d){1,2}\b")
_PART: Final = re.compile(r"([\d.]+)([dhms])")
_UNIT_SECONDS: Final = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
# What ticks is seen to tick: a longer time between two looks allows no greater step.
_MAX_STEP_SECONDS: Final = 10.0
_STEP_SLACK_SECONDS: Final = 2.0
_WRITABLE: Final = re.compile(r"(?:type something|type your|tell \w+ what|other\b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ScreenDialog:
    """What stands on the screen. `identity` is what makes it this dialog and no other; `steady` is its text without
    what a profile masks, and `ticking` is what was masked. `is_in_a_row`: its options stand beside each other, so that
    the selection moves to the left and to the right."""

    kind: BlockKind
    question: str
    options: tuple[Option, ...]
    identity: str
    takes_several: bool = False
    is_in_a_row: bool = False
    steady: str = ""
    ticking: tuple[str, ...] = ()

    @property
    def is_unfinished(self) -> bool:
        """Whether it may be half drawn, or half wiped away: what asks for leave offers a yes and a no, and most others
        some option."""
        least = _YES_AND_NO if self.kind in _ALLOWING else int(self.kind in _CHOOSING)
        return len(self.options) < least

    @property
    def selected(self) -> int | None:
        return next((at for at, option in enumerate(self.options) if option.is_selected), None)


def dialog_on(surface: SurfaceAssessment, snapshot: Snapshot, profile: Profile) -> ScreenDialog | None:
    """The dialog that takes the keys now; None where there is none, or where something else hides it."""
    if not surface.operator_blocked or surface.block is None or surface.input_mode is not InputMode.MODAL:
        return None
    above, body = _texts(surface, snapshot, profile)
    question = _plain(above)  # whole: a pane is bounded, and two questions may begin alike
    kind = surface.block.kind
    is_exact = kind in _ALLOWING and bool(question)
    ticking: list[str] = []
    steady = _plain(_masked(text, profile.volatile, ticking) for text in above) if is_exact else ""
    return ScreenDialog(
        kind,
        question,
        surface.block.options,
        f"{kind.value}\n{question if is_exact else _before_options(surface)}",
        takes_several=_SEVERAL.search(_plain(body)) is not None,
        is_in_a_row=_is_in_a_row(surface, profile),
        steady=steady,
        ticking=tuple(ticking),
    )


def is_same_dialog(before: ScreenDialog, after: ScreenDialog, elapsed_seconds: float) -> bool:
    """Whether it is one dialog, seen twice so many seconds apart, in which at most a spinner or a counter moved on."""
    if before.identity == after.identity:
        return True
    if not before.steady or (before.kind, before.steady) != (after.kind, after.steady):
        return False
    most = min(max(elapsed_seconds, 0.0), _MAX_STEP_SECONDS) + _STEP_SLACK_SECONDS
    pairs = zip_longest(before.ticking, after.ticking, fillvalue="")
    return all(_has_ticked(one, other, most) for one, other in pairs)


def _has_ticked(before: str, after: str, most_seconds: float) -> bool:
    """Whether nothing but glyphs and durations differ, and no duration by more than that."""
    words, other = ([one for one in _DURATION.sub(" ", text) if one.isalnum()] for text in (before, after))
    times = zip_longest(_seconds_in(before), _seconds_in(after), fillvalue=0.0)
    return words == other and all(abs(one - then) <= most_seconds for one, then in times)


def _seconds_in(text: str) -> list[float]:
    """The durations in a text. A clock counts by its smallest part, which is a second or more."""
    return [_seconds(found[0]) for found in _DURATION.finditer(text)]


def _seconds(duration: str) -> float:
    if ":" in duration:
        total = 0.0
        for part in duration.split(":"):
            total = total * 60 + float(part)
        return total
    return sum(float(number) * _UNIT_SECONDS[unit] for number, unit in _PART.findall(duration))


def _masked(text: str, volatile: Iterable[re.Pattern[str]], masked: list[str]) -> str:
    """A row without what ticks, which is put down."""

    def mask(found: re.Match[str]) -> str:
        masked.append(found[0])
        return MASK

    for pattern in volatile:
        text = pattern.sub(mask, text)
    return text


def _rule(surface: SurfaceAssessment, profile: Profile) -> ProfileRule | None:
    return next((one for one in profile.rules if one.id == surface.evidence[0].rule), None)


def _is_in_a_row(surface: SurfaceAssessment, profile: Profile) -> bool:
    rule = _rule(surface, profile)
    spec = profile.options.get(rule.options) if rule is not None and rule.options else None
    return spec is not None and spec.separator is not None


def _texts(surface: SurfaceAssessment, snapshot: Snapshot, profile: Profile) -> tuple[list[str], list[str]]:
    """The rows above the first option, and all rows of the dialog, as they stand on the screen."""
    rule = _rule(surface, profile)
    located = Located(snapshot.rows, profile.regions)
    region = located[rule.region] if rule else None
    if rule is None or region is None:
        excerpt = (surface.operator_excerpt or "").split("\n")
        return excerpt, excerpt
    spec = profile.options.get(rule.options) if rule.options else None
    first = first_option_row(spec, snapshot.rows, region) if spec else None
    body = [snapshot.rows[at].text for at in region]
    return body if first is None else body[: first - region.start], body


def _plain(texts: Iterable[str]) -> str:
    """Without frames and padding."""
    rows = (" ".join(_FRAME.sub(" ", text).split()) for text in texts)
    return "\n".join(row for row in rows if row)


def _before_options(surface: SurfaceAssessment) -> str:
    excerpt, options = surface.operator_excerpt or "", surface.block.options if surface.block else ()
    at = excerpt.find(options[0].text) if options and options[0].text else -1
    return excerpt[:at] if at > 0 else excerpt


def offered(dialog: ScreenDialog) -> tuple[ApprovalOption, ...]:
    """The options as an approval offers them. A question's answers are neither yes nor no."""
    return tuple(ApprovalOption(label=one.text, id=one.key or "", kind=_kind(dialog, one)) for one in dialog.options)


def _kind(dialog: ScreenDialog, option: Option) -> OptionKind:
    if dialog.kind not in _ALLOWING:
        return OptionKind.CHOICE
    if _NO.match(option.text):
        return OptionKind.REJECT_ONCE
    if _YES.match(option.text):
        return OptionKind.ALLOW_ALWAYS if _LASTING.search(option.text) else OptionKind.ALLOW_ONCE
    return OptionKind.CHOICE


@dataclass(frozen=True, slots=True)
class DialogAnswer:
    """How to answer: by the option at this place (None: Escape), with these words typed into it."""

    option: int | None
    text: str = ""


def answer_to(dialog: ScreenDialog, decision: Decision) -> DialogAnswer:
    """What a decision means in this dialog. `NotDelivered` where that cannot be told."""
    if dialog.kind in _ALLOWING and not dialog.options:
        raise NotDelivered("the options of the dialog are not on the screen; it has to be answered in its terminal")
    if dialog.takes_several:
        raise NotDelivered("the dialog takes several answers at once; it has to be answered in its terminal")
    wanted = decision.option_label or decision.option_id
    if wanted:
        return DialogAnswer(_place_of(dialog, decision), decision.text if _is_writable(dialog, decision) else "")
    kinds = [option.kind for option in offered(dialog)]
    if not decision.is_allowed:
        return DialogAnswer(kinds.index(OptionKind.REJECT_ONCE) if OptionKind.REJECT_ONCE in kinds else None)
    if OptionKind.ALLOW_ONCE in kinds and not decision.text:
        return DialogAnswer(kinds.index(OptionKind.ALLOW_ONCE))
    writable = [at for at, option in enumerate(dialog.options) if _WRITABLE.match(option.text)]
    if decision.text and writable:
        return DialogAnswer(writable[0], decision.text)
    raise NotDelivered(f"the dialog asks for one of {[option.text for option in dialog.options]}")


def _place_of(dialog: ScreenDialog, decision: Decision) -> int:
    texts, keys = [one.text for one in dialog.options], [one.key or "" for one in dialog.options]
    label, key = decision.option_label, decision.option_id
    found = [at for at, text in enumerate(texts) if label and text == label]
    found = found or [at for at, text in enumerate(texts) if label and text.startswith(label)]
    found = found or [at for at, one in enumerate(keys) if key and not label and one == key]
    if len(found) != 1:
        raise NotDelivered(f"{label or key!r} names {len(found)} of the options {texts}")
    return found[0]


def _is_writable(dialog: ScreenDialog, decision: Decision) -> bool:
    return bool(decision.text) and _WRITABLE.match(dialog.options[_place_of(dialog, decision)].text) is not None
