"""The rules that stand for one session: what they say, how often they answered, and a rule for what it asks now.

Laws:
1. A rule is offered only if it is taken into a file, and would have allowed this very call, with all that stands there.
2. Only a person pauses, resumes or adds; an agent is refused.
3. A file of rules is replaced whole, and only by one that is understood.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from msgspec import structs

from interlock.cli.rules.standing import refuse_agents
from interlock.lifecycle.rules.rule import Layer
from interlock.lifecycle.rules.rule_file import parse_rules
from interlock.lifecycle.rules.rule_text import suggestion
from interlock.lifecycle.rules.shell_grammar import Opaque, read_command
from interlock.lifecycle.rules.verdict import AskedCall, RuleFile, judge
from interlock.runtime.rules.keeper import EVERY_SESSION, RuleKeeper, read_standing, user_rules_path, write_standing
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import PermissionBehavior

if TYPE_CHECKING:
    from interlock.vocabulary.events.registry import Json
    from interlock.vocabulary.wire.json_types import ApprovalJson

_BY_RULE: Final = "rule:"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRules:
    """`counts`: how often each rule answered here. `offer`: a rule for the call that is asked about, or why there is
    none (`no_offer`)."""

    files: tuple[RuleFile, ...]
    counts: Mapping[str, int]
    is_paused: bool
    is_all_paused: bool
    offer: str = ""
    no_offer: str = ""
    path: str = ""


def look_at_rules(
    home: Path,
    environ: Mapping[str, str],
    *,
    session_id: str,
    agent: str,
    folder: str,
    source: str = "",
    asked: ApprovalJson | None,
    approvals: Iterable[ApprovalJson],
) -> SessionRules:
    """What stands for a session now. `UsageError` for a file of the home that is not understood."""
    standing, now = read_standing(home), datetime.now(UTC)
    real = os.path.realpath(folder)
    files = RuleKeeper(home, environ).files(real, standing, source)
    by = (str(one.get("decided_by") or "") for one in approvals)
    counts = Counter(one.removeprefix(_BY_RULE) for one in by if one.startswith(_BY_RULE))
    path = user_rules_path(environ)
    offer, why = ("", "") if asked is None else _offer(files, asked, agent, folder, source)
    if offer and path is None:
        offer, why = "", "there is no folder of configuration to write it to"
    return SessionRules(
        files=files,
        counts=counts,
        is_paused=standing.is_paused(session_id, now),
        is_all_paused=standing.is_paused(EVERY_SESSION, now),
        offer=offer,
        no_offer=why,
        path="" if path is None else str(path),
    )


def _offer(files: tuple[RuleFile, ...], asked: ApprovalJson, agent: str, folder: str, source: str) -> tuple[str, str]:
    """A rule that would have allowed this call, or why there is none."""
    arguments = cast("Json", asked.get("arguments"))
    command = arguments.get("command") if isinstance(arguments, dict) else None
    tool = str(asked.get("tool") or "")
    if not tool or not isinstance(command, str):
        return "", "this question names no command: rules answer only what is asked with one"
    read = read_command(command)
    if isinstance(read, Opaque):
        return "", f"no rule reads this command: {read}"
    if len(read) != 1 or read[0].variables:
        return "", "this is more than one simple command: write a rule for each"
    call = AskedCall(agent=agent, tool=tool, arguments=arguments, folder=folder, source=source)
    found = suggestion(read[0].words, tool, _free_number(files))
    if not found.text:
        return "", f"no rule may allow this: {found.refused}"
    one = parse_rules(found.text.encode(), Layer.USER, "")
    verdict = judge((*files, one), call, datetime.now(UTC).date())
    if verdict.then is not PermissionBehavior.ALLOW:
        return "", f"no rule would allow this: {verdict.because}"
    return found.text, ""


def _free_number(files: tuple[RuleFile, ...]) -> int:
    taken = {rule.id for file in files for rule in file.rules}
    return next(number for number in range(1, 10_000) if f"suggested-{number}" not in taken)


def set_paused(home: Path, session_id: str, *, is_paused: bool) -> None:
    """Pause rules in a session, or end the pause of that session."""
    refuse_agents()
    standing = read_standing(home)
    paused = {key: end for key, end in standing.paused.items() if key != session_id}
    if is_paused:
        paused[session_id] = None
    write_standing(home, structs.replace(standing, paused=paused))


def add_rule(path: Path, text: str) -> None:
    """Add a rule to the file of the user. `UsageError` where that would not be understood; it then stays as it is."""
    refuse_agents()
    try:
        known = path.read_bytes() if path.exists() else b""
        whole = known + (b"\n" if known and not known.endswith(b"\n\n") else b"") + text.encode()
        problems = parse_rules(whole, Layer.USER, str(path)).problems
        if problems:
            raise UsageError(f"{path}: {problems[0]}", remedy="`interlock rules check`")
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(whole)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(path.resolve())
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}", remedy="mend its permissions") from error
