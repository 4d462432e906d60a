"""Typing a prompt into an agent's terminal, and proving each step: typed, accepted, started.

Laws:
1. Nothing is typed into a dialog, a draft, a working agent, a closed pane or a surface that is not known to be ready,
   unless the caller said so; a dialog never.
2. Enter is pressed once, and only after the prompt was seen to stand in the composer, alone, and nothing else came up.
   If it seems to be swallowed, it is not pressed again unless the caller said so: a second Enter may answer a dialog.
   One that is seen to have become a line break in the composer is used up, and is pressed once more.
3. A step that was not seen is not claimed, and says what was seen instead. Nothing waits for the start of a turn that
   is over: a quick one may show no work on any capture.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from interlock.agents.tmux.looking import Eye, PaneLook, PaneReading
from interlock.agents.tmux.panes import Pane, typable
from interlock.screen.assessment import BusinessState, InputMode
from interlock.screen.snapshot import Snapshot

_PLACEHOLDER: Final = re.compile(r"\[[^\]\n]*(?:past|line|char|text)[^\]\n]*\]", re.IGNORECASE)
_LINE_BREAK_SECONDS: Final = 1.0
_BLANKS: Final = re.compile(r"\s+")


class TypingRefusal(StrEnum):
    """Why nothing was typed."""

    CLOSED = "closed"  # keys would not reach the program, or not it alone
    DIALOG = "dialog"
    WORKING = "working"
    DRAFT = "draft"
    DRAFT_UNKNOWN = "draft_unknown"
    NOT_READY = "not_ready"


class Verified(StrEnum):
    """How the prompt was seen in the composer."""

    EXACT = "exact"
    PLACEHOLDER = "placeholder"  # the program shows a paste by its size
    CHANGED = "changed"  # the draft is another one, and holds part of the prompt or what cannot be compared
    NOT_SEEN = "not_seen"


@dataclass(frozen=True, slots=True)
class TypingStep:
    """Whether a step was seen to happen, by what, and when (monotonic)."""

    is_proven: bool
    evidence: str
    at_seconds: float

    def __bool__(self) -> bool:
        return self.is_proven


@dataclass(frozen=True, slots=True)
class TypingOutcome:
    """What became of a prompt.

    `is_command`: it begins like a command of the CLI, so a menu may have opened, and Enter may not begin a turn.
    """

    typed: TypingStep
    accepted: TypingStep
    started: TypingStep
    verified: Verified = Verified.NOT_SEEN
    refusal: TypingRefusal | None = None
    is_command: bool = False


@dataclass(frozen=True, slots=True)
class TypingPolicy:
    """What the caller allows, and how long each step may take."""

    over_draft: bool = False
    """Type even if a draft stands in the composer or may: the prompt is put behind it and both are submitted."""
    while_working: bool = False
    """Type while the agent works, which queues the prompt where the CLI has a queue."""
    press_again: bool = False
    """Press Enter a second time if the first one changed nothing at all."""
    typed_within_seconds: float = 3.0
    calm_within_seconds: float = 5.0
    """How long an agent that seems to work once the prompt stands in its composer may take to be calm again."""
    settled_after_seconds: float = 0.3
    pause_before_enter_seconds: float = 0.0
    """How long the prompt stands in the composer before Enter is pressed."""
    submit_key: str = "Enter"
    """The key that submits what stands in the composer, which is called Enter here."""
    accepted_within_seconds: float = 3.0
    started_within_seconds: float = 3.0


@dataclass(slots=True)
class TypedTurn:
    """What the caller knows of the turn of a prompt while it is typed.

    `on_enter` is called just before Enter is pressed for the first time: the turn of a tracker begins there, and not
    when the outcome is known, which a short turn may overtake.
    """

    on_enter: Callable[[], None] = lambda: None
    is_over: bool = False
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def ended(self) -> None:
        """Say that the turn is over: nothing waits to see it start any more."""
        self.is_over = True
        self.news.set()


async def type_prompt(
    pane: Pane,
    prompt: str,
    read: Callable[[Snapshot], PaneReading],
    policy: TypingPolicy | None = None,
    turn: TypedTurn | None = None,
) -> TypingOutcome:
    """Type a prompt and submit it. Raises `Unreachable` if the pane is lost on the way, `UsageError` for bad text."""
    policy, turn = policy or TypingPolicy(), turn or TypedTurn()
    text = typable(prompt)
    async with Eye(pane, read, turn.news) as eye:
        before = await eye.look()
        refusal = _refusal(before, policy)
        if refusal is not None:
            why = before.capture.why_closed or refusal.value
            step = TypingStep(False, f"not typed: {why}", before.capture.captured_at_seconds)
            return TypingOutcome(step, step, step, refusal=refusal)
        return await _Attempt(pane, eye, text, before, policy, turn).run()


def _refusal(look: PaneLook, policy: TypingPolicy) -> TypingRefusal | None:
    assessment = look.reading.assessment
    if look.capture.why_closed is not None:
        return TypingRefusal.CLOSED
    if look.is_blocked or assessment.input_mode is InputMode.MODAL:
        return TypingRefusal.DIALOG
    if look.state is BusinessState.WORKING:
        if not policy.while_working or assessment.input_mode is not InputMode.FREEFORM:
            return TypingRefusal.WORKING
    elif not assessment.submit_ready:
        return TypingRefusal.NOT_READY
    if policy.over_draft or look.reading.draft == "":
        return None
    return TypingRefusal.DRAFT_UNKNOWN if look.reading.draft is None else TypingRefusal.DRAFT


class _Attempt:
    """One prompt on its way into one pane."""

    def __init__(
        self, pane: Pane, eye: Eye, text: str, before: PaneLook, policy: TypingPolicy, turn: TypedTurn
    ) -> None:
        self._pane, self._eye, self._before, self._policy = pane, eye, before, policy
        self._text, self._turn = text, turn
        self._is_command = text.startswith(("/", "!", "#"))

    async def run(self) -> TypingOutcome:
        # Several CLIs take a backslash before Enter for a line break; with a blank behind it, it is just a backslash.
        await self._pane.send_text(self._text + " " if self._text.endswith("\\") else self._text)
        look = await self._eye.until(
            lambda seen: self._is_interrupted(seen) or self._verify(seen) in (Verified.EXACT, Verified.PLACEHOLDER),
            self._policy.typed_within_seconds,
            settled=lambda seen: self._verify(seen) is Verified.CHANGED,
            settled_after_seconds=self._policy.settled_after_seconds,
        )
        why = self._why_interrupted(look)
        if self._has_begun(look):
            # Codex's title spins for a moment after its start: then all of the prompt still stands there. Whoever
            # really works goes on, or has taken some of it.
            look = await self._eye.until(self._is_calm_again, self._policy.calm_within_seconds)
            why = "" if self._is_calm_again(look) else self._why_interrupted(look) or why
        if not why and self._policy.pause_before_enter_seconds:
            look = await self._eye.until(self._is_interrupted, self._policy.pause_before_enter_seconds)
            why = self._why_interrupted(look)
        verified = self._verify(look)
        typed = _step(look, verified is not Verified.NOT_SEEN, f"the composer shows the prompt: {verified.value}")
        if why:
            return self._end(typed, _step(look, False, f"Enter not pressed: {why}"), verified)
        if not typed:
            return self._end(_step(look, False, "the prompt was not seen in the composer"), typed, verified)
        self._turn.on_enter()
        return await self._submit(look, typed, verified)

    async def _submit(self, standing: PaneLook, typed: TypingStep, verified: Verified) -> TypingOutcome:
        look = standing
        for _ in range(2 if self._policy.press_again else 1):
            look = await self._enter(standing)
            if look.rows != standing.rows:
                break
        if not self._is_accepted(standing, look):
            swallowed = "nothing changed after Enter" if look.rows == standing.rows else "the draft still stands"
            return self._end(typed, _step(look, False, swallowed), verified)
        accepted = _step(look, True, self._why_accepted(look))
        look = await self._eye.until(
            lambda seen: self._turn.is_over or self._is_started(seen), self._policy.started_within_seconds
        )
        return TypingOutcome(typed, accepted, self._started(standing, look), verified, None, self._is_command)

    async def _enter(self, standing: PaneLook) -> PaneLook:
        """Press Enter and look for what follows. One that was taken for a line break did nothing else: it is used up,
        so that another cannot answer what it brought. A busy Gemini CLI takes it for the last of what was pasted."""
        within = self._policy.accepted_within_seconds
        await self._pane.send_keys(self._policy.submit_key)
        look = await self._eye.until(
            lambda seen: self._is_accepted(standing, seen) or self._is_line_break(standing, seen), within
        )
        if not self._is_line_break(standing, look):
            return look
        look = await self._eye.until(
            lambda seen: not self._is_line_break(standing, seen), max(_LINE_BREAK_SECONDS, self._pause)
        )
        if not self._is_line_break(standing, look):
            return await self._eye.until(lambda seen: self._is_accepted(standing, seen), within)
        await self._pane.send_keys(self._policy.submit_key)
        return await self._eye.until(lambda seen: self._is_accepted(standing, seen), within)

    @property
    def _pause(self) -> float:
        return self._policy.pause_before_enter_seconds

    def _is_line_break(self, standing: PaneLook, look: PaneLook) -> bool:
        """Whether the same prompt stands in a calm composer, and the cursor went to the next row."""
        was, now = standing.capture.snapshot.cursor, look.capture.snapshot.cursor
        if was is None or now is None or self._why_interrupted(look) or self._is_started(look):
            return False
        is_same = squeeze(look.reading.draft or "") == squeeze(self._text)
        return is_same and now[1] == was[1] + 1 and now[0] < was[0]

    def _end(self, typed: TypingStep, accepted: TypingStep, verified: Verified) -> TypingOutcome:
        started = TypingStep(False, "not submitted", accepted.at_seconds)
        return TypingOutcome(typed, accepted, started, verified, None, self._is_command)

    def _verify(self, look: PaneLook) -> Verified:
        draft, was = look.reading.draft, self._before.reading.draft
        if draft is None:
            # A reader that never saw the composer can only say that the screen is another one. One that saw it before
            # and does not now looks at something else.
            return Verified.CHANGED if was is None and look.rows != self._before.rows else Verified.NOT_SEEN
        if draft == was:
            return Verified.NOT_SEEN
        if squeeze(self._text) in squeeze(draft):
            return Verified.EXACT
        return Verified.PLACEHOLDER if _PLACEHOLDER.search(draft) else Verified.CHANGED

    def _is_interrupted(self, look: PaneLook) -> bool:
        return bool(self._why_interrupted(look))

    def _why_interrupted(self, look: PaneLook) -> str:
        if look.capture.why_closed is not None:
            return look.capture.why_closed
        if look.is_blocked:
            return "a dialog came up"
        if look.reading.assessment.input_mode is InputMode.MODAL and not self._is_command:
            return "a dialog came up"
        if self._is_joined(look):
            return "somebody typed into the composer at the same time"
        return "it began to work before Enter" if self._has_begun(look) else ""

    def _is_joined(self, look: PaneLook) -> bool:
        """Whether more than the prompt stands in a composer that was empty: a person's keys came between."""
        draft, text = squeeze(look.reading.draft or ""), squeeze(self._text)
        return self._before.reading.draft == "" and text in draft and text != draft

    def _is_calm_again(self, look: PaneLook) -> bool:
        return not self._why_interrupted(look) and self._verify(look) in (Verified.EXACT, Verified.PLACEHOLDER)

    def _has_begun(self, look: PaneLook) -> bool:
        return look.state is BusinessState.WORKING and self._before.state is not BusinessState.WORKING

    def _is_accepted(self, standing: PaneLook, look: PaneLook) -> bool:
        if self._is_started(look):
            return True
        draft = look.reading.draft
        if draft is None:
            return standing.reading.draft is None and look.rows != standing.rows
        return draft == "" and look.reading.assessment.input_mode is not InputMode.MODAL

    def _why_accepted(self, look: PaneLook) -> str:
        if self._is_started(look):
            return f"{look.state.value} after Enter"
        is_seen = look.reading.draft is not None
        return "the composer is empty" if is_seen else "the screen changed; the composer cannot be seen"

    def _is_started(self, look: PaneLook) -> bool:
        return look.is_busy if self._before.state is not BusinessState.WORKING else look.is_blocked

    def _started(self, standing: PaneLook, look: PaneLook) -> TypingStep:
        if self._is_started(look):
            return _step(look, True, look.state.value)
        if self._before.state is BusinessState.WORKING:
            return _step(look, False, "it was working already, so nothing shows which turn works")
        rows = self._answer_rows(standing, look)
        if rows:
            return _step(look, True, f"new text above the composer: {rows[0].strip()[:80]!r}")
        return _step(look, False, f"accepted, but {look.state.value} and no new text")

    def _answer_rows(self, standing: PaneLook, look: PaneLook) -> list[str]:
        """Rows above the cursor that were not there before Enter and are not the echo of the prompt."""
        cursor = look.capture.snapshot.cursor
        known, prompt = set(standing.rows), squeeze(self._text)
        new = (row for row in look.rows[: cursor[1] if cursor else None] if row not in known)
        return [row for row in new if (words := re.sub(r"^\W+|\W+$", "", squeeze(row))) and words not in prompt]


def squeeze(text: str) -> str:
    """The text without blanks, since a composer breaks lines where it likes."""
    return _BLANKS.sub("", text)


def _step(look: PaneLook, is_proven: bool, evidence: str) -> TypingStep:
    return TypingStep(is_proven, evidence, look.capture.captured_at_seconds)
