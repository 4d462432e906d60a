"""How Kimi Code is set up for a scripted model: its configuration, and the trust that it keeps of a folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from interlock.testing.lab.recipes import LabFolder

_FOLDER: Final = ".kimi-code"
_CONFIG: Final = """\
default_model = "stub"
[models.stub]
provider = "scripted"
model = "stub-model"
max_context_size = 200000
[providers.scripted]
type = "openai"
base_url = "{url}/v1"
api_key = "dummy"
"""
_TUI: Final = """\
disable_feedback_survey = true
[upgrade]
auto_install = false
"""


def seed_kimi(place: LabFolder, url: str) -> None:
    folder = place.home / _FOLDER
    trusted = folder / "workspace-trust"
    trusted.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(_CONFIG.format(url=url), encoding="utf-8")
    (folder / "tui.toml").write_text(_TUI, encoding="utf-8")
    root = str(place.project.resolve())
    key = f"wd_{place.project.name}_{hashlib.sha256(root.encode()).hexdigest()[:12]}"
    (trusted / key).write_text(json.dumps({"root": root, "trustedAt": 1_700_000_000_000}), encoding="utf-8")


def ask_kimi_trust(place: LabFolder) -> None:
    for path in (place.home / _FOLDER / "workspace-trust").iterdir():
        path.unlink()


def kimi_environment(place: LabFolder, url: str) -> Mapping[str, str]:
    del place, url  # Kimi Code is told by its configuration.
    return {"KIMI_CODE_NO_AUTO_UPDATE": "1"}
