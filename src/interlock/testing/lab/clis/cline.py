"""How Cline is set up for a scripted model: a provider of the person's own, and no advertisement at its start.

By ACP it takes its provider from the environment alone, and the address of it from its settings.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from interlock.testing.lab.recipes import LabFolder

_PROVIDER: Final = "openai-compatible"
_MODEL: Final = "stub-model"


def seed_cline(place: LabFolder, url: str) -> None:
    folder = place.home / ".cline" / "data" / "settings"
    folder.mkdir(parents=True, exist_ok=True)
    settings = {"provider": _PROVIDER, "apiKey": "dummy", "model": _MODEL, "baseUrl": f"{url}/v1"}
    entry = {"settings": settings, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
    providers = {"version": 1, "lastUsedProvider": _PROVIDER, "modes": {}, "providers": {_PROVIDER: entry}}
    (folder / "providers.json").write_text(json.dumps(providers), encoding="utf-8")


def cline_environment(place: LabFolder, url: str) -> Mapping[str, str]:
    del place, url  # The address stands in its settings.
    return {
        "CLINE_DISABLE_CLINE_PASS_NOTICE": "1",
        "CLINE_API_KEY": "dummy",
        "CLINE_PROVIDER": _PROVIDER,
        "CLINE_MODEL": _MODEL,
    }
