"""Write the types of the server's answers as commands read them: a TypedDict for each struct of the wire.

Commands that only look must start at once, and the structs cost more to import than all the rest of such a command. So
they read plain JSON, and mypy holds them to these types, which cost nothing at run time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from msgspec import inspect

from interlock.server.http.shapes import (
    ApprovalPage,
    ExplainedTurn,
    Health,
    MessagePage,
    SpawnPage,
    TaskPage,
    TaskUsage,
    TurnPage,
    UsagePage,
)
from interlock.vocabulary.wire.frames import RuntimeCheck, StateDocument, TaskFrame
from interlock.vocabulary.wire.logins import LoginPage
from interlock.vocabulary.wire.requests import ServerClosing, TaskBehind, TaskJoined
from interlock.vocabulary.wire.resources import ChildPage, SearchPage, ServerInfo, TaskDetail
from interlock.vocabulary.wire.task_screen import TaskScreen
from interlock.vocabulary.wire.workflow import WorkflowStanding
from interlock.vocabulary.wire.workspace import TaskDiff

ROOTS: Final[tuple[Any, ...]] = (
    *(
        ApprovalPage,
        ChildPage,
        ExplainedTurn,
        Health,
        LoginPage,
        MessagePage,
        RuntimeCheck,
        SearchPage,
        ServerInfo,
        SpawnPage,
        StateDocument,
    ),
    *(TaskDetail, TaskDiff, TaskPage, TaskScreen, TaskUsage, TurnPage, UsagePage, WorkflowStanding),
)
FRAMES: Final[tuple[Any, ...]] = (*TaskFrame.__args__, TaskJoined, TaskBehind, ServerClosing)
HEAD: Final = '''"""The server's answers as JSON, a type for each struct of the wire. Made by `make docs`.

These hold for mypy alone, and are imported by it alone: `cli/wire/routes.py` says which route answers what. A time is
a string of RFC 3339; what is `object` may be any JSON.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, TypedDict

'''
_PLAIN: Final = {
    inspect.IntType: "int",
    inspect.FloatType: "float",
    inspect.StrType: "str",
    inspect.BoolType: "bool",
    inspect.NoneType: "None",
    inspect.DateTimeType: "str",
    inspect.AnyType: "object",
    inspect.EnumType: "str",
}


def answer_types() -> str:
    """The whole module."""
    found: dict[str, str] = {}
    for root in (*ROOTS, *FRAMES):
        _spell(inspect.type_info(root), found)
    frames = "\n    | ".join(f"{_name(one)}" for one in FRAMES)
    body = "\n\n\n".join(found[name] for name in sorted(found))
    return f"{HEAD}\n{body}\n\n\nFrameJson: TypeAlias = (\n    {frames}\n)\n"


def _name(kind: type) -> str:
    return f"{kind.__name__}Json"


def _spell(info: object, found: dict[str, str]) -> str:
    """How a type is written. What it holds is added to `found`."""
    if type(info) in _PLAIN:
        return _PLAIN[type(info)]  # type: ignore[index]  # it is in it
    if isinstance(info, inspect.UnionType):
        return " | ".join(dict.fromkeys(_spell(one, found) for one in info.types))
    if isinstance(info, inspect.VarTupleType | inspect.ListType | inspect.FrozenSetType | inspect.SetType):
        return f"list[{_spell(info.item_type, found)}]"
    if isinstance(info, inspect.TupleType):
        return f"tuple[{', '.join(_spell(one, found) for one in info.item_types)}]"
    if isinstance(info, inspect.DictType):
        return f"dict[str, {_spell(info.value_type, found)}]"
    if isinstance(info, inspect.LiteralType):
        return f"Literal[{', '.join(json.dumps(one) for one in info.values)}]"
    if isinstance(info, inspect.Metadata):
        return _spell(info.type, found)
    if isinstance(info, inspect.StructType) and info.array_like:
        return f"tuple[{', '.join(_spell(field.type, found) for field in info.fields)}]"
    if isinstance(info, inspect.StructType | inspect.DataclassType):
        return _class(info, found)
    raise TypeError(f"tools/answer_types.py cannot spell {info!r}")


def _class(info: inspect.StructType | inspect.DataclassType, found: dict[str, str]) -> str:
    name = _name(info.cls)
    if name not in found:
        found[name] = ""  # one that holds itself is spelled once
        lines = [f"class {name}(TypedDict):", f'    """`{info.cls.__name__}` of `{info.cls.__module__}`."""', ""]
        found[name] = "\n".join((*lines, *_fields(info, found)))
    return name


def _fields(info: inspect.StructType | inspect.DataclassType, found: dict[str, str]) -> Iterator[str]:
    if isinstance(info, inspect.StructType) and info.tag_field is not None:
        yield f"    {info.tag_field}: Literal[{json.dumps(info.tag)}]"
    for field in info.fields:
        yield f"    {field.encode_name}: {_spell(field.type, found)}"
