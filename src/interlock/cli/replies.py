"""Reply contracts: what a prompt says about the form of its answer, and whether the answer has it. Pure.

Laws:
1. What is printed was found in the answer and fits; where it does not, there is a reason and nothing is printed.
2. A schema that uses a word which is not understood is refused before anything is sent.
3. Of several replies the last one counts; a blank one is none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from interlock.monitor.json_shape import compile_schema
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.registry import Json

# They say nothing about a value: to leave them out accepts nothing more.
_REMARKS: Final = frozenset({"$schema", "$id", "$comment", "title", "description", "examples", "default"})
_FENCE: Final = re.compile(r"^```[A-Za-z0-9_-]*[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
_WORD: Final = re.compile(r"[A-Za-z0-9_.-]{1,80}")


@dataclass(frozen=True, slots=True)
class Reply:
    """What was found. `value` is set where a JSON value was asked for."""

    text: str
    value: Json = None


class NoReply(ValueError):
    """An answer without the reply that it was to have, and why."""


@dataclass(frozen=True, slots=True)
class Contract:
    """What to add to a prompt, and how to read its answer (`NoReply` where that does not work)."""

    kind: str
    instruction: str
    read: Callable[[str], Reply]

    def added_to(self, prompt: str) -> str:
        """The prompt with the contract in it."""
        return f"{prompt.rstrip()}\n\n{self.instruction}"


def json_contract(spelled: str, where: str) -> Contract:
    """A JSON value that fits a schema."""
    try:
        schema: Json = json.loads(spelled)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where} is no JSON: {error}", remedy="give a JSON Schema") from error
    bare = _without_remarks(schema)
    fits = compile_schema(bare)
    asked = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    instruction = (
        "Answer with one JSON value and nothing else: no words around it, no code fence. "
        f"It must fit this JSON Schema: {asked}"
    )

    def read(answer: str) -> Reply:
        value = _json_in(answer)
        if not fits(value):
            raise NoReply(f"the reply does not fit the schema at {_misfit(bare, value)}")
        return Reply(json.dumps(value, ensure_ascii=False, separators=(",", ":")), value)

    return Contract("json", instruction, read)


def sentinel_contract(word: str) -> Contract:
    """Whatever stands between two lines of which the agent is told."""
    if not _WORD.fullmatch(word):
        raise UsageError(f"{word!r} cannot be a sentinel", remedy="use up to 80 letters, digits and . _ -")
    begin, end = f"<<<{word}", f"{word}>>>"
    instruction = (
        f"Write your final answer between two lines of their own: the line {begin} before it, and the line {end} "
        "after it. Write each of these lines once, with nothing else in it."
    )
    return Contract("sentinel", instruction, lambda answer: Reply(_between(answer, begin, end)))


def _between(answer: str, begin: str, end: str) -> str:
    found: str | None = None
    opened: list[str] | None = None
    for line in answer.split("\n"):
        bare = line.strip()
        if bare == begin:
            opened = []
        elif bare == end and opened is not None:
            text = "\n".join(opened).strip("\n")
            found, opened = (text if text.strip() else found), None
        elif opened is not None:
            opened.append(line.rstrip("\r"))
    if found is None:
        raise NoReply(f"there is no text between the lines {begin} and {end}")
    return found


def _json_in(answer: str) -> Json:
    """The value that the answer is, or that its last fence holds."""
    fences = _FENCE.findall(answer)
    for text in (answer, *fences[-1:]):
        try:
            value: Json = json.loads(text, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            continue
        return value
    raise NoReply("the reply is no JSON value" if answer.strip() else "there is no answer text to read a reply from")


def _no_constant(word: str) -> Json:
    raise ValueError(f"{word} is not JSON")


def _without_remarks(schema: Json) -> Json:
    if not isinstance(schema, Mapping):
        return schema
    kept = {word: given for word, given in schema.items() if word not in _REMARKS}
    properties = kept.get("properties")
    if isinstance(properties, Mapping):
        kept["properties"] = {name: _without_remarks(part) for name, part in properties.items()}
    if "items" in kept:
        kept["items"] = _without_remarks(kept["items"])
    return kept


def _misfit(schema: Json, value: Json, at: str = "$") -> str:
    """The deepest place that does not fit, as far as one can be told."""
    if isinstance(schema, Mapping):
        for part, inner, name in _parts(schema, value):
            if not compile_schema(part)(inner):
                return _misfit(part, inner, f"{at}{name}")
    return at


def _parts(schema: Mapping[str, Json], value: Json) -> list[tuple[Json, Json, str]]:
    properties, items = schema.get("properties"), schema.get("items")
    if isinstance(value, dict) and isinstance(properties, Mapping):
        return [(part, value[name], f".{name}") for name, part in properties.items() if name in value]
    if isinstance(value, list) and items is not None:
        return [(items, one, f"[{number}]") for number, one in enumerate(value)]
    return []
