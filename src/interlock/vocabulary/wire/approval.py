"""A question to a person, as every surface shows it."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from interlock.vocabulary.events.audit import DialogOption
from interlock.vocabulary.events.conversation import Count
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.evidence import Moment
from interlock.vocabulary.ids import SessionId, TurnId
from interlock.vocabulary.states import Attention


class ApprovalState(StrEnum):
    """Where a question stands."""

    OPEN = "open"
    DECIDED = "decided"
    CLOSED = "closed"


class Approval(Struct, frozen=True, kw_only=True):
    """One question. `outcome` is what became of it: the answer, or why there was none. `is_answerable` is false while
    no server runs the session: the question stands, and there is nobody to take an answer to it. `problem` is why a
    decision did not reach the agent, and so why the question is open again; `undelivered` is how many did not."""

    approval_id: str
    session_id: SessionId
    turn_id: TurnId | None
    state: ApprovalState
    attention: Attention
    question: str
    tool: str = ""
    arguments: Json = None
    options: tuple[DialogOption, ...] = ()
    asked_at: Moment
    deadline_at: Moment | None = None
    decided_by: str = ""
    outcome: str = ""
    is_answerable: bool = True
    problem: str = ""
    undelivered: Count = 0
