"""The TOML of a profile: its schema, and how it becomes a `Profile`. A broken file is refused with the line to mend."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from interlock.screen.assessment import Availability, BlockKind, BusinessState, InputMode, TurnEnd
from interlock.screen.conditions import (
    CommandMatches,
    Condition,
    ConditionTable,
    CursorIs,
    DraftIs,
    ProfilePart,
    RegionStands,
    RowMatches,
    StyleSpec,
    StyleTable,
    TitleMatches,
)
from interlock.screen.keys import Keys
from interlock.screen.keys_file import (
    ArgumentsTable,
    KeysTable,
    OverrideTable,
    PaceTable,
    VersionsTable,
    compile_arguments,
    compile_keys,
    compile_override,
    compile_pace,
)
from interlock.screen.profile import (
    BrokenProfile,
    ComposerSpec,
    Introduction,
    NativeStatus,
    OptionsSpec,
    Pace,
    Profile,
    ProfileEnding,
    ProfileRule,
    Proof,
    TitleMarks,
    Versions,
)
from interlock.screen.regions import SCREEN, RegionSpec
from interlock.vocabulary.errors import UsageError

Count = Annotated[int, Meta(ge=1, le=1000)]
Name = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_.-]*$")]


class RegionTable(ProfilePart, frozen=True):
    name: Name
    start: str | None = None
    top: str | None = None
    bottom: str | None = None
    requires_below: str | None = None
    forbids_below: str | None = None
    from_: str | None = msgspec.field(name="from", default=None)
    above: str | None = None
    below: str | None = None
    stop: str | None = None
    rows: Count | None = None
    last: Count | None = None
    max_rows: Count = 60


class RuleTable(ProfilePart, frozen=True):
    id: Name
    state: BusinessState
    when: tuple[ConditionTable, ...]
    input: InputMode = InputMode.UNKNOWN
    context: str = "unknown"
    availability: Availability = Availability.SUPPORTED
    proof: Proof = Proof.STRONG
    kind: BlockKind | None = None
    region: str = SCREEN.name
    options: str | None = None
    unended: bool = False


class EndingTable(ProfilePart, frozen=True):
    id: Name
    end: TurnEnd
    when: tuple[ConditionTable, ...]


class OptionsTable(ProfilePart, frozen=True):
    pattern: str
    separator: str | None = None
    continued: str | None = None
    selected: StyleTable | None = None
    strip: str | None = None
    unbroken: bool = False


class ComposerTable(ProfilePart, frozen=True):
    region: str
    mark: str | None = None
    edge: str | None = None
    ghosts: tuple[StyleTable, ...] = ()
    cursor: StyleTable | None = None
    placeholder: str | None = None
    ignore: str | None = None


class TitlesTable(ProfilePart, frozen=True):
    working: str | None = None
    asking: str | None = None
    calm: str | None = None


class NativeStatusTable(ProfilePart, frozen=True):
    app: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.+-]{1,32}$")]
    introduction: Introduction = NativeStatus("").introduction


class DetectTable(ProfilePart, frozen=True):
    when: tuple[ConditionTable, ...]


class ProfileTable(ProfilePart, frozen=True):
    id: Name
    cli: Name
    title: str
    versions: VersionsTable = VersionsTable()
    executables: tuple[str, ...] = ()
    version_pattern: str = r"(\d+\.\d+(?:\.\d+)*)"
    volatile: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()
    chrome: tuple[str, ...] = ()
    prompts: ConditionTable | None = None
    composer: ComposerTable | None = None
    pace: PaceTable = PaceTable()
    keys: KeysTable = KeysTable()
    arguments: ArgumentsTable = ArgumentsTable()
    titles: TitlesTable = TitlesTable()
    region: tuple[RegionTable, ...] = ()
    options: dict[str, OptionsTable] = msgspec.field(default_factory=dict)
    rule: tuple[RuleTable, ...] = ()
    ending: tuple[EndingTable, ...] = ()
    detect: tuple[DetectTable, ...] = ()
    native_status: NativeStatusTable | None = None
    override: tuple[OverrideTable, ...] = ()


_VERSION: Final = re.compile(r"\d{1,9}(?:\.\d{1,9})*")
_HEADER: Final = re.compile(r"\s*\[\[?\s*([\w.-]+)\s*\]\]?\s*(?:#.*)?$")
_STEP: Final = re.compile(r"\.([\w-]+)(?:\[(\d+|\.\.\.)\])?")


def read_profile(text: str, name: str) -> Profile:
    """Read a profile from its TOML. `name` stands for the file in the message of the UsageError of a broken one."""
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a number of thousands of digits is a plain ValueError
        line = re.search(r"at line (\d+)", str(error))
        raise UsageError(f"{name}:{line[1] if line else text.count(chr(10)) + 1}: not TOML: {error}") from error
    try:
        return _compiled(msgspec.convert(tables, ProfileTable))
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$")
        unknown = re.search(r"unknown field `([\w-]+)`", reason)
        path = path.rstrip("`") + (f".{unknown[1]}" if unknown else "")
        raise UsageError(f"{name}:{_line_of(text, path)}: {_named(path, reason)}") from error
    except BrokenProfile as error:
        raise UsageError(f"{name}:{_line_of(text, error.path)}: {_named(error.path, error.reason)}") from error


def _named(path: str, reason: str) -> str:
    """The reason, behind the key that it is about; none: the file as a whole."""
    return f"{path.lstrip('.')}: {reason}" if path else reason


def parse_version(text: str) -> tuple[int, ...] | None:
    """The numbers of a version, or None where there is none."""
    found = _VERSION.search(text)
    return tuple(int(part) for part in found[0].split(".")) if found else None


def _compiled(file: ProfileTable) -> Profile:
    regions = {SCREEN.name: SCREEN}
    for number, table in enumerate(file.region):
        regions[table.name] = _region(table, regions, f".region[{number}]")
    make = _Compiler(frozenset(regions), frozenset(file.options))
    pace = compile_pace(file.pace, Pace())
    keys = compile_keys(file.keys, Keys(), make.conditions, ".keys")
    return Profile(
        id=file.id,
        cli=file.cli,
        title=file.title,
        versions=_versions(file.versions, ".versions"),
        regions=regions,
        rules=tuple(make.rule(table, f".rule[{number}]") for number, table in enumerate(file.rule)),
        endings=tuple(
            ProfileEnding(table.id, table.end, make.conditions(table.when, f".ending[{number}].when"))
            for number, table in enumerate(file.ending)
        ),
        options={name: _options(table, f".options.{name}") for name, table in file.options.items()},
        composer=None if file.composer is None else make.composer(file.composer, ".composer"),
        prompts=None if file.prompts is None else make.prompts(file.prompts, ".prompts"),
        volatile=_patterns(file.volatile, ".volatile"),
        figures=_figures(file.figures, ".figures"),
        chrome=_patterns(file.chrome, ".chrome"),
        pace=pace,
        keys=keys,
        arguments=compile_arguments(file.arguments, ".arguments"),
        titles=TitleMarks(
            _maybe(file.titles.working, ".titles"),
            _maybe(file.titles.asking, ".titles"),
            _maybe(file.titles.calm, ".titles"),
        ),
        executables=file.executables,
        version_pattern=_pattern(file.version_pattern, ".version_pattern"),
        detect=tuple(
            make.conditions(table.when, f".detect[{number}].when") for number, table in enumerate(file.detect)
        ),
        native_status=None
        if file.native_status is None
        else NativeStatus(file.native_status.app, file.native_status.introduction),
        overrides=tuple(
            compile_override(
                table, _versions(table.versions, f".override[{number}].versions"), pace, keys, make.conditions, number
            )
            for number, table in enumerate(file.override)
        ),
    )


class _Compiler:
    """Tables into the engine's types, with the names that they may refer to."""

    def __init__(self, regions: frozenset[str], options: frozenset[str]) -> None:
        self._regions = regions
        self._options = options

    def rule(self, table: RuleTable, path: str) -> ProfileRule:
        self._known(table.region, path)
        if table.options is not None and table.options not in self._options:
            raise BrokenProfile(path, f"there are no options named {table.options!r}; add [options.{table.options}]")
        if (table.state is BusinessState.AWAITING_OPERATOR) is not (table.kind is not None):
            raise BrokenProfile(
                path, f"rule {table.id!r}: `kind` belongs to the state awaiting_operator, and to no other"
            )
        if table.unended and table.state is not BusinessState.UNKNOWN:
            raise BrokenProfile(path, f"rule {table.id!r}: `unended` belongs to the state unknown, and to no other")
        return ProfileRule(
            id=table.id,
            when=self.conditions(table.when, f"{path}.when"),
            state=table.state,
            input=table.input,
            context=table.context,
            availability=table.availability,
            proof=table.proof,
            kind=table.kind,
            region=table.region,
            options=table.options,
            is_unended=table.unended,
        )

    def conditions(self, tables: Sequence[ConditionTable], path: str) -> tuple[Condition, ...]:
        if not tables:
            name = path.rpartition(".")[2]
            raise BrokenProfile(path, f"`{name}` is empty and would hold on every screen; give it a condition")
        return tuple(self._condition(table, path) for table in tables)

    def composer(self, table: ComposerTable, path: str) -> ComposerSpec:
        self._known(table.region, path)
        return ComposerSpec(
            region=table.region,
            mark=_maybe(table.mark, path),
            edge=_maybe(table.edge, path),
            ghosts=tuple(_style(ghost) for ghost in table.ghosts),
            cursor=None if table.cursor is None else _style(table.cursor),
            placeholder=_maybe(table.placeholder, path),
            ignore=_maybe(table.ignore, path),
        )

    def prompts(self, table: ConditionTable, path: str) -> RowMatches:
        condition = self._condition(table, path)
        if isinstance(condition, RowMatches) and not condition.is_absent:
            return condition
        raise BrokenProfile(path, "`prompts` names a region and a pattern: { region = ..., match = ... }")

    def _condition(self, table: ConditionTable, path: str) -> Condition:
        found = [condition for condition in self._kinds(table, path) if condition is not None]
        if len(found) != 1:
            raise BrokenProfile(
                path, "a condition asks one thing: match, absent, present, missing, title, cursor, draft ..."
            )
        return found[0]

    def _kinds(self, table: ConditionTable, path: str) -> Iterable[Condition | None]:
        yield self._rows(table, path)
        for name, is_missing in ((table.present, False), (table.missing, True)):
            yield None if name is None else RegionStands(self._known(name, path), is_missing)
        for pattern, is_absent in ((table.title, False), (table.title_absent, True)):
            yield None if pattern is None else TitleMatches(_pattern(pattern, path), is_absent)
        yield None if table.command is None else CommandMatches(_pattern(table.command, path))
        yield self._cursor(table, path)
        yield None if table.draft is None else DraftIs(is_empty=not table.draft)

    def _rows(self, table: ConditionTable, path: str) -> RowMatches | None:
        pattern = table.match if table.absent is None else table.absent
        if pattern is None:
            if table.region is not None or table.style is not None:
                raise BrokenProfile(path, "a condition with a region needs `match` or `absent`")
            return None
        if table.match is not None and table.absent is not None:
            raise BrokenProfile(path, "a condition has `match` or `absent`, not both")
        region = self._known(table.region or SCREEN.name, path)
        style = None if table.style is None else _style(table.style)
        return RowMatches(region, _pattern(pattern, path), style, is_absent=table.absent is not None)

    def _cursor(self, table: ConditionTable, path: str) -> CursorIs | None:
        if table.cursor is None and table.cursor_in is None:
            return None
        if table.cursor not in (None, "visible", "hidden"):
            raise BrokenProfile(path, "`cursor` is visible or hidden")
        is_visible = None if table.cursor is None else table.cursor == "visible"
        return CursorIs(is_visible, None if table.cursor_in is None else self._known(table.cursor_in, path))

    def _known(self, name: str, path: str) -> str:
        if name not in self._regions:
            raise BrokenProfile(
                path, f"there is no region {name!r}; the regions are {', '.join(sorted(self._regions))}"
            )
        return name


def _region(table: RegionTable, known: dict[str, RegionSpec], path: str) -> RegionSpec:
    if table.name in known:
        raise BrokenProfile(path, f"there are two regions named {table.name!r}")
    other = table.above or table.below
    if other is not None and (other not in known or (table.above and table.below)):
        raise BrokenProfile(path, "`above` or `below` names one region that stands earlier in the file")
    kinds = [table.start is not None, table.from_ is not None, table.last is not None]
    if sum(kinds) > 1 or (not any(kinds) and other is None):
        raise BrokenProfile(path, "a region has one of start, from, last, above, below")
    return RegionSpec(
        name=table.name,
        start=_maybe(table.start, path),
        top=_maybe(table.top, path),
        bottom=_maybe(table.bottom, path),
        requires_below=_maybe(table.requires_below, path),
        forbids_below=_maybe(table.forbids_below, path),
        from_=_maybe(table.from_, path),
        above=table.above,
        below=table.below,
        stop=_maybe(table.stop, path),
        rows=table.rows,
        last=table.last,
        max_rows=table.max_rows,
    )


def _options(table: OptionsTable, path: str) -> OptionsSpec:
    pattern, continued = _pattern(table.pattern, path), _maybe(table.continued, path)
    for asked in (pattern, continued):
        if asked is not None and "text" not in asked.groupindex:
            raise BrokenProfile(path, "the pattern of options needs the group (?P<text>...)")
    return OptionsSpec(
        pattern=pattern,
        separator=_maybe(table.separator, path),
        continued=continued,
        selected=_style(table.selected) if table.selected else None,
        strip=_maybe(table.strip, path),
        is_unbroken=table.unbroken,
    )


def _style(table: StyleTable) -> StyleSpec:
    def several(colours: str | tuple[str, ...] | None) -> tuple[str, ...] | None:
        return (colours,) if isinstance(colours, str) else colours

    flags = (table.bold, table.dim, table.italic, table.underline, table.reverse)
    return StyleSpec(several(table.fg), several(table.bg), *flags)


def _versions(table: VersionsTable, path: str) -> Versions:
    return Versions(_version(table.start, path), _version(table.before, path))


def _version(text: str | None, path: str) -> tuple[int, ...] | None:
    if text is None:
        return None
    if not _VERSION.fullmatch(text):
        raise BrokenProfile(path, f"{text!r} is no version; write it as 2.1.0")
    return parse_version(text)


def _patterns(texts: Sequence[str], path: str) -> tuple[re.Pattern[str], ...]:
    return tuple(_pattern(text, path) for text in texts)


def _figures(texts: Sequence[str], path: str) -> tuple[re.Pattern[str], ...]:
    patterns = _patterns(texts, path)
    for pattern in patterns:
        if not pattern.groups:
            raise BrokenProfile(path, f"{pattern.pattern!r} names no figure: put it in a group, such as (\\d+)")
    return patterns


def _maybe(text: str | None, path: str) -> re.Pattern[str] | None:
    return None if text is None else _pattern(text, path)


def _pattern(text: str, path: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise BrokenProfile(path, f"{text!r} is no regular expression: {error}") from error


def _line_of(text: str, path: str) -> int:
    """The line of the table or key that a path such as `.rule[2].state` leads to, or of what is nearest to it."""
    lines = text.split("\n")
    headers = [(number, found[1]) for number, line in enumerate(lines) if (found := _HEADER.match(line))]
    at, dotted = 0, ""
    for name, index in _STEP.findall(path):
        dotted = f"{dotted}.{name}".lstrip(".")
        inside = [(number, title) for number, title in headers if number >= at]
        tables = [number for number, title in inside if title == dotted]
        tables = tables or [number for number, title in inside if f"{title}.".startswith(f"{dotted}.")]
        if tables:
            at = tables[int(index) if index.isdecimal() and int(index) < len(tables) else 0]
            continue
        end = next((number for number, _ in headers if number > at), len(lines))
        key = re.compile(rf"(?:^|[\s{{,]){name}\s*=")
        at = next((number for number in range(at, end) if key.search(lines[number])), at)
    return at + 1
