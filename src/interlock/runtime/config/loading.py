"""The configuration: one TOML file, the variables of the environment, and defaults that are data.

    loaded = load(os.environ)
    loaded.config.run.policy(), loaded.config.pool.limits(), loaded.config.server.port

Laws:
1. Either everything is understood, or nothing is used: a mistake is a `ConfigError` that names file, key and remedy.
2. Variables win over the file, the file over defaults; `settings` says of every value which it was.
3. A file that was named must be there. One that was not named need not be.
4. What an agent says of `run` and `surface` holds over `[run]` and `[surface]`, key by key.
5. With `driver = "acp"` an `argv` that was given holds over the `acp_argv` that is built in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, structs

from interlock.log.private_file import unreadable
from interlock.runtime.config.keys import ConfigKey, Table, agent_table, dotted, known_keys, nearest, table_of
from interlock.runtime.config.keys import Path as KeyPath
from interlock.runtime.config.place import CONFIG_VARIABLE, MAX_BYTES, config_path
from interlock.runtime.config.reading import ConfigReading, Mistake, Source, Value, line_of, read
from interlock.runtime.config.sections import BUILTIN_AGENTS, PER_AGENT, AgentSection, Config, SurfaceSection
from interlock.vocabulary.errors import UsageError

__all__ = ["ConfigError", "Loaded", "Setting", "agent_section", "config_path", "describe", "load", "parse"]

SectionT = TypeVar("SectionT", bound=Struct)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One value, where it came from, and by which variable or file."""

    key: str
    value: object
    source: Source
    where: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A configuration that was understood. `path` is where its file is, or would be; None: nobody can tell."""

    config: Config
    path: Path | None
    has_file: bool
    settings: tuple[Setting, ...]


class ConfigError(UsageError):
    """A configuration that was not understood. The message tells the first mistake; `mistakes` holds all."""

    def __init__(self, source: str, mistakes: Sequence[Mistake]) -> None:
        first = describe(source, mistakes[0])
        more = f" (and {len(mistakes) - 1} more: `interlock config check`)" if len(mistakes) > 1 else ""
        super().__init__(first + more, remedy=_remedy(mistakes[0]))
        self.source = source
        self.mistakes = tuple(mistakes)


def describe(source: str, mistake: Mistake) -> str:
    """One line: where, which key, what was expected."""
    where = mistake.variable or (source if mistake.line is None else f"{source}, line {mistake.line}")
    key = "" if mistake.key in ("", mistake.variable) else f" {mistake.key}:"
    found = f", found {mistake.found}" if mistake.found else ""
    near = f"; did you mean {mistake.near}?" if mistake.near else ""
    return f"{where}:{key} expected {mistake.expected}{found}{near}"


def _remedy(mistake: Mistake) -> str:
    if mistake.near:
        return ""  # the question says it
    return f"fix or unset {mistake.variable}" if mistake.variable else "fix the file, or leave the key out"


def load(environ: Mapping[str, str]) -> Loaded:
    """Read the configuration of this machine. `ConfigError` if any of it is not understood."""
    path = config_path(environ)
    text = None if path is None else _text_of(path, is_named=bool(environ.get(CONFIG_VARIABLE)))
    return parse("" if text is None else text, environ, path=path, has_file=text is not None)


def parse(text: str, environ: Mapping[str, str], *, path: Path | None = None, has_file: bool = True) -> Loaded:
    """Read a configuration from its text. Pure."""
    reading = read(text, environ)
    config = _build(reading)
    mistakes = [*reading.mistakes, *_unusable(reading, config, text)]
    if mistakes:
        raise ConfigError("the configuration" if path is None else str(path), mistakes)
    return Loaded(config=config, path=path, has_file=has_file, settings=tuple(_settings(reading, config)))


def agent_section(config: Config, name: str) -> AgentSection:
    """What is known of an agent. `UsageError` for one that is not."""
    if name in config.agents:
        return config.agents[name]
    near = nearest(name, config.agents)
    known = f"did you mean {near!r}?" if near else f"the agents are {', '.join(sorted(config.agents))}."
    raise UsageError(f"there is no agent {name!r}", remedy=f"{known} Configure another as [agents.NAME]")


def _text_of(path: Path, *, is_named: bool) -> str | None:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)  # what is no plain file has no size that could be asked for first
    except (FileNotFoundError, NotADirectoryError):
        if not is_named:
            return None
        raise UsageError(f"there is no file {path}", remedy=f"make it, or unset {CONFIG_VARIABLE}") from None
    except OSError as error:
        raise unreadable(path, error) from error
    if len(data) > MAX_BYTES:
        raise UsageError(f"{path} is larger than {MAX_BYTES} bytes", remedy="see what is in it")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 at byte {error.start}", remedy="save it as UTF-8") from error


def _build(reading: ConfigReading) -> Config:
    config: Config = _filled(Config(agents={}), (), reading.values)
    agents = {name: _agent(name, config, reading.values) for name in reading.agents}
    return structs.replace(config, agents=agents)


def _agent(name: str, config: Config, values: Mapping[KeyPath, Value]) -> AgentSection:
    known = structs.replace(BUILTIN_AGENTS.get(name, AgentSection()), run=config.run, surface=config.surface)
    agent = _filled(known, ("agents", name), values)
    is_given = {key for key in ("argv", "acp_argv") if ("agents", name, key) in values}
    # The driver and the program were chosen together: what is built in must not run in their place.
    return structs.replace(agent, acp_argv=()) if agent.driver == "acp" and is_given == {"argv"} else agent


def _filled(base: SectionT, path: KeyPath, values: Mapping[KeyPath, Value]) -> SectionT:
    """A section with the values that were read in place of its own."""
    changed: dict[str, object] = {}
    for name, current in structs.asdict(base).items():
        at = (*path, name)
        if isinstance(current, Struct):
            changed[name] = _filled(current, at, values)
        elif isinstance(current, dict) and at != ("agents",):
            changed[name] = current | {one[-1]: value.value for one, value in values.items() if one[:-1] == at}
        elif at in values:
            changed[name] = values[at].value
    return structs.replace(base, **changed)


def _settings(reading: ConfigReading, config: Config) -> Iterator[Setting]:
    root = table_of(Config)
    for name, section in root.members.items():
        assert isinstance(section, Table), "the file has tables only"
        if name != "agents":
            yield from _settings_of(known_keys(section), reading, config)
            continue
        for agent in config.agents:
            yield from _settings_of(known_keys(agent_table(section, agent)), reading, config)


def _settings_of(keys: Iterable[ConfigKey | Table], reading: ConfigReading, config: Config) -> Iterator[Setting]:
    for key in keys:
        if isinstance(key, Table):
            for path in [path for path in reading.values if path[:-1] == key.path]:
                yield _setting(path, reading, config)
        elif key.path in reading.values or key.path[0] != "agents" or key.path[2] not in PER_AGENT:
            # What an agent does not say of `run` is said by [run], and is not told again for each of them.
            yield _setting(key.path, reading, config)


def _setting(path: KeyPath, reading: ConfigReading, config: Config) -> Setting:
    place: object = config
    for word in path:
        place = place[word] if isinstance(place, dict) else getattr(place, word)
    known = reading.values.get(path)
    source, where = (Source.DEFAULT, "") if known is None else (known.source, known.where)
    return Setting(key=dotted(path), value=place, source=source, where=where)


def _unusable(reading: ConfigReading, config: Config, text: str) -> Iterator[Mistake]:
    """What each key allows and all together do not."""
    for name, agent in config.agents.items():
        for key in ("driver", "stream_driver"):
            path = ("agents", name, key)
            if path in reading.values:
                yield from _wrong_driver(path, getattr(agent, key), reading.values[path].where, text)
        program = agent.acp_argv or agent.argv if agent.driver == "acp" else agent.argv
        if agent.driver != "model" and not (program and program[0].strip()):
            yield _without_program(("agents", name, "argv"), reading, text)
        if any(path[:3] == ("agents", name, "surface") for path in reading.values):
            yield from _wrong_waits(("agents", name, "surface"), agent.surface, reading, text)
    yield from _wrong_waits(("surface",), config.surface, reading, text)
    if config.notify.command and not config.notify.command[0].strip():
        yield _without_program(("notify", "command"), reading, text)


def _without_program(path: KeyPath, reading: ConfigReading, text: str) -> Mistake:
    known = reading.values.get(path)
    variable = "" if known is None else known.where
    line = None if variable else line_of(text, path) or line_of(text, path[:-1])
    return Mistake(key=dotted(path), expected="a program and its arguments", found="none", line=line, variable=variable)


def _wrong_waits(path: KeyPath, waits: SurfaceSection, reading: ConfigReading, text: str) -> Iterator[Mistake]:
    """A wait that no shorter one of the same screen could end in time."""
    longest = "unknown_to_stalled_timeout_seconds"
    for shorter in ("completion_stability_seconds", "watched_gap_seconds"):
        if getattr(waits, shorter) < waits.unknown_to_stalled_timeout_seconds:
            continue
        is_longest_given = (*path, longest) in reading.values
        wrong, other = (longest, shorter) if is_longest_given else (shorter, longest)
        known = reading.values[(*path, wrong)]
        bound = dotted((*path, other) if (*path, other) in reading.values else ("surface", other))
        yield Mistake(
            key=dotted((*path, wrong)),
            expected=f"a number {'above' if is_longest_given else 'below'} that of {bound}",
            found=f"one that is not {'larger' if is_longest_given else 'smaller'}",
            line=None if known.where else line_of(text, (*path, wrong)),
            variable=known.where,
        )


def _wrong_driver(path: KeyPath, driver: str, variable: str, text: str) -> Iterator[Mistake]:
    from interlock.agents.drivers import DRIVERS  # only who names a driver pays for the list

    if driver in DRIVERS or (path[-1] == "stream_driver" and not driver):
        return
    yield Mistake(
        key=dotted(path),
        expected=f"one of {', '.join(DRIVERS)}",
        found="an unknown driver",
        near=nearest(driver, DRIVERS),
        line=None if variable else line_of(text, path),
        variable=variable,
    )
