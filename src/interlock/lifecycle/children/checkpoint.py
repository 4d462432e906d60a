"""Decides whether a step is ready: by what the server looked at and ran, never by words alone.

Laws:
1. A checkpoint counts only with the id of its attempt, which the prompt of that attempt named. One that is quoted from
   a file, from a prompt or from an earlier attempt has no id, or another one, and is none.
2. A step is proven if every output that it declares is there, fits its type and was written since the step began, if
   every check exited 0 and left the outputs and, in a repository, all files as they were, and if no file outside of its
   write set was changed.
3. Every proof that is missing is named. What could not be looked at is missing.
4. Who changed a file cannot be told where others work in the same tree. That is said, and is not held against a step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from interlock.lifecycle.children.workflow_plan import StepOutput, StepSpec
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import SubagentId

_MOST_NAMED: Final = 5
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "text": (str,),
    "int": (int,),
    "number": (int, float),
    "bool": (bool,),
    "list": (list,),
    "object": (dict,),
}
FIELD_TYPES: Final = tuple(_TYPES)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFact:
    """What was found at the path of an output. `problem`: why nothing could be looked at. `content`: of JSON, its
    bytes."""

    output: StepOutput
    problem: str = ""
    written_at: datetime | None = None
    content: bytes | None = None
    size_bytes: int = 0
    sha256: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFact:
    """How a check ended. Without an exit code it did not: `problem` says why."""

    argv: tuple[str, ...]
    exit_code: int | None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFiles:
    """The files that were changed while a step ran, relative to the folder of the workflow. `doubt`: why they may not
    be the step's; then nothing is held against it. `main`: those of the main
    checkout, while it worked in another tree."""

    paths: tuple[str, ...] = ()
    doubt: str = ""
    main: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFacts:
    """What the server looked at. `after`: the outputs again, after the checks ran."""

    began_at: datetime
    outputs: tuple[OutputFact, ...] = ()
    checks: tuple[CheckFact, ...] = ()
    after: tuple[OutputFact, ...] = ()
    changed: ChangedFiles = ChangedFiles(doubt="not looked at")
    changed_by_checks: tuple[str, ...] = ()


def checkpoint_id(child: SubagentId, attempt: int = 1) -> str:
    """The id that a checkpoint of this attempt has to carry."""
    return f"{child}.{attempt}"


def bound_checkpoint(checkpoint: Json, expected: str) -> Json:
    """The checkpoint, if it is one of this attempt; else None."""
    if not isinstance(checkpoint, dict) or checkpoint.get("checkpoint_id") != expected:
        return None
    return checkpoint


def missing_proofs(step: StepSpec, facts: StepFacts) -> tuple[str, ...]:
    """Why a step is not ready; empty if it is proven."""
    return (*_of_outputs(step, facts), *_of_checks(step, facts), *_of_files(step, facts.changed))


def _of_outputs(step: StepSpec, facts: StepFacts) -> Iterator[str]:
    found = {fact.output.name: fact for fact in facts.outputs}
    for output in step.outputs:
        fact = found.get(output.name)
        why = "it was not looked at" if fact is None else _why_no_output(fact, facts.began_at)
        if why:
            yield f"output {output.name}: {why}"


def _why_no_output(fact: OutputFact, began_at: datetime) -> str:
    if fact.problem or fact.written_at is None:
        return fact.problem or "it is not known when it was written"
    if fact.output.path and fact.written_at < began_at:
        return f"{fact.output.path} was not written since the step began"
    return _why_no_json(fact.output, fact.content) if fact.output.type == "json" else ""


def _why_no_json(output: StepOutput, content: bytes | None) -> str:
    try:
        value: object = msgspec.json.decode(content or b"")
    except (msgspec.DecodeError, RecursionError):
        return f"{output.path} is no JSON"
    if output.is_list:
        if not isinstance(value, list):
            return f"{output.path} is no JSON list"
        return next(
            (f"item {at} of {output.path} {why}" for at, one in enumerate(value) if (why := _misfit(output, one))), ""
        )
    if output.fields:
        why = _misfit(output, value)
        return f"{output.path} {why}" if why else ""
    return "" if isinstance(value, dict | list) else f"{output.path} is no JSON object or list"


def _misfit(output: StepOutput, value: object) -> str:
    """Why a value has not the fields of an output; blank if it has. Other fields may be there, too."""
    if not output.fields:
        return ""
    if not isinstance(value, dict):
        return "is no object"
    for name, kind in output.fields:
        if name not in value:
            return f"has no field {name!r}"
        found = value[name]
        if not isinstance(found, _TYPES[kind]) or (isinstance(found, bool) and kind != "bool"):
            return f"has a field {name!r} that is no {kind}"
    return ""


def _of_checks(step: StepSpec, facts: StepFacts) -> Iterator[str]:
    for number, argv in enumerate(step.checks):
        words = " ".join(argv)
        if number >= len(facts.checks) or facts.checks[number].argv != argv:
            yield f"check {words}: it was not run"
        elif facts.checks[number].exit_code != 0:
            fact = facts.checks[number]
            yield f"check {words}: {fact.problem or f'it exited {fact.exit_code}'}"
    if step.checks:
        yield from _changed_by_checks(facts.outputs, facts.after)
    if facts.changed_by_checks:
        yield f"the checks changed files: {_some(facts.changed_by_checks)}; have them write only what git ignores"


def _changed_by_checks(before: Sequence[OutputFact], after: Sequence[OutputFact]) -> Iterator[str]:
    found = {fact.output.name: fact.sha256 for fact in after}
    for fact in before:
        if not fact.problem and found.get(fact.output.name) != fact.sha256:
            yield f"output {fact.output.name}: it changed while the checks ran, so they prove nothing of it"


def _of_files(step: StepSpec, changed: ChangedFiles) -> Iterator[str]:
    if changed.doubt:
        return
    outside = [path for path in changed.paths if not any(_is_below(path, folder) for folder in step.write_set)]
    if outside:
        yield f"changed outside of its write set: {_some(outside)}"


def _some(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _MOST_NAMED} more" if len(paths) > _MOST_NAMED else ""
    return f"{', '.join(paths[:_MOST_NAMED])}{more}"


def _is_below(path: str, folder: str) -> bool:
    parts, base = path.split("/"), [part for part in folder.split("/") if part not in ("", ".")]
    return ".." not in parts and parts[: len(base)] == base
