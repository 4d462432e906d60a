"""How each CLI is started: its own home, its first-run questions answered beforehand, nothing sent outside.

The environment is made from nothing (`env -i`), so that neither the person's settings nor their keys are seen. The
proxy is a dead loopback port: on a machine with internet a CLI that calls home still does not get there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interlock.screen.profile_file import parse_version
from interlock.testing.lab.clis.cline import cline_environment, seed_cline
from interlock.testing.lab.clis.continue_cli import continue_environment, seed_continue
from interlock.testing.lab.clis.copilot import ask_copilot_trust, copilot_environment, seed_copilot
from interlock.testing.lab.clis.kimi import ask_kimi_trust, kimi_environment, seed_kimi
from interlock.testing.lab.clis.pi import pi_environment, seed_pi
from interlock.testing.lab.installs import PINNED
from interlock.testing.scripted_model import ScriptedCall
from interlock.vocabulary.events.registry import Json

_DEAD_PROXY: Final = "http://127.0.0.1:9"
SCRIPTED_VERSION: Final = "1.0"
_LOCAL: Final = "127.0.0.1,localhost"


@dataclass(frozen=True, slots=True)
class LabFolder:
    """The folders of one run, all below one that the caller owns."""

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
class Background:
    """A command that outlives its turn. `call` makes the model's call of it; `is_asked`: the CLI asks first. `shown`
    stands on the screen of an agent at its prompt while such a command runs."""

    call: Callable[[str], ScriptedCall]
    shown: str
    is_asked: bool = True


@dataclass(frozen=True, slots=True)
class Recipe:
    """`seed` writes the configuration for a model at this base address; `arguments` follow the executable of each
    version from `arguments_since` on.

    `unseed` takes back the answers to first-run questions, so that the CLI asks them. `question`: the tool by which the
    model asks the person. `background`: how a command outlives its turn. `compact`: what a person types to have the
    conversation summed up. None and empty where the CLI offers no such thing. `asking` and `working` are words that
    stand on the screen while it asks or works: a state counts as painted by them. Without them it counts as painted
    after a while. `asks_leave`: it asks a person before a tool runs.
    """

    cli: str
    seed: Callable[[LabFolder, str], None]
    environment: Callable[[LabFolder, str], Mapping[str, str]]
    arguments: tuple[str, ...] = ()
    unseed: Callable[[LabFolder], None] | None = None
    question: ScriptedCall | None = None
    asking: tuple[str, ...] = ()
    working: str = ""
    background: Background | None = None
    compact: str = ""
    arguments_since: str = ""
    asks_leave: bool = True

    def arguments_at(self, version: str) -> tuple[str, ...]:
        """Arguments that this version knows."""
        told, since = parse_version(version), parse_version(self.arguments_since)
        return () if told is not None and since is not None and told < since else self.arguments

    @property
    def version(self) -> str:
        """The one that is checked where none is named."""
        return PINNED[self.cli].version if self.cli in PINNED else SCRIPTED_VERSION


def common_environment(place: LabFolder) -> dict[str, str]:
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


def _seed_claude(place: LabFolder, url: str) -> None:
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


def _claude_environment(place: LabFolder, url: str) -> Mapping[str, str]:
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


def _seed_codex(place: LabFolder, url: str) -> None:
    folder = place.home / ".codex"
    folder.mkdir(exist_ok=True)
    config = _CODEX_CONFIG.format(url=url, project=place.project)
    (folder / "config.toml").write_text(config, encoding="utf-8")


def _codex_environment(place: LabFolder, url: str) -> Mapping[str, str]:
    del url  # Codex is told by its configuration.
    return {"CODEX_HOME": str(place.home / ".codex"), "STUB_API_KEY": "dummy"}


def _settings_seed(folder: str, settings: Mapping[str, Json]) -> Callable[[LabFolder, str], None]:
    """Writes `settings.json` into a folder of the home: so Gemini CLI and Qwen Code are set up."""

    def seed(place: LabFolder, url: str) -> None:
        del url  # They are told by their environment.
        home = place.home / folder
        home.mkdir(exist_ok=True)
        (home / "settings.json").write_text(json.dumps(settings), encoding="utf-8")

    return seed


_QUIET: Final[Mapping[str, Json]] = {"usageStatisticsEnabled": False}
_GEMINI_SETTINGS: Final[Mapping[str, Json]] = {
    "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
    "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
    "privacy": dict(_QUIET),
    "telemetry": {"enabled": False},
}
_QWEN_SETTINGS: Final[Mapping[str, Json]] = {
    "security": {"auth": {"selectedType": "openai"}, "folderTrust": {"enabled": False}},
    "general": {"enableAutoUpdate": False, "disableAutoUpdate": True},
    "privacy": dict(_QUIET),
    "telemetry": {"enabled": False},
    "model": {"name": "stub-model"},
}


def _gemini_environment(place: LabFolder, url: str) -> Mapping[str, str]:
    del place
    return {
        "GEMINI_API_KEY": "dummy",
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_CLI_NO_RELAUNCH": "true",
        "NO_BROWSER": "true",
    }


def _qwen_environment(place: LabFolder, url: str) -> Mapping[str, str]:
    del place
    return {"OPENAI_API_KEY": "dummy", "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_MODEL": "stub-model"}


def _seed_opencode(place: LabFolder, url: str) -> None:
    folder = place.home / ".config" / "opencode"
    folder.mkdir(parents=True, exist_ok=True)
    model: Json = {"limit": {"context": 200_000, "output": 8_000}}
    options: Json = {"baseURL": f"{url}/v1", "apiKey": "dummy"}
    provider: Json = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"stub-model": model}}
    settings: dict[str, Json] = {
        "autoupdate": False,
        "share": "disabled",
        "model": "stub/stub-model",
        "small_model": "stub/stub-model",
        "permission": {"bash": "ask", "edit": "ask"},
        "enabled_providers": ["stub"],
        "provider": {"stub": provider},
    }
    (folder / "opencode.json").write_text(json.dumps(settings), encoding="utf-8")


def _opencode_environment(place: LabFolder, url: str) -> Mapping[str, str]:
    del url  # opencode is told by its configuration.
    folders = {f"XDG_{name}_HOME": str(place.home / folder) for name, folder in _XDG.items()}
    switched_off = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
    return {**folders, **{f"OPENCODE_DISABLE_{name}": "true" for name in switched_off}}


_XDG: Final = {"CONFIG": ".config", "DATA": ".local/share", "STATE": ".local/state", "CACHE": ".cache"}


def _ask_claude_trust(place: LabFolder) -> None:
    path = place.home / ".claude" / ".claude.json"
    state = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(state | {"projects": {}}), encoding="utf-8")


def _ask_codex_trust(place: LabFolder) -> None:
    """It asks only where there is a git repository."""
    for folder in ("objects", "refs"):
        (place.project / ".git" / folder).mkdir(parents=True)
    (place.project / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    path = place.home / ".codex" / "config.toml"
    told, _, _ = path.read_text(encoding="utf-8").partition("[projects.")
    path.write_text(told, encoding="utf-8")


def _ask_folder_trust(folder: str) -> Callable[[LabFolder], None]:
    def unseed(place: LabFolder) -> None:
        path = place.home / folder / "settings.json"
        settings = json.loads(path.read_text(encoding="utf-8"))
        settings["security"]["folderTrust"] = {"enabled": True}
        path.write_text(json.dumps(settings), encoding="utf-8")

    return unseed


_COLOURS: Final[Json] = [
    {"label": "Red", "description": "a warm one"},
    {"label": "Blue", "description": "a cold one"},
]
_ASKED: Final[dict[str, Json]] = {"question": "Which colour shall it be?", "header": "Colour", "options": _COLOURS}
_OPTION_SHOWN: Final = ("a cold one",)
_ASK_CLAUDE: Final = ScriptedCall("AskUserQuestion", {"questions": [{**_ASKED, "multiSelect": False}]})
_ASK_GEMINI: Final = ScriptedCall("ask_user", {"questions": [{**_ASKED, "type": "choice", "multiSelect": False}]})
_ASK_QWEN: Final = ScriptedCall("ask_user_question", {"questions": [{**_ASKED, "multiSelect": False}]})
_ASK_OPENCODE: Final = ScriptedCall("question", {"questions": [_ASKED]})

_BACKGROUND_OF_CLAUDE: Final = Background(
    lambda command: ScriptedCall("Bash", {"command": command, "run_in_background": True}), shown="still running"
)
# What is not over when it yields runs on. Codex tells of it only where it runs in the sandbox, where nothing is asked.
_BACKGROUND_OF_CODEX: Final = Background(
    lambda command: ScriptedCall("exec_command", {"cmd": command, "yield_time_ms": 1000}),
    shown="background terminal running",
    is_asked=False,
)

CLAUDE: Final = Recipe(
    "claude",
    _seed_claude,
    _claude_environment,
    unseed=_ask_claude_trust,
    question=_ASK_CLAUDE,
    background=_BACKGROUND_OF_CLAUDE,
    compact="/compact",
)
# Without --no-daemon Codex starts a shared server that outlives its terminal.
CODEX: Final = Recipe(
    "codex",
    _seed_codex,
    _codex_environment,
    ("--no-daemon",),
    unseed=_ask_codex_trust,
    background=_BACKGROUND_OF_CODEX,
    compact="/compact",
    arguments_since="0.160.0",
)
GEMINI: Final = Recipe(
    "gemini",
    _settings_seed(".gemini", _GEMINI_SETTINGS),
    _gemini_environment,
    unseed=_ask_folder_trust(".gemini"),
    question=_ASK_GEMINI,
    asking=("Allow once", *_OPTION_SHOWN),
    working="esc to cancel",
)
# By default Qwen Code lets a model decide whether to ask.
QWEN: Final = Recipe(
    "qwen",
    _settings_seed(".qwen", _QWEN_SETTINGS),
    _qwen_environment,
    ("--approval-mode", "default"),
    unseed=_ask_folder_trust(".qwen"),
    question=_ASK_QWEN,
    asking=("Yes, allow once", *_OPTION_SHOWN),
    working="esc to cancel",
)
OPENCODE: Final = Recipe(
    "opencode",
    _seed_opencode,
    _opencode_environment,
    question=_ASK_OPENCODE,
    asking=("Allow once", *_OPTION_SHOWN),
    working="interrupt  ",
)
# Its question has a second page, which sends the answers; a person goes through both.
KIMI: Final = Recipe("kimi", seed_kimi, kimi_environment, unseed=ask_kimi_trust)
CONTINUE: Final = Recipe(
    "continue",
    seed_continue,
    continue_environment,
    question=ScriptedCall("AskQuestion", {"options": ["Red", "Blue"], "question": "A warm colour, or a cold one?"}),
)
# Left alone it asks nobody before it runs a tool.
CLINE: Final = Recipe(
    "cline",
    seed_cline,
    cline_environment,
    ("--auto-approve", "false"),
    question=ScriptedCall("ask_question", {"options": ["Red", "Blue"], "question": "A warm colour, or a cold one?"}),
)
COPILOT: Final = Recipe(
    "copilot",
    seed_copilot,
    copilot_environment,
    unseed=ask_copilot_trust,
    asking=("Do you want to run this command?",),
    working=" Working ",
)
PI: Final = Recipe("pi", seed_pi, pi_environment, working="Working...", asks_leave=False)
# A part of Interlock, so that the lab itself can be tried and tested without npm.
SCRIPTED: Final = Recipe(
    "scripted",
    lambda _place, _url: None,
    lambda _place, url: {"SCRIPTED_MODEL_URL": url},
    ("-P", "-m", "interlock.testing.lab.scripted_cli"),
)
RECIPES: Final = {
    one.cli: one for one in (CLAUDE, CODEX, GEMINI, QWEN, OPENCODE, KIMI, CONTINUE, COPILOT, CLINE, PI, SCRIPTED)
}
