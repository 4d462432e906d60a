"""Whether what a client gave can be used at all. Asked before anything is done, so that a refusal changes nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime
from typing import Final

from msgspec import ValidationError, convert

from interlock.agents.port import AgentSpec, Driver
from interlock.monitor.observer.reply import asked_text
from interlock.runtime.policy import RunPolicy
from interlock.server.http.problems import Unfit
from interlock.server.http.shapes import AdoptAgent
from interlock.vocabulary.errors import ContractError, UsageError
from interlock.vocabulary.events.audit import QueueEvent, QueueEventKind, ReplyContract, SessionOpened, SessionRenamed
from interlock.vocabulary.events.codec import encode_event
from interlock.vocabulary.events.conversation import MAX_COUNT
from interlock.vocabulary.events.envelope import new_event
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.ids import EventId, PromptId, SessionId, is_valid_id
from interlock.vocabulary.states import DriverKind
from interlock.vocabulary.wire.resources import OpenTask

_MAX_SECONDS: Final = 10 * 365 * 86_400.0
_POLICY_FIELDS: Final = frozenset(field.name for field in fields(RunPolicy))
_NO_ID: Final = "use up to 128 letters, digits and . _ : -"


def check_id(given: str, what: str) -> None:
    """Refuse what cannot name something."""
    if not is_valid_id(given):
        raise Unfit(f"that cannot name a {what}", remedy=_NO_ID)


def check_prompt(text: str, reply: ReplyContract | None = None) -> str:
    """Refuse a prompt that says nothing, whose reply contract cannot be one, or that the log could not keep.

    Gives the prompt as the agent gets it, with the instruction of its contract.
    """
    if not text.strip():
        raise Unfit("a prompt must not be blank", remedy="write something for the agent to do")
    try:
        asked = asked_text(text, reply)
    except UsageError as error:
        raise Unfit(str(error), remedy=error.remedy) from error
    check_kept(QueueEvent(kind=QueueEventKind.QUEUED, prompt_id=PromptId("prm"), text=asked, reply=reply))
    return asked


def check_kept(payload: Payload) -> None:
    """Refuse what would not read back from the log as it is: NULs, lone surrogates, huge numbers, great depth."""
    event = new_event(payload, id=EventId("evt"), session_id=SessionId("ses"), ts=datetime.now(UTC))
    try:
        encode_event(event)
    except ContractError as error:
        raise Unfit("that could not be kept in the log as it is", remedy="leave out what is no plain text") from error


def check_adoption(asked: AdoptAgent) -> None:
    """Refuse what names no pane, or could not be written down."""
    is_pane = bool(asked.socket.strip() and asked.pane.strip())
    if is_pane is bool(asked.process):
        raise Unfit("name a socket with a pane, or a process", remedy="`interlock adopt --all --dry-run` lists them")
    if asked.process and asked.control:
        raise Unfit("an agent outside tmux is only watched", remedy="leave `control` out")
    _check_words(asked.socket, asked.pane, asked.cli, asked.title)
    check_kept(SessionRenamed(title=asked.title, decided_by=asked.cli))


def _check_words(*words: str) -> None:
    if any("\x00" in word for word in words):
        raise Unfit("a NUL cannot be handed to a program", remedy="leave it out")


def check_open(asked: OpenTask, drivers: Mapping[str, Driver]) -> None:
    """Refuse a task that could never run, or not be written down."""
    if asked.driver not in drivers:
        known = ", ".join(sorted(drivers)) or "none"
        raise Unfit("there is no such driver", remedy=f"the drivers are {known}")
    for name in asked.environment:
        if not name or "=" in name:
            raise Unfit("a variable of the environment has no fit name", remedy="leave out `=` and blanks")
    _check_words(*asked.environment, *asked.environment.values(), *asked.argv, asked.cwd)
    if asked.prompt is not None:
        check_prompt(asked.prompt, asked.reply)
    elif asked.reply is not None:
        raise Unfit("there is no prompt whose reply has a form", remedy="give a prompt, or leave `reply` out")
    fit_policy(asked)
    check_kept(opened_of(asked, kind=DriverKind.STREAM, argv=asked.argv))


def opened_of(asked: OpenTask, *, kind: DriverKind, argv: tuple[str, ...]) -> SessionOpened:
    """What the log will say of a task."""
    return SessionOpened(
        agent=asked.agent,
        driver=asked.driver,
        kind=kind,
        argv=argv,
        cwd=asked.cwd,
        model=asked.model,
        environment=tuple(sorted(asked.environment)),
        title=asked.title,
        options=asked.options or None,
    )


def fit_policy(asked: OpenTask) -> RunPolicy | None:
    """The policy of a task; None where it has none of its own."""
    if asked.policy is None:
        return None
    unknown = sorted(asked.policy.keys() - _POLICY_FIELDS)
    if unknown:
        raise Unfit(
            "the policy has a field that is not known", remedy=f"it may have {', '.join(sorted(_POLICY_FIELDS))}"
        )
    for name, value in asked.policy.items():
        limit = _MAX_SECONDS if name.endswith("_seconds") else float(MAX_COUNT)
        if value is not None and not (math.isfinite(value) and 0 <= value <= limit):
            raise Unfit(f"{name} of the policy is out of range", remedy=f"give a number from 0 to {limit:.0f}")
    try:
        return convert(asked.policy, RunPolicy)
    except ValidationError as error:
        raise Unfit(f"the policy cannot be read: {error}", remedy="give each field as its kind asks") from error


def spec_of(asked: OpenTask) -> AgentSpec:
    """How to run a task."""
    return AgentSpec(
        agent=asked.agent,
        driver=asked.driver,
        argv=asked.argv,
        cwd=asked.cwd,
        environment=asked.environment,
        model=asked.model,
        options=asked.options,
    )
