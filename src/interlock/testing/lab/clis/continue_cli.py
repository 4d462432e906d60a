"""How Continue is set up for a scripted model: a configuration file, which its command line names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interlock.testing.lab.recipes import LabFolder


def seed_continue(place: LabFolder, url: str) -> None:
    folder = place.home / ".continue"
    folder.mkdir(exist_ok=True)
    # Claude and GPT are the names of which it does not warn; the name means nothing to the scripted model.
    model = {
        "name": "scripted",
        "provider": "openai",
        "model": "gpt-4.1",
        "apiBase": f"{url}/v1",
        "apiKey": "dummy",
        "roles": ["chat"],
        "capabilities": ["tool_use"],
    }
    config = {"name": "Scripted", "version": "1.0.0", "schema": "v1", "models": [model]}
    (folder / "config.yaml").write_text(json.dumps(config), encoding="utf-8")  # JSON is YAML
    (folder / ".onboarding_complete").touch()


def continue_environment(place: LabFolder, url: str) -> Mapping[str, str]:
    del url  # Continue is told by its configuration.
    return {"CONTINUE_GLOBAL_DIR": str(place.home / ".continue"), "CONTINUE_TELEMETRY_ENABLED": "0"}
