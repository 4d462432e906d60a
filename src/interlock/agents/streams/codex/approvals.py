"""What Codex's app-server asks a person, and how an answer is written.

Laws:
1. An answer is one that was offered, or the plain yes or no of its kind; what contradicts itself is not sent.
2. A plain no is `decline`: the agent is told and goes on. Codex takes it also where it does not offer it, so it is
   shown before `cancel`, which ends the turn where it is chosen.
3. A grant is never wider than what was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from interlock.agents.observations import ApprovalAsked, ApprovalOption, OptionKind
from interlock.agents.port import Decision
from interlock.agents.streams.jsonrpc import RpcRequest
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.foreign_json import Fields, inner, members, text
from interlock.vocabulary.states import Attention

_ALLOWING: Final = (OptionKind.ALLOW_ONCE, OptionKind.ALLOW_ALWAYS)
_REJECTING: Final = (OptionKind.REJECT_ONCE, OptionKind.REJECT_ALWAYS)
_PLAIN: Final[Mapping[str, ApprovalOption]] = {
    "accept": ApprovalOption(id="accept", label="Yes", kind=OptionKind.ALLOW_ONCE),
    "acceptForSession": ApprovalOption(
        id="acceptForSession", label="Yes, for this session", kind=OptionKind.ALLOW_ALWAYS
    ),
    "decline": ApprovalOption(id="decline", label="No, and go on without it", kind=OptionKind.REJECT_ONCE),
    "cancel": ApprovalOption(id="cancel", label="No, and end the turn", kind=OptionKind.REJECT_ONCE),
}


@dataclass(frozen=True, slots=True)
class CodexQuestion:
    """An open request: what is shown of it, and the reply that each option stands for."""

    shown: ApprovalAsked
    yes: Fields
    no: Fields
    replies: Mapping[str, Fields] = field(default_factory=dict)
    answer_of: Callable[[Decision], Fields] | None = None

    def reply(self, decision: Decision) -> Fields:
        """The result to send. `UsageError` for an option that was not offered, or that contradicts the decision."""
        chosen = self._chosen(decision)
        if chosen is not None and chosen.kind in (_REJECTING if decision.is_allowed else _ALLOWING):
            raise UsageError(
                f"the option {chosen.id or chosen.label!r} contradicts the decision",
                remedy="choose an option of the same kind, or none",
            )
        if chosen is not None and chosen.id in self.replies:
            return self.replies[chosen.id]
        if not decision.is_allowed:
            return self.no
        return self.answer_of(decision) if self.answer_of is not None else self.yes

    def _chosen(self, decision: Decision) -> ApprovalOption | None:
        if not decision.option_id and not decision.option_label:
            return None
        for option in self.shown.options:
            is_it = option.id == decision.option_id if decision.option_id else option.label == decision.option_label
            if is_it:
                return option
        if self.answer_of is not None:
            return None  # A question may be answered in other words than those that it offers.
        raise UsageError("that option was not offered", remedy="choose one of the options of the question")


def question_of(asked: RpcRequest, request_id: str, *, call_id: str, sub_agent: str) -> CodexQuestion | None:
    """The question in a request; None if we do not know how to answer it."""
    make = _KINDS.get(asked.method)
    return make(asked.params, _Frame(request_id, call_id, sub_agent)) if make is not None else None


@dataclass(frozen=True, slots=True)
class _Frame:
    """What every question has."""

    request_id: str
    call_id: str
    sub_agent: str

    def asked(
        self,
        name: str,
        args: Json,
        question: str,
        *,
        options: tuple[ApprovalOption, ...] = (),
        attention: Attention = Attention.APPROVAL,
        response_schema: Json = None,
    ) -> ApprovalAsked:
        return ApprovalAsked(
            request_id=self.request_id,
            call_id=self.call_id,
            sub_agent=self.sub_agent,
            name=name,
            args=args,
            question=question,
            options=options,
            attention=attention,
            response_schema=response_schema,
        )


def _present(params: Fields, *names: str) -> Fields:
    return {name: params[name] for name in names if params.get(name) not in (None, "", [])}


def _decided(params: Fields) -> tuple[tuple[ApprovalOption, ...], dict[str, Fields]]:
    """The options, and the reply that each stands for."""
    offered = members(params, "availableDecisions") or list(_PLAIN)
    if "decline" not in offered:
        offered = [
            *(one for one in offered if one != "cancel"),
            "decline",
            *(one for one in offered if one == "cancel"),
        ]
    pairs = [(option, decision) for decision in offered if (option := _option(decision)) is not None]
    return tuple(option for option, _ in pairs), {option.id: {"decision": decision} for option, decision in pairs}


def _option(decision: Json) -> ApprovalOption | None:
    if isinstance(decision, str):
        return _PLAIN.get(decision)
    if not isinstance(decision, dict):
        return None
    words = members(inner(decision, "acceptWithExecpolicyAmendment"), "execpolicy_amendment")
    if words:
        prefix = " ".join(str(word) for word in words)
        label = f"Yes, and allow commands that start with `{prefix}`"
        return ApprovalOption(id="acceptWithExecpolicyAmendment", label=label, kind=OptionKind.ALLOW_ALWAYS)
    network = inner(inner(decision, "applyNetworkPolicyAmendment"), "network_policy_amendment")
    host, action = text(network, "host"), text(network, "action")
    if host and action in ("allow", "deny"):
        kind = OptionKind.ALLOW_ALWAYS if action == "allow" else OptionKind.REJECT_ALWAYS
        label = f"Yes, and allow {host}" if action == "allow" else f"No, and block {host}"
        return ApprovalOption(id=f"applyNetworkPolicyAmendment:{action}:{host}", label=label, kind=kind)
    return None


def _command(params: Fields, frame: _Frame) -> CodexQuestion:
    args = _present(params, "command", "cwd", "networkApprovalContext")
    asked = text(params, "reason") or f"Run {text(params, 'command') or 'a command'}?"
    return _gate("Shell", args, asked, params, frame)


def _edit(params: Fields, frame: _Frame) -> CodexQuestion:
    asked = text(params, "reason") or "Make these edits?"
    return _gate("FileChange", _present(params, "grantRoot"), asked, params, frame)


def _gate(name: str, args: Fields, asked: str, params: Fields, frame: _Frame) -> CodexQuestion:
    options, replies = _decided(params)
    shown = frame.asked(name, args, asked, options=options)
    return CodexQuestion(shown, {"decision": "accept"}, {"decision": "decline"}, replies)


def _permissions(params: Fields, frame: _Frame) -> CodexQuestion:
    wanted = inner(params, "permissions")
    once: Fields = {"permissions": wanted, "scope": "turn"}
    options = (
        ApprovalOption(id="turn", label="Yes, for this turn", kind=OptionKind.ALLOW_ONCE),
        ApprovalOption(id="session", label="Yes, for this session", kind=OptionKind.ALLOW_ALWAYS),
        ApprovalOption(id="none", label="No", kind=OptionKind.REJECT_ONCE),
    )
    nothing: Fields = {"permissions": {}}
    asked = text(params, "reason") or "Grant these permissions?"
    shown = frame.asked("Permissions", {"permissions": wanted}, asked, options=options)
    replies: dict[str, Fields] = {"turn": once, "session": {**once, "scope": "session"}, "none": nothing}
    return CodexQuestion(shown, once, nothing, replies)


def _user_input(params: Fields, frame: _Frame) -> CodexQuestion:
    asked = [one for one in members(params, "questions") if isinstance(one, dict) and text(one, "id")]
    ids = [text(one, "id") for one in asked]
    labels = [text(one, "label") for one in members(asked[0], "options") if isinstance(one, dict)] if asked else []
    options = tuple(ApprovalOption(label=label, id=label) for label in labels if label) if len(asked) == 1 else ()
    schema: Json = {
        "type": "object",
        "properties": {text(one, "id"): {"type": "string", "title": text(one, "question")} for one in asked},
    }
    words = "\n".join(text(one, "question") for one in asked)
    args: Json = {"questions": list(asked)}
    shown = frame.asked(
        "RequestUserInput", args, words, options=options, attention=Attention.QUESTION, response_schema=schema
    )
    nothing: Fields = {"answers": {}}
    return CodexQuestion(shown, nothing, nothing, answer_of=lambda decision: _answers(ids, decision))


def _answers(ids: list[str], decision: Decision) -> Fields:
    """`data` answers by question; words or an option answer the one question, or the first."""
    given = decision.data if isinstance(decision.data, dict) else {}
    said = decision.text or decision.option_label or decision.option_id
    if not given and said and ids:
        given = {ids[0]: said}
    lists = {name: value if isinstance(value, list) else [value] for name, value in given.items() if name in ids}
    return {"answers": {name: {"answers": [str(word) for word in words]} for name, words in lists.items()}}


def _elicitation(params: Fields, frame: _Frame) -> CodexQuestion:
    schema = params.get("requestedSchema")
    args = _present(params, "serverName", "url", "mode")
    shown = frame.asked(
        text(params, "serverName") or "mcp",
        args,
        text(params, "message"),
        options=(_PLAIN["accept"], _PLAIN["decline"], _PLAIN["cancel"]),
        attention=Attention.QUESTION,
        response_schema=schema if isinstance(schema, dict) else None,
    )
    replies: dict[str, Fields] = {"decline": {"action": "decline"}, "cancel": {"action": "cancel"}}
    return CodexQuestion(
        shown,
        {"action": "accept"},
        {"action": "decline"},
        replies,
        lambda decision: {"action": "accept", "content": decision.data},
    )


_KINDS: Final[Mapping[str, Callable[[Fields, _Frame], CodexQuestion]]] = {
    "item/commandExecution/requestApproval": _command,
    "item/fileChange/requestApproval": _edit,
    "item/permissions/requestApproval": _permissions,
    "item/tool/requestUserInput": _user_input,
    "mcpServer/elicitation/request": _elicitation,
}
