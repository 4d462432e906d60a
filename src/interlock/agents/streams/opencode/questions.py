"""What opencode asks a person, and how an answer is put."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from interlock.agents.observations import ApprovalAsked, ApprovalOption, Observation, OptionKind
from interlock.agents.port import Decision
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.foreign_json import mapping, sequence, string
from interlock.vocabulary.states import Attention

# It becomes part of a path.
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,200}")
PERMISSION_OPTIONS: Final = (
    ApprovalOption(label="Allow once", id="once", kind=OptionKind.ALLOW_ONCE),
    ApprovalOption(label="Allow always", id="always", kind=OptionKind.ALLOW_ALWAYS),
    ApprovalOption(label="Reject", id="reject", kind=OptionKind.REJECT_ONCE),
)


def permission(said: Mapping[str, Json], child: str) -> list[Observation]:
    """Whether a tool may run."""
    request_id, name = string(said.get("id")), string(said.get("permission"))
    if not _ID.fullmatch(request_id):
        return []
    patterns = ", ".join(string(one) for one in sequence(said.get("patterns")))
    return [
        ApprovalAsked(
            request_id=request_id,
            call_id=string(mapping(said.get("tool")).get("callID")),
            name=name,
            args=said.get("metadata"),
            question=f"{name}: {patterns}",
            options=PERMISSION_OPTIONS,
            sub_agent=child,
        )
    ]


def question(said: Mapping[str, Json], child: str) -> list[Observation]:
    """A question of the model. Where it asks several at once, the options are those of the first."""
    request_id, asked = string(said.get("id")), [mapping(one) for one in sequence(said.get("questions"))]
    if not _ID.fullmatch(request_id) or not asked:
        return []
    labels = [string(mapping(one).get("label")) for one in sequence(asked[0].get("options"))]
    return [
        ApprovalAsked(
            request_id=request_id,
            call_id=string(mapping(said.get("tool")).get("callID")),
            name="question",
            args={"questions": [dict(one) for one in asked]},
            attention=Attention.QUESTION,
            question="\n".join(string(one.get("question")) for one in asked),
            options=tuple(ApprovalOption(label=label, id=label) for label in labels if label),
            response_schema={"type": "array", "items": {"type": "array", "items": {"type": "string"}}},
            sub_agent=child,
        )
    ]


def answer(asked: ApprovalAsked, decision: Decision) -> tuple[str, Json]:
    """The path and the body of the request that answers. `UsageError` if nothing that is offered means the decision."""
    if asked.attention is Attention.QUESTION:
        return _question_answer(asked, decision)
    chosen = decision.option_id or next(
        (one.id for one in asked.options if one.label == decision.option_label),
        "once" if decision.is_allowed else "reject",
    )
    if chosen not in {one.id for one in asked.options} or (chosen == "reject") == decision.is_allowed:
        raise UsageError(f"{chosen!r} does not mean this decision", remedy="choose from: once, always, reject")
    body: dict[str, Json] = {"reply": chosen}
    return f"/permission/{asked.request_id}/reply", {**body, "message": decision.text} if decision.text else body


def _question_answer(asked: ApprovalAsked, decision: Decision) -> tuple[str, Json]:
    if not decision.is_allowed:
        return f"/question/{asked.request_id}/reject", None
    given = decision.option_id or decision.option_label or decision.text
    answers: Json = decision.data if isinstance(decision.data, list) else [[given]]
    return f"/question/{asked.request_id}/reply", {"answers": answers}
