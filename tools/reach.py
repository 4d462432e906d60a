"""Find code in `src` that nothing reaches: `python -m tools.reach`, a part of `make check`.

Reached is what follows from the commands (`[project.scripts]`), from `__main__` modules that reached code names, and
from the documented API: what code blocks of the README and docs/, examples/ and the generators in tools/ import. Tests
and benchmarks reach nothing. A name counts as reached if reached code refers to it outside its own definition; a
method, if its class is reached and some reached code has an attribute of that name. It is a search by names: it may
spare dead code, and does not call live code dead, except where names are put together at run time. Exceptions stand
with their reasons in `tools/reach_exceptions.txt`, a name each; one that is not needed fails as well.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

ROOT: Final = Path(__file__).parent.parent
HAND_WRITTEN: Final = ("tutorial", "how-to", "explanation")
EXCEPTIONS: Final = "tools/reach_exceptions.txt"

Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Name: TypeAlias = tuple[str, str]
"""A module and a name at its top level; a blank name is the module itself."""

_REGISTERING: Final = frozenset({"declare"})
"""Decorators that hand what they decorate to a registry."""
_INERT_BASES: Final = frozenset(
    [
        "ABC",
        "BaseException",
        "Enum",
        "Exception",
        "Generic",
        "IntEnum",
        "NamedTuple",
        "Payload",
        "Protocol",
        "StrEnum",
        "Struct",
        "TypedDict",
        "object",
    ]
)
"""Bases from outside that call no method by a name of ours. Any other foreign base may call every method."""
_CODE_BLOCK: Final = re.compile(r"^```(?:py|python|pycon)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(slots=True)
class References:
    """What a piece of code refers to: names of our modules, modules that it hands on as values, attributes of anything,
    and words in strings."""

    names: set[Name] = field(default_factory=set)
    values: set[str] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)
    strings: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Module:
    """One module: what it defines, what its top level does, and what its names stand for."""

    name: str
    path: Path
    is_package: bool
    definitions: dict[str, list[Definition]]
    body: list[ast.stmt]
    scope: dict[str, Name | None]


class Reader(ast.NodeVisitor):
    """Collects the references of one piece of code, with its scopes."""

    def __init__(self, module: Module, known: Mapping[str, Module]) -> None:
        self.found = References()
        self._module = module
        self._known = known
        self._scopes: list[Mapping[str, Name | None]] = [module.scope]

    def visit_Name(self, node: ast.Name) -> None:
        target = self._resolve(node.id)
        if target is not None and isinstance(node.ctx, ast.Load):
            self.found.names.add(target)
            self.found.values |= set() if target[1] else {target[0]}

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.found.attributes.add(node.attr)
        owner = self._dotted(node.value)
        if owner is not None:
            self.found.names.add(_member(owner, node.attr, self._known))
        else:
            self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self.found.strings.add(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._enter(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._enter(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._enter(node)

    # An import alone reaches the module, not the name: what is imported counts where it is used.

    def visit_Import(self, node: ast.Import) -> None:
        self.found.names.update((owner, "") for owner, _ in imported(node, self._module, self._known).values())

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self.found.names.update((owner, "") for owner, _ in imported(node, self._module, self._known).values())

    def visit_MatchClass(self, node: ast.MatchClass) -> None:
        self.found.attributes.update(node.kwd_attrs)
        self.generic_visit(node)

    def _enter(self, node: Function) -> None:
        self._scopes.append(local_scope(node, self._module, self._known))
        self.generic_visit(node)
        self._scopes.pop()

    def _resolve(self, name: str) -> Name | None:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return None

    def _dotted(self, node: ast.expr) -> Name | None:
        """The module that an expression names, if it does."""
        if isinstance(node, ast.Name):
            target = self._resolve(node.id)
        elif isinstance(node, ast.Attribute):
            owner = self._dotted(node.value)
            target = None if owner is None else _member(owner, node.attr, self._known)
        else:
            return None
        return target if target is not None and not target[1] else None


def local_scope(node: Function, module: Module, known: Mapping[str, Module]) -> dict[str, Name | None]:
    """What the names that a function binds stand for: nothing of ours, unless it imports them."""
    arguments = node.args
    named = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg)
    scope: dict[str, Name | None] = {one.arg: None for one in named if one is not None}
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            scope.setdefault(inner.id, None)
        elif isinstance(inner, ast.Import | ast.ImportFrom):
            scope.update(imported(inner, module, known))
    return scope


def imported(node: ast.Import | ast.ImportFrom, module: Module, known: Mapping[str, Module]) -> dict[str, Name]:
    """The names of ours that an import binds."""
    if isinstance(node, ast.Import):
        ours = [one for one in node.names if one.name in known]
        return {one.asname or one.name.partition(".")[0]: (one.name if one.asname else "interlock", "") for one in ours}
    if node.level or node.module is None or node.module not in known:
        return {}
    return {one.asname or one.name: _member((node.module, ""), one.name, known) for one in node.names}


def _member(owner: Name, name: str, known: Mapping[str, Module]) -> Name:
    """A name of a module: a module of its own, or what stands there."""
    submodule = f"{owner[0]}.{name}"
    return (submodule, "") if submodule in known else (owner[0], name)


def read_modules(source: Path) -> dict[str, Module]:
    """Every module below a folder."""
    known: dict[str, Module] = {}
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        known[name] = Module(name, path, is_package, {}, [], {})
    for module in known.values():
        _read(module, known)
    return known


def _read(module: Module, known: Mapping[str, Module]) -> None:
    for statement in _statements(ast.parse(module.path.read_bytes()).body):
        if isinstance(statement, ast.Import | ast.ImportFrom):
            module.scope.update(imported(statement, module, known))
        names = list(_defined(statement))
        for name in names:
            assert isinstance(statement, Definition)
            module.definitions.setdefault(name, []).append(statement)
            module.scope[name] = (module.name, name)
        if not names:
            module.body.append(statement)


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a top level, with those under its conditions."""
    for one in body:
        if isinstance(one, ast.If):
            yield ast.Expr(one.test)
            yield from _statements((*one.body, *one.orelse))
        elif isinstance(one, ast.Try):
            yield from _statements((*one.body, *(inner for handler in one.handlers for inner in handler.body)))
        else:
            yield one


def _defined(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        yield statement.target.id
    elif isinstance(statement, ast.Assign):
        yield from (target.id for target in statement.targets if isinstance(target, ast.Name))


Member: TypeAlias = tuple[Module, ast.ClassDef, ast.stmt]
Hidden: TypeAlias = Name | Member


class Search:
    """What is reached so far."""

    def __init__(self, known: Mapping[str, Module]) -> None:
        self.known = known
        self.names: set[Name] = set()
        self.methods: set[tuple[str, str, str]] = set()
        self._attributes: set[str] = set()
        self._waiting: list[Name] = []
        self._used: list[Member] = []
        self._hidden: dict[str, list[Hidden]] = {}
        self._values: set[str] = set()

    def reach(self, names: Iterable[Name]) -> None:
        """Take names as reached, and follow what follows from them."""
        self._waiting += names
        while self._waiting or self._used:
            if self._waiting:
                self._follow(self._waiting.pop())
            else:
                self._use(*self._used.pop())

    def read(self, module: Module, code: Iterable[ast.AST]) -> None:
        """Take a piece of code as reached."""
        reader = Reader(module, self.known)
        for one in code:
            reader.visit(one)
        self._waiting += reader.found.names
        self._waiting += self._named(module, reader.found.strings)
        for value in reader.found.values - self._values:
            self._values.add(value)
            for name in self.known[value].definitions:
                self._offer(name, (value, name))
        for attribute in reader.found.attributes | {one for one in reader.found.strings if one.isidentifier()}:
            self._attributes.add(attribute)
            for hidden in self._hidden.pop(attribute, ()):
                self._take(hidden)

    def _offer(self, attribute: str, one: Hidden) -> None:
        """Something that is reached as soon as an attribute of that name is."""
        if attribute in self._attributes:
            self._take(one)
        else:
            self._hidden.setdefault(attribute, []).append(one)

    def _take(self, one: Hidden) -> None:
        if len(one) == 2:
            self._waiting.append(one)
        else:
            self._used.append(one)

    def _named(self, module: Module, strings: set[str]) -> Iterator[Name]:
        """What strings name: `module`, `module:name`, or a module and a name of it side by side."""
        modules = {one for one in strings if one in self.known}
        modules |= {
            f"{module.name}.{one}" for one in strings if module.is_package and f"{module.name}.{one}" in self.known
        }
        # A type in quotes, as `cast` takes it.
        yield from (target for one in strings if (target := module.scope.get(one)) is not None)
        for one in strings:
            owner, _, name = one.partition(":")
            if name and owner in self.known:
                yield owner, name
        for one in modules:
            yield one, ""
            if f"{one}.__main__" in self.known:
                yield f"{one}.__main__", ""
            yield from ((one, name) for name in strings if name in self.known[one].definitions)

    def _follow(self, name: Name) -> None:
        if name in self.names or name[0] not in self.known:
            return
        self.names.add(name)
        module = self.known[name[0]]
        if not name[1]:
            self._execute(module)
            return
        self._waiting.append((name[0], ""))
        target = module.scope.get(name[1])
        if target is not None and target != name:
            self._waiting.append(target)
        for definition in module.definitions.get(name[1], ()):
            self._define(module, definition)

    def _execute(self, module: Module) -> None:
        """What happens when a module is imported: its top level, and what its registering decorators take."""
        parent = module.name.rpartition(".")[0]
        if parent:
            self._waiting.append((parent, ""))
        self.read(module, module.body)
        for name, definitions in module.definitions.items():
            if name == "__getattr__" or any(_registers(one, module) for one in definitions):
                self._waiting.append((module.name, name))

    def _define(self, module: Module, definition: Definition) -> None:
        if not isinstance(definition, ast.ClassDef):
            self.read(module, [definition])
            return
        self.read(module, (*definition.bases, *definition.keywords, *definition.decorator_list))
        calls_all = any(not _is_known_base(base, module, self.known) for base in definition.bases)
        for member in definition.body:
            name = getattr(member, "name", "")
            if not name or calls_all or name.startswith("__") or name == "_missing_":
                self._used.append((module, definition, member))
            else:
                self._offer(name, (module, definition, member))

    def _use(self, module: Module, owner: ast.ClassDef, member: ast.stmt) -> None:
        self.methods.add((module.name, owner.name, getattr(member, "name", "")))
        if isinstance(member, ast.ClassDef):
            self._define(module, member)
        else:
            self.read(module, [member])


def _registers(definition: Definition, module: Module) -> bool:
    decorators = [] if isinstance(definition, ast.Assign | ast.AnnAssign) else definition.decorator_list
    return any(_is_registering(one.func if isinstance(one, ast.Call) else one, module) for one in decorators)


def _is_registering(decorator: ast.expr, module: Module) -> bool:
    """Whether it is one of the known ones, or a method of an object at the top level of a module."""
    if isinstance(decorator, ast.Attribute) and isinstance(decorator.value, ast.Name):
        target = module.scope.get(decorator.value.id)
        return target is not None and bool(target[1])
    return isinstance(decorator, ast.Name) and decorator.id in _REGISTERING


def _is_known_base(base: ast.expr, module: Module, known: Mapping[str, Module]) -> bool:
    """Whether a base is ours all the way up, or one that calls nothing by name."""
    while isinstance(base, ast.Subscript):
        base = base.value
    name = base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")
    if name in _INERT_BASES or name.endswith(("Error", "Exception", "Warning")):
        return True
    target = module.scope.get(name)
    while target is not None and target != (followed := known[target[0]].scope.get(target[1])):
        target = followed
    if target is None:
        return False
    owner = known[target[0]]
    classes = [one for one in owner.definitions.get(target[1], ()) if isinstance(one, ast.ClassDef)]
    return bool(classes) and all(_is_known_base(one, owner, known) for kind in classes for one in kind.bases)


def unreached(known: Mapping[str, Module], search: Search) -> list[str]:
    """Every module, public name and public method that was not reached, as dotted names."""
    found: list[str] = []
    for module in known.values():
        if (module.name, "") not in search.names:
            found.append(module.name)
            continue
        for name, definitions in module.definitions.items():
            if (module.name, name) not in search.names:
                found += [f"{module.name}.{name}"] if _is_public(name) else []
                continue
            for owner in (one for one in definitions if isinstance(one, ast.ClassDef)):
                found += _unused_methods(module, owner, search)
    return found


def _unused_methods(module: Module, owner: ast.ClassDef, search: Search) -> Iterator[str]:
    for member in owner.body:
        if not isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef) or not _is_public(member.name):
            continue
        if (module.name, owner.name, member.name) not in search.methods:
            yield f"{module.name}.{owner.name}.{member.name}"


def _is_public(name: str) -> bool:
    return not name.startswith("_")


def documented(root: Path) -> Iterator[str]:
    """The source of everything that documents the API: blocks of pages, examples, and what makes the pages."""
    for page in (root / "README.md", *sorted((root / "docs").rglob("*.md"))):
        if page.exists():
            yield from _CODE_BLOCK.findall(page.read_text(encoding="utf-8"))
    for folder in ("examples", "tools"):
        for path in sorted((root / folder).glob("*.py")):
            yield path.read_text(encoding="utf-8")


def mentioned(root: Path) -> Iterator[str]:
    """Modules and names that the hand-written pages name in full, and programs that they start with `python -m`."""
    pages = [
        root / "README.md",
        *(path for folder in HAND_WRITTEN for path in sorted((root / "docs" / folder).glob("*.md"))),
    ]
    for page in pages:
        text = page.read_text(encoding="utf-8") if page.exists() else ""
        yield from re.findall(r"`(interlock(?:\.\w+)+)`", text)
        yield from (f"{name}.__main__" for name in re.findall(r"python -m (interlock(?:\.\w+)+)", text))


def search_root(root: Path) -> tuple[dict[str, Module], Search]:
    """Search a checkout from its commands and its documentation."""
    known = read_modules(root / "src")
    search = Search(known)
    scripts = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"].get("scripts", {})
    for script in scripts.values():
        owner, _, name = script.partition(":")
        search.reach([(owner, name), (f"{owner}.__main__", "")])
    for one in mentioned(root):
        owner, _, name = one.rpartition(".")
        search.reach([(one, "")] if one in known else [(owner, name)])
    for text in documented(root):
        outside = Module("", root, False, {}, [], {})
        code = ast.parse(_without_prompts(text))
        for node in ast.walk(code):
            if isinstance(node, ast.Import | ast.ImportFrom):
                outside.scope.update(imported(node, outside, known))
        search.reach(target for target in outside.scope.values() if target is not None)
        search.read(outside, [code])
        search.reach(())
    return known, search


def _without_prompts(text: str) -> str:
    lines = text.splitlines()
    if not any(line.startswith(">>> ") for line in lines):
        return text
    return "\n".join(line[4:] for line in lines if line.startswith((">>> ", "... ")))


def read_exceptions(path: Path) -> dict[str, str]:
    """Names that may stand unreached, each with its reason."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    pairs = (line.partition(":") for line in lines if line.strip() and not line.startswith("#"))
    return {name.strip(): reason.strip() for name, _, reason in pairs}


def problems(root: Path) -> list[str]:
    """What is wrong in a checkout, one line each: nothing, if all is reached or excepted with a reason."""
    known, search = search_root(root)
    found, excepted = unreached(known, search), read_exceptions(root / EXCEPTIONS)
    told = [f"unreached: {name}" for name in found if name not in excepted]
    told += [f"exception without a reason: {name}" for name, reason in excepted.items() if not reason]
    idle = (one for one in excepted if one not in found)
    return told + [f"exception for what is reached, or gone: {one}" for one in idle]


def main(argv: Sequence[str], root: Path = ROOT) -> int:
    """Print what is unreached, and return 1 if anything is."""
    if argv:
        print("usage: python -m tools.reach", file=sys.stderr)
        return 2
    told = problems(root)
    for line in told:
        print(line, file=sys.stderr)
    if told:
        print(f"Delete it, use it or document it; {EXCEPTIONS} is for what names cannot show.", file=sys.stderr)
        return 1
    print("reach: every module and public name is reached")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
