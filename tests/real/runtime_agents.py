"""The real CLIs that a runtime conducts, each in the ways in which it can be run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interlock.agents.port import AgentSpec
from interlock.runtime.config.sections import BUILTIN_AGENTS
from interlock.testing.lab.recipes import RECIPES
from interlock.testing.scripted_model import ScriptedModel
from interlock.vocabulary.states import TurnState
from tests.real.other_recipes import droid, gemini, made, opencode, qwen
from tests.real.recipes import CLAUDE, CODEX, LabFolder, Recipe, common_environment
from tools.agent_clis import install


@dataclass(frozen=True, slots=True)
class Agent:
    """A CLI and a way to run it.

    `denied`: what becomes of a turn whose tool was refused. `cut`: what comes of an answer that was cut off once.
    `is_live`: its text is told while it is written. `has_usage`: it says what it used.
    """

    cli: str
    driver: str
    denied: TurnState = TurnState.COMPLETED
    cut: tuple[TurnState, str] = (TurnState.COMPLETED, "Half and whole.")
    is_live: bool = True
    has_usage: bool = True

    @property
    def name(self) -> str:
        return f"{self.cli}-{'terminal' if self.driver == 'terminal' else 'acp' if self.driver == 'acp' else 'stream'}"

    def spec(self, model: ScriptedModel, root: Path) -> AgentSpec:
        """What to start, in folders below `root`. Its first-run questions are answered beforehand."""
        match self.cli:
            case "gemini":
                arguments = () if self.driver == "terminal" else ("--acp",)
                return gemini(root, model.url).spec(self.driver, *arguments)
            case "qwen":
                arguments = () if self.driver == "terminal" else ("--acp",)
                return qwen(root, model.url).spec(self.driver, *arguments, "--approval-mode", "default")
            case "opencode":
                return opencode(root, model.url).spec(self.driver)
            case "droid":
                return droid(root, model.url).spec(self.driver, *BUILTIN_AGENTS["droid"].acp_argv[1:])
            case "claude" | "codex":
                return self._seeded(CLAUDE if self.cli == "claude" else CODEX, model.url, LabFolder(root))
            case _:
                recipe = RECIPES[self.cli]
                words = recipe.arguments if self.driver == "terminal" else BUILTIN_AGENTS[self.cli].acp_argv[1:]
                return made(recipe, root, model.url).spec(self.driver, *words)

    def _seeded(self, recipe: Recipe, url: str, place: LabFolder) -> AgentSpec:
        place.make()
        recipe.seed(place, url)
        is_terminal = self.driver == "terminal"
        return AgentSpec(
            agent=self.cli,
            driver=self.driver,
            argv=(str(install(self.cli)), *(recipe.arguments if is_terminal else ())),
            cwd=str(place.project),
            environment={**common_environment(place), **recipe.environment(place, url)},
            options={"permission_mode": "manual"} if self.driver == "claude-stream" else {},
        )


CLAUDE_STREAM: Final = Agent("claude", "claude-stream")
CODEX_STREAM: Final = Agent("codex", "codex-app-server")
# On their screens a refusal ends the turn.
CLAUDE_TERMINAL: Final = Agent("claude", "terminal", TurnState.INTERRUPTED, is_live=False, has_usage=False)
CODEX_TERMINAL: Final = Agent("codex", "terminal", TurnState.INTERRUPTED, is_live=False, has_usage=False)
# Gemini begins the answer again and does not say so. Qwen does not try again; refused, it stops without a word.
GEMINI_TERMINAL: Final = Agent("gemini", "terminal", TurnState.INTERRUPTED, is_live=False, has_usage=False)
QWEN_TERMINAL: Final = Agent("qwen", "terminal", TurnState.INTERRUPTED, is_live=False, has_usage=False)
OPENCODE_TERMINAL: Final = Agent("opencode", "terminal", TurnState.INTERRUPTED, is_live=False, has_usage=False)
GEMINI_ACP: Final = Agent("gemini", "acp", cut=(TurnState.COMPLETED, "HalfHalf and whole."))
QWEN_ACP: Final = Agent("qwen", "acp", TurnState.FAILED, cut=(TurnState.PARTIAL_FAILED, "Half"))
