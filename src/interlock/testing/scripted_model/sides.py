"""Requests that a CLI makes beside its turns, and their answers.

A title, a quota probe, a topic check, a route to a smaller model, an extraction of memories: none of them is a turn,
and counting one would make the truth wrong. They are known by what they ask for, since they often quote the prompt.
"""

from __future__ import annotations

import re
from typing import Final

from interlock.testing.scripted_model.dialect import Conversation, dumps
from interlock.vocabulary.registry import Json

# Looked for in the system prompt, and in the last prompt of a request that offers no tool.
_PURPOSES: Final = {
    "title": re.compile(r"\btitle\b.{0,80}\b(session|conversation|task|thread|chat|coding)|\btitle generator\b|"
                        r"(generate|write|create)\b.{0,40}\btitle\b", re.IGNORECASE | re.DOTALL),
    "memory": re.compile(r"memory[ -]extract|extract\w*\b.{0,40}\bmemor", re.IGNORECASE | re.DOTALL),
    "topic": re.compile(r"\bnew (conversation )?topic\b", re.IGNORECASE),
    "route": re.compile(r"\b(task routing|classif(y|ier))\b|\brouter\b", re.IGNORECASE),
    "summary": re.compile(r"\bsuggest\w*\b.{0,60}\bnext\b", re.IGNORECASE | re.DOTALL),
}  # fmt: skip
_FEW_TOOLS: Final = 3
# Gemini CLI has two routers, which ask for different fields.
_ROUTE: Final[Json] = {
    "reasoning": "scripted",
    "model_choice": "flash",
    "complexity_reasoning": "scripted",
    "complexity_score": 1,
}


def side_purpose(conversation: Conversation) -> str | None:
    """What a side request is for, or None for a turn of the conversation itself."""
    if conversation.max_tokens == 1:
        return "probe"
    if len(conversation.tools) > _FEW_TOOLS:
        # The system prompt of a turn may well speak of titles and topics; a memory agent names itself at its start.
        head = conversation.system[:400]
        return "memory" if _PURPOSES["memory"].search(head) else None
    asked = f"{conversation.system}\n{conversation.last_prompt().text}"
    named = next((name for name, pattern in _PURPOSES.items() if pattern.search(asked)), None)
    return named or ("structured" if conversation.wants_json else None)


def side_answer(purpose: str, conversation: Conversation) -> str:
    """A text that the asking CLI can use."""
    answers: dict[str, Json] = {
        "title": {"title": "Scripted session"},
        "topic": {"isNewTopic": False, "title": None},
        "route": _ROUTE,
    }
    if purpose in answers and (conversation.wants_json or "json" in conversation.system.lower()):
        return dumps(answers[purpose])
    return {"title": "Scripted session", "structured": "{}"}.get(purpose, "ok")
