"""Typing a prompt into scripted programs in a real tmux: each step is proven, or not claimed."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from interlock.agents.tmux.panes import Pane
from interlock.agents.tmux.typing import TypedTurn, TypingOutcome, TypingPolicy, TypingRefusal, Verified, type_prompt
from interlock.screen.assessment import Availability, BusinessState, InputMode, SurfaceAssessment
from interlock.screen.snapshot import Snapshot
from interlock.vocabulary.errors import UsageError
from tests.agents.tmux.harness import shows, stage
from tests.contract.harness import run

PROGRAM: Final = str(Path(__file__).with_name("composer.py"))
STATES: Final = {
    "READY": (BusinessState.IDLE, InputMode.FREEFORM),
    "WORKING": (BusinessState.WORKING, InputMode.FREEFORM),
    "DIALOG": (BusinessState.AWAITING_OPERATOR, InputMode.MODAL),
}


@dataclass(frozen=True, slots=True)
class Read:
    assessment: SurfaceAssessment
    draft: str | None


def read(snapshot: Snapshot) -> Read:
    """Reads the screen of composer.py."""
    rows = [row.text for row in snapshot.rows]
    state, mode = STATES.get(rows[0], (BusinessState.UNKNOWN, InputMode.UNKNOWN))
    has_menu = any(row.startswith("  /help") for row in rows)
    mode = InputMode.MODAL if has_menu else mode
    start = rows.index("----") + 1 if "----" in rows else None
    draft = "\n".join(row for row in rows[start:] if not row.startswith("  /help"))[2:].strip() if start else None
    return Read(SurfaceAssessment(Availability.SUPPORTED, state, mode), draft)


def read_blindly(snapshot: Snapshot) -> Read:
    """Cannot see the composer."""
    return Read(read(snapshot).assessment, None)


@dataclass(frozen=True, slots=True)
class Desk:
    pane: Pane
    file: Path

    async def type(self, prompt: str, policy: TypingPolicy | None = None) -> TypingOutcome:
        return await type_prompt(self.pane, prompt, read, policy)

    @property
    def submitted(self) -> str | None:
        return str(json.loads(self.file.read_text("utf-8"))) if self.file.exists() else None


@asynccontextmanager
async def desk(mode: str, folder: Path) -> AsyncIterator[Desk]:
    file = folder / "submitted.json"
    async with stage(sys.executable, "-I", "-S", PROGRAM, mode, str(file)) as on:
        await shows(on.pane, "----")
        yield Desk(on.pane, file)


PROMPTS: Final = {
    "short": "say hello",
    "lines": "first\n\n  second line\nthird",
    "wide": "漢字と🙂 and e\u0301 combined",
    "rtl": "שלום עולם, مرحبا",
    "wrapped": "word " * 60,
    "bang": "!ls -la",
    "hash": "# remember this",
    "quotes": 'it\'s "quoted" $HOME `id` #{pane_id} %1 ; \\ ~',
    "backslash": "ends with a \\",
    "option": "-t %0",
}


@pytest.mark.parametrize("name", list(PROMPTS))
def test_a_prompt_arrives_whole_and_each_step_is_proven(name: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with desk("backslash" if name == "backslash" else "echo", tmp_path) as at:
            outcome = await at.type(PROMPTS[name])
            assert outcome.refusal is None
            assert outcome.typed.is_proven
            assert outcome.accepted.is_proven
            assert outcome.started.is_proven
            assert outcome.verified is Verified.EXACT
            assert outcome.typed.at_seconds <= outcome.accepted.at_seconds <= outcome.started.at_seconds
            assert at.submitted == PROMPTS[name] + (" " if name == "backslash" else "")
            assert outcome.is_command is (name in ("bang", "hash"))

    run(main())


def test_the_start_of_a_turn_that_is_over_is_not_waited_for_and_not_claimed(tmp_path: Path) -> None:
    policy = TypingPolicy(started_within_seconds=600)

    async def main() -> None:
        async with desk("clears", tmp_path) as at, asyncio.timeout(60):
            turn = TypedTurn()
            turn.on_enter = turn.ended
            outcome = await type_prompt(at.pane, "hello", read, policy, turn)
            assert outcome.accepted
            assert not outcome.started

    run(main())


@pytest.mark.parametrize(("mode", "verified"), [("placeholder", "placeholder"), ("echo", "changed")])
def test_a_very_long_prompt_arrives_whole_however_it_is_shown(mode: str, verified: str, tmp_path: Path) -> None:
    prompt = "\n".join(f"line {number} é漢" for number in range(7000))
    assert len(prompt.encode()) > 100_000

    async def main() -> None:
        async with desk(mode, tmp_path) as at:
            outcome = await at.type(prompt)
            assert (outcome.verified, outcome.typed.evidence) == (
                verified,
                f"the composer shows the prompt: {verified}",
            )
            assert outcome.started
            assert at.submitted == prompt

    run(main())


def test_a_slash_command_is_submitted_through_its_menu_and_marked(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk("menu", tmp_path) as at:
            outcome = await at.type("/help me")
            assert outcome.is_command
            assert outcome.accepted
            assert at.submitted == "/help me"

    run(main())


@pytest.mark.parametrize(
    ("mode", "refusal"),
    [("dialog", TypingRefusal.DIALOG), ("working", TypingRefusal.WORKING), ("draft", TypingRefusal.DRAFT)],
)
def test_a_dialog_a_working_agent_and_a_draft_are_left_alone(mode: str, refusal: TypingRefusal, tmp_path: Path) -> None:
    async def main() -> None:
        async with desk(mode, tmp_path) as at:
            before = (await at.pane.capture()).snapshot
            outcome = await at.type("hello")
            assert outcome.refusal is refusal
            assert outcome.typed.evidence == f"not typed: {mode}"
            assert not any(map(bool, (outcome.typed, outcome.accepted, outcome.started)))
            assert (await at.pane.capture()).snapshot == before
            assert at.submitted is None

    run(main())


def test_a_dialog_is_left_alone_whatever_the_caller_allows(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk("dialog", tmp_path) as at:
            outcome = await at.type("hello", TypingPolicy(over_draft=True, while_working=True, press_again=True))
            assert outcome.refusal is TypingRefusal.DIALOG

    run(main())


def test_an_enter_that_became_a_line_break_is_pressed_once_more(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk("line_break", tmp_path) as at:
            outcome = await at.type("say hello")
            assert outcome.accepted
            assert outcome.started
            assert at.submitted == "say hello\n"

    run(main())


@pytest.mark.parametrize("mode", ["typed_before", "typed_behind"])
def test_what_a_person_types_at_the_same_moment_is_not_submitted_with_the_prompt(mode: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with desk(mode, tmp_path) as at:
            outcome = await at.type("say hello")
            assert outcome.typed
            assert outcome.accepted.evidence == "Enter not pressed: somebody typed into the composer at the same time"
            assert not outcome.started
            assert at.submitted is None
            assert (await at.type("again")).refusal is TypingRefusal.DRAFT

    run(main())


def test_a_draft_and_a_working_agent_are_typed_into_when_told(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk("draft", tmp_path) as at:
            assert (await at.type("hello", TypingPolicy(over_draft=True))).started
            assert at.submitted == "half a thoughthello"

    async def queue() -> None:
        async with desk("working", tmp_path) as at:
            outcome = await at.type("and then", TypingPolicy(while_working=True, started_within_seconds=0.2))
            assert outcome.accepted
            assert not outcome.started  # nothing shows which turn works
            assert at.submitted == "and then"

    run(main())
    run(queue())


def test_a_reader_that_cannot_see_the_composer_is_not_trusted_unless_told(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk("echo", tmp_path) as at:
            assert (await type_prompt(at.pane, "hello", read_blindly)).refusal is TypingRefusal.DRAFT_UNKNOWN
            outcome = await type_prompt(at.pane, "hello", read_blindly, TypingPolicy(over_draft=True))
            assert (outcome.verified, bool(outcome.started)) == (Verified.CHANGED, True)

    run(main())


def test_a_surface_that_is_not_known_to_be_ready_is_not_typed_into(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk("echo", tmp_path) as at:
            unknown = Read(SurfaceAssessment(), "")
            assert (await type_prompt(at.pane, "hello", lambda _: unknown)).refusal is TypingRefusal.NOT_READY

    run(main())


def test_a_pane_in_which_a_person_reads_back_is_not_typed_into(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk("echo", tmp_path) as at:
            await at.pane.client.command("copy-mode", "-t", at.pane.pane_id)
            outcome = await at.type("hello")
            assert outcome.refusal is TypingRefusal.CLOSED
            assert "reading back" in outcome.typed.evidence

    run(main())


@pytest.mark.parametrize(("mode", "press_again"), [("second_enter", False), ("swallow", False), ("swallow", True)])
def test_a_swallowed_enter_is_told_and_not_pressed_again_by_itself(
    mode: str, press_again: bool, tmp_path: Path
) -> None:
    async def main() -> None:
        async with desk(mode, tmp_path) as at:
            outcome = await at.type("hello", TypingPolicy(press_again=press_again, accepted_within_seconds=0.4))
            assert outcome.typed
            assert not outcome.accepted
            assert outcome.accepted.evidence == "nothing changed after Enter"
            assert (bool(outcome.started), outcome.started.evidence) == (False, "not submitted")
            assert at.submitted is None

    run(main())


def test_enter_is_pressed_again_when_the_caller_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk("second_enter", tmp_path) as at:
            outcome = await at.type("hello", TypingPolicy(press_again=True, accepted_within_seconds=4.0))
            assert outcome.started
            assert at.submitted == "hello"

    run(main())


def test_a_dialog_that_comes_up_while_typing_keeps_enter_from_being_pressed(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk("dialog_on_paste", tmp_path) as at:
            outcome = await at.type("hello")
            assert (bool(outcome.accepted), outcome.accepted.evidence) == (False, "Enter not pressed: a dialog came up")
            assert (bool(outcome.started), outcome.started.evidence) == (False, "not submitted")
            assert at.submitted is None

    run(main())


def test_one_that_seems_to_work_for_a_moment_while_the_prompt_stands_there_is_waited_for(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk("spins", tmp_path) as at:
            assert not (await at.type("hello", TypingPolicy(calm_within_seconds=0.1))).accepted
            assert at.submitted is None
        async with desk("spins", tmp_path) as at:
            assert (await at.type("hello")).accepted
            assert at.submitted == "hello"

    run(main())


@pytest.mark.parametrize("mode", ["deaf", "vanish"])
def test_text_that_never_shows_is_not_typed_and_not_submitted(mode: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with desk(mode, tmp_path) as at:
            outcome = await at.type("hello", TypingPolicy(typed_within_seconds=0.4))
            assert not outcome.typed
            assert at.submitted is None

    run(main())


def test_a_program_that_takes_each_line_for_itself_is_not_given_an_enter_on_top(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk("unbracketed", tmp_path) as at:
            outcome = await at.type("first\nsecond", TypingPolicy(calm_within_seconds=0.5))
            assert not outcome.accepted
            assert "before Enter" in outcome.accepted.evidence

    run(main())


def test_a_turn_that_was_over_at_once_is_known_by_its_answer_and_an_echo_is_no_answer(tmp_path: Path) -> None:
    async def fast() -> None:
        async with desk("fast", tmp_path) as at:
            outcome = await at.type("hello there")
            assert outcome.started
            assert "Here is your answer" in outcome.started.evidence

    async def clears() -> None:
        async with desk("clears", tmp_path) as at:
            outcome = await at.type("hello there", TypingPolicy(started_within_seconds=0.4))
            assert outcome.accepted
            assert not outcome.started

    run(fast())
    run(clears())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "there is nothing to type; give a text"),
        ("a\x1b[201~rm", "the text holds the control character U+001B; take it out; keys go by send_keys"),
        ("a\x00", "the text holds the control character U+0000; take it out; keys go by send_keys"),
        ("a\x03", "the text holds the control character U+0003; take it out; keys go by send_keys"),
        ("\udc80", "the text holds the control character U+DC80; take it out; keys go by send_keys"),
    ],
)
def test_what_a_terminal_would_act_on_is_refused(text: str, why: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with desk("echo", tmp_path) as at:
            with pytest.raises(UsageError) as refused:
                await at.type(text)
            assert str(refused.value) == why

    run(main())
