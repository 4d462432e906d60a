"""What to do next, as data: a kind that programs can act on and a command that a person can paste."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from interlock.vocabulary.ids import IMPORTED_TURN_PREFIX, SessionId, TurnId, is_valid_id


class NextActionKind(StrEnum):
    """The kinds of advice that a record may carry."""

    EXPLAIN_TURN = "explain_turn"
    DIAGNOSE_SESSION = "diagnose_session"
    INSPECT_LOG = "inspect_log"
    INSPECT_CHILD = "inspect_child"
    SEND_AGAIN = "send_again"
    RAISE_TIMEOUT = "raise_timeout"
    REDUCE_SCOPE = "reduce_scope"
    RERUN_CHILD = "rerun_child"
    WAIT_AGAIN = "wait_again"
    USE_PARTIAL_RESULT = "use_partial_result"
    RETRY_STEPS = "retry_steps"
    DECIDE = "decide"
    ATTACH = "attach"
    ASK_OPERATOR = "ask_operator"


class NextAction(Struct, frozen=True, omit_defaults=True):
    """One piece of advice. `command` is complete as it stands, or empty where only a person can decide."""

    kind: NextActionKind
    command: str = ""


def explain_turn(session_id: SessionId, turn_id: TurnId) -> NextAction:
    return _advise(NextActionKind.EXPLAIN_TURN, f"interlock why {session_id} --turn {turn_id}", session_id, turn_id)


def diagnose_session(session_id: SessionId) -> NextAction:
    return _advise(NextActionKind.DIAGNOSE_SESSION, f"interlock debug diagnose {session_id}", session_id)


def inspect_log(session_id: SessionId) -> NextAction:
    return _advise(NextActionKind.INSPECT_LOG, f"interlock log show {session_id}", session_id)


def verify_log(session_id: SessionId) -> NextAction:
    return _advise(NextActionKind.INSPECT_LOG, f"interlock log verify {session_id}", session_id)


def repair_log(session_id: SessionId) -> NextAction:
    """Says what a repair would do, and changes nothing without `--apply`."""
    return _advise(NextActionKind.INSPECT_LOG, f"interlock log repair {session_id}", session_id)


def inspect_child(child_session_id: SessionId) -> NextAction:
    return _advise(NextActionKind.INSPECT_CHILD, f"interlock debug turns {child_session_id}", child_session_id)


def decide() -> NextAction:
    """Somebody must decide. How, is said where advice is printed: by `approve` or `deny`."""
    return NextAction(NextActionKind.DECIDE)


def _advise(kind: NextActionKind, command: str, *ids: str) -> NextAction:
    """An id holds nothing that a shell would read, or else it is no id and there is no command to paste."""
    is_safe = all(is_valid_id(name.removeprefix(IMPORTED_TURN_PREFIX)) for name in ids)
    return NextAction(kind, command if is_safe else "")
