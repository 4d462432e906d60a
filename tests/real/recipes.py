"""How each real CLI is started: its own home, its first-run questions answered beforehand, nothing sent outside.

The environment is made from nothing (`env -i`), so that neither the person's settings nor their keys are seen. The
proxy is a dead loopback port: on a machine with internet a CLI that calls home still does not get there.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.agent_clis import PINNED

_DEAD_PROXY: Final = "http://127.0.0.1:9"
_LOCAL: Final = "127.0.0.1,localhost"


@dataclass(frozen=True, slots=True)
class Place:
    """The folders of one run, all below one that the test owns."""

    root: Path

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def project(self) -> Path:
        return self.root / "project"

    @property
    def scratch(self) -> Path:
        """TMPDIR: not above the home, or Codex refuses to write its helpers there."""
        return self.root / "scratch"

    def make(self) -> None:
        for folder in (self.home, self.project, self.scratch):
            folder.mkdir(parents=True, exist_ok=True)


@dataclass(frozen=True, slots=True)
class Recipe:
    """`seed` writes the configuration for a model at this base address; `arguments` follow the executable."""

    cli: str
    seed: Callable[[Place, str], None]
    environment: Callable[[Place, str], Mapping[str, str]]
    arguments: tuple[str, ...] = ()

    @property
    def version(self) -> str:
        return PINNED[self.cli].version


def common_environment(place: Place) -> dict[str, str]:
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(place.home),
        "TMPDIR": str(place.scratch),
        "TERM": "tmux-256color",
        "TERM_PROGRAM": "tmux",
        "LANG": "C.UTF-8",
        "SHELL": "/bin/sh",
        "HTTP_PROXY": _DEAD_PROXY,
        "HTTPS_PROXY": _DEAD_PROXY,
        "NO_PROXY": _LOCAL,
    }


def command_line(recipe: Recipe, executable: Path, place: Place, url: str, behind: Sequence[str] = ()) -> str:
    """What a shell in the pane runs: the CLI, `behind` other words if need be. Only tmux's own names are kept."""
    made = {**common_environment(place), **recipe.environment(place, url)}
    given = [shlex.quote(f"{name}={value}") for name, value in made.items()]
    called = [shlex.quote(word) for word in (*behind, str(executable), *recipe.arguments)]
    return " ".join(["exec env -i", 'TMUX="$TMUX" TMUX_PANE="$TMUX_PANE"', *given, *called])


def _seed_claude(place: Place, url: str) -> None:
    del url  # Claude Code is told by its environment.
    folder = place.home / ".claude"
    folder.mkdir(exist_ok=True)
    state = {
        "hasCompletedOnboarding": True,
        "lastOnboardingVersion": PINNED["claude"].version,
        "theme": "dark",
        "numStartups": 5,
        "hasSeenAutoDefaultNudge": True,
        "customApiKeyResponses": {"approved": ["dummy"], "rejected": []},
        "projects": {
            str(place.project): {
                "hasTrustDialogAccepted": True,
                "hasCompletedProjectOnboarding": True,
                "allowedTools": [],
            }
        },
    }
    settings = {"permissions": {"defaultMode": "default"}}
    (folder / ".claude.json").write_text(json.dumps(state), encoding="utf-8")
    (folder / "settings.json").write_text(json.dumps(settings), encoding="utf-8")


def _claude_environment(place: Place, url: str) -> Mapping[str, str]:
    return {
        "CLAUDE_CONFIG_DIR": str(place.home / ".claude"),
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "dummy",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL": "1",
        "CLAUDE_CODE_MAX_RETRIES": "2",
    }


# gpt-5.5 is the one catalogued model that calls tools directly; the rest go through a script host.
_CODEX_CONFIG: Final = """\
model = "gpt-5.5"
model_provider = "stub"
check_for_update_on_startup = false
approval_policy = "on-request"
sandbox_mode = "workspace-write"
[model_providers.stub]
name = "stub"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "STUB_API_KEY"
requires_openai_auth = false
supports_websockets = false
request_max_retries = 2
stream_max_retries = 2
stream_idle_timeout_ms = 300000
[analytics]
enabled = false
[tui]
screen_reader_detection_done = true
[tui.model_availability_nux]
"gpt-6.1-sol" = 4
[notice.model_migrations]
"gpt-5.5" = "gpt-6-sol"
[features]
plugins = false
apps = false
remote_plugin = false
plugin_sharing = false
plugin_discovery_prefetch = false
[projects."{project}"]
trust_level = "trusted"
"""


def _seed_codex(place: Place, url: str) -> None:
    folder = place.home / ".codex"
    folder.mkdir(exist_ok=True)
    config = _CODEX_CONFIG.format(url=url, project=place.project)
    (folder / "config.toml").write_text(config, encoding="utf-8")


def _codex_environment(place: Place, url: str) -> Mapping[str, str]:
    del url  # Codex is told by its configuration.
    return {"CODEX_HOME": str(place.home / ".codex"), "STUB_API_KEY": "dummy"}


CLAUDE: Final = Recipe("claude", _seed_claude, _claude_environment, ("--permission-mode", "manual"))
# Without --no-daemon Codex starts a shared server that outlives its terminal.
CODEX: Final = Recipe("codex", _seed_codex, _codex_environment, ("--no-daemon",))
