"""Parameters of a plan: declared with a type, and resolved before anything starts.

Laws:
1. Every parameter has a value, or the plan does not run: the one that is given, else its default.
2. A value comes as text (`--param name=value`) or typed (JSON); both are held to the declared type.
3. Values are written to the log as they are. A secret is no parameter: name the variable that holds it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from interlock.lifecycle.children.workflow_plan import PlanProblem
from interlock.lifecycle.plans.plan_table import PlanTable, is_plain, shown, texts_of

ParamValue: TypeAlias = str | tuple[str, ...]
"""What stands in for a parameter in a template. Only a list is a tuple."""

MAX_VALUE_CHARACTERS: Final = 8_000
MAX_LIST_ITEMS: Final = 100
_KEYS: Final = ("type", "default", "choices", "help")
_INT: Final = re.compile(r"-?\d{1,18}")
_EXPECTED: Final[Mapping[str, str]] = {
    "text": f"text of at most {MAX_VALUE_CHARACTERS} characters; put what is longer in a file, and name the file",
    "int": "a whole number",
    "bool": "true or false",
    "choice": "one of its choices",
    "path": "a path relative to the workspace, without `..`, that does not begin with -",
    "list": f"1 to {MAX_LIST_ITEMS} texts, as in a,b,c",
}


@dataclass(frozen=True, slots=True)
class Param:
    """One declared parameter."""

    name: str
    type: str
    choices: tuple[str, ...]
    default: object = None
    help: str = ""


def read_params(plan: PlanTable) -> tuple[Param, ...]:
    """The parameters that a plan declares."""
    return tuple(
        _read_param(name, PlanTable(f"parameter {name!r}", table, plan.problems))
        for name, table in plan.tables("params")
    )


def _read_param(name: str, table: PlanTable) -> Param:
    table.refuse_unknown(_KEYS)
    type = table.text("type")
    if type not in _EXPECTED:
        table.wrong("type", f"one of {', '.join(_EXPECTED)}")
        type = "text"
    choices = table.texts("choices")
    if (type == "choice") != bool(choices):
        table.problem(
            "is a choice without choices" if type == "choice" else "has choices and is no choice",
            'use type = "choice" with a list of choices',
        )
    param = Param(name, type, choices, table.values.get("default"), table.text("help"))
    if param.default is not None and _typed(param, param.default, is_text=False) is None:
        table.wrong("default", _expected(param))
    return param


def resolve_params(
    params: Sequence[Param], given: Mapping[str, object], problems: list[PlanProblem]
) -> dict[str, ParamValue]:
    """The value of each parameter. What is missing, wrong or not declared is a problem."""
    names = [param.name for param in params]
    for name in sorted(set(given) - set(names)):
        remedy = f"its parameters are {', '.join(names)}" if names else "it has none"
        problems.append(PlanProblem(f"the plan has no parameter {shown(name)}", remedy))
    values: dict[str, ParamValue] = {}
    for param in params:
        found = given.get(param.name, param.default)
        value = None if found is None else _typed(param, found, is_text=param.name in given)
        if value is not None:
            values[param.name] = value
        elif found is None:
            about = f" ({param.help})" if param.help else ""
            problems.append(
                PlanProblem(f"parameter {param.name!r}{about} has no value", f"give it: --param {param.name}=...")
            )
        elif param.name in given:
            problems.append(
                PlanProblem(
                    f"parameter {param.name!r} has the value {shown(found)}", f"{param.name}: give {_expected(param)}"
                )
            )
    return values


def _expected(param: Param) -> str:
    return f"one of {', '.join(param.choices)}" if param.choices else _EXPECTED[param.type]


def _typed(param: Param, value: object, *, is_text: bool) -> ParamValue | None:
    """The value by its type; None where it is none. `is_text`: it may be the text of one."""
    match param.type, value:
        case "list", str() if is_text:
            return _items([one.strip() for one in value.split(",")])
        case "list", _:
            return _items(list(value) if isinstance(value, tuple) else value)
        case "bool", bool():
            return "true" if value else "false"
        case "bool", "true" | "false" if is_text:
            return str(value)
        case "int", int() if not isinstance(value, bool) and abs(value) < 10**18:
            return str(value)
        case "int", str() if is_text and _INT.fullmatch(value) is not None:
            return str(int(value))
        case "choice", str() if value in param.choices:
            return value
        case "path", str() if is_relative_path(value):
            return value
        case "text", str() if len(value) <= MAX_VALUE_CHARACTERS and is_plain(value):
            return value
        case _:
            return None


def _items(value: object) -> tuple[str, ...] | None:
    read = texts_of(value, MAX_LIST_ITEMS)
    return read if read and sum(map(len, read)) <= MAX_VALUE_CHARACTERS else None


def is_relative_path(path: str) -> bool:
    """Whether a path stays below its folder, is no pattern, and is no option of a command that it is given to."""
    if not path.strip() or path.startswith(("/", "-", "~")) or not {"*", "?", "\n", "\\"}.isdisjoint(path):
        return False
    return is_plain(path) and len(path) <= 1000 and ".." not in path.split("/")
