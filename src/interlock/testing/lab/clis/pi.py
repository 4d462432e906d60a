"""How pi is set up for a scripted model: its list of models, and which of them it takes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from interlock.testing.lab.recipes import LabFolder
    from interlock.vocabulary.events.registry import Json

_MODEL: Final[dict[str, Json]] = {"id": "stub-model", "name": "Stub", "contextWindow": 200_000, "maxTokens": 8_000}


def seed_pi(place: LabFolder, url: str) -> None:
    folder = place.home / ".pi" / "agent"
    folder.mkdir(parents=True, exist_ok=True)
    provider: dict[str, Json] = {"baseUrl": f"{url}/v1", "api": "openai-completions", "apiKey": "dummy"}
    models: Json = {"providers": {"stub": {**provider, "models": [_MODEL]}}}
    settings: Json = {"defaultProvider": "stub", "defaultModel": "stub-model"}
    (folder / "models.json").write_text(json.dumps(models), encoding="utf-8")
    (folder / "settings.json").write_text(json.dumps(settings), encoding="utf-8")


def pi_environment(place: LabFolder, url: str) -> Mapping[str, str]:
    del place, url  # pi is told by its configuration.
    return {"PI_OFFLINE": "1", "PI_SKIP_VERSION_CHECK": "1"}
