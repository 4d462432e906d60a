"""Where a session asks what the rules say of a question."""

from __future__ import annotations

from datetime import date
from typing import Protocol

from interlock.lifecycle.rules.verdict import AskedCall, RuleVerdict
from interlock.vocabulary.events.audit import PermissionBehavior
from interlock.vocabulary.ids import SessionId


class RuleSource(Protocol):
    """What the rules that hold now say of a call of a session."""

    def __call__(self, session_id: SessionId, call: AskedCall, today: date) -> RuleVerdict: ...


def no_rules(session_id: SessionId, call: AskedCall, today: date) -> RuleVerdict:
    """Without rules a person is asked."""
    return RuleVerdict(then=PermissionBehavior.ASK, because="there are no rules")
