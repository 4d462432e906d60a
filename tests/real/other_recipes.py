"""How Gemini CLI, Qwen Code, opencode and Droid are started: an own home, nothing asked, nothing sent outside."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from interlock.agents.port import AgentSpec
from interlock.testing.lab.installs import PINNED
from tests.real.recipes import GEMINI, OPENCODE, QWEN, LabFolder, Recipe, common_environment
from tools.agent_clis import install


@dataclass(frozen=True, slots=True)
class OtherCli:
    """One CLI in one place, pointed to a model."""

    name: str
    place: LabFolder
    environment: Mapping[str, str]

    def spec(self, driver: str, *arguments: str, resume: str = "") -> AgentSpec:
        return AgentSpec(
            agent=self.name,
            driver=driver,
            argv=(str(PINNED[self.name].executable), *arguments),
            cwd=str(self.place.project),
            environment=self.environment,
            resume=resume,
        )


def gemini(root: Path, url: str) -> OtherCli:
    """Gemini CLI, which asks before it runs a command."""
    return made(GEMINI, root, url)


def qwen(root: Path, url: str) -> OtherCli:
    """Qwen Code. Its Node is in its own folder; `--approval-mode default` makes it ask."""
    return made(QWEN, root, url)


def opencode(root: Path, url: str) -> OtherCli:
    """opencode, which asks before it runs a command. It tries to fetch a package into its home, and fails in peace."""
    return made(OPENCODE, root, url)


def droid(root: Path, url: str) -> OtherCli:
    """Droid with a model of one's own and a key that nobody checks: by ACP it needs no more."""
    executable, place = install("droid"), LabFolder(root)
    place.make()
    folder = place.home / ".factory"
    folder.mkdir()
    model = {
        "model": "stub-model",
        "displayName": "Stub",
        "baseUrl": f"{url}/v1",
        "apiKey": "dummy",
        "provider": "generic-chat-completion-api",
        "maxOutputTokens": 4096,
    }
    settings = {"customModels": [model], "model": "custom:Stub-0"}
    (folder / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    common = common_environment(place)
    path = f"{executable.parent}:{common['PATH']}"
    return OtherCli("droid", place, {**common, "PATH": path, "FACTORY_API_KEY": "fk-dummy"})


def made(recipe: Recipe, root: Path, url: str) -> OtherCli:
    """Any CLI of the lab, its first-run questions answered."""
    executable, place = install(recipe.cli), LabFolder(root)
    place.make()
    recipe.seed(place, url)
    common = common_environment(place)
    path = f"{executable.parent}:{common['PATH']}"
    return OtherCli(recipe.cli, place, {**common, "PATH": path, **recipe.environment(place, url)})
