"""How GitHub Copilot CLI is set up for a scripted model: no account, no network, and a folder that it trusts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interlock.testing.lab.recipes import LabFolder


def seed_copilot(place: LabFolder, url: str) -> None:
    del url  # Copilot is told by its environment.
    folder = place.home / ".copilot"
    folder.mkdir(exist_ok=True)
    config = {"trusted_folders": [str(place.project.resolve())], "banner": "never"}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


def ask_copilot_trust(place: LabFolder) -> None:
    (place.home / ".copilot" / "config.json").write_text(json.dumps({"banner": "never"}), encoding="utf-8")


def copilot_environment(place: LabFolder, url: str) -> Mapping[str, str]:
    del place
    return {
        "COPILOT_PROVIDER_BASE_URL": f"{url}/v1",
        "COPILOT_PROVIDER_API_KEY": "dummy",
        "COPILOT_MODEL": "gpt-4.1",
        "COPILOT_OFFLINE": "true",
        "COPILOT_AUTO_UPDATE": "false",
    }
