"""Gemini CLI by `--output-format stream-json`: one process for one prompt.

Option: `approval_mode`. Nobody is asked in this mode: a tool that the mode does not allow is not offered to the model,
and calling it fails as `tool_not_registered`. For questions, drive `gemini --acp`.
"""

from __future__ import annotations

from typing import Final

from interlock.agents.port import AgentHandle, AgentSpec, Capabilities
from interlock.agents.streams.gemini_lines import GeminiLines
from interlock.agents.streams.one_shot import CAPABILITIES, choice, start
from interlock.vocabulary.ids import SpawnId
from interlock.vocabulary.states import DriverKind

APPROVAL_MODES: Final = frozenset({"default", "auto_edit", "yolo", "plan"})


class GeminiStreamDriver:
    """See `Driver`."""

    name = "gemini-stream"
    kind = DriverKind.STREAM

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    async def spawn(self, spec: AgentSpec, spawn_id: SpawnId) -> AgentHandle:
        """Start it. That a session to resume is unknown shows at its exit, as `is_stale_resume`."""
        return await start(spec, spawn_id, gemini_argv(spec), GeminiLines(), _is_stale)


def gemini_argv(spec: AgentSpec) -> tuple[str, ...]:
    """What is started for a spec."""
    mode = choice(spec, "approval_mode", APPROVAL_MODES)
    return (
        *(spec.argv or ("gemini",)),
        *("--output-format", "stream-json"),
        *(("--approval-mode", mode) if mode else ()),
        *(("--model", spec.model) if spec.model else ()),
        *(("--resume", spec.resume) if spec.resume else ()),
    )


def _is_stale(last_words: str) -> bool:
    return "Error resuming session" in last_words or "No previous sessions" in last_words
