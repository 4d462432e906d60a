"""The real Claude Code and Codex with our hooks in their settings: what they do arrives, and no trace stays."""

from __future__ import annotations

import asyncio
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from interlock.agents.evidence.hook_program import SOCKET_VARIABLE
from interlock.agents.evidence.hook_settings import (
    HookedCli,
    Installation,
    hook_status,
    install_hooks,
    settings_path,
    uninstall_hooks,
)
from interlock.agents.evidence.hooks import HookHeard, HookListener, hook_socket
from interlock.agents.evidence.session_files import SessionFile
from interlock.agents.evidence.transcripts import TranscriptReader, find_claude_transcript
from interlock.agents.observations import TurnEnding
from interlock.monitor.sources.hooks import read_hook
from interlock.monitor.tracker import TrackerEvent
from interlock.testing.scripted_model import ScriptedModel, Shell, Text
from interlock.vocabulary.ids import SPAWN_ID_VARIABLE
from tests.contract.harness import run
from tests.real.harness import Harness
from tests.real.live import LiveAgent, blocked, event, live_agent
from tests.real.recipes import CLAUDE, CODEX, LabFolder, Recipe

pytestmark = pytest.mark.real

LIMIT_SECONDS: Final = 60.0
SCRIPT: Final = {"tool": (Shell("touch made.txt; echo hi"), Text("The tool ran."))}
FOLDERS: Final = {HookedCli.CLAUDE: ".claude", HookedCli.CODEX: ".codex"}


class Told:
    """What the hooks of one agent told, in order."""

    def __init__(self, listener: HookListener) -> None:
        self._listener = listener
        self.heard: list[HookHeard] = []

    async def until(self, name: str) -> None:
        async with asyncio.timeout(20):
            while name not in self.events:
                self.heard.append(await anext(self._listener))

    @property
    def events(self) -> list[str]:
        return [one.event for one in self.heard]


def hooked(recipe: Recipe, cli: HookedCli, socket: Path, originals: list[bytes]) -> Recipe:
    """The recipe with our hooks in its settings, as `interlock hooks install` puts them there."""

    def seed(place: LabFolder, url: str) -> None:
        recipe.seed(place, url)
        path = settings_path(cli, place.home / FOLDERS[cli])
        originals.append(path.read_bytes())
        assert install_hooks(cli, path).installation is Installation.INSTALLED

    def environment(place: LabFolder, url: str) -> dict[str, str]:
        more = {SOCKET_VARIABLE: str(socket), SPAWN_ID_VARIABLE: "spn_real"}
        return {**recipe.environment(place, url), **more}

    return replace(recipe, seed=seed, environment=environment)


async def one_turn(agent: LiveAgent, told: Told, *, yes: str) -> None:
    """A prompt, a tool that is allowed, an answer; and each reported by its hook."""
    await agent.ready()
    await agent.submit("SCN:tool")
    await agent.until(blocked, "blocked")
    await told.until("PermissionRequest")
    await agent.choose(yes)
    await agent.until(event(TrackerEvent.COMPLETED), "completed")
    await told.until("Stop")
    assert [name for name in told.events if name != "Notification"] == [
        "SessionStart", "UserPromptSubmit", "PreToolUse", "PermissionRequest", "PostToolUse", "Stop",
    ]  # fmt: skip
    assert {one.spawn_id for one in told.heard} == {"spn_real"}
    assert len({one.session_id for one in told.heard}) == 1
    for one in told.heard:
        assert read_hook(one.payload, at_seconds=one.at_seconds).anomalies == ()


def see_transcript(cli: HookedCli, told: Told, *found: Path | None) -> None:
    """The transcript that the hooks name is the one that is found, and it tells the same turn."""
    named = Path(told.heard[-1].transcript_path)
    assert set(found) == {named}
    reader = TranscriptReader(cli.value, named)
    reader.poll()
    turn = reader.turn_of("SCN:tool")
    assert turn is not None
    assert (turn.answer, turn.open_calls) == ("The tool ran.", ())
    assert turn.ending in (TurnEnding.NATURAL, None)  # the last line may come a moment later


def leave_no_trace(cli: HookedCli, place: LabFolder, original: bytes) -> None:
    path = settings_path(cli, place.home / FOLDERS[cli])
    assert hook_status(cli, path).installation is Installation.INSTALLED
    uninstall_hooks(cli, path)
    assert path.read_bytes() == original
    assert not path.with_name(path.name + ".before-interlock").exists()


def test_claude_code_tells_a_turn_by_our_hooks_and_its_files(claude_executable: Path, tmp_path: Path) -> None:
    originals: list[bytes] = []
    socket = hook_socket(tmp_path / "interlock")

    async def story(model: ScriptedModel) -> LabFolder:
        recipe = hooked(CLAUDE, HookedCli.CLAUDE, socket, originals)
        async with HookListener(socket) as listener, live_agent(recipe, claude_executable, model, tmp_path) as agent:
            told, config = Told(listener), agent.place.home / ".claude"
            await one_turn(agent, told, yes="Yes")
            by_session = find_claude_transcript(config, told.heard[0].session_id)
            see_transcript(HookedCli.CLAUDE, told, by_session)
            (pid,) = (int(path.stem) for path in (config / "sessions").glob("*.json") if path.stem.isdigit())
            (claim,) = SessionFile(config, pid).look(asyncio.get_running_loop().time()).claims
            assert (claim.rule, claim.session_id) == ("claude.session_file.idle", told.heard[0].session_id)
            assert not {reason for reason in listener.refused if listener.refused[reason]}
            return agent.place

    with ScriptedModel(SCRIPT) as model:
        place = run(story(model), LIMIT_SECONDS)
        assert model.faults == ()
    leave_no_trace(HookedCli.CLAUDE, place, originals[0])


def test_codex_tells_a_turn_by_our_hooks_and_its_rollout(codex_executable: Path, tmp_path: Path) -> None:
    originals: list[bytes] = []
    socket = hook_socket(tmp_path / "interlock")

    async def story(model: ScriptedModel) -> LabFolder:
        recipe = hooked(CODEX, HookedCli.CODEX, socket, originals)
        trusting = replace(recipe, arguments=(*recipe.arguments, "--dangerously-bypass-hook-trust"))
        async with HookListener(socket) as listener, live_agent(trusting, codex_executable, model, tmp_path) as agent:
            told, home = Told(listener), agent.place.home / ".codex"
            await one_turn(agent, told, yes="Yes, proceed")
            (rollout,) = home.glob(f"sessions/*/*/*/rollout-*-{told.heard[0].session_id}.jsonl")
            see_transcript(HookedCli.CODEX, told, rollout)
            return agent.place

    with ScriptedModel(SCRIPT) as model:
        place = run(story(model), LIMIT_SECONDS)
        assert model.faults == ()
    leave_no_trace(HookedCli.CODEX, place, originals[0])


def test_codex_asks_for_trust_once_and_its_note_survives_us(codex_executable: Path, tmp_path: Path) -> None:
    socket = hook_socket(tmp_path / "interlock")
    recipe = hooked(CODEX, HookedCli.CODEX, socket, [])
    with (
        ScriptedModel(SCRIPT) as model,
        Harness(recipe, codex_executable, model, tmp_path, scenario="trust") as agent,
    ):
        path = settings_path(HookedCli.CODEX, agent.place.home / ".codex")
        agent.wait_for_text("Hooks need review", "2. Trust all and continue")
        assert "asks at its next start" in hook_status(HookedCli.CODEX, path).notes[0]
        agent.keys("Down")
        agent.wait_for_text("› 2. Trust all and continue")
        agent.keys("Enter")
        agent.wait_for(lambda frame: "project" in frame.title, "a session")
    assert "noted that a person trusts" in hook_status(HookedCli.CODEX, path).notes[0]
    noted = tomllib.loads(path.read_text("utf-8"))["hooks"]["state"]
    assert uninstall_hooks(HookedCli.CODEX, path).installation is Installation.ABSENT
    assert tomllib.loads(path.read_text("utf-8"))["hooks"] == {"state": noted}
