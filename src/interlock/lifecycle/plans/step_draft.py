"""One `[[step]]` of a plan as it is written: its keys by kind, before parameters are put in.

Laws:
1. A step is a prompt, a command (`run`) or a question to a person (`gate`), and has only the keys of its kind.
2. A default of the plan counts for the steps whose kind has the key. What a step says itself holds over it.
3. A key that this version cannot keep is a problem: it is never read over.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from interlock.lifecycle.children.checkpoint import FIELD_TYPES
from interlock.lifecycle.children.workflow_plan import (
    MAX_RETRIES,
    MAX_ROUNDS,
    ON_TIMEOUT,
    OUTPUT_TYPES,
    RETRY_CAUSES,
    STOP_CHOICE,
    PlanProblem,
    StepOutput,
)
from interlock.lifecycle.plans.params import is_relative_path
from interlock.lifecycle.plans.plan_table import MAX_PATHS, PlanTable, is_name, shown
from interlock.lifecycle.plans.templates import step_reference
from interlock.lifecycle.rules.hazards import is_protected
from interlock.vocabulary.ids import is_valid_id

_BASE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./@^~+-]{0,199}")
_MOST_EACH: Final = 100
KINDS: Final = ("prompt", "run", "gate")
_COMMON: Final = ("id", "needs", "required")
_WORK: Final = ("for_each", "max", "timeout", "outputs", "write", "read", "worktree", "base", "model_visible")
_AGAIN: Final = ("retries", "once")
_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "prompt": (*_COMMON, "prompt", *_WORK, *_AGAIN, "agent", "checks", "rounds"),
    "run": (*_COMMON, "run", *_WORK, *_AGAIN),
    "gate": (*_COMMON, "gate", "show", "choices", "timeout", "on_timeout"),
}
UNSUPPORTED: Final[Mapping[str, str]] = {
    "model": "choose the model in the configuration of the agent",
    "may_spawn": "leave `may_spawn` out: the agents of steps start no agents",
}
_KNOWN: Final = tuple(dict.fromkeys(key for keys in _KEYS.values() for key in keys))
DEFAULT_KEYS: Final = tuple(
    key for key in _KNOWN if key not in (*KINDS, "id", "needs", "for_each", "max", "show", "outputs")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDraft:
    """A step as it is written. `text`: its prompt or question. `for_each`: the list parameter that it is made for;
    `each`: the step and the output for whose items it is, at most `each_max`."""

    id: str
    kind: str
    text: str = ""
    run: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    agent: str = ""
    timeout_ms: int | None = None
    checks: tuple[tuple[str, ...], ...] = ()
    outputs: tuple[StepOutput, ...] = ()
    choices: tuple[str, ...] = ("go", STOP_CHOICE)
    write: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    for_each: str = ""
    required: bool = True
    model_visible: bool = False
    rounds: int = 1
    retries: int = 0
    retry_on: tuple[str, ...] = RETRY_CAUSES
    once: bool = False
    worktree: str = ""
    base: tuple[str, ...] = ()
    on_timeout: str = ON_TIMEOUT[0]
    each: tuple[str, str] | None = None
    each_max: int = 0

    @property
    def plain_texts(self) -> tuple[str, ...]:
        """The texts that take parameters and items only: commands and paths."""
        paths = (*self.write, *self.read, *(output.path for output in self.outputs if output.path))
        return (*self.run, *(word for check in self.checks for word in check), *paths)


def read_defaults(plan: PlanTable) -> dict[str, object]:
    """The defaults of a plan, by key."""
    found = plan.values.get("defaults", {})
    if not isinstance(found, dict):
        plan.wrong("defaults", "a table")
        return {}
    table = PlanTable("[defaults]", found, plan.problems)
    table.refuse_unsupported(UNSUPPORTED)
    table.refuse_unknown((*DEFAULT_KEYS, *UNSUPPORTED))
    return {key: found[key] for key in DEFAULT_KEYS if key in found}


def read_step(
    found: object, number: int, defaults: Mapping[str, object], problems: list[PlanProblem]
) -> StepDraft | None:
    """One step; None where it has no id that others could need."""
    if not isinstance(found, dict):
        problems.append(PlanProblem(f"step {number} is {shown(found)}", "write each step as a table under [[step]]"))
        return None
    id = found.get("id")
    table = PlanTable(f"step {id!r}" if is_name(id) else f"step {number}", found, problems)
    if not is_name(id):
        table.wrong("id", "a name of letters, digits, _ and -, at most 64")
    table.refuse_unsupported(UNSUPPORTED)
    table.refuse_unknown((*_KNOWN, *UNSUPPORTED))
    kinds = [kind for kind in KINDS if kind in found]
    if len(kinds) != 1:
        table.problem(
            f"has {' and '.join(kinds) or 'neither prompt, run nor gate'}", "give each step one of prompt, run and gate"
        )
        # Steps that need it are not to be told that there is none.
        return StepDraft(id=str(id), kind="gate") if is_name(id) else None
    kind = kinds[0]
    for key in sorted(found.keys() & (set(_KNOWN) - set(_KEYS[kind]))):
        table.problem(f"is a {kind} and has `{key}`", f"the keys of a {kind} step are {', '.join(_KEYS[kind])}")
    # How long an agent may work says nothing about how long a person may think.
    given = {key: value for key, value in defaults.items() if (kind, key) != ("gate", "timeout")}
    own = {key: found[key] if key in found else given[key] for key in _KEYS[kind] if key in found or key in given}
    return _draft(str(id), kind, PlanTable(table.name, own, problems)) if is_name(id) else None


def _draft(id: str, kind: str, table: PlanTable) -> StepDraft:
    text = table.text(kind) if kind != "run" else ""
    if kind != "run" and isinstance(table.values[kind], str) and not text.strip():
        table.problem(f"has an empty {kind}", "say what is to be done, or asked")
    retries, retry_on = _retries(table)
    checks, outputs, rounds = table.commands("checks"), _outputs(table), table.number("rounds", 1, MAX_ROUNDS)
    if rounds > 1 and not (checks or outputs):
        table.problem("has `rounds`, and nothing that could fail in one", "give it `checks` or `outputs`")
    return StepDraft(
        id=id,
        kind=kind,
        text="\n".join((text, *(f"{{{{ {one} }}}}" for one in _shows(table)))),
        run=table.command("run") if kind == "run" else (),
        needs=table.texts("needs"),
        agent=_agent(table) if kind == "prompt" else "",
        timeout_ms=table.duration_ms("timeout"),
        checks=checks,
        outputs=outputs,
        choices=_choices(table) if "choices" in table.values else ("go", STOP_CHOICE),
        write=_paths(table, "write", is_written=True),
        read=_paths(table, "read", is_written=False),
        for_each=_for_each(table),
        each=_each(table),
        each_max=_each_max(table),
        required=table.flag("required", True),
        model_visible=table.flag("model_visible", False),
        rounds=rounds,
        retries=retries,
        retry_on=retry_on,
        once=table.flag("once", kind == "run"),
        worktree=_worktree(table),
        base=_base(table),
        on_timeout=_on_timeout(table),
    )


def _on_timeout(table: PlanTable) -> str:
    on_timeout = table.text("on_timeout", ON_TIMEOUT[0])
    if on_timeout not in ON_TIMEOUT:
        table.wrong("on_timeout", '"hold" or "give_up": silence is never consent')
        return ON_TIMEOUT[0]
    if "on_timeout" in table.values and "timeout" not in table.values:
        table.problem("has on_timeout, and no timeout", 'timeout: write how long it waits, as in "2h"')
    return on_timeout


def _worktree(table: PlanTable) -> str:
    worktree = table.text("worktree")
    if "worktree" in table.values and not is_name(worktree):
        table.wrong("worktree", '"own", "shared", or the id of the step in whose tree it goes on')
        return ""
    return worktree


def _base(table: PlanTable) -> tuple[str, ...]:
    """What the tree of a step begins with."""
    found = table.values.get("base", [])
    bases = (found,) if isinstance(found, str) else tuple(found) if isinstance(found, list) else ()
    is_fit = all(isinstance(one, str) and _is_base(one) for one in bases)
    if "base" in table.values and (not bases or not is_fit or len(bases) > MAX_PATHS):
        table.wrong("base", '"head", "default", a branch, tag or commit, steps.STEP, or a list of them')
        return ()
    return tuple(str(one) for one in bases)


def _is_base(name: str) -> bool:
    return _BASE.fullmatch(name) is not None and ".." not in name and "{{" not in name


def _retries(table: PlanTable) -> tuple[int, tuple[str, ...]]:
    """How many attempts that were lost are followed by another one, and by what they may have been lost."""
    found = table.values.get("retries")
    if found is None:
        return 0, RETRY_CAUSES
    if not isinstance(found, dict):
        table.wrong("retries", 'a table, as in { max = 1, on = ["crash"] }')
        return 0, RETRY_CAUSES
    own = PlanTable(f"{table.name}, retries,", found, table.problems)
    own.refuse_unknown(("max", "on"))
    causes = own.texts("on") if "on" in found else RETRY_CAUSES
    if not causes or not set(causes) <= set(RETRY_CAUSES):
        own.wrong("on", f"a list of {', '.join(RETRY_CAUSES)}")
        causes = RETRY_CAUSES
    return own.number("max", 1, MAX_RETRIES), causes


def _agent(table: PlanTable) -> str:
    agent = table.text("agent")
    if "agent" not in table.values or table.values["agent"] == "":
        table.problem("names no agent", "agent: write the name of a configured agent, or set one under [defaults]")
    elif agent and not is_valid_id(agent):
        table.wrong("agent", "the name of a configured agent")
    return agent


def _choices(table: PlanTable) -> tuple[str, ...]:
    choices = table.texts("choices", MAX_PATHS)
    if isinstance(table.values["choices"], list) and (len(choices) < 2 or len(set(choices)) < len(choices)):
        table.wrong("choices", f'two or more different ones, as in ["go", "{STOP_CHOICE}"]')
    return choices


def _shows(table: PlanTable) -> tuple[str, ...]:
    shows = table.texts("show", MAX_PATHS)
    for one in shows:
        if step_reference(one) is None:
            table.problem(
                f"shows {shown(one)}", "show: write steps.STEP.summary, steps.STEP.diff or steps.STEP.outputs.NAME"
            )
    return tuple(one for one in shows if step_reference(one) is not None)


def _for_each(table: PlanTable) -> str:
    found = table.text("for_each")
    if _each(table) is not None:
        return ""
    name = found.removeprefix("params.")
    if "for_each" in table.values and (not is_name(name) or name == found):
        table.wrong("for_each", "a list parameter, as in params.NAME, or steps.STEP.outputs.NAME")
        return ""
    return name


def _each(table: PlanTable) -> tuple[str, str] | None:
    """The step and its output for whose items a step is made."""
    found = table.values.get("for_each")
    reference = step_reference(found) if isinstance(found, str) else None
    return (reference.step, reference.output) if reference is not None and reference.output else None


def _each_max(table: PlanTable) -> int:
    """How many items there may be: nobody knows yet how many there are."""
    is_each = _each(table) is not None
    if is_each is not ("max" in table.values):
        table.problem(
            "has for_each over a step, and no max" if is_each else "has `max`, and no for_each over a step",
            f"max: write how many steps may be made, at most {_MOST_EACH}",
        )
        return 1
    return table.number("max", 1, _MOST_EACH) if is_each else 0


def _paths(table: PlanTable, key: str, *, is_written: bool) -> tuple[str, ...]:
    paths = table.texts(key, MAX_PATHS)
    for path in paths:
        if "{{" not in path:
            refuse_path(table, key, path, is_written=is_written)
    return paths


def refuse_path(table: PlanTable, key: str, path: str, *, is_written: bool) -> None:
    """A problem for a path that leads out of the workspace, or to what no agent may write."""
    if not is_relative_path(path):
        table.problem(
            f"has the path {shown(path)} in {key}",
            f"{key}: name files and folders relative to the workspace, without patterns",
        )
    elif is_written and is_protected(path):
        table.problem(
            f"writes {shown(path)}", f"{key}: git, settings of agents, plans, keys and .env files are never written"
        )


_OUTPUT_KEYS: Final = ("type", "path", "fields", "list")
_OUTPUT_UNSUPPORTED: Final = {"max": "leave `max` out"}


def _outputs(table: PlanTable) -> tuple[StepOutput, ...]:
    return tuple(
        _output(name, PlanTable(f"{table.name}, output {name!r},", one, table.problems))
        for name, one in table.tables("outputs")
    )


def _output(name: str, table: PlanTable) -> StepOutput:
    table.refuse_unsupported(_OUTPUT_UNSUPPORTED)
    table.refuse_unknown((*_OUTPUT_KEYS, *_OUTPUT_UNSUPPORTED))
    type, path = table.text("type"), table.text("path")
    if type not in OUTPUT_TYPES:
        table.wrong("type", f"one of {', '.join(OUTPUT_TYPES)}")
    has_file = type not in ("commit", "text")
    if path and not has_file:
        table.problem(f"is a {type} and has a path", "leave `path` out")
    if not path and has_file:
        table.problem("has no path", "path: name the file that must exist when the step ends")
    elif path and "{{" not in path:
        refuse_path(table, "path", path, is_written=True)
    fields, is_list = _fields(table), table.flag("list", False)
    if type != "json" and (fields or is_list):
        table.problem("has fields or a list and is no JSON", 'write type = "json"')
    path = path or "missing" if has_file else ""
    return StepOutput(name=name, path=path, type=type or "file", fields=fields, is_list=is_list)


def _fields(table: PlanTable) -> tuple[tuple[str, str], ...]:
    found = table.values.get("fields", {})
    if not isinstance(found, dict) or len(found) > MAX_PATHS or not all(one in FIELD_TYPES for one in found.values()):
        kinds = ", ".join(FIELD_TYPES)
        table.wrong(
            "fields", f'the type of each, as in fields = {{ line = "int" }}; types are {kinds}; at most {MAX_PATHS}'
        )
        return ()
    return tuple((str(field), str(kind)) for field, kind in found.items())
