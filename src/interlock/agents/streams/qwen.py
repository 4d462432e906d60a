"""Qwen Code by `--output-format stream-json`: one process for one prompt.

Option: `approval_mode`. Nobody is asked in this mode: what would need an answer is declined, and the model is told so.
For questions, drive `qwen --acp`.
"""

from __future__ import annotations

from typing import Final

from interlock.agents.port import AgentHandle, AgentSpec, Capabilities
from interlock.agents.streams.one_shot import CAPABILITIES, choice, start
from interlock.agents.streams.qwen_lines import QwenLines
from interlock.vocabulary.ids import SpawnId
from interlock.vocabulary.states import DriverKind

APPROVAL_MODES: Final = frozenset({"plan", "default", "auto-edit", "auto", "yolo"})


class QwenStreamDriver:
    """See `Driver`."""

    name = "qwen-stream"
    kind = DriverKind.STREAM

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    async def spawn(self, spec: AgentSpec, spawn_id: SpawnId) -> AgentHandle:
        """Start it. That a session to resume is unknown shows at its exit, as `is_stale_resume`."""
        return await start(spec, spawn_id, qwen_argv(spec), QwenLines(), _is_stale)


def qwen_argv(spec: AgentSpec) -> tuple[str, ...]:
    """What is started for a spec. The approval mode is named always, and once: given twice, it breaks the program."""
    mode = choice(spec, "approval_mode", APPROVAL_MODES) or "default"
    return (
        *(spec.argv or ("qwen",)),
        *("--output-format", "stream-json", "--include-partial-messages"),
        *("--approval-mode", mode),
        *(("--model", spec.model) if spec.model else ()),
        *(("--resume", spec.resume) if spec.resume else ()),
    )


def _is_stale(last_words: str) -> bool:
    return "No saved session found" in last_words or "No previous sessions" in last_words
