"""How Gemini CLI and Qwen Code are started without a terminal: an own home, nothing asked, nothing sent outside."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from interlock.agents.port import AgentSpec
from interlock.vocabulary.registry import Json
from tests.real.recipes import Place, common_environment
from tools.agent_clis import PINNED, install

_QUIET: Mapping[str, Json] = {"usageStatisticsEnabled": False}


@dataclass(frozen=True, slots=True)
class OtherCli:
    """One CLI in one place, pointed to a model."""

    name: str
    place: Place
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
    settings: dict[str, Json] = {
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
        "privacy": dict(_QUIET),
        "telemetry": {"enabled": False},
    }
    environment = {
        "GEMINI_API_KEY": "dummy",
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_CLI_NO_RELAUNCH": "true",
        "NO_BROWSER": "true",
    }
    return _made("gemini", root, ".gemini", settings, environment)


def qwen(root: Path, url: str) -> OtherCli:
    """Qwen Code. Its Node is in its own folder; `--approval-mode default` makes it ask."""
    settings: dict[str, Json] = {
        "security": {"auth": {"selectedType": "openai"}, "folderTrust": {"enabled": False}},
        "general": {"enableAutoUpdate": False, "disableAutoUpdate": True},
        "privacy": dict(_QUIET),
        "telemetry": {"enabled": False},
        "model": {"name": "stub-model"},
    }
    environment = {"OPENAI_API_KEY": "dummy", "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_MODEL": "stub-model"}
    return _made("qwen", root, ".qwen", settings, environment)


def _made(name: str, root: Path, folder: str, settings: Mapping[str, Json], environment: Mapping[str, str]) -> OtherCli:
    executable, place = install(name), Place(root)
    place.make()
    home = place.home / folder
    home.mkdir(exist_ok=True)
    (home / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    common = common_environment(place)
    path = f"{executable.parent}:{common['PATH']}"
    return OtherCli(name, place, {**common, "PATH": path, **environment})
