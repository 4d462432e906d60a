"""Reply contracts: what a prompt says about the form of its answer, where such a reply stands, and whether it fits.

A caller that needs the text of an answer gives a contract with its prompt. The contract adds its instruction to the
prompt, reads the whole answer once there is one, and is a completion observer meanwhile: it looks for the reply on the
screen, and is wrong in one direction alone: it may miss a reply, and then the turn ends by its window without one; it
never takes for a reply what is not.

Laws of an answer:
1. What is given as the reply was found in the answer and fits; where it does not, there is a reason and no reply.
2. A schema that uses a word which is not understood is refused before anything is sent.
3. Of several replies the last one counts; a blank one is none.

Laws of a screen:
1. Without a known prompt nothing is found, since nothing could be told from its echo.
2. A reply stands below the last row that belongs to a prompt, wherever one is on the screen, and not in the composer.
3. What the prompt spells itself is its echo, however it was wrapped, framed or cut: a prompt that spells out the very
   reply it wants gets none.
4. What the baseline shows is old, however it was wrapped since. Of equal replies only those beyond their number in the
   baseline are new. A delimiter that is on the screen at the submit opens nothing later, unless it stands below the
   prompt.
5. A delimiter is a row of its own. Of several replies the last one counts; one that is blank, still open or too long is
   none.
6. Work is bounded, whatever the size of the screen.
7. A reply on the screen ends no turn whose screen is at work, or not believed to be idle: while text still streams, a
   whole reply in what is there so far is only found.

Choose sentinels that are new in each turn: then law 4 never costs a reply.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import dedent
from typing import Final, NamedTuple, TypeAlias, get_origin

import msgspec

from interlock.monitor.observation import ShadowObservation
from interlock.monitor.observer.json_shape import compile_schema
from interlock.monitor.post_submit_evidence import MARKS, Observer, Submit, rows_that_hold
from interlock.monitor.results import ObserverPayload
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import ReplyContract
from interlock.vocabulary.events.registry import Json

MAX_ROWS: Final = 1000
MAX_REPLY_CHARACTERS: Final = 65_536
_MAX_BLOCKS: Final = 32
# What a terminal draws before an answer, and around one.
_BULLETS: Final = "●⏺•✦◆"
_FRAME: Final = "│┃▌"
_BULLET: Final = re.compile(rf"\s*[{_BULLETS}]\s")
_SEPARATOR: Final = re.compile(r"[\s─━═╌╭╮╰╯┌┐└┘├┤┄│┃▌]*|\s*[│┃▌]?\s*```.*")
_DECORATION: Final = re.compile(rf"[\s{MARKS}{_BULLETS}]+")

# They say nothing about a value: to leave them out accepts nothing more.
_REMARKS: Final = frozenset({"$schema", "$id", "$comment", "title", "description", "examples", "default"})
_FENCE: Final = re.compile(r"^```[A-Za-z0-9_-]*[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
_WORD: Final = re.compile(r"[A-Za-z0-9_.-]{1,80}")

# A schema, a type that msgspec can decode, or a function that says whether the value will do.
Accepts: TypeAlias = Mapping[str, Json] | type | Callable[[Json], bool]


# A contract, and the answer to a prompt that has one.


@dataclass(frozen=True, slots=True)
class Reply:
    """What was found. `value` is set where a JSON value was asked for."""

    text: str
    value: Json = None


class NoReply(ValueError):
    """An answer without the reply that it was to have, and why."""


@dataclass(frozen=True, slots=True)
class Contract:
    """What to add to a prompt, how to read its answer (`NoReply` where that does not work), and what to look for on the
    screen meanwhile."""

    kind: str
    instruction: str
    read: Callable[[str], Reply]
    observer: Observer

    def added_to(self, prompt: str) -> str:
        """The prompt with the contract in it."""
        return f"{prompt.rstrip()}\n\n{self.instruction}"


def contract_of(asked: ReplyContract) -> Contract:
    """The contract that was asked for. `UsageError` where it cannot be one."""
    if (asked.json_schema is None) is not bool(asked.sentinel):
        raise UsageError("a reply contract is a sentinel or a JSON Schema", remedy="give one of the two")
    return sentinel_contract(asked.sentinel) if asked.sentinel else json_contract(asked.json_schema)


def asked_text(text: str, asked: ReplyContract | None) -> str:
    """What the agent is given: the prompt, with the instruction of its contract."""
    return text if asked is None else contract_of(asked).added_to(text)


def json_contract(schema: Json) -> Contract:
    """A JSON value that fits a schema."""
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

    return Contract("json", instruction, read, json_reply(fits))


def sentinel_contract(word: str) -> Contract:
    """Whatever stands between two lines of which the agent is told."""
    if not _WORD.fullmatch(word):
        raise UsageError(f"{word!r} cannot be a sentinel", remedy="use up to 80 letters, digits and . _ -")
    begin, end = f"<<<{word}", f"{word}>>>"
    instruction = (
        f"Write your final answer between two lines of their own: the line {begin} before it, and the line {end} "
        "after it. Write each of these lines once, with nothing else in it."
    )
    observer = sentinel_reply(begin, end)
    return Contract("sentinel", instruction, lambda answer: Reply(_text_between(answer, begin, end)), observer)


def _text_between(answer: str, begin: str, end: str) -> str:
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


# What stands on the screen.


class _Block(NamedTuple):
    """Rows that may be a reply, without the `edges` that delimit it."""

    rows: tuple[str, ...]
    edges: tuple[str, str] = ("", "")

    @property
    def letters(self) -> str:
        begin, end = self.edges
        return _letters("".join((begin, *self.rows, end)))


class _PostSubmit(NamedTuple):
    """The rows that may hold a reply, and those above them. `is_below_prompt`: one of these belongs to a prompt."""

    above: list[str]
    rows: list[str]
    is_below_prompt: bool


_Find: TypeAlias = Callable[[_PostSubmit, Sequence[str]], Iterable[_Block]]


def sentinel_reply(begin: str, end: str) -> Observer:
    """Find the rows between a row that is `begin` and a row that is `end`. The payload is the text as it is shown."""
    find = _between(begin, end)

    def observe(observation: ShadowObservation, turn: Submit) -> ObserverPayload | None:
        text = observation.projection.normalized_text
        if begin not in text or end not in text:
            return None
        for block in _new_blocks(observation, turn, find):
            content = "\n".join(_unframed(block.rows)).strip("\n")
            if content.strip():
                return ObserverPayload("sentinel_reply", content)
        return None

    return observe


def json_reply(accepts: Accepts, *, begin: str | None = None, end: str | None = None) -> Observer:
    """Find a JSON object or array that `accepts` lets through. The payload is its text, with its wrapping undone.

    It stands between the sentinels, if they are given, or else fills a paragraph of its own. Where a terminal wrapped a
    string, the rows are joined as they are first, then by a blank, then by nothing, until the value is let through.
    """
    is_accepted = _acceptor(accepts)
    find = _paragraphs if begin is None and end is None else _between(begin or "", end or "")

    def observe(observation: ShadowObservation, turn: Submit) -> ObserverPayload | None:
        text = observation.projection.normalized_text
        if "{" not in text and "[" not in text:
            return None
        for block in _new_blocks(observation, turn, find):
            reply = _json_text(block.rows, is_accepted)
            if reply is not None:
                return ObserverPayload("json_reply", reply)
        return None

    return observe


# What was shown after the submit.


def _new_blocks(observation: ShadowObservation, turn: Submit, find: _Find) -> Iterator[_Block]:
    """The blocks that are neither the prompt's nor the baseline's, last one first."""
    if not turn.spelled_prompt:
        return
    prompt, old_rows = _letters(turn.prompt or ""), _last_rows(turn.baseline.normalized_text)
    shown = _post_submit(observation, turn, prompt)
    blocks = [*find(shown, old_rows)][-_MAX_BLOCKS:]
    if not blocks:
        return
    above, baseline = _letters("".join(shown.above)), _letters("".join(old_rows))
    seen: Counter[str] = Counter()
    new: list[_Block] = []
    for block in blocks:
        letters = block.letters
        seen[letters] += 1
        is_old = above.count(letters) + seen[letters] <= baseline.count(letters)
        if len(letters) <= MAX_REPLY_CHARACTERS and letters not in prompt and not is_old:
            new.append(block)
    yield from reversed(new)


def _post_submit(observation: ShadowObservation, turn: Submit, prompt: str) -> _PostSubmit:
    projection = observation.projection
    rows = _last_rows(projection.normalized_text)
    first = len(projection.rows) - len(rows)
    composer = {number - first for number in projection.composer_rows}
    held = rows_that_hold(rows, turn.spelled_prompt) | {number - first for number in projection.prompt_rows}
    start = max(held - composer, default=-1) + 1
    shown = ["" if number in composer else row for number, row in enumerate(rows)]
    first_row = start or _end_of_prompt_at_top(rows, prompt)
    return _PostSubmit(shown[:first_row], shown[first_row:], start > 0)


def _end_of_prompt_at_top(rows: Sequence[str], prompt: str) -> int:
    """How many rows at the top of the screen spell the end of the prompt, whose beginning has scrolled away."""
    top, end = "", 0
    for number, row in enumerate(rows):
        top += _letters(row)
        if top not in prompt:
            break
        if top and prompt.endswith(top):
            end = number + 1
    return end


def _last_rows(text: str) -> list[str]:
    return text.split("\n")[-MAX_ROWS:]


def _letters(text: str) -> str:
    """The text without blanks, marks, frames and bullets: equal however it was wrapped and drawn."""
    return _DECORATION.sub("", text)


# Where a reply may stand.


def _between(begin: str, end: str) -> _Find:
    """Blocks between rows that are the sentinels and nothing else, beside what a terminal draws around them."""
    begins, ends = _delimiters(begin, end)

    def find(shown: _PostSubmit, old: Sequence[str]) -> Iterator[_Block]:
        stale = 0 if shown.is_below_prompt else sum(begins.fullmatch(row) is not None for row in old)
        opened: int | None = None
        for number, row in enumerate(shown.rows):
            if begins.fullmatch(row):
                stale -= 1
                opened = number if stale < 0 else None
            elif opened is not None and ends.fullmatch(row):
                yield _Block(tuple(shown.rows[opened + 1 : number]), (shown.rows[opened], row))
                opened = None

    return find


def _delimiters(begin: str, end: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    for sentinel in (begin, end):
        if not _letters(sentinel) or sentinel != sentinel.strip() or len(sentinel.splitlines()) != 1:
            raise UsageError(f"{sentinel!r} is no sentinel", remedy="give one line of text without blanks around it")
    if begin == end:
        raise UsageError(f"both sentinels are {begin!r}", remedy="give two that differ")
    before, after = rf"[\s{MARKS}{_BULLETS}]*", rf"[\s{_FRAME}|]*"
    return re.compile(before + re.escape(begin) + after), re.compile(before + re.escape(end) + after)


def _paragraphs(shown: _PostSubmit, _: Sequence[str]) -> Iterator[_Block]:
    """Runs of rows that look like JSON from end to end. A value still being written is no paragraph that parses."""
    rows: list[str] = []
    for row in (*shown.rows, ""):
        is_separator = _SEPARATOR.fullmatch(row) is not None
        if rows and (is_separator or _BULLET.match(row)):
            text = _letters("".join((rows[0], rows[-1])))
            if text.startswith(("{", "[")) and text.endswith(("}", "]")):
                yield _Block(tuple(rows))
            rows = []
        if not is_separator:
            rows.append(row)


# What a reply says.


def _unframed(rows: Sequence[str]) -> list[str]:
    """The rows without the frame around them, the bullet before them, and the blanks that they share."""
    if all(row.lstrip()[:1] in _FRAME for row in rows):
        rows = [row.strip().strip(_FRAME) for row in rows]
    bare = [_BULLET.sub(lambda bullet: " " * len(bullet[0]), row, count=1) for row in rows[:1]]
    return [row.rstrip() for row in dedent("\n".join((*bare, *rows[1:]))).split("\n")]


def _json_text(rows: Sequence[str], is_accepted: Callable[[Json], bool]) -> str | None:
    shown = _unframed(rows)
    bare = [row.strip() for row in shown]
    for text in ("\n".join(shown).strip(), " ".join(bare).strip(), "".join(bare)):
        if text.startswith(("{", "[")) and _is_accepted_json(text, is_accepted):
            return text
    return None


def _is_accepted_json(text: str, is_accepted: Callable[[Json], bool]) -> bool:
    try:
        value: Json = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return False
    return is_accepted(value)


def _acceptor(accepts: Accepts) -> Callable[[Json], bool]:
    if isinstance(accepts, Mapping):
        return compile_schema(accepts)
    if not isinstance(accepts, type) and get_origin(accepts) is None:
        return accepts
    try:
        msgspec.json.Decoder(accepts)
    except TypeError as error:
        raise UsageError(f"{accepts} cannot be decoded: {error}", remedy="give a type that msgspec knows") from error
    return lambda value: _fits_type(value, accepts)


def _fits_type(value: Json, type: object) -> bool:
    try:
        msgspec.convert(value, type)
    except (msgspec.ValidationError, RecursionError):
        return False
    return True
