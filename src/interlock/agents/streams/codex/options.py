"""What a spec may ask of Codex, whichever way it is run.

Options: `sandbox` (`read-only`, `workspace-write`, `danger-full-access`) and, for the app-server alone,
`approval_policy` (`untrusted`, `on-request`, `never`). What is left out is as the user's own configuration has it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from uuid import UUID

from interlock.agents.port import AgentSpec, StaleResume
from interlock.vocabulary.errors import UsageError

SANDBOX: Final = ("read-only", "workspace-write", "danger-full-access")
APPROVAL_POLICY: Final = ("untrusted", "on-request", "never")
_STALE: Final = re.compile(
    r"no rollout found|thread not found|session not found|invalid (session|thread) id", re.IGNORECASE
)


def program(spec: AgentSpec) -> tuple[str, ...]:
    """The program with the user's own arguments."""
    return spec.argv or ("codex",)


def options_of(spec: AgentSpec, known: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """The options of a spec. `UsageError` for one that the driver does not know, or a value that Codex does not."""
    found: dict[str, str] = {}
    for name, value in spec.options.items():
        if name not in known:
            raise UsageError(f"{spec.driver} has no option {name!r}", remedy=f"it knows {', '.join(known)}")
        if not isinstance(value, str) or value not in known[name]:
            raise UsageError(f"the option {name!r} cannot be {value!r}", remedy=f"give one of {', '.join(known[name])}")
        found[name] = value
    return found


def check_resume(session_id: str) -> None:
    """Refuse what is no id of Codex: exec would begin a new session in silence, without the conversation so far."""
    if not session_id:
        return
    try:
        UUID(session_id)
    except ValueError as error:
        raise StaleResume(f"{session_id!r} is no session of Codex") from error


def is_stale(message: str) -> bool:
    """Whether Codex says that it does not know the session that it was to resume."""
    return _STALE.search(message) is not None
