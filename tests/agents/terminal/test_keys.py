"""The keys and arguments of a CLI come from its profile: a user's own file is all that a new one needs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Final, cast

import pytest

from interlock.agents.observations import BecameReady, Exited, TurnEnded, TurnEnding
from interlock.agents.port import AgentSpec, DeliveryUnknown, KeptOut, NotDelivered
from interlock.agents.profiles import builtin_profiles, load_profiles
from interlock.agents.terminal import keyboard
from interlock.agents.terminal.driver import TerminalDriver
from interlock.agents.terminal.handle import TerminalPolicy
from interlock.agents.terminal.keyboard import Keyboard
from interlock.agents.tmux.client import TmuxClient
from interlock.agents.tmux.panes import Pane
from interlock.agents.tmux.typing import TypedTurn, TypingOutcome, TypingPolicy, TypingRefusal, TypingStep
from interlock.screen.selection import select_reader
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import DeliveryStage
from interlock.vocabulary.events.registry import Json
from tests.agents.terminal.harness import QUICK, SCRIPTED, WAIT_SECONDS, agent, driving, prompt, scripted, shows
from tests.contract.harness import run
from tests.each_row import each_row

BUILTIN: Final = resources.files("interlock.screen").joinpath("profiles/scripted.toml").read_text("utf-8")
KEYS: Final = '[keys]\ninterrupt = ["Escape"]\nquit = ["C-d"]\n'
TWO_STEPS: Final = """[keys]
interrupt = [
  { press = "Escape", shows = [{ match = '^esc again to interrupt$' }], within_seconds = 60 },
  { press = "Escape", within_seconds = 60 },
]
"""


@asynccontextmanager
async def driving_by(folder: Path, keys: str, policy: TerminalPolicy = QUICK) -> AsyncIterator[TerminalDriver]:
    """A driver that reads a user's own profile of the scripted agent, with these tables in place of `[keys]`."""
    assert KEYS in BUILTIN
    (folder / "mine.toml").write_text(BUILTIN.replace(KEYS, keys).replace("scripted-1", "mine-1"), encoding="utf-8")
    async with driving(policy) as driver:
        driver.profiles = load_profiles(folder)
        yield driver


def received(ledger: Path) -> list[Json]:
    return [json.loads(line)["what"] for line in ledger.read_text("utf-8").splitlines()]


def test_each_key_of_an_interrupt_waits_for_what_the_one_before_it_brings(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    argv = (*SCRIPTED, "--two-escapes", "--ledger", str(ledger))
    policy = replace(QUICK, interrupted_within_seconds=90)

    async def main() -> None:
        async with (
            driving_by(tmp_path, TWO_STEPS, policy) as driver,
            agent(driver, replace(scripted(), argv=argv)) as seen,
        ):
            await seen.until(BecameReady)
            await seen.handle.submit(prompt("think 600"))
            await seen.handle.interrupt()
            assert (await seen.until(TurnEnded)).ending is TurnEnding.INTERRUPTED
            await seen.until(BecameReady)
            assert await seen.handle.submit(prompt("say Still here.")) is not None
            await shows(seen, "Still here.")
            assert seen.of(Exited) == []

    run(main())
    assert received(ledger) == ["start", "prompt", "interrupt", "prompt"]


def test_an_interrupt_without_effect_says_which_keys_were_pressed_and_leaves_the_agent_alone(tmp_path: Path) -> None:
    keys = '[keys]\ninterrupt = [{ press = "Escape", within_seconds = 0.3 }, { press = "C-c", within_seconds = 0.3 }]\n'
    policy = replace(QUICK, interrupted_within_seconds=4)

    async def main() -> None:
        async with driving_by(tmp_path, keys, policy) as driver, agent(driver) as seen:
            await seen.until(BecameReady)
            await seen.handle.submit(prompt("deaf"))
            with pytest.raises(DeliveryUnknown, match="not seen to end 4 s after these keys: Escape, C-c"):
                await seen.handle.interrupt()
            assert (seen.of(Exited), seen.of(TurnEnded)) == ([], [])

    run(main())


def test_a_key_that_the_screen_does_not_confirm_is_told_and_the_steps_begin_again(tmp_path: Path) -> None:
    keys = """[keys]
interrupt = [{ press = "Escape", shows = [{ match = 'never shown' }], within_seconds = 0.3 }, "C-c"]
"""
    policy = replace(QUICK, interrupted_within_seconds=3)

    async def main() -> None:
        async with driving_by(tmp_path, keys, policy) as driver, agent(driver) as seen:
            await seen.until(BecameReady)
            await seen.handle.submit(prompt("deaf"))
            with pytest.raises(DeliveryUnknown) as told:
                await seen.handle.interrupt()
            assert "Escape (not confirmed by the screen)" in str(told.value)
            assert "C-c" not in str(told.value)

    run(main())


def test_a_profile_names_the_submit_key_and_the_keys_that_quit(tmp_path: Path) -> None:
    keys = '[keys]\nsubmit = "C-j"\ninterrupt = ["Escape"]\nquit = ["C-d"]\n'

    async def main() -> None:
        async with driving_by(tmp_path, keys) as driver, agent(driver) as seen:
            await seen.until(BecameReady)
            assert await seen.handle.submit(prompt("think 1; say Yes.")) is DeliveryStage.STARTED
            await seen.until(BecameReady)
            await seen.handle.stop()
            assert (await seen.until(Exited)).code == 0

    run(main())


def test_keys_that_do_not_bring_the_next_screen_are_no_quit_that_an_end_is_waited_for(tmp_path: Path) -> None:
    keys = """[keys]
interrupt = ["Escape"]
quit = [{ press = "Right", shows = [{ match = 'never shown' }], within_seconds = 0.3 }, "C-d"]
"""

    async def main() -> None:
        policy = replace(QUICK, quit_within_seconds=3600)
        async with driving_by(tmp_path, keys, policy) as driver, agent(driver) as seen:
            await seen.until(BecameReady)
            async with asyncio.timeout(WAIT_SECONDS):
                await seen.handle.stop()
            assert (await seen.until(Exited)).signal is not None, "it was not left waiting, and ended by a signal"

    run(main())


def test_a_profile_says_how_a_session_is_resumed_and_a_model_is_chosen(tmp_path: Path) -> None:
    tables = KEYS + '\n[arguments]\nresume = ["--resume", "{session}"]\nmodel = ["--brain={model}"]\n'

    async def main() -> None:
        async with driving_by(tmp_path, tables) as driver:
            spec = replace(scripted(), resume="old", model="big")
            async with agent(driver, spec) as seen:
                assert seen.handle.argv == (*SCRIPTED, "--resume", "old", "--brain=big")

    run(main())


@pytest.mark.parametrize(
    ("spec", "missing"), [(replace(scripted(), resume="x"), "resume"), (replace(scripted(), model="x"), "model")]
)
def test_what_a_profile_does_not_say_is_refused_with_the_table_that_is_missing(spec: AgentSpec, missing: str) -> None:
    async def main() -> None:
        async with driving() as driver:
            with pytest.raises(UsageError) as refused:
                async with agent(driver, spec):
                    pass
            assert f"`{missing}` in [arguments]" in str(refused.value)

    run(main())


@each_row(
    ("refusal", "kind", "why"),
    [
        (TypingRefusal.CLOSED, NotDelivered, "a person reads back"),
        (TypingRefusal.DIALOG, KeptOut, "a dialog is open"),
        (TypingRefusal.WORKING, KeptOut, "the agent is working"),
        (TypingRefusal.DRAFT, KeptOut, "a draft of somebody stands in the composer"),
        (TypingRefusal.DRAFT_UNKNOWN, NotDelivered, "whether a draft stands in the composer cannot be seen"),
        (TypingRefusal.NOT_READY, NotDelivered, "the screen does not show that it is ready"),
    ],
)
def test_a_prompt_that_is_not_typed_says_why_and_whether_that_passes(
    refusal: TypingRefusal, kind: type[NotDelivered], why: str
) -> None:
    async def refuse(*_: object) -> TypingOutcome:
        step = TypingStep(False, "a person reads back", 0.0)
        return TypingOutcome(step, step, step, refusal=refusal)

    pane = Pane(cast("TmuxClient", None), "%0")
    board = Keyboard(pane, select_reader(builtin_profiles(), "scripted"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keyboard, "type_prompt", refuse)
        with pytest.raises(NotDelivered) as told:
            run(board.submit("do it", TypingPolicy(), TypedTurn()))
    assert (type(told.value), str(told.value)) == (kind, f"nothing was typed: {why}")
