"""What extensions of pi ask a person, and how an answer is put. pi itself asks nothing: its tools run at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from interlock.agents.observations import ApprovalAsked, ApprovalOption, Observation, OptionKind
from interlock.agents.port import Decision
from interlock.vocabulary.foreign_json import sequence, string
from interlock.vocabulary.registry import Json
from interlock.vocabulary.states import Attention

_DIALOGS: Final = frozenset({"select", "confirm", "input", "editor"})
_YES_NO: Final = (
    ApprovalOption(label="Yes", id="yes", kind=OptionKind.ALLOW_ONCE),
    ApprovalOption(label="No", id="no", kind=OptionKind.REJECT_ONCE),
)


def question(event: Mapping[str, Json]) -> list[Observation]:
    """The question of a dialog; nothing for a notice, which awaits no answer."""
    method, request_id = string(event.get("method")), string(event.get("id"))
    if method not in _DIALOGS or not request_id:
        return []
    words = [string(event.get(name)) for name in ("title", "message")]
    named = tuple(
        ApprovalOption(label=label, id=label) for one in sequence(event.get("options")) if (label := string(one))
    )
    return [
        ApprovalAsked(
            request_id=request_id,
            name=method,
            attention=Attention.APPROVAL if method == "confirm" else Attention.QUESTION,
            question="\n".join(word for word in words if word),
            options=_YES_NO if method == "confirm" else named,
        )
    ]


def answer(asked: ApprovalAsked, decision: Decision) -> Json:
    """The line to write for a decision."""
    said: dict[str, Json] = {"type": "extension_ui_response", "id": asked.request_id}
    if asked.name == "confirm":
        return {**said, "confirmed": decision.is_allowed}
    value = decision.option_id or decision.option_label or decision.text
    return {**said, "value": value} if decision.is_allowed and value else {**said, "cancelled": True}
