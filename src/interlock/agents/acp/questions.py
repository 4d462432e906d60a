"""Permission requests of an ACP agent: what it asks, and which of its options a decision means.

Ids of options are the agent's own and differ from one agent to the next (`proceed_once`, `once`, `allow_once`): what an
option means is in its kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from interlock.agents.observations import ApprovalOption, OptionKind
from interlock.agents.port import Decision
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.foreign_json import as_text, mapping, sequence, string

_CANCELLED: Final[Json] = {"outcome": {"outcome": "cancelled"}}
_ALLOWING: Final = (OptionKind.ALLOW_ONCE, OptionKind.ALLOW_ALWAYS)
_REJECTING: Final = (OptionKind.REJECT_ONCE, OptionKind.REJECT_ALWAYS)


@dataclass(slots=True)
class AcpQuestion:
    """One open permission request. `rpc_id` is the agent's number for it, which our own requests may have too."""

    rpc_id: Json
    call_id: str
    options: tuple[ApprovalOption, ...]
    is_answered: bool = False
    is_refused: bool = False


def request_id_of(rpc_id: Json) -> str:
    """Our name for a request: 7 and "7" are different ids to an agent."""
    return as_text(rpc_id)


def read_options(params: Mapping[str, Json]) -> tuple[ApprovalOption, ...]:
    """What the agent offers, in its order."""
    offered = [mapping(option) for option in sequence(params.get("options"))]
    return tuple(
        ApprovalOption(
            label=string(option.get("name")) or string(option.get("optionId")),
            id=string(option.get("optionId")),
            kind=_kind(string(option.get("kind"))),
        )
        for option in offered
    )


def _kind(word: str) -> OptionKind:
    try:
        return OptionKind(word)
    except ValueError:
        return OptionKind.CHOICE


def cancelled() -> Json:
    """The answer that takes a question back, which an agent awaits for each one that an interrupt leaves open."""
    return _CANCELLED


def answer(question: AcpQuestion, decision: Decision) -> Json:
    """The result to send. `UsageError` if the agent offers nothing that means this decision."""
    option = _chosen(question.options, decision)
    if option is not None:
        return {"outcome": {"outcome": "selected", "optionId": option.id}}
    if decision.is_allowed:
        offered = ", ".join(option.id for option in question.options) or "none"
        raise UsageError("the agent offers no such option", remedy=f"choose from: {offered}")
    return _CANCELLED


def _chosen(options: tuple[ApprovalOption, ...], decision: Decision) -> ApprovalOption | None:
    if decision.option_id or decision.option_label:
        named = [
            option
            for option in options
            if (decision.option_id and option.id == decision.option_id)
            or (not decision.option_id and option.label == decision.option_label)
        ]
        return named[0] if named else _refusal(options, decision)
    kinds = _ALLOWING if decision.is_allowed else _REJECTING
    return _first(options, kinds)


def _refusal(options: tuple[ApprovalOption, ...], decision: Decision) -> ApprovalOption | None:
    """A refusal stays one, also where the option that it names is not there."""
    return None if decision.is_allowed else _first(options, _REJECTING)


def _first(options: tuple[ApprovalOption, ...], kinds: tuple[OptionKind, ...]) -> ApprovalOption | None:
    return next((option for kind in kinds for option in options if option.kind is kind), None)
